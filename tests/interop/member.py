"""A consumer-group member in a process of its own, so that a test can kill it: `python member.py '{"client": …, …}'`.

Writes one JSON object a line: `{"assigned": [partition, …]}` whenever its assignment changes, `{"read": [partition, offset]}`
for each record. It runs until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


def tell(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def confluent(bootstrap: str, group: str, topic: str, session_timeout_ms: int, **config: Any) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": session_timeout_ms // 3,
            "auto.offset.reset": "earliest",
            **config,
        }
    )
    consumer.subscribe([topic])
    owned = None
    while True:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            tell(read=[message.partition(), message.offset()])
        if (now := sorted(p.partition for p in consumer.assignment())) != owned:
            tell(assigned=(owned := now))


def kafka_python(bootstrap: str, group: str, topic: str, session_timeout_ms: int, **config: Any) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=session_timeout_ms // 3,
        auto_offset_reset="earliest",
        metadata_max_age_ms=500,  # its leader may assign before it has metadata, and corrects that when it gets some
        **config,
    )
    owned = None
    while True:
        for partition, records in consumer.poll(100).items():
            for record in records:
                tell(read=[partition.partition, record.offset])
        if (now := sorted(p.partition for p in consumer.assignment())) != owned:
            tell(assigned=(owned := now))


def aiokafka(bootstrap: str, group: str, topic: str, session_timeout_ms: int, **config: Any) -> None:
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=session_timeout_ms // 3,
            auto_offset_reset="earliest",
            **config,
        )
        await consumer.start()
        owned = None
        while True:
            for partition, records in (await consumer.getmany(timeout_ms=100)).items():
                for record in records:
                    tell(read=[partition.partition, record.offset])
            if (now := sorted(p.partition for p in consumer.assignment())) != owned:
                tell(assigned=(owned := now))

    asyncio.run(run())


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    {"confluent": confluent, "kafka_python": kafka_python, "aiokafka": aiokafka}[given.pop("client")](**given)
