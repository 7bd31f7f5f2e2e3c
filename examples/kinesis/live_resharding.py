"""A stream that is written with boto3, read as a Kafka topic, and resharded while both are at it.

    python live_resharding.py                  starts a server of its own on loopback
    python live_resharding.py --records 5000

Taxis report where they are: each report is a record whose partition key is the taxi, so that those of one taxi stay in order.
While a thread puts them, the stream is split from two shards to four and merged down to one. Three things come of it:

    the producer        knows nothing of it: no put fails, none has to be repeated
    a Kafka consumer    gets every record exactly once. It sees a topic that grows by a partition for each new shard; a closed
                        shard is a partition that takes no more records. A group may read a new partition before it is through
                        with the one that the taxi's reports were in before, so across a reshard it says nothing of their order
    a Kinesis reader    that reads parents before their children, as the Kinesis Client Library does, gets every taxi's reports
                        in order

To use it with your own program, give its AWS SDK the `endpoint_url` that `headrace serve` prints, and any credentials.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import defaultdict
from typing import Any

import boto3
from confluent_kafka import Consumer

from headrace.testing import HeadraceServer

STREAM = "taxis"
TAXIS = 20


def kinesis_client(endpoint: str) -> Any:
    return boto3.client(
        "kinesis",
        endpoint_url=endpoint,
        region_name="eu-central-1",  # streams of another region are others
        aws_access_key_id="any",
        aws_secret_access_key="thing",
    )


def produce(endpoint: str, records: int, a_third: threading.Event) -> None:
    kinesis = kinesis_client(endpoint)
    for first in range(0, records, TAXIS):
        reports = [
            {"PartitionKey": f"taxi-{taxi}", "Data": json.dumps({"report": first // TAXIS, "x": taxi}).encode()}
            for taxi in range(min(TAXIS, records - first))
        ]
        answer = kinesis.put_records(StreamName=STREAM, Records=reports)  # answers when they are safe on disk
        assert answer["FailedRecordCount"] == 0
        if first >= records // 3:
            a_third.set()
    print(f"producer: {records} records put, none refused")


def reshard(endpoint: str) -> None:
    kinesis = kinesis_client(endpoint)
    kinesis.update_shard_count(StreamName=STREAM, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
    kinesis.update_shard_count(StreamName=STREAM, TargetShardCount=2, ScalingType="UNIFORM_SCALING")
    one, other = [shard["ShardId"] for shard in kinesis.list_shards(StreamName=STREAM)["Shards"] if is_open(shard)]
    kinesis.merge_shards(StreamName=STREAM, ShardToMerge=one, AdjacentShardToMerge=other)
    shards = kinesis.list_shards(StreamName=STREAM)["Shards"]
    print(f"resharding: {len(shards)} shards so far, {sum(map(is_open, shards))} of them open")


def is_open(shard: dict[str, Any]) -> bool:
    return "EndingSequenceNumber" not in shard["SequenceNumberRange"]


def read_as_kafka(bootstrap: str, records: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "map",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,  # how soon it finds the partitions of new shards
        }
    )
    consumer.subscribe([STREAM])
    seen: dict[bytes, list[int]] = defaultdict(list)
    partitions = set()
    deadline = time.monotonic() + 60
    while sum(map(len, seen.values())) < records and time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=0.5):
            assert message.error() is None, message.error()
            seen[message.key()].append(json.loads(message.value())["report"])
            partitions.add(message.partition())
    consumer.close()
    assert all(sorted(reports) == list(range(len(reports))) for reports in seen.values()), "something is missing or there twice"
    print(f"kafka: {sum(map(len, seen.values()))} records of {len(seen)} taxis, each once, in {len(partitions)} partitions")


def read_as_kinesis(endpoint: str) -> None:
    kinesis = kinesis_client(endpoint)
    waiting = {shard["ShardId"]: shard for shard in kinesis.list_shards(StreamName=STREAM)["Shards"]}
    seen: dict[str, list[int]] = defaultdict(list)
    while waiting:
        for shard_id, shard in list(waiting.items()):
            parents = {shard.get("ParentShardId"), shard.get("AdjacentParentShardId")}
            if parents.isdisjoint(waiting):  # all of them have been read to their end
                for record in records_of(kinesis, shard_id):
                    seen[record["PartitionKey"]].append(json.loads(record["Data"])["report"])
                del waiting[shard_id]
    assert all(reports == list(range(len(reports))) for reports in seen.values()), "out of order"
    print(f"kinesis: {sum(map(len, seen.values()))} records of {len(seen)} taxis, each taxi's in order")


def records_of(kinesis: Any, shard_id: str) -> Any:
    asked = kinesis.get_shard_iterator(StreamName=STREAM, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON")
    iterator = asked["ShardIterator"]
    while iterator is not None:
        answer = kinesis.get_records(ShardIterator=iterator)
        yield from answer["Records"]
        iterator = answer.get("NextShardIterator")  # none: the shard is closed and this was its end
        if answer["MillisBehindLatest"] == 0 and not answer["Records"]:
            return


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=2000)
    records = options.parse_args().records
    with HeadraceServer() as server:
        kinesis = kinesis_client(server.kinesis)
        kinesis.create_stream(StreamName=STREAM, ShardCount=2)
        kinesis.get_waiter("stream_exists").wait(StreamName=STREAM)
        a_third = threading.Event()
        producer = threading.Thread(target=produce, args=(server.kinesis, records, a_third))
        reader = threading.Thread(target=read_as_kafka, args=(server.kafka, records))
        reader.start()
        producer.start()
        a_third.wait(60)
        reshard(server.kinesis)
        producer.join()
        reader.join()
        read_as_kinesis(server.kinesis)


if __name__ == "__main__":
    main()
