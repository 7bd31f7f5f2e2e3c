"""An exactly-once copy in a process of its own, so that a test can kill it: reads records, writes each to another topic and
commits its position, all in transactions: `python copier.py BOOTSTRAP SOURCE TARGET RUN HISTORY SEED`.

Appends to the file HISTORY one line for each thing it did: see `tests/soak/test_transactional_copy.py`. Now and then it aborts
of its own will. What it can't get over ends it, and the test starts another one.
"""

from __future__ import annotations

import os
import random
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

QUIET = {
    "log_level": 0,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    # librdkafka 2.16 gives up its brokers when all are down, but goes on to send a group's offsets through one of those.
    "metadata.recovery.strategy": "none",
}


class Copier:
    def __init__(self, bootstrap: str, source: str, target: str, run: str, history: str, seed: str) -> None:
        self._target = target
        self._run = run
        self._chance = random.Random(f"{seed} {run}")
        self._history = os.open(history, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._number = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "copy",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 1000,
                "heartbeat.interval.ms": 100,
                **QUIET,
            }
        )
        self._consumer.subscribe([source])
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "copy",
                "transaction.timeout.ms": 20_000,
                "linger.ms": 1,
                **QUIET,
            }
        )

    def note(self, *words: object) -> None:
        os.write(self._history, (" ".join(map(str, (time.monotonic(), *words))) + "\n").encode())

    def run(self) -> None:
        _retried(lambda: self._producer.init_transactions(30))
        while True:
            messages = [m for m in self._consumer.consume(self._chance.randrange(1, 60), 0.05) if not m.error()]
            if messages:
                self._copy(messages)

    def _copy(self, messages: list[Message]) -> None:
        self._number += 1
        transaction = f"{self._run}-{self._number}"
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(
                self._target,
                message.value(),
                partition=message.partition(),
                headers={"t": transaction},
                on_delivery=lambda error, sent: self._delivered(error, sent, transaction),
            )
        ends = {(m.topic(), m.partition()): m.offset() + 1 for m in messages}
        positions = [TopicPartition(*place, offset) for place, offset in ends.items()]
        try:
            if self._chance.random() < 0.15:
                raise KafkaException(KafkaError(KafkaError._CONFLICT, "a change of mind", txn_requires_abort=True))
            _retried(lambda: self._producer.send_offsets_to_transaction(positions, self._consumer.consumer_group_metadata()))
            _retried(lambda: self._producer.flush(30))
            self.note("asked", transaction, "commit")
            _retried(lambda: self._producer.commit_transaction(30))
            self.note("ended", transaction, "commit")
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.note("asked", transaction, "abort")
            _retried(lambda: self._producer.abort_transaction(30))
            self.note("ended", transaction, "abort")
            firsts = {(m.topic(), m.partition()): m.offset() for m in reversed(messages)}
            for place, offset in firsts.items():
                self._consumer.seek(TopicPartition(*place, offset))

    def _delivered(self, error: KafkaError | None, message: Message, transaction: str) -> None:
        if error is None:
            self.note("wrote", transaction, message.partition(), message.offset(), message.value().decode())


def _retried(step: object) -> None:
    while True:
        try:
            step()  # type: ignore[operator]
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


if __name__ == "__main__":
    Copier(*sys.argv[1:]).run()
