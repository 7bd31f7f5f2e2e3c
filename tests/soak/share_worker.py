"""A worker of a share group in a process of its own: `python share_worker.py BOOTSTRAP GROUP TOPIC`.

It accepts every record and says so with a line on standard output, once the server has promised to remember it; a record that
begins with "poison" kills it on the spot, as a bug in a native library would. It ends when standard input does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer


def main(bootstrap: str, group: str, topic: str) -> None:
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "reconnect.backoff.max.ms": 100,
            "fetch.wait.max.ms": 100,
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    while not ended.is_set():
        try:
            work(consumer, list(consumer.poll(0.2)))
        except KafkaException as error:  # the server is away, or has forgotten us: what we held goes to others
            sys.stderr.write(f"{error}\n")
    consumer.close()


def work(consumer: ShareConsumer, messages: list) -> None:
    done: dict[tuple[int, int], str] = {}
    for message in messages:
        if message.error() is not None:
            continue
        if message.value().startswith(b"poison"):
            os.kill(os.getpid(), signal.SIGKILL)
        consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        done[message.partition(), message.offset()] = message.value().decode()
    if not done:
        return
    promised = {found.partition for found, error in consumer.commit_sync(10.0).items() if error is None}
    for (partition, offset), value in done.items():
        if partition in promised:
            sys.stdout.write(f"{partition} {offset} {value}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
