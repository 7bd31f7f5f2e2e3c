"""Rows of share groups are Kafka's, and bytes that are not are refused cleanly."""

from __future__ import annotations

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.share import member_rows, state_rows
from headrace.broker.groups.share.member_rows import MalformedMember, MemberRow
from headrace.broker.groups.share.runs import Cause, RecordState, Run
from headrace.broker.groups.share.state_rows import MalformedState, Place

PLACE = Place("workers", UUID(int=7), 3)


def test_a_key_is_what_kafka_writes():
    assert state_rows.encode_key(PLACE) == b"\0\0\0\x07workers" + UUID(int=7).bytes + b"\0\0\0\x03"
    assert state_rows.decode_key(state_rows.encode_key(PLACE)) == PLACE
    assert state_rows.decode_key(b"\0\x01\0\0") is None


def test_a_value_is_what_kafka_writes():
    runs = [Run(5, 6, RecordState.ACKNOWLEDGED, 2), Run(7, 7, RecordState.AVAILABLE, 1)]
    value = state_rows.encode_state(4, runs, state_epoch=1, leader_epoch=2, created_ms=3, now_ms=9)
    head = bytes.fromhex("0000 00000000 00000001 00000002 0000000000000004 0000000000000003 0000000000000009")
    first = bytes.fromhex("0000000000000005 0000000000000006 02 0002 00")
    second = bytes.fromhex("0000000000000007 0000000000000007 00 0001 00")
    assert value == head + b"\x03" + first + second + bytes.fromhex("01 00 04 00000002")


def test_why_a_record_waits_for_its_copy_is_kept():
    run = Run(1, 2, RecordState.ARCHIVING, 5, cause=Cause.REJECTED)
    value = state_rows.encode_state(1, [run], state_epoch=0, leader_epoch=0, created_ms=0, now_ms=0)
    assert state_rows.decode_state(value).runs == (run,)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_row_or_malformed(row):
    with contextlib.suppress(MalformedState):
        state_rows.decode_key(row)
    with contextlib.suppress(MalformedState):
        state_rows.decode_state(b"\0\0" + row)
    with contextlib.suppress(MalformedMember):
        member_rows.decode_key(row)
    with contextlib.suppress(MalformedMember):
        member_rows.decode_member(b"\0\0" + row)
    with contextlib.suppress(MalformedMember):
        member_rows.decode_group(row)


@given(
    rack=st.one_of(st.none(), st.text(max_size=5)),
    client=st.text(max_size=200),
    topics=st.lists(st.text(max_size=20), max_size=5),
)
def test_members_come_back_as_they_were(rack, client, topics):
    row = MemberRow(rack, client, "/127.0.0.1", tuple(topics))
    assert member_rows.decode_member(member_rows.encode_member(row)) == row


def test_keys_of_groups_and_members_are_told_apart_from_others():
    assert member_rows.decode_key(member_rows.encode_group_key("g")) == ("g", None)
    assert member_rows.decode_key(member_rows.encode_member_key("g", "m")) == ("g", "m")
    assert member_rows.decode_key(b"\0\x02\0\x01g") is None
    assert member_rows.decode_group(member_rows.encode_group(41)) == 41
    with pytest.raises(MalformedMember):
        member_rows.decode_group(b"\0\x05abcdef")
