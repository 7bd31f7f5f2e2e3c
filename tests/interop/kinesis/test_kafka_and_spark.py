"""A stream is a topic: what boto3 puts, Kafka's clients and Spark read, and the reverse, by docs/mapping.md."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.client.kafka import Cluster, Refused
from headrace.client.kafka.producer import Producer as PlainProducer
from headrace.record import Event
from headrace.testing import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

WAIT_S = 30.0


def shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


def read_kafka(bootstrap: str, topic: str, count: int, **settings: Any) -> list[Message]:
    """`count` records of all partitions, as an ordinary member of a group sees them."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"of-{topic}", "auto.offset.reset": "earliest", **settings}
    )
    consumer.subscribe([topic])
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    try:
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records of {topic}"
            for message in consumer.consume(count - len(found), 0.2):
                assert message.error() is None, message.error()
                found.append(message)
    finally:
        consumer.close()
    return found


def read_kinesis(boto: Any, stream: str, shard: int, count: int) -> list[dict[str, Any]]:
    asked = boto.get_shard_iterator(StreamName=stream, ShardId=shard_id(shard), ShardIteratorType="TRIM_HORIZON")
    iterator: str | None = asked["ShardIterator"]
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records of {stream}"
        assert iterator is not None, f"{len(found)} of {count} records of {stream}, then its end"
        answer = boto.get_records(ShardIterator=iterator)
        found += answer["Records"]
        iterator = answer.get("NextShardIterator")
    return found


def refusal(bootstrap: str, topic: str, partition: int) -> KafkaError | None:
    """What becomes of a record for this partition."""
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "message.timeout.ms": 20_000})
    producer.produce(topic, b"x", b"a", partition, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(WAIT_S) == 0
    return told[0]


# --- Kinesis in, Kafka out


def test_a_kafka_consumer_reads_what_boto3_put(boto: Any, bootstrap: str, make_stream: Callable[..., str]) -> None:
    name = make_stream(shards=3)
    entries = [{"Data": f"värde {n}".encode(), "PartitionKey": f"κλειδί-{n}"} for n in range(30)]
    entries[7]["ExplicitHashKey"] = str(2**128 - 1)
    answer = boto.put_records(StreamName=name, Records=entries)
    shown = {message.key().decode(): message for message in read_kafka(bootstrap, name, 30)}
    for entry, result in zip(entries, answer["Records"], strict=True):
        message = shown[entry["PartitionKey"]]
        assert message.value() == entry["Data"]
        assert shard_id(message.partition()) == result["ShardId"]
        assert result["SequenceNumber"] == str(message.offset() + 1)
        given = entry.get("ExplicitHashKey")
        assert message.headers() == (None if given is None else [("kinesis.explicit-hash-key", given.encode())])
    for shard in range(3):
        for record in read_kinesis(boto, name, shard, sum(m.partition() == shard for m in shown.values())):
            message = shown[record["PartitionKey"]]
            assert message.timestamp()[1] == round(record["ApproximateArrivalTimestamp"].timestamp() * 1000)


def test_a_group_finds_the_partitions_of_a_reshard_and_reads_each_key_in_order(
    boto: Any, bootstrap: str, make_stream: Callable[..., str]
) -> None:
    name = make_stream()

    def put(number: int) -> None:
        boto.put_records(StreamName=name, Records=[{"Data": b"%d" % number, "PartitionKey": f"k{k}"} for k in range(6)])

    put(0)
    settings = {"topic.metadata.refresh.interval.ms": 200}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"of-{name}", "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([name])
    found: dict[bytes, list[int]] = {}

    def read_until(count: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while sum(map(len, found.values())) < count:
            assert time.monotonic() < deadline, found
            for message in consumer.consume(count, 0.2):
                assert message.error() is None, message.error()
                found.setdefault(message.key(), []).append(int(message.value()))

    read_until(6)
    boto.split_shard(StreamName=name, ShardToSplit=shard_id(0), NewStartingHashKey=str(2**127))
    put(1)
    read_until(12)
    consumer.close()
    assert found == {b"k%d" % k: [0, 1] for k in range(6)}
    last = boto.put_record(StreamName=name, Data=b"2", PartitionKey="k0")
    numbers = [record["SequenceNumber"] for record in read_kinesis(boto, name, int(last["ShardId"][-12:]), 1)]
    assert [int(number) % 2**64 for number in numbers] == list(range(1, len(numbers) + 1))  # the offset is still in it


# --- Kafka in, Kinesis out


def test_boto3_reads_what_a_kafka_producer_wrote(boto: Any, bootstrap: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    written = [
        (b"ada", b"one", "ada"),
        ("κλειδί".encode(), b"\x00\xff", "κλειδί"),
        (None, b"no key", "-"),
        (b"\xff\x00", b"bytes", "base64:" + base64.b64encode(b"\xff\x00").decode()),
        (b"gone", None, "gone"),
        (b"", b"empty key", ""),
    ]
    for number, (key, value, _) in enumerate(written):
        producer.produce(topic, value, key, 0, headers=[("source", b"kafka")], timestamp=1_700_000_000_000 + number)
    producer.produce(topic, b"elsewhere", b"x", 1)
    assert producer.flush(WAIT_S) == 0
    described = boto.describe_stream(StreamName=topic)["StreamDescription"]
    assert [shard["ShardId"] for shard in described["Shards"]] == [shard_id(0), shard_id(1)]
    assert described["Shards"][1]["HashKeyRange"]["StartingHashKey"] == str(2**127)
    records = read_kinesis(boto, topic, 0, len(written))
    assert [record["PartitionKey"] for record in records] == [shown for _, _, shown in written]
    assert [record["Data"] for record in records] == [value or b"" for _, value, _ in written]
    times = [round(record["ApproximateArrivalTimestamp"].timestamp() * 1000) for record in records]
    assert times == [1_700_000_000_000 + number for number in range(len(written))]
    assert [record["Data"] for record in read_kinesis(boto, topic, 1, 1)] == [b"elsewhere"]


def test_a_topic_is_a_stream_in_every_region_until_a_reshard_makes_it_one_of_a_region(
    boto: Any, make_boto: Callable[..., Any], make_topic: Callable[..., str], admin: AdminClient
) -> None:
    topic = make_topic(partitions=1)
    elsewhere = make_boto(region_name="ap-southeast-2")
    assert elsewhere.describe_stream_summary(StreamName=topic)["StreamDescriptionSummary"]["OpenShardCount"] == 1
    boto.split_shard(StreamName=topic, ShardToSplit=shard_id(0), NewStartingHashKey=str(2**127))
    assert boto.describe_stream_summary(StreamName=topic)["StreamDescriptionSummary"]["OpenShardCount"] == 2
    with pytest.raises(elsewhere.exceptions.ResourceNotFoundException):
        elsewhere.describe_stream_summary(StreamName=topic)
    wait_until(lambda: len(admin.list_topics(topic, timeout=15).topics[topic].partitions) == 3, what="the partitions")


def test_a_record_of_boto3_goes_to_the_shard_of_its_hash_also_in_a_topic_that_kafka_made(
    boto: Any, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=4)
    for number in range(40):
        key = f"key-{number}"
        put = boto.put_record(StreamName=topic, Data=b"x", PartitionKey=key)
        assert put["ShardId"] == shard_id(int.from_bytes(hashlib.md5(key.encode()).digest()) * 4 >> 128)


def test_records_of_aborted_transactions_are_not_read_by_boto3(
    boto: Any, bootstrap: str, make_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("writer")})
    producer.init_transactions(WAIT_S)
    for value, ends in (
        (b"kept", producer.commit_transaction),
        (b"dropped", producer.abort_transaction),
        (b"kept, too", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value, b"a", 0)
        producer.flush(WAIT_S)
        ends(WAIT_S)
    assert [record["Data"] for record in read_kinesis(boto, topic, 0, 2)] == [b"kept", b"kept, too"]


# --- what Kafka's clients may not do to a stream


def test_a_kafka_producer_is_told_why_a_closed_shard_takes_nothing(
    boto: Any, bootstrap: str, make_stream: Callable[..., str]
) -> None:
    name = make_stream()
    assert refusal(bootstrap, name, 0) is None
    boto.split_shard(StreamName=name, ShardToSplit=shard_id(0), NewStartingHashKey=str(2**127))
    error = refusal(bootstrap, name, 0)
    assert error is not None
    assert error.code() == KafkaError.POLICY_VIOLATION
    cluster = Cluster(bootstrap)
    producer = PlainProducer(cluster)  # librdkafka keeps the server's words to itself
    producer.send(name, Event(b"a", b"x"), 0)
    with pytest.raises(Refused, match=rf"partition 0 of topic '{name}' is a closed shard of a Kinesis stream") as told:
        producer.flush()
    cluster.close()
    assert told.value.name == "POLICY_VIOLATION"
    assert refusal(bootstrap, name, 1) is None
    assert refusal(bootstrap, name, 2) is None
    assert [record["Data"] for record in read_kinesis(boto, name, 0, 1)] == [b"x"]


def test_partitions_are_not_added_to_a_stream_by_kafka(boto: Any, admin: AdminClient, make_stream: Callable[..., str]) -> None:
    name = make_stream(shards=2)
    with pytest.raises(KafkaException) as caught:
        admin.create_partitions([NewPartitions(name, 4)])[name].result(WAIT_S)
    error = caught.value.args[0]
    assert error.code() == KafkaError.POLICY_VIOLATION
    assert "UpdateShardCount" in error.str()
    assert boto.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["OpenShardCount"] == 2


def test_partitions_that_kafka_adds_to_a_topic_of_its_own_are_shards_with_equal_ranges(
    boto: Any, admin: AdminClient, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=2)
    assert len(boto.list_shards(StreamName=topic)["Shards"]) == 2
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(WAIT_S)
    shards = boto.list_shards(StreamName=topic)["Shards"]
    assert [int(shard["HashKeyRange"]["StartingHashKey"]) for shard in shards] == [2**128 * n // 3 for n in range(3)]
    assert int(shards[-1]["HashKeyRange"]["EndingHashKey"]) == 2**128 - 1


def test_the_same_name_in_another_region_and_account_has_a_topic_of_its_own(
    boto: Any, bootstrap: str, admin: AdminClient, make_boto: Callable[..., Any], make_stream: Callable[..., str]
) -> None:
    name = make_stream()
    region = make_boto(region_name="eu-central-1")
    account = make_boto(aws_access_key_id="000011112222", region_name="eu-central-1")
    topics = {name: boto, f"{name}.eu-central-1": region, f"{name}.eu-central-1.000011112222": account}
    for client in (region, account):
        client.create_stream(StreamName=name, ShardCount=1)
    for topic, client in topics.items():
        client.put_record(StreamName=name, Data=topic.encode(), PartitionKey="a")
    for topic in topics:
        assert [message.value() for message in read_kafka(bootstrap, topic, 1)] == [topic.encode()]
    assert not {f"{name}.eu-central-1"} & set(boto.list_streams(Limit=10_000)["StreamNames"])
    for client in (region, account):
        client.delete_stream(StreamName=name)
    wait_until(lambda: topics.keys() & admin.list_topics(timeout=15).topics.keys() == {name}, what="the topics to go")


def test_an_iterator_does_not_outlive_its_stream(boto: Any, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    asked = {"StreamName": name, "ShardId": shard_id(0), "ShardIteratorType": "TRIM_HORIZON"}
    iterator = boto.get_shard_iterator(**asked)["ShardIterator"]
    boto.delete_stream(StreamName=name)
    boto.create_stream(StreamName=name, ShardCount=1)
    boto.put_record(StreamName=name, Data=b"of another stream", PartitionKey="a")
    with pytest.raises(ClientError) as caught:
        boto.get_records(ShardIterator=iterator)
    assert caught.value.response["Error"]["Code"] in ("InvalidArgumentException", "ResourceNotFoundException")


def test_a_stream_deleted_on_one_side_is_gone_on_the_other(
    boto: Any, admin: AdminClient, make_stream: Callable[..., str]
) -> None:
    by_kinesis, by_kafka = make_stream(), make_stream()
    boto.delete_stream(StreamName=by_kinesis)
    wait_until(lambda: by_kinesis not in admin.list_topics(timeout=15).topics, what="the topic to go")
    admin.delete_topics([by_kafka])[by_kafka].result(WAIT_S)

    def gone() -> bool:
        try:
            boto.describe_stream_summary(StreamName=by_kafka)
        except boto.exceptions.ResourceNotFoundException:
            return True
        return False

    wait_until(gone, what="the stream to go")
    boto.create_stream(StreamName=by_kafka, ShardCount=2)  # a new one, which knows nothing of the old
    assert boto.describe_stream_summary(StreamName=by_kafka)["StreamDescriptionSummary"]["OpenShardCount"] == 2
    boto.delete_stream(StreamName=by_kafka)


def test_offsets_of_a_group_are_those_of_the_shards(boto: Any, bootstrap: str, make_stream: Callable[..., str]) -> None:
    name = make_stream()
    boto.put_records(StreamName=name, Records=[{"Data": b"x", "PartitionKey": "a"}] * 5)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"of-{name}"})
    assert consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=WAIT_S) == (0, 5)
    consumer.close()


# --- Spark


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from headrace.spark.java import SparkUnavailable
    from headrace.spark.session import session

    try:
        yield session("kinesis", "local[2]", {"spark.sql.shuffle.partitions": "2"}, quick=True)
    except SparkUnavailable as missing:
        pytest.skip(str(missing))


def test_a_stream_that_boto3_writes_goes_through_a_spark_query_and_is_read_with_boto3(
    boto: Any, bootstrap: str, make_stream: Callable[..., str], spark: Any, tmp_path: Path
) -> None:
    source, sink = make_stream(shards=2), make_stream(shards=2)

    def put(first: int) -> None:
        entries = [{"Data": f"order {n}".encode(), "PartitionKey": f"customer-{n % 7}"} for n in range(first, first + 50)]
        assert boto.put_records(StreamName=source, Records=entries)["FailedRecordCount"] == 0

    put(0)
    servers = {"kafka.bootstrap.servers": bootstrap}
    reader = spark.readStream.format("headrace").options(**servers)
    rows = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    loud = rows.selectExpr("key", "cast(upper(cast(value as string)) as binary) as value")
    writer = loud.writeStream.format("headrace").options(**servers)
    query = writer.option("topic", sink).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        boto.split_shard(StreamName=source, ShardToSplit=shard_id(0), NewStartingHashKey=str(2**126))
        put(50)
        query.processAllAvailable()
    finally:
        query.stop()
    records = [record for shard in (0, 1) for record in read_all(boto, sink, shard)]
    found = sorted((record["PartitionKey"], record["Data"].decode()) for record in records)
    assert found == sorted((f"customer-{n % 7}", f"ORDER {n}") for n in range(100))


def read_all(boto: Any, stream: str, shard: int) -> list[dict[str, Any]]:
    asked = boto.get_shard_iterator(StreamName=stream, ShardId=shard_id(shard), ShardIteratorType="TRIM_HORIZON")
    iterator, found = asked["ShardIterator"], []
    while True:
        answer = boto.get_records(ShardIterator=iterator)
        found += answer["Records"]
        if answer["MillisBehindLatest"] == 0 and not answer["Records"]:
            return found
        iterator = answer["NextShardIterator"]


def test_a_batch_query_reads_keys_times_and_headers_of_a_stream(
    boto: Any, bootstrap: str, make_stream: Callable[..., str], spark: Any
) -> None:
    name = make_stream()
    boto.put_record(StreamName=name, Data=b"one", PartitionKey="ada", ExplicitHashKey="7")
    [record] = read_kinesis(boto, name, 0, 1)
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap)
    [row] = reader.option("subscribe", name).option("includeHeaders", True).load().collect()
    assert (bytes(row.key), bytes(row.value), row.partition, row.offset) == (b"ada", b"one", 0, 0)
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("kinesis.explicit-hash-key", b"7")]
    assert row.timestamp.timestamp() == record["ApproximateArrivalTimestamp"].timestamp()
