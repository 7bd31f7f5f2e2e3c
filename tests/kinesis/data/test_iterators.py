"""GetShardIterator: where reading begins, what an iterator is good for and for how long."""

from __future__ import annotations

from base64 import b64decode, b64encode
from uuid import UUID

import pytest

from headrace.kinesis.data.tokens import InvalidToken, Iterator, Tokens

SHARD = "shardId-000000000000"
PLACE = Iterator("123456789012", "us-east-1", "orders", UUID(int=7), 3, 2**62, 1_700_000_000_000)


def iterator_error(desk, **given):
    return desk.ask("GetShardIterator", {"StreamName": "orders", "ShardId": SHARD, **given}).error


def first_number(stream, shard=0):
    return int(stream.shards[shard].starting_sequence_number)


# --- the five types


def test_trim_horizon_is_the_oldest_record(desk):
    stream = desk.stream()
    desk.put(b"1", b"2", b"3")
    assert desk.read("TRIM_HORIZON") == [b"1", b"2", b"3"]
    desk.run(stream.topic.partitions[0].trim(2))
    assert desk.read("TRIM_HORIZON") == [b"3"]


def test_latest_is_fixed_when_it_is_asked_for(desk):
    desk.stream()
    desk.put(b"before")
    iterator = desk.iterator("LATEST")
    desk.put(b"after")
    assert [record["Data"] for record in desk.get(iterator)["Records"]] == [b"after"]
    assert [record["Data"] for record in desk.get(iterator)["Records"]] == [b"after"]


def test_at_and_after_a_sequence_number(desk):
    desk.stream()
    numbers = [entry["SequenceNumber"] for entry in desk.put(b"1", b"2", b"3")["Records"]]
    assert desk.read("AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [b"2", b"3"]
    assert desk.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [b"3"]
    assert desk.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[2]) == []


def test_the_number_with_which_a_shard_begins_stands_before_all_records(desk):
    stream = desk.stream()
    desk.put(b"1", b"2")
    number = stream.shards[0].starting_sequence_number
    assert desk.read("AT_SEQUENCE_NUMBER", StartingSequenceNumber=number) == [b"1", b"2"]
    assert desk.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number) == [b"1", b"2"]


def test_at_a_time(desk):
    desk.stream()
    desk.put(b"1")
    desk.advance(10)
    second = desk.clock.now_ms()
    desk.put(b"2")
    desk.advance(10)
    assert desk.read("AT_TIMESTAMP", Timestamp=second / 1000) == [b"2"]
    assert desk.read("AT_TIMESTAMP", Timestamp=(second - 1) / 1000) == [b"2"]
    assert desk.read("AT_TIMESTAMP", Timestamp=1) == [b"1", b"2"]
    now = desk.iterator("AT_TIMESTAMP", Timestamp=desk.clock.now_ms() / 1000)
    desk.put(b"3")
    assert [record["Data"] for record in desk.get(now)["Records"]] == [b"3"]


def test_a_shard_may_be_named_by_its_number_alone_or_with_another_word(desk):
    desk.stream()
    desk.put(b"1")
    for name in ("0", "shardId-0", "anything-000", "shardId-000000000000"):
        given = {"StreamName": "orders", "ShardId": name, "ShardIteratorType": "TRIM_HORIZON"}
        iterator = desk.ask("GetShardIterator", given).given["ShardIterator"]
        assert len(desk.get(iterator)["Records"]) == 1


def test_the_latest_of_a_closed_shard_is_its_end(desk):
    stream = desk.stream()
    desk.put(b"1")
    desk.run(desk.broker.streams.split(stream, stream.shards[0], 2**127))
    found = desk.get(desk.iterator("LATEST"))
    assert (found["Records"], found["NextShardIterator"]) == ([], None)
    assert len(found["ChildShards"]) == 2


# --- refusals


def test_a_shard_or_a_stream_that_is_not_there(desk):
    desk.stream()
    under = "under account 123456789012"
    kind = {"ShardIteratorType": "LATEST"}
    assert iterator_error(desk, **kind, ShardId="shardId-5") == (
        400, "ResourceNotFoundException", f"Shard shardId-000000000005 in stream orders {under} does not exist",
    )  # fmt: skip
    assert iterator_error(desk, **kind, StreamName="none", ShardId="x-2147483647") == (
        400, "ResourceNotFoundException", f"Shard shardId-002147483647 in stream none {under} does not exist",
    )  # fmt: skip
    for name in ("2147483648", "ABKLFD8", "2.14E4", "shardId-002147483648"):
        assert iterator_error(desk, **kind, ShardId=name) == (
            400, "ResourceNotFoundException", f"Could not find shard {name} in stream orders {under}.",
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_a_sequence_number_that_is_missing(desk, kind):
    desk.stream()
    assert iterator_error(desk, ShardIteratorType=kind) == (
        400,
        "InvalidArgumentException",
        "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or "
        f"(2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. Request specified {kind} and no StartingSequenceNumber.",
    )


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_a_sequence_number_from_the_future_or_of_nobody(desk, kind):
    stream = desk.stream()
    desk.put(b"1")
    for number in (str(first_number(stream) + 2), str(first_number(stream) + 10**20), "9" * 56, "9" * 129):
        status, code, message = iterator_error(desk, ShardIteratorType=kind, StartingSequenceNumber=number)
        assert (status, code) == (400, "InvalidArgumentException")
        assert message.startswith(
            f"StartingSequenceNumber {number} used in GetShardIterator on shard {SHARD} in stream orders "
            "under account 123456789012 is invalid"
        )


def test_a_sequence_number_of_another_shard(desk):
    stream = desk.stream()
    desk.run(desk.broker.streams.split(stream, stream.shards[0], 2**127))
    desk.put(b"1", ExplicitHashKey="0")
    [answer] = desk.put(b"1", ExplicitHashKey=str(2**128 - 1))["Records"]
    number = answer["SequenceNumber"]
    assert iterator_error(
        desk, ShardId="shardId-000000000001", ShardIteratorType="AT_SEQUENCE_NUMBER", StartingSequenceNumber=number
    ) == (
        400,
        "InvalidArgumentException",
        "Invalid StartingSequenceNumber. It encodes shardId-000000000002, while it was used in a call to a shard with "
        "shardId-000000000001",
    )


def test_a_time_that_is_missing_or_to_come(desk):
    desk.stream()
    assert iterator_error(desk, ShardIteratorType="AT_TIMESTAMP") == (
        400,
        "InvalidArgumentException",
        "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. "
        "Current request has no timestamp parameter.",
    )
    now_ms = desk.clock.now_ms()
    assert iterator_error(desk, ShardIteratorType="AT_TIMESTAMP", Timestamp=now_ms / 1000 + 2) == (
        400,
        "InvalidArgumentException",
        "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. "
        f"timestampInMillis: {now_ms + 2000}, currentTimestampInMillis: {now_ms}",
    )


def test_a_type_that_is_none(desk):
    desk.stream()
    error = (400, "InvalidArgumentException", "Invalid ShardIteratorType: invalid-type")
    assert iterator_error(desk, ShardIteratorType="invalid-type") == error


def test_a_dry_run(desk):
    desk.stream()
    assert iterator_error(desk, ShardIteratorType="LATEST", DryRun=True)[1] == "DryRunOperationException"
    assert iterator_error(desk, ShardIteratorType="LATEST", DryRun=True, ShardId="9")[1] == "ResourceNotFoundException"


# --- what an iterator is good for


def refusal(desk, iterator, **who):
    return desk.ask("GetRecords", {"ShardIterator": iterator}, **who).error


INVALID = (400, "InvalidArgumentException", "Invalid ShardIterator.")


def test_an_iterator_expires(make_desk):
    desk = make_desk(kinesis_iterator_expiry_ms=300_000)
    desk.stream()
    iterator = desk.iterator()
    desk.advance(299)
    assert desk.ask("GetRecords", {"ShardIterator": iterator}).status == 200
    desk.advance(2)
    status, code, message = refusal(desk, iterator)
    assert (status, code) == (400, "ExpiredIteratorException")
    assert message.startswith("Iterator expired. The iterator was created at time ")
    assert message.endswith(" which is further in the future than the tolerated delay of 300000 milliseconds.")
    assert " while right now it is " in message


def test_times_are_shown_as_java_does():
    from headrace.kinesis.data.reading import _java_date

    assert _java_date(1_421_889_722_123) == "Thu Jan 22 01:22:02 UTC 2015"
    assert _java_date(1_633_849_522_000) == "Sun Oct 10 07:05:22 UTC 2021"


def test_forged_iterators_are_refused(desk):
    desk.stream()
    iterator = desk.iterator()
    assert iterator.startswith("AAAAAAAAAAE")
    data = bytearray(b64decode(iterator))
    for place in (0, 8, 20, 30, 50, len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 1
        assert refusal(desk, b64encode(changed).decode()) == INVALID
    for other in (
        "x",
        "AAAA",
        "é",
        iterator[:-4],
        iterator + "AAAA",
        iterator.replace("A", "-", 1),
        b64encode(b"\0" * 200).decode(),
    ):
        assert refusal(desk, other) == INVALID


def test_an_iterator_outlives_a_restart_of_the_server(desk):
    desk.stream()
    desk.put(b"1")
    iterator = desk.iterator()
    desk.end()
    desk.open()
    assert [record["Data"] for record in desk.get(iterator)["Records"]] == [b"1"]


def test_the_iterator_of_a_stream_that_was_deleted_and_made_again_is_refused(desk):
    stream = desk.stream()
    iterator = desk.iterator()
    error = (400, "ResourceNotFoundException", f"Shard {SHARD} in stream orders under account 123456789012 does not exist")
    desk.run(desk.broker.streams.delete(stream))
    assert refusal(desk, iterator) == error
    desk.stream()
    assert refusal(desk, iterator) == error


def test_the_iterator_of_another_account_or_region_is_refused(desk):
    desk.stream()
    iterator = desk.iterator()
    assert refusal(desk, iterator, account="999999999999") == INVALID
    assert refusal(desk, iterator, region="eu-west-1") == INVALID


def test_a_token_holds_what_it_was_made_of():
    tokens = Tokens(None)  # type: ignore[arg-type]
    tokens._secret = b"s" * 32
    token = tokens.write(PLACE)
    assert tokens.read(token) == PLACE
    other = Tokens(None)  # type: ignore[arg-type]
    other._secret = b"t" * 32
    with pytest.raises(InvalidToken):
        other.read(token)
    longest = Iterator("123456789012", "x" * 40, "n" * 128, UUID(int=7), 2**31, 2**62, 1_700_000_000_000)
    assert len(tokens.write(longest)) <= 512
