"""boto3, as a program uses it that was written for AWS: nothing but `endpoint_url` is ours."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from headrace.testing import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

HASH_KEYS = 2**128


def shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


def hash_of(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode()).digest())


def iterator(boto: Any, stream: str, shard: str, kind: str = "TRIM_HORIZON", **given: Any) -> str:
    return boto.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType=kind, **given)["ShardIterator"]


def read_shard(boto: Any, stream: str, shard: str, kind: str = "TRIM_HORIZON", **given: Any) -> list[dict[str, Any]]:
    """To where it ends now."""
    found: list[dict[str, Any]] = []
    at: str | None = iterator(boto, stream, shard, kind, **given)
    while at is not None:
        answer = boto.get_records(ShardIterator=at)
        found += answer["Records"]
        at = answer.get("NextShardIterator")
        if answer["MillisBehindLatest"] == 0 and not answer["Records"]:
            break
    return found


def all_shards(boto: Any, stream: str) -> list[dict[str, Any]]:
    return [shard for page in boto.get_paginator("list_shards").paginate(StreamName=stream) for shard in page["Shards"]]


def error(caught: Any) -> tuple[str, str, int]:
    answer = caught.value.response
    return answer["Error"]["Code"], answer["Error"]["Message"], answer["ResponseMetadata"]["HTTPStatusCode"]


# --- a stream from its first day to its last


def test_a_stream_is_created_described_listed_and_deleted_with_boto3s_waiters(boto: Any, unique: Callable[[str], str]) -> None:
    name = unique("life")
    boto.create_stream(StreamName=name, ShardCount=2, Tags={"team": "shop"})
    boto.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 20})
    summary = boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    assert summary["StreamARN"] == f"arn:aws:kinesis:us-east-1:123456789012:stream/{name}"
    assert (summary["StreamStatus"], summary["OpenShardCount"], summary["ConsumerCount"]) == ("ACTIVE", 2, 0)
    assert (summary["RetentionPeriodHours"], summary["EncryptionType"]) == (24, "NONE")
    assert abs(datetime.now(UTC) - summary["StreamCreationTimestamp"]) < timedelta(minutes=5)
    described = boto.describe_stream(StreamARN=summary["StreamARN"])["StreamDescription"]
    assert [shard["ShardId"] for shard in described["Shards"]] == [shard_id(0), shard_id(1)]
    assert described["HasMoreShards"] is False
    listed = [one for page in boto.get_paginator("list_streams").paginate(Limit=1) for one in page["StreamNames"]]
    assert name in listed
    assert listed == sorted(listed)
    boto.delete_stream(StreamName=name)
    boto.get_waiter("stream_not_exists").wait(StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 20})
    with pytest.raises(boto.exceptions.ResourceNotFoundException) as caught:
        boto.describe_stream_summary(StreamName=name)
    assert error(caught) == ("ResourceNotFoundException", f"Stream {name} under account 123456789012 not found.", 400)


def test_shards_are_listed_by_pages_and_share_all_hash_keys(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream(shards=25)
    pages = list(boto.get_paginator("list_shards").paginate(StreamName=name, PaginationConfig={"PageSize": 7}))
    shards = [shard for page in pages for shard in page["Shards"]]
    assert [len(page["Shards"]) for page in pages] == [7, 7, 7, 4]
    assert [shard["ShardId"] for shard in shards] == [shard_id(number) for number in range(25)]
    ranges = [(int(s["HashKeyRange"]["StartingHashKey"]), int(s["HashKeyRange"]["EndingHashKey"])) for s in shards]
    assert (ranges[0][0], ranges[-1][1]) == (0, HASH_KEYS - 1)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(ranges))


# --- records


def test_records_are_read_back_in_order_with_their_sequence_numbers(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    before = datetime.now(UTC) - timedelta(seconds=1)
    put = [boto.put_record(StreamName=name, Data=f"{n}".encode(), PartitionKey=f"key-{n}") for n in range(5)]
    assert {one["ShardId"] for one in put} == {shard_id(0)}
    records = read_shard(boto, name, shard_id(0))
    assert [record["Data"] for record in records] == [b"0", b"1", b"2", b"3", b"4"]
    assert [record["PartitionKey"] for record in records] == [f"key-{n}" for n in range(5)]
    assert [record["SequenceNumber"] for record in records] == [one["SequenceNumber"] for one in put]
    numbers = [int(record["SequenceNumber"]) for record in records]
    assert numbers == sorted(set(numbers))
    assert all(before <= record["ApproximateArrivalTimestamp"] <= datetime.now(UTC) for record in records)


def test_a_record_may_hold_any_bytes_and_any_key(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    contents = [b"", b"\0", bytes(range(256)) * 40, b"x" * (1024 * 1024 - 8), "värde 🚰".encode()]
    keys = ["a", "κλειδί", "k" * 256, "12345678", '"quoted"\\\n']
    boto.put_records(StreamName=name, Records=[{"Data": d, "PartitionKey": k} for d, k in zip(contents, keys, strict=True)])
    records = read_shard(boto, name, shard_id(0))
    assert [record["Data"] for record in records] == contents
    assert [record["PartitionKey"] for record in records] == keys


def test_the_md5_of_the_key_chooses_the_shard_unless_a_hash_key_is_given(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream(shards=3)
    ranges = {
        shard["ShardId"]: (int(shard["HashKeyRange"]["StartingHashKey"]), int(shard["HashKeyRange"]["EndingHashKey"]))
        for shard in all_shards(boto, name)
    }
    keys = [f"customer-{n}" for n in range(60)]
    answer = boto.put_records(StreamName=name, Records=[{"Data": key.encode(), "PartitionKey": key} for key in keys])
    assert answer["FailedRecordCount"] == 0
    for key, result in zip(keys, answer["Records"], strict=True):
        first, last = ranges[result["ShardId"]]
        assert first <= hash_of(key) <= last
    for shard, (first, last) in ranges.items():
        for at in (first, last):
            put = boto.put_record(StreamName=name, Data=b"x", PartitionKey="same", ExplicitHashKey=str(at))
            assert put["ShardId"] == shard


def test_every_kind_of_iterator_begins_where_it_says(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    numbers = [boto.put_record(StreamName=name, Data=b"%d" % n, PartitionKey="a")["SequenceNumber"] for n in range(3)]

    def data(kind: str, **given: Any) -> list[bytes]:
        return [record["Data"] for record in read_shard(boto, name, shard_id(0), kind, **given)]

    assert data("TRIM_HORIZON") == [b"0", b"1", b"2"]
    assert data("AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [b"1", b"2"]
    assert data("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [b"2"]
    arrived = read_shard(boto, name, shard_id(0))[0]["ApproximateArrivalTimestamp"]
    assert data("AT_TIMESTAMP", Timestamp=arrived) == [b"0", b"1", b"2"]
    assert data("AT_TIMESTAMP", Timestamp=arrived - timedelta(days=1)) == [b"0", b"1", b"2"]
    latest = iterator(boto, name, shard_id(0), "LATEST")
    boto.put_record(StreamName=name, Data=b"3", PartitionKey="a")  # after the iterator, before it is used
    assert [record["Data"] for record in boto.get_records(ShardIterator=latest)["Records"]] == [b"3"]


def test_a_page_is_as_long_as_its_limit_and_says_how_far_behind_it_is(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    boto.put_records(StreamName=name, Records=[{"Data": b"%d" % n, "PartitionKey": "a"} for n in range(10)])
    first = boto.get_records(ShardIterator=iterator(boto, name, shard_id(0)), Limit=4)
    assert [record["Data"] for record in first["Records"]] == [b"0", b"1", b"2", b"3"]
    rest = boto.get_records(ShardIterator=first["NextShardIterator"])
    assert [record["Data"] for record in rest["Records"]] == [b"%d" % n for n in range(4, 10)]
    assert rest["MillisBehindLatest"] == 0
    again = boto.get_records(ShardIterator=first["NextShardIterator"])  # an iterator is a place, not a cursor
    assert again["Records"] == rest["Records"]


# --- resharding


def test_splits_and_merges_while_others_put_and_read_lose_and_reorder_nothing(
    boto: Any, make_boto: Callable[..., Any], make_stream: Callable[..., str]
) -> None:
    name = make_stream(shards=2)
    each, writers = 60, 3
    problems: list[BaseException] = []

    def write(writer: int) -> None:
        client = make_boto()
        try:
            for number in range(each):
                entries = [{"Data": f"{number}".encode(), "PartitionKey": f"{writer}-{key}"} for key in range(5)]
                assert client.put_records(StreamName=name, Records=entries)["FailedRecordCount"] == 0
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    boto.split_shard(StreamName=name, ShardToSplit=shard_id(0), NewStartingHashKey=str(2**126))
    boto.merge_shards(StreamName=name, ShardToMerge=shard_id(3), AdjacentShardToMerge=shard_id(1))
    boto.update_shard_count(StreamName=name, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
    for thread in threads:
        thread.join()
    assert not problems
    found: dict[str, list[int]] = defaultdict(list)
    for record in walk(boto, name):
        found[record["PartitionKey"]].append(int(record["Data"]))
    assert dict(found) == {f"{w}-{k}": list(range(each)) for w in range(writers) for k in range(5)}


def walk(boto: Any, stream: str) -> Iterator[dict[str, Any]]:
    """As the Kinesis Client Library does: a child begins when all of its parents have been read to their end."""
    lineage = {shard["ShardId"]: shard for shard in all_shards(boto, stream)}
    done: set[str] = set()
    while len(done) < len(lineage):
        ready = [
            one
            for one, shard in lineage.items()
            if one not in done and {shard.get("ParentShardId"), shard.get("AdjacentParentShardId")} - {None} <= done
        ]
        assert ready, "a shard whose parents are nowhere"
        for one in ready:
            yield from read_shard(boto, stream, one)
            done.add(one)


def test_a_closed_shard_tells_its_children_and_has_no_next_iterator(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    boto.put_record(StreamName=name, Data=b"x", PartitionKey="a")
    boto.split_shard(StreamName=name, ShardToSplit=shard_id(0), NewStartingHashKey=str(2**127))
    answer = boto.get_records(ShardIterator=iterator(boto, name, shard_id(0)))
    while "NextShardIterator" in answer:
        answer = boto.get_records(ShardIterator=answer["NextShardIterator"])
    children = {child["ShardId"]: child for child in answer["ChildShards"]}
    assert list(children) == [shard_id(1), shard_id(2)]
    assert children[shard_id(2)]["ParentShards"] == [shard_id(0)]
    assert children[shard_id(2)]["HashKeyRange"] == {"StartingHashKey": str(2**127), "EndingHashKey": str(HASH_KEYS - 1)}
    shards = {shard["ShardId"]: shard for shard in all_shards(boto, name)}
    assert "EndingSequenceNumber" in shards[shard_id(0)]["SequenceNumberRange"]
    assert "EndingSequenceNumber" not in shards[shard_id(1)]["SequenceNumberRange"]


def test_a_stream_on_demand_is_made_and_turned_into_a_provisioned_one(boto: Any, unique: Callable[[str], str]) -> None:
    name = unique("on-demand")
    boto.create_stream(StreamName=name, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    summary = boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    assert (summary["StreamModeDetails"], summary["OpenShardCount"]) == ({"StreamMode": "ON_DEMAND"}, 4)
    boto.update_stream_mode(StreamARN=summary["StreamARN"], StreamModeDetails={"StreamMode": "PROVISIONED"})
    answer = boto.update_shard_count(StreamName=name, TargetShardCount=2, ScalingType="UNIFORM_SCALING")
    assert (answer["CurrentShardCount"], answer["TargetShardCount"]) == (4, 2)
    boto.delete_stream(StreamName=name)


# --- retention, tags, encryption, policies


def test_retention_is_raised_and_lowered_within_awss_bounds(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    boto.increase_stream_retention_period(StreamName=name, RetentionPeriodHours=168)
    assert boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["RetentionPeriodHours"] == 168
    boto.decrease_stream_retention_period(StreamName=name, RetentionPeriodHours=48)
    assert boto.describe_stream(StreamName=name)["StreamDescription"]["RetentionPeriodHours"] == 48
    with pytest.raises(boto.exceptions.InvalidArgumentException):
        boto.increase_stream_retention_period(StreamName=name, RetentionPeriodHours=24)
    with pytest.raises(ClientError) as caught:
        boto.increase_stream_retention_period(StreamName=name, RetentionPeriodHours=10_000)
    assert caught.value.response["Error"]["Code"] in ("InvalidArgumentException", "ValidationException")


def test_tags_come_and_go_for_streams_and_for_consumers(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    boto.add_tags_to_stream(StreamName=name, Tags={"b": "2", "a": "1"})
    arn = boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    boto.tag_resource(ResourceARN=arn, Tags={"c": "3"})
    boto.remove_tags_from_stream(StreamName=name, TagKeys=["b"])
    expected = [{"Key": "a", "Value": "1"}, {"Key": "c", "Value": "3"}]
    assert boto.list_tags_for_stream(StreamName=name)["Tags"] == expected
    assert boto.list_tags_for_resource(ResourceARN=arn)["Tags"] == expected
    consumer = boto.register_stream_consumer(StreamARN=arn, ConsumerName="app", Tags={"x": "y"})["Consumer"]["ConsumerARN"]
    assert boto.list_tags_for_resource(ResourceARN=consumer)["Tags"] == [{"Key": "x", "Value": "y"}]


def test_encryption_is_a_flag_that_is_kept_and_shown(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    boto.start_stream_encryption(StreamName=name, EncryptionType="KMS", KeyId="alias/aws/kinesis")
    summary = boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    assert (summary["EncryptionType"], summary["KeyId"]) == ("KMS", "alias/aws/kinesis")
    assert boto.put_record(StreamName=name, Data=b"x", PartitionKey="a")["EncryptionType"] == "KMS"
    assert read_shard(boto, name, shard_id(0))[0]["EncryptionType"] == "KMS"
    boto.stop_stream_encryption(StreamName=name, EncryptionType="KMS", KeyId="alias/aws/kinesis")
    assert boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["EncryptionType"] == "NONE"


# --- enhanced fan-out


def test_a_registered_consumer_is_pushed_what_is_there_and_what_comes(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    arn = boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    consumer = boto.register_stream_consumer(StreamARN=arn, ConsumerName="push")["Consumer"]
    wait_until(
        lambda: (
            boto.describe_stream_consumer(ConsumerARN=consumer["ConsumerARN"])["ConsumerDescription"]["ConsumerStatus"]
            == "ACTIVE"
        ),
        what="the consumer",
    )
    assert [one["ConsumerName"] for one in boto.list_stream_consumers(StreamARN=arn)["Consumers"]] == ["push"]
    boto.put_record(StreamName=name, Data=b"before", PartitionKey="a")
    stream = boto.subscribe_to_shard(
        ConsumerARN=consumer["ConsumerARN"], ShardId=shard_id(0), StartingPosition={"Type": "TRIM_HORIZON"}
    )["EventStream"]
    found: list[bytes] = []
    for event in stream:
        shown = event["SubscribeToShardEvent"]
        found += [record["Data"] for record in shown["Records"]]
        assert shown["ContinuationSequenceNumber"].isdigit()
        if found == [b"before"]:
            boto.put_record(StreamName=name, Data=b"after", PartitionKey="a")
        if len(found) == 2:
            break
    stream.close()
    assert found == [b"before", b"after"]
    boto.deregister_stream_consumer(ConsumerARN=consumer["ConsumerARN"])
    with pytest.raises(boto.exceptions.ResourceNotFoundException):
        boto.describe_stream_consumer(ConsumerARN=consumer["ConsumerARN"])


def test_a_subscription_to_a_shard_that_is_split_ends_with_its_children(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    arn = boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    consumer = boto.register_stream_consumer(StreamARN=arn, ConsumerName="push")["Consumer"]["ConsumerARN"]
    boto.put_record(StreamName=name, Data=b"x", PartitionKey="a")
    stream = boto.subscribe_to_shard(ConsumerARN=consumer, ShardId=shard_id(0), StartingPosition={"Type": "TRIM_HORIZON"})[
        "EventStream"
    ]
    children: list[str] = []
    for event in stream:
        shown = event["SubscribeToShardEvent"]
        if shown["Records"]:
            boto.split_shard(StreamName=name, ShardToSplit=shard_id(0), NewStartingHashKey=str(2**127))
        children += [child["ShardId"] for child in shown.get("ChildShards", [])]
    assert children == [shard_id(1), shard_id(2)]


# --- regions and accounts


def test_regions_and_accounts_are_kept_apart(make_boto: Callable[..., Any], unique: Callable[[str], str]) -> None:
    name = unique("apart")
    clients = [
        make_boto(),
        make_boto(region_name="eu-central-1"),
        make_boto(aws_access_key_id="000011112222"),
    ]
    for number, client in enumerate(clients):
        client.create_stream(StreamName=name, ShardCount=1)
        client.put_record(StreamName=name, Data=b"%d" % number, PartitionKey="a")
    for number, client in enumerate(clients):
        assert [record["Data"] for record in read_shard(client, name, shard_id(0))] == [b"%d" % number]
    arns = [c.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"] for c in clients]
    assert arns == [
        f"arn:aws:kinesis:us-east-1:123456789012:stream/{name}",
        f"arn:aws:kinesis:eu-central-1:123456789012:stream/{name}",
        f"arn:aws:kinesis:us-east-1:000011112222:stream/{name}",
    ]
    clients[1].delete_stream(StreamName=name)
    clients[0].describe_stream_summary(StreamName=name)
    for client in (clients[0], clients[2]):
        client.delete_stream(StreamName=name)


# --- errors, by boto3's own classes


def test_what_is_refused_is_refused_with_awss_exceptions(
    boto: Any, make_stream: Callable[..., str], unique: Callable[[str], str]
) -> None:
    name, missing = make_stream(), unique("missing")
    number = boto.put_record(StreamName=name, Data=b"x", PartitionKey="a")["SequenceNumber"]
    arn = boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    of = boto.exceptions
    refused: list[tuple[type[Exception], Callable[[], object]]] = [
        (of.ResourceInUseException, lambda: boto.create_stream(StreamName=name, ShardCount=1)),
        (of.ResourceNotFoundException, lambda: boto.put_record(StreamName=missing, Data=b"", PartitionKey="a")),
        (of.ResourceNotFoundException, lambda: boto.list_shards(StreamName=missing)),
        (of.ResourceNotFoundException, lambda: iterator(boto, name, shard_id(7))),
        (of.ResourceNotFoundException, lambda: boto.delete_stream(StreamName=missing)),
        (of.ResourceNotFoundException, lambda: boto.describe_stream_consumer(StreamARN=arn, ConsumerName="nobody")),
        (of.InvalidArgumentException, lambda: boto.get_records(ShardIterator="forged")),
        (
            of.InvalidArgumentException,
            lambda: iterator(boto, name, shard_id(0), "AT_SEQUENCE_NUMBER", StartingSequenceNumber=number + "1"),
        ),
        (
            of.InvalidArgumentException,
            lambda: boto.put_record(StreamName=name, Data=b"", PartitionKey="a", ExplicitHashKey=str(HASH_KEYS)),
        ),
        (
            of.InvalidArgumentException,
            lambda: boto.split_shard(StreamName=name, ShardToSplit=shard_id(0), NewStartingHashKey="0"),
        ),
    ]
    for expected, call in refused:
        with pytest.raises(expected):
            call()
    boto.register_stream_consumer(StreamARN=arn, ConsumerName="twice")
    with pytest.raises(of.ResourceInUseException):
        boto.register_stream_consumer(StreamARN=arn, ConsumerName="twice")


def test_records_and_requests_that_are_too_large_are_refused_and_nothing_of_them_is_kept(
    boto: Any, make_stream: Callable[..., str]
) -> None:
    name = make_stream()
    megabyte = 1024 * 1024
    too_much: list[Callable[[], object]] = [
        lambda: boto.put_record(StreamName=name, Data=b"x" * (megabyte + 1), PartitionKey="a"),
        lambda: boto.put_records(StreamName=name, Records=[{"Data": b"", "PartitionKey": "a"}] * 501),
        lambda: boto.put_records(StreamName=name, Records=[{"Data": b"x" * 1_000_000, "PartitionKey": "a"}] * 11),
    ]
    for call in too_much:
        with pytest.raises(ClientError) as caught:
            call()
        assert caught.value.response["Error"]["Code"] in ("ValidationException", "InvalidArgumentException")
    assert read_shard(boto, name, shard_id(0)) == []


# --- credentials, limits, crashes


def test_with_credentials_configured_only_their_holders_come_in(headrace_factory: Callable[..., Any]) -> None:
    server = headrace_factory(settings={"kinesis.credentials": "AKIDALICE:one,AKIDBOB:two:000011112222"})

    def connected(key: str, secret: str, **given: Any) -> Any:
        return boto3.client(
            "kinesis",
            endpoint_url=server.kinesis,
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            **given,
        )

    alice, bob = connected("AKIDALICE", "one"), connected("AKIDBOB", "two")
    for client in (alice, bob):
        client.create_stream(StreamName="own", ShardCount=1)
    alice.put_record(StreamName="own", Data=bytes(range(256)), PartitionKey="a")
    assert [record["Data"] for record in read_shard(alice, "own", shard_id(0))] == [bytes(range(256))]
    assert read_shard(bob, "own", shard_id(0)) == []
    arn = bob.describe_stream_summary(StreamName="own")["StreamDescriptionSummary"]["StreamARN"]
    assert arn == "arn:aws:kinesis:us-east-1:000011112222:stream/own"
    for strange, code in (
        (connected("AKIDALICE", "guess"), "InvalidSignatureException"),
        (connected("AKIDMALLORY", "one"), "UnrecognizedClientException"),
        (connected("", "", config=Config(signature_version=UNSIGNED)), "MissingAuthenticationTokenException"),
    ):
        with pytest.raises(ClientError) as caught:
            strange.list_streams()
        assert caught.value.response["Error"]["Code"] == code


def test_with_limits_enforced_boto3_tries_again_and_everything_arrives_once(headrace_factory: Callable[..., Any]) -> None:
    server = headrace_factory(settings={"kinesis.enforce.limits": True})
    given = {"region_name": "us-east-1", "aws_access_key_id": "any", "aws_secret_access_key": "thing"}
    impatient = boto3.client("kinesis", endpoint_url=server.kinesis, config=Config(retries={"max_attempts": 0}), **given)
    impatient.create_stream(StreamName="slow", ShardCount=1)
    waiting = [{"Data": b"%d" % n, "PartitionKey": "a"} for n in range(1500)]
    refused = 0
    deadline = time.monotonic() + 60
    while waiting:
        assert time.monotonic() < deadline
        batch, rest = waiting[:500], waiting[500:]
        answer = impatient.put_records(StreamName="slow", Records=batch)
        again = [entry for entry, result in zip(batch, answer["Records"], strict=True) if "ErrorCode" in result]
        codes = {result["ErrorCode"] for result in answer["Records"] if "ErrorCode" in result}
        assert codes <= {"ProvisionedThroughputExceededException"}
        assert answer["FailedRecordCount"] == len(again)
        refused += len(again)
        waiting = again + rest
    assert refused > 0
    patient = boto3.client("kinesis", endpoint_url=server.kinesis, config=Config(retries={"max_attempts": 10}), **given)
    found = sorted(int(record["Data"]) for record in read_shard(patient, "slow", shard_id(0)))
    assert found == list(range(1500))
    with pytest.raises(impatient.exceptions.ProvisionedThroughputExceededException):
        [read_shard(impatient, "slow", shard_id(0)) for _ in range(20)]


def test_what_was_answered_is_there_after_a_crash_and_iterators_go_on(headrace_server: Any) -> None:
    def connect() -> Any:
        return boto3.client(
            "kinesis",
            endpoint_url=headrace_server.kinesis,
            region_name="eu-west-1",
            aws_access_key_id="any",
            aws_secret_access_key="thing",
        )

    boto = connect()
    boto.create_stream(StreamName="kept", ShardCount=1, Tags={"team": "shop"})
    put = [boto.put_record(StreamName="kept", Data=b"%d" % n, PartitionKey="a") for n in range(4)]
    first = boto.get_records(ShardIterator=iterator(boto, "kept", shard_id(0)), Limit=2)
    boto.split_shard(StreamName="kept", ShardToSplit=shard_id(0), NewStartingHashKey=str(2**127))
    boto.increase_stream_retention_period(StreamName="kept", RetentionPeriodHours=72)
    arn = boto.describe_stream_summary(StreamName="kept")["StreamDescriptionSummary"]["StreamARN"]
    consumer = boto.register_stream_consumer(StreamARN=arn, ConsumerName="app")["Consumer"]
    before = all_shards(boto, "kept")
    headrace_server.crash()
    headrace_server.restart()
    boto = connect()
    assert all_shards(boto, "kept") == before
    rest = boto.get_records(ShardIterator=first["NextShardIterator"])
    assert [record["SequenceNumber"] for record in rest["Records"]] == [one["SequenceNumber"] for one in put[2:]]
    summary = boto.describe_stream_summary(StreamName="kept")["StreamDescriptionSummary"]
    assert (summary["RetentionPeriodHours"], summary["OpenShardCount"], summary["ConsumerCount"]) == (72, 2, 1)
    assert boto.list_tags_for_stream(StreamName="kept")["Tags"] == [{"Key": "team", "Value": "shop"}]
    assert boto.list_stream_consumers(StreamARN=arn)["Consumers"] == [consumer]
    later = boto.put_record(StreamName="kept", Data=b"later", PartitionKey="a")
    assert later["ShardId"] in (shard_id(1), shard_id(2))
    assert int(later["SequenceNumber"]) > int(put[-1]["SequenceNumber"])
