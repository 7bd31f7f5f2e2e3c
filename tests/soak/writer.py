"""A producer in a process of its own, so that a test can kill it: `python writer.py BOOTSTRAP TOPIC PARTITIONS RUN`.

Writes values "RUN NUMBER" with numbers 0, 1, 2, … to every partition, for ever. Each acknowledgement is a line on standard
output: partition, number, offset.
"""

from __future__ import annotations

import sys

from confluent_kafka import KafkaError, Message, Producer


def main(bootstrap: str, topic: str, partitions: int, run: int) -> None:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            sys.exit(f"{error}")
        sys.stdout.write(f"{message.partition()} {message.value().split()[1].decode()} {message.offset()}\n")

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 50,
            "message.timeout.ms": 0,
            "reconnect.backoff.max.ms": 100,
            "log_level": 2,
        }
    )
    number = 0
    while True:
        while len(producer) > 2000:
            producer.poll(0.01)
        for partition in range(partitions):
            producer.produce(topic, f"{run} {number}", partition=partition, on_delivery=delivered)
        number += 1
        if number % 10 == 0:
            producer.poll(0.001)
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
