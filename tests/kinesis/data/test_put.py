"""PutRecord and PutRecords: what is stored, what is refused and with which words."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import md5

import pytest

from headrace.kinesis.codec.encoding import Encoding
from headrace.record import batches, decode_batch

MIB = 1024 * 1024
HASH_KEYS = 2**128


def stored(stream, shard=0):
    partition = stream.topic.partitions[shard]
    data = partition.read(partition.start_offset, 64 * MIB)
    return [record for _, batch in batches(data) for record in decode_batch(batch)]


def text(data):
    return b64encode(data).decode()


def test_a_record_is_stored_with_its_key_data_and_the_time_of_arrival(desk):
    stream = desk.stream()
    now_ms = desk.clock.now_ms()
    answer = desk.ask("PutRecord", {"StreamName": "orders", "Data": text(b"hello"), "PartitionKey": "ключ"}).given
    [record] = stored(stream)
    assert (record.key, record.value, record.headers) == ("ключ".encode(), b"hello", ())
    assert now_ms <= record.timestamp_ms <= desk.clock.now_ms()
    first = int(stream.shards[0].starting_sequence_number)
    assert answer == {"SequenceNumber": str(first + 1), "ShardId": "shardId-000000000000"}


def test_an_explicit_hash_key_chooses_the_shard_and_is_kept_in_a_header(desk):
    stream = desk.stream(shards=2)
    given = {"StreamName": "orders", "Data": "", "PartitionKey": "k", "ExplicitHashKey": str(HASH_KEYS - 1)}
    assert desk.ask("PutRecord", given).given["ShardId"] == "shardId-000000000001"
    assert desk.ask("PutRecord", {**given, "ExplicitHashKey": "0"}).given["ShardId"] == "shardId-000000000000"
    assert [record.headers for record in stored(stream, 1)] == [(("kinesis.explicit-hash-key", str(HASH_KEYS - 1).encode()),)]
    assert [record.headers for record in stored(stream, 0)] == [(("kinesis.explicit-hash-key", b"0"),)]


def test_records_go_to_the_shard_of_their_keys_md5_in_the_order_given_one_batch_for_each(desk):
    stream = desk.stream(shards=3)
    keys = [f"key-{number}" for number in range(100)]
    given = {"StreamName": "orders", "Records": [{"Data": text(key.encode()), "PartitionKey": key} for key in keys]}
    answer = desk.ask("PutRecords", given).given
    assert answer["FailedRecordCount"] == 0
    for key, entry in zip(keys, answer["Records"], strict=True):
        number = int.from_bytes(md5(key.encode()).digest(), "big")
        assert entry["ShardId"] == stream.shard_for(number).id
    for shard in stream.shards:
        data = stream.partition(shard).read(0, MIB)
        assert len(list(batches(data))) == 1
        mine = [key for key, entry in zip(keys, answer["Records"], strict=True) if entry["ShardId"] == shard.id]
        assert [record.value.decode() for record in stored(stream, shard.index)] == mine
        first = int(shard.starting_sequence_number)
        numbers = [entry["SequenceNumber"] for entry in answer["Records"] if entry["ShardId"] == shard.id]
        assert numbers == [str(first + 1 + offset) for offset in range(len(mine))]


@pytest.mark.parametrize("encoding", [Encoding.CBOR, Encoding.RPC])
def test_cbor_is_understood_and_answered(desk, encoding):
    stream = desk.stream()
    records = [{"Data": b"\x00\xff", "PartitionKey": "k"}, {"Data": b"", "PartitionKey": "é", "ExplicitHashKey": "7"}]
    answer = desk.ask("PutRecords", {"StreamName": "orders", "Records": records}, encoding).given
    assert [entry["ShardId"] for entry in answer["Records"]] == ["shardId-000000000000"] * 2
    assert [(record.key, record.value) for record in stored(stream)] == [(b"k", b"\x00\xff"), ("é".encode(), b"")]
    answer = desk.ask("PutRecord", {"StreamARN": stream.arn, "Data": b"x", "PartitionKey": "k"}, encoding).given
    assert answer == {
        "SequenceNumber": str(int(stream.shards[0].starting_sequence_number) + 3),
        "ShardId": "shardId-000000000000",
    }


def test_the_answer_names_the_encryption_of_the_stream(desk):
    stream = desk.stream()
    desk.run(desk.broker.streams.set_encryption(stream, "KMS", "alias/aws/kinesis"))
    assert desk.put(b"x")["EncryptionType"] == "KMS"
    given = {"StreamName": "orders", "Data": "", "PartitionKey": "k"}
    assert desk.ask("PutRecord", given).given["EncryptionType"] == "KMS"
    assert desk.get(desk.iterator())["Records"][0]["EncryptionType"] == "KMS"


# --- refusals


def test_a_stream_that_is_not_there(desk):
    given = {"StreamName": "none", "Data": "", "PartitionKey": "k"}
    text = "Stream none under account 123456789012 not found."
    assert desk.ask("PutRecord", given).error == (400, "ResourceNotFoundException", text)
    given = {"StreamName": "none", "Records": [{"Data": "", "PartitionKey": "k"}]}
    assert desk.ask("PutRecords", given).error == (400, "ResourceNotFoundException", text)


def test_a_hash_key_that_is_too_large(desk):
    desk.stream()
    record = {"Data": "", "PartitionKey": "k", "ExplicitHashKey": str(HASH_KEYS)}
    error = (
        400,
        "InvalidArgumentException",
        "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. "
        "Specified value was 340282366920938463463374607431768211456",
    )
    assert desk.ask("PutRecord", {"StreamName": "orders", **record}).error == error
    assert (
        desk.ask("PutRecords", {"StreamName": "orders", "Records": [{"Data": "", "PartitionKey": "k"}, record]}).error == error
    )
    assert desk.read() == []


@pytest.mark.parametrize("explicit", ["01", "-1", "x", "", "1" * 40])
def test_a_hash_key_that_is_no_number(desk, explicit):
    desk.stream()
    given = {"StreamName": "orders", "Data": "", "PartitionKey": "k", "ExplicitHashKey": explicit}
    status, code, message = desk.ask("PutRecord", given).error
    assert (status, code) == (400, "ValidationException")
    assert message == (
        f"1 validation error detected: Value '{explicit}' at 'explicitHashKey' failed to satisfy constraint: "
        "Member must satisfy regular expression pattern: 0|([1-9]\\d{0,38})"
    )


def test_a_record_that_is_larger_than_the_stream_allows(desk):
    stream = desk.stream()
    fits, too_large = b"x" * (MIB - 3), b"x" * (MIB - 2)
    error = "failed to satisfy constraint: Member must have length less than or equal to 1048576"
    given = {"StreamName": "orders", "PartitionKey": "key"}
    assert desk.ask("PutRecord", {**given, "Data": text(too_large)}).error == (
        400,
        "ValidationException",
        f"1 validation error detected: Value at 'data' {error}",
    )
    many = [{"Data": "", "PartitionKey": "key"}, {"Data": text(too_large), "PartitionKey": "key"}]
    assert desk.ask("PutRecords", {"StreamName": "orders", "Records": many}).error == (
        400,
        "ValidationException",
        f"1 validation error detected: Value at 'records.2.member.data' {error}",
    )
    assert stored(stream) == []
    assert desk.ask("PutRecord", {**given, "Data": text(fits)}).status == 200
    desk.run(desk.broker.streams.set_max_record_kib(stream, 2048))
    assert desk.ask("PutRecord", {**given, "Data": text(too_large)}).status == 200


def test_a_key_of_many_bytes_counts_in_utf8(desk):
    desk.stream()
    key = "é" * 256
    given = {"StreamName": "orders", "PartitionKey": key}
    assert desk.ask("PutRecord", {**given, "Data": text(b"x" * (MIB - 512))}).status == 200
    assert desk.ask("PutRecord", {**given, "Data": text(b"x" * (MIB - 511))}).status == 400


def test_a_request_that_is_too_large_as_a_whole(desk):
    stream = desk.stream()
    record = {"Data": text(b"x" * (MIB - 1)), "PartitionKey": "k"}
    assert desk.ask("PutRecords", {"StreamName": "orders", "Records": [record] * 5}).status == 200
    more = [*[record] * 5, {"Data": "", "PartitionKey": "k"}]
    error = (400, "InvalidArgumentException", "Records size exceeds 5 MB limit")
    assert desk.ask("PutRecords", {"StreamName": "orders", "Records": more}).error == error
    desk.run(desk.broker.streams.set_max_record_kib(stream, 10240))
    assert desk.ask("PutRecords", {"StreamName": "orders", "Records": [record] * 10}).status == 200
    error = (400, "InvalidArgumentException", "Records size exceeds 10 MB limit")
    assert desk.ask("PutRecords", {"StreamName": "orders", "Records": [*[record] * 10, more[-1]]}).error == error


def test_too_many_records_or_none(desk):
    desk.stream()
    record = {"Data": "", "PartitionKey": "k"}
    assert desk.ask("PutRecords", {"StreamName": "orders", "Records": [record] * 500}).status == 200
    status, code, message = desk.ask("PutRecords", {"StreamName": "orders", "Records": [record] * 501}).error
    assert (status, code) == (400, "ValidationException")
    assert message.endswith("at 'records' failed to satisfy constraint: Member must have length less than or equal to 500")
    status, code, message = desk.ask("PutRecords", {"StreamName": "orders", "Records": []}).error
    assert (status, code) == (400, "ValidationException")
    assert message.endswith("at 'records' failed to satisfy constraint: Member must have length greater than or equal to 1")


@pytest.mark.parametrize("key", ["", "k" * 257, "é" * 257])
def test_a_partition_key_that_is_too_short_or_too_long(desk, key):
    desk.stream()
    status, code, message = desk.ask("PutRecord", {"StreamName": "orders", "Data": "", "PartitionKey": key}).error
    bound = "less than or equal to 256" if key else "greater than or equal to 1"
    assert (status, code, message) == (
        400,
        "ValidationException",
        f"1 validation error detected: Value '{key}' at 'partitionKey' failed to satisfy constraint: "
        f"Member must have length {bound}",
    )


def test_a_partition_key_that_is_missing(desk):
    stream = desk.stream()
    null = "failed to satisfy constraint: Member must not be null"
    assert desk.ask("PutRecord", {"StreamName": "orders", "Data": ""}).error == (
        400,
        "ValidationException",
        f"1 validation error detected: Value null at 'partitionKey' {null}",
    )
    many = [{"Data": "", "PartitionKey": "k"}, {"Data": ""}]
    assert desk.ask("PutRecords", {"StreamName": "orders", "Records": many}).error == (
        400,
        "ValidationException",
        f"1 validation error detected: Value null at 'records.2.member.partitionKey' {null}",
    )
    assert stored(stream) == []


def test_a_stream_that_spreads_records_by_itself_needs_no_keys(desk):
    stream = desk.stream(shards=3)
    desk.run(desk.broker.streams.set_distribution(stream, "AUTO"))
    for _ in range(6):
        assert desk.ask("PutRecord", {"StreamName": "orders", "Data": text(b"x")}).status == 200
    assert [len(stored(stream, shard)) for shard in range(3)] == [2, 2, 2]
    assert "PartitionKey" not in desk.get(desk.iterator())["Records"][0]
    desk.ask("PutRecord", {"StreamName": "orders", "Data": "", "PartitionKey": "given"})
    keys = {record.get("PartitionKey") for shard in range(3) for record in desk.get(desk.iterator(shard=shard))["Records"]}
    assert keys == {None, "given"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("eA=", "'eA=' can not be converted to a Blob: Base64 encoded length is expected a multiple of 4 bytes but found: 3"),
        ("eA=!", "'eA=!' can not be converted to a Blob: Invalid Base64 character: '='"),
        ("eB==", "'eB==' can not be converted to a Blob: Invalid last non-pad Base64 character dectected"),
        (5, "class com.amazon.coral.value.json.numbers.TruncatingBigNumber can not be converted to a Blob"),
    ],
)
def test_data_that_is_no_base64(desk, data, message):
    stream = desk.stream()
    for given in ({"Data": data, "PartitionKey": "k"}, {"Records": [{"Data": data, "PartitionKey": "k"}]}):
        name = "PutRecords" if "Records" in given else "PutRecord"
        assert desk.ask(name, {"StreamName": "orders", **given}).error == (400, "SerializationException", message)
    assert stored(stream) == []


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"null", b'{"StreamName": "orders", "Records": [{"Data": "eA==", '])
def test_a_body_that_is_no_request(desk, body):
    desk.stream()
    assert desk.ask("PutRecords", body).error == (400, "SerializationException", None)


def test_ordering_takes_numbers_of_the_stream_and_no_others(desk):
    stream = desk.stream(shards=2)
    given = {"StreamName": "orders", "Data": "", "PartitionKey": "k"}
    before = desk.ask("PutRecord", {**given, "SequenceNumberForOrdering": stream.shards[0].starting_sequence_number}).given
    after = desk.ask("PutRecord", {**given, "SequenceNumberForOrdering": before["SequenceNumber"]}).given
    assert int(after["SequenceNumber"]) > int(before["SequenceNumber"])
    future = str(int(after["SequenceNumber"]) + 10**6)
    for number in (future, "9" * 56, "9" * 129):
        assert desk.ask("PutRecord", {**given, "SequenceNumberForOrdering": number}).error == (
            400,
            "InvalidArgumentException",
            f"ExclusiveMinimumSequenceNumber {number} used in PutRecord on stream orders "
            "under account 123456789012 is invalid.",
        )


def test_a_dry_run_checks_everything_and_stores_nothing(desk):
    stream = desk.stream()
    one = {"StreamName": "orders", "Data": "", "PartitionKey": "k", "DryRun": True}
    many = {"StreamName": "orders", "Records": [{"Data": "", "PartitionKey": "k"}], "DryRun": True}
    for name, given in (("PutRecord", one), ("PutRecords", many)):
        status, code, _ = desk.ask(name, given).error
        assert (status, code) == (400, "DryRunOperationException")
        assert desk.ask(name, {**given, "StreamName": "none"}).error[1] == "ResourceNotFoundException"
        assert desk.ask(name, {**given, "DryRun": False}).status == 200
    assert desk.ask("PutRecord", {**one, "ExplicitHashKey": str(HASH_KEYS)}).error[1] == "InvalidArgumentException"
    assert len(stored(stream)) == 2


def test_a_body_in_any_form_of_json_says_the_same(desk):
    stream = desk.stream()
    key = 'a"b\\c\u0001é'
    record = {"PartitionKey": key, "Data": text(b"x"), "Unknown": [1, {"a": None}]}
    for body in (
        json.dumps({"Records": [record], "StreamName": "orders"}),
        json.dumps({"StreamName": "orders", "Records": [record]}, indent=2, ensure_ascii=False),
        '\n{ "Records" :\t[ ' + json.dumps(record) + ' ] , "StreamName" : "orders" }\r\n',
    ):
        assert desk.ask("PutRecords", body.encode()).given["FailedRecordCount"] == 0
    assert [(record.key.decode(), record.value) for record in stored(stream)] == [(key, b"x")] * 3
