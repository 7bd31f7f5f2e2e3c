"""A small blocking Kafka client on our own codec: no threads, no event loop, one connection to each broker.

    cluster = Cluster("127.0.0.1:9092")
    create_topic(cluster, "orders", partitions=4)
    producer = Producer(cluster)
    producer.send("orders", Event(b"key", b"value"))
    producer.flush()
    reader = Reader(cluster, start_offsets(cluster, [TopicPartition("orders", 0)]))
    records = reader.poll()

`cluster` finds leaders and coordinators and decides about retries; `producer` writes, `reader` reads; `topics`, `offsets` and
`groups` are what an administrator does; `member` takes part in a consumer group; `sending` and `transactions` are for those who
make whole batches. Every error is a ClientError whose text is one sentence. Works on Headrace and on Apache Kafka alike.

A name is imported from its module when it is first used: a process that only reads should not wait for what writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.client.kafka.cluster import Cluster
    from headrace.client.kafka.errors import ClientError, Refused, TimedOut, UnknownName, Unreachable
    from headrace.client.kafka.offsets import Isolation, end_offsets, list_offsets, start_offsets
    from headrace.client.kafka.partitions import TopicPartition
    from headrace.client.kafka.producer import Producer
    from headrace.client.kafka.reader import Reader, Received

_HOME = {
    "ClientError": "errors",
    "Cluster": "cluster",
    "Isolation": "offsets",
    "Producer": "producer",
    "Reader": "reader",
    "Received": "reader",
    "Refused": "errors",
    "TimedOut": "errors",
    "TopicPartition": "partitions",
    "UnknownName": "errors",
    "Unreachable": "errors",
    "end_offsets": "offsets",
    "list_offsets": "offsets",
    "start_offsets": "offsets",
}

__all__ = [
    "ClientError",
    "Cluster",
    "Isolation",
    "Producer",
    "Reader",
    "Received",
    "Refused",
    "TimedOut",
    "TopicPartition",
    "UnknownName",
    "Unreachable",
    "end_offsets",
    "list_offsets",
    "start_offsets",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
