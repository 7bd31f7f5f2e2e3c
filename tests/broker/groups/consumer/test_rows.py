"""The rows of consumer groups, in Kafka's formats, byte for byte where the bytes are known."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.consumer import rows
from headrace.broker.groups.consumer.member import ClassicSide, Member, MemberState
from headrace.broker.groups.consumer.rows import Key, Resolved
from headrace.broker.row_fields import MalformedRow

TEXT = st.text(max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UUIDS = st.uuids()
ASSIGNED = st.dictionaries(UUIDS, st.dictionaries(st.integers(0, 1000), st.integers(0, 1000), min_size=1), max_size=3)
MEMBERS = st.builds(
    Member,
    member_id=TEXT,
    epoch=INT32,
    previous_epoch=INT32,
    state=st.sampled_from(MemberState),
    instance_id=st.none() | TEXT,
    rack_id=st.none() | TEXT,
    rebalance_timeout_ms=INT32,
    client_id=TEXT,
    client_host=TEXT,
    topics=st.frozensets(TEXT, max_size=3),
    regex=TEXT,
    assignor=st.none() | TEXT,
    assigned=ASSIGNED,
    revoking=ASSIGNED,
    classic=st.none()
    | st.builds(ClassicSide, INT32, st.lists(st.tuples(TEXT, st.binary(max_size=200)), max_size=3).map(tuple)),
)


@given(st.sampled_from(sorted(rows.KINDS)), TEXT, TEXT)
def test_keys_come_back(kind, group, name):
    key = Key(kind, group, name if kind in (5, 7, 8, 16) else "")
    assert rows.decode_key(rows.encode_key(key)) == key


@given(INT32, INT64)
def test_epochs_come_back(epoch, number):
    assert rows.decode_group(rows.encode_group(epoch, number)) == (epoch, number)
    assert rows.decode_target_epoch(rows.encode_target_epoch(epoch, number)) == (epoch, number)


@given(MEMBERS)
def test_members_come_back(member):
    subscription = rows.decode_member(rows.encode_member(member), member.member_id)
    current = rows.decode_current(rows.encode_current(member))
    for name in ("instance_id", "rack_id", "rebalance_timeout_ms", "client_id", "topics", "regex", "assignor", "classic"):
        assert getattr(subscription, name) == getattr(member, name)
    for name in ("epoch", "previous_epoch", "state", "assigned", "revoking"):
        assert getattr(current, name) == getattr(member, name)


@given(st.dictionaries(UUIDS, st.frozensets(st.integers(0, 100), min_size=1), max_size=4))
def test_targets_come_back(target):
    assert rows.decode_target(rows.encode_target(target)) == target


@given(st.frozensets(TEXT, max_size=4), INT64, INT64)
def test_expressions_come_back(topics, version, timestamp_ms):
    resolved = Resolved(topics, version, timestamp_ms)
    assert rows.decode_regex(rows.encode_regex(resolved)) == resolved


@given(st.binary(max_size=60))
def test_bytes_that_are_no_row_are_refused(junk):
    for decode in (
        rows.decode_key,
        rows.decode_group,
        rows.decode_target,
        rows.decode_current,
        rows.decode_regex,
        lambda row: rows.decode_member(row, "m"),
    ):
        try:
            decode(junk)
        except MalformedRow:
            pass


def test_the_bytes_are_those_that_kafka_writes():
    topic = UUID(int=1)
    assert rows.encode_key(Key(5, "g", "m")) == b"\x00\x05\x00\x01g\x00\x01m"
    assert rows.encode_group(3, 0) == b"\x00\x00\x00\x00\x00\x03\x00"
    assert rows.encode_group(3, 7) == b"\x00\x00\x00\x00\x00\x03\x01\x00\x08" + bytes(7) + b"\x07"
    assert rows.encode_target({topic: frozenset({1})}) == b"\x00\x00\x02" + topic.bytes + b"\x02\x00\x00\x00\x01\x00\x00"
    member = Member("m", 4, 3, assigned={topic: {2: 4}})
    assert rows.encode_current(member) == (
        b"\x00\x00\x00\x00\x00\x04\x00\x00\x00\x03\x00\x02"
        + topic.bytes
        + b"\x02\x00\x00\x00\x02\x01\x00\x05\x02\x00\x00\x00\x04\x01\x00"
    )


def test_a_row_of_another_kind_is_left_alone():
    assert rows.decode_key(b"\x00\x02\x00\x01g") is None
    with pytest.raises(MalformedRow):
        rows.decode_key(b"\x00\x05\x00\x09g")
