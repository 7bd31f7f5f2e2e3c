"""Sequence numbers and names: there and back, and nothing else is taken for one."""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.streams.names import ArnParts, consumer_arn, parse_arn, stream_arn, stream_id
from headrace.broker.streams.sequence import MAX_DIGITS, parse_sequence_number, sequence_number
from headrace.broker.streams.shard import Shard, parse_shard_id, shard_id, uniform_ranges

MADE = st.integers(1, 2**48 - 1)
OFFSETS = st.integers(-1, 2**63 - 1)
INDEXES = st.integers(0, 2**31 - 1)


@given(MADE, OFFSETS, INDEXES)
def test_a_sequence_number_can_be_read(made: int, offset: int, index: int) -> None:
    text = sequence_number(made, offset, index)
    assert len(text) <= MAX_DIGITS
    assert parse_sequence_number(text) == (made, offset, index)


@given(OFFSETS)
def test_in_a_shard_from_the_start_it_is_the_offset_plus_one(offset: int) -> None:
    assert Shard(7, 0, 9, 1_700_000_000_000).sequence_number(offset) == str(offset + 1)
    assert parse_sequence_number(str(offset + 1)) == (0, offset, 0)


def test_in_another_shard_it_is_made_of_its_bits() -> None:
    expected = 1_700_000_000_000 << 96 | 3 << 64 | 8
    assert Shard(3, 0, 9, 1_700_000_000_000, parent=0).sequence_number(7) == str(expected)


@given(MADE, st.tuples(INDEXES, OFFSETS), st.tuples(INDEXES, OFFSETS))
def test_numbers_grow_along_a_shard_and_from_parents_to_children(made: int, one: tuple[int, int], two: tuple[int, int]) -> None:
    def number(made: int, index: int, offset: int) -> int:
        return int(sequence_number(made, offset, index))

    assert (number(made, *one) < number(made, *two)) == (one < two)
    if made < 2**48 - 1:
        assert number(made, *one) < number(made + 1, *two)
    assert int(sequence_number(0, one[1], 0)) < number(made, *two)


@given(st.text(max_size=60) | st.integers(0, 10**50).map(str))
def test_other_texts_are_no_sequence_numbers(text: str) -> None:
    try:
        parts = parse_sequence_number(text)
    except ValueError:
        return
    assert sequence_number(*parts) == text


@pytest.mark.parametrize("number", [1 << 64, (1 << 96) - 1, 1 << 144, 10**44 - 1])
def test_numbers_that_no_shard_gives(number: int) -> None:
    with pytest.raises(ValueError, match="not a sequence number"):
        parse_sequence_number(str(number))


@pytest.mark.parametrize("text", ["", "00", "01", "-1", "LATEST", "4" * 45, "4" * 10_000, "٤", " 4", "4\n", "4e3"])
def test_no_number_at_all(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        parse_sequence_number(text)


@pytest.mark.parametrize("parent", [None, 0])
def test_a_shard_begins_below_its_first_record_and_ends_above_its_last(parent: int | None) -> None:
    shard = Shard(2, 0, 9, 1000, parent)
    assert int(shard.starting_sequence_number) + 1 == int(shard.sequence_number(0))
    assert shard.ending_sequence_number is None
    shard.closed_at = 5
    assert shard.ending_sequence_number is not None
    assert int(shard.sequence_number(4)) + 1 == int(shard.ending_sequence_number)


def test_shard_ids() -> None:
    assert shard_id(3) == "shardId-000000000003"
    assert [parse_shard_id(text) for text in ("shardId-000000000003", "shardId-3", "3")] == [3, 3, 3]
    assert [parse_shard_id(text) for text in ("", "shardId-", "unknown", "shardId--1", "shardId-٣", "1" * 13)] == [None] * 6


@given(st.integers(1, 500))
def test_uniform_ranges_are_all_hash_keys(count: int) -> None:
    ranges = uniform_ranges(count)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 2**128 - 1
    assert all(low[1] + 1 == high[0] for low, high in itertools.pairwise(ranges))
    sizes = [last - first for first, last in ranges]
    assert max(sizes) - min(sizes) <= 1


def test_three_ranges_are_those_of_amazon() -> None:
    assert [first for first, _ in uniform_ranges(3)] == [
        0,
        113427455640312821154458202477256070485,
        226854911280625642308916404954512140970,
    ]


def test_arns() -> None:
    assert stream_arn("123456789012", "eu-west-1", "s") == "arn:aws:kinesis:eu-west-1:123456789012:stream/s"
    assert stream_arn("123456789012", "cn-north-1", "s") == "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/s"
    assert stream_arn("123456789012", "us-gov-west-1", "s") == "arn:aws-us-gov:kinesis:us-gov-west-1:123456789012:stream/s"
    arn = consumer_arn("123456789012", "eu-west-1", "s", "c")
    assert arn == "arn:aws:kinesis:eu-west-1:123456789012:stream/s/consumer/c"
    assert parse_arn(arn) == ArnParts("eu-west-1", "123456789012", "s", "c")
    assert parse_arn(arn + ":1700000000") == ArnParts("eu-west-1", "123456789012", "s", "c", 1_700_000_000)
    assert parse_arn("arn:aws-cn:kinesis:cn-north-1:123456789012:stream/s") == ArnParts("cn-north-1", "123456789012", "s")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "arn:aws:kinesis:eu-west-1:12345:stream/s",
        "arn:aws:sqs:eu-west-1:123456789012:stream/s",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/a/b",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/s/consumer/",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/s/consumer/c:",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/s/consumer/c:x",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/s\n",
        "arn:aws:kinesis:eu/west:123456789012:stream/s",
    ],
)
def test_no_arn_of_a_stream(text: str) -> None:
    assert parse_arn(text) is None


@given(st.uuids())
def test_a_stream_id_is_as_amazon_writes_them(topic_id: UUID) -> None:
    text = stream_id(topic_id)
    head, tail = text.split("-")
    assert (len(head), len(tail)) == (20, 3)
    assert (head + tail).isalnum()
    assert text == text.lower() == stream_id(topic_id)
