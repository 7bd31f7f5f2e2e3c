"""The rows of `__consumer_offsets` are Kafka's own."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupRow,
    MemberRow,
    OffsetKey,
    RowTooLarge,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from headrace.broker.row_fields import MalformedRow

texts = st.text(max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
times = st.integers(0, 2**62)
members = st.builds(
    MemberRow, texts, st.none() | texts, texts, texts, st.integers(0, 2**31 - 1), int32s, st.binary(), st.binary()
)
groups = st.builds(
    GroupRow, texts, int32s, st.none() | texts, st.none() | texts, st.none() | times, st.lists(members, max_size=3).map(tuple)
)
modern = st.builds(CommittedOffset, st.integers(-1, 2**63 - 1), int32s, texts, times, st.none(), st.none() | st.uuids())
expiring = st.builds(CommittedOffset, st.integers(-1, 2**63 - 1), st.just(-1), texts, times, times, st.none())


@given(texts, texts, st.integers(0, 2**31 - 1))
def test_keys_come_back(group, topic, partition):
    assert decode_key(encode_offset_key(group, topic, partition)) == OffsetKey(group, topic, partition)
    assert decode_key(encode_group_key(group)) == GroupKey(group)


@given(groups)
def test_groups_come_back(row):
    assert decode_group(encode_group(row)) == row


@given(modern | expiring)
def test_offsets_come_back(offset):
    assert decode_offset(encode_offset(offset)) == offset


@given(st.binary(max_size=60))
def test_any_bytes_are_a_row_or_malformed(row):
    for decode in (decode_key, decode_offset, decode_group):
        try:
            decode(row)
        except MalformedRow:
            pass


@given(groups, st.data())
def test_a_cut_row_is_malformed(row, data):
    encoded = encode_group(row)
    with pytest.raises(MalformedRow):
        decode_group(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


def test_offsets_are_written_as_kafka_4_3_writes_them():
    key = encode_offset_key("grp", "top", 7)
    assert key == b"\x00\x01\x00\x03grp\x00\x03top\x00\x00\x00\x07"
    value = encode_offset(CommittedOffset(5, 2, "hi", 1000, None, UUID(int=9)))
    assert value == (
        b"\x00\x04"
        + (5).to_bytes(8, "big")
        + (2).to_bytes(4, "big")
        + b"\x03hi"
        + (1000).to_bytes(8, "big")
        + b"\x01\x00\x10"
        + UUID(int=9).bytes
    )


def test_offsets_of_every_older_version_are_read():
    offset, time = (5).to_bytes(8, "big"), (1000).to_bytes(8, "big")
    plain = CommittedOffset(5, -1, "hi", 1000)
    for version in (0, 2):
        assert decode_offset(version.to_bytes(2, "big") + offset + b"\x00\x02hi" + time) == plain
    v1 = b"\x00\x01" + offset + b"\x00\x02hi" + time + (2000).to_bytes(8, "big")
    assert decode_offset(v1) == CommittedOffset(5, -1, "hi", 1000, 2000)
    v3 = b"\x00\x03" + offset + b"\x00\x00\x00\x04" + b"\x00\x02hi" + time
    assert decode_offset(v3) == CommittedOffset(5, 4, "hi", 1000)


def test_groups_of_every_older_version_are_read():
    head = b"\x00\x08consumer\x00\x00\x00\x05\x00\x05range\x00\x01m"
    tail = b"\x00\x00\x03\xe8\x00\x00\x00\x01S\x00\x00\x00\x01A"
    ids = b"\x00\x01c\x00\x02/h"
    one = b"\x00\x00\x00\x01"
    v0 = b"\x00\x00" + head + one + b"\x00\x01m" + ids + tail
    member = MemberRow("m", None, "c", "/h", 1000, 1000, b"S", b"A")
    assert decode_group(v0) == GroupRow("consumer", 5, "range", "m", None, (member,))
    v2 = b"\x00\x02" + head + (77).to_bytes(8, "big") + one + b"\x00\x01m" + ids + b"\x00\x00\x07\xd0" + tail
    decoded = decode_group(v2)
    assert decoded.state_timestamp_ms == 77
    assert decoded.members[0].rebalance_timeout_ms == 2000


def test_a_text_beyond_sixteen_bits_is_refused():
    with pytest.raises(RowTooLarge):
        encode_group_key("x" * 40_000)
