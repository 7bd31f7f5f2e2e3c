"""A small blocking Kafka client on our own codec: no threads, no event loop, one connection to each broker.

    cluster = Cluster("127.0.0.1:9092")
    create_topic(cluster, "orders", partitions=4)
    producer = Producer(cluster)
    producer.send("orders", Event(b"key", b"value"))
    producer.flush()
    reader = Reader(cluster, start_offsets(cluster, [TopicPartition("orders", 0)]))
    records = reader.poll()

`cluster` finds leaders and coordinators and decides about retries; `producer` writes, `reader` reads; `topics`, `offsets` and
`groups` are what an administrator does; `member` takes part in a consumer group. Every error is a ClientError whose text is
one sentence. Works on Headrace and on Apache Kafka alike.
"""

from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.errors import ClientError, Refused, TimedOut, UnknownName, Unreachable
from headrace.client.kafka.offsets import Isolation, end_offsets, list_offsets, start_offsets
from headrace.client.kafka.partitions import TopicPartition
from headrace.client.kafka.producer import Producer
from headrace.client.kafka.reader import Reader, Received

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
