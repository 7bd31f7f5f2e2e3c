"""Transactions with three Python clients: committed records are seen, aborted ones are not, a newer producer fences an older
one, and a read-process-write loop commits its positions with what it wrote."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import ProducerFenced as AioFenced
from aiokafka.structs import OffsetAndMetadata as AioOffset
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.errors import ProducerFencedError
from kafka.structs import OffsetAndMetadata as PythonOffset

from headrace.testing import wait_until
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

pytestmark = pytest.mark.interop


def read(bootstrap: str, topic: str, *, committed: bool) -> list[bytes]:
    """Everything in the topic's one partition, with librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    try:
        for message in iter(lambda: consumer.poll(20), None):
            if message.error():
                return found
            found.append(message.value())
    finally:
        consumer.close()
    raise AssertionError("no end in 20 s")


class TestConfluent:
    @pytest.fixture
    def make(self, bootstrap: str) -> Callable[..., Producer]:
        def make(transactional_id: str, **config: Any) -> Producer:
            producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **config})
            producer.init_transactions(20)
            return producer

        return make

    def test_committed_records_are_read_and_aborted_ones_are_not(self, bootstrap, make, make_topic, unique):
        topic = make_topic()
        producer = make(unique("tx"))
        for number in range(6):
            producer.begin_transaction()
            for part in range(3):
                producer.produce(topic, b"%d-%d" % (number, part), partition=0)
            producer.flush(20)
            if number % 2:
                producer.abort_transaction(20)
            else:
                producer.commit_transaction(20)
        committed = [b"%d-%d" % (number, part) for number in (0, 2, 4) for part in range(3)]
        assert read(bootstrap, topic, committed=True) == committed
        assert len(read(bootstrap, topic, committed=False)) == 18

    def test_an_open_transaction_holds_readers_of_committed_records_back(self, bootstrap, make, make_topic, unique):
        topic = make_topic()
        producer, other = make(unique("tx")), Producer({"bootstrap.servers": bootstrap})
        producer.begin_transaction()
        producer.produce(topic, b"open", partition=0)
        producer.flush(20)
        other.produce(topic, b"plain", partition=0)
        other.flush(20)
        assert read(bootstrap, topic, committed=True) == []
        assert read(bootstrap, topic, committed=False) == [b"open", b"plain"]
        producer.commit_transaction(20)
        assert read(bootstrap, topic, committed=True) == [b"open", b"plain"]

    def test_a_newer_producer_fences_the_older_one(self, bootstrap, make, make_topic, unique):
        topic, name = make_topic(), unique("tx")
        old = make(name)
        old.begin_transaction()
        old.produce(topic, b"zombie", partition=0)
        old.flush(20)
        new = make(name)
        with pytest.raises(KafkaException) as refused:
            old.commit_transaction(20)
        assert refused.value.args[0].fatal()
        new.begin_transaction()
        new.produce(topic, b"new", partition=0)
        new.commit_transaction(20)
        assert read(bootstrap, topic, committed=True) == [b"new"]

    def test_positions_are_committed_with_the_transaction(self, bootstrap, make, make_topic, unique):
        source, target, group = make_topic(), make_topic(), unique("group")
        feed = Producer({"bootstrap.servers": bootstrap})
        for number in range(10):
            feed.produce(source, b"%d" % number, partition=0)
        feed.flush(20)
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            consumer.subscribe([source])
            messages = [message for message in consumer.consume(10, 20) if not message.error()]
            producer = make(unique("tx"))
            place = TopicPartition(source, 0)
            for commit, position in ((False, 10), (True, 7)):
                producer.begin_transaction()
                for message in messages[:position]:
                    producer.produce(target, message.value(), partition=0)
                positions = [TopicPartition(source, 0, position)]
                producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 20)
                if commit:
                    producer.commit_transaction(20)
                    assert consumer.committed([place], 20)[0].offset == 7
                else:
                    producer.abort_transaction(20)
                    assert consumer.committed([place], 20)[0].offset < 0
        finally:
            consumer.close()
        assert read(bootstrap, target, committed=True) == [b"%d" % number for number in range(7)]

    def test_a_transaction_that_takes_too_long_is_aborted(self, headrace_factory, unique):
        server = headrace_factory(settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50})
        producer = Producer({"bootstrap.servers": server.kafka, "transactional.id": "slow", "transaction.timeout.ms": 1000})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("topic", b"late", partition=0)
        producer.flush(20)
        other = Producer({"bootstrap.servers": server.kafka})
        other.produce("topic", b"plain", partition=0)
        other.flush(20)
        wait_until(lambda: read(server.kafka, "topic", committed=True) == [b"plain"], timeout_s=20, what="the abort")
        with pytest.raises(KafkaException):
            producer.commit_transaction(20)

    def test_administrators_see_the_transaction(self, bootstrap, make, make_topic, unique):
        topic, name = make_topic(), unique("tx")
        producer = make(name)
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=0)
        producer.flush(20)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        ends = admin.list_offsets({TopicPartition(topic, 0): _latest()})
        assert next(iter(ends.values())).result(20).offset == 1
        producer.abort_transaction(20)


def _latest() -> Any:
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec.latest()


class TestKafkaPython:
    @pytest.fixture
    def make(self, bootstrap: str) -> Iterator[Callable[[str], KafkaProducer]]:
        with contextlib.ExitStack() as stack:

            def make(transactional_id: str) -> KafkaProducer:
                producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
                stack.callback(producer.close, timeout=1)
                producer.init_transactions()
                return producer

            yield make

    def test_committed_records_are_read_and_aborted_ones_are_not(self, bootstrap, make, make_topic, unique):
        topic = make_topic()
        producer = make(unique("tx"))
        for number in range(4):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=0)
            producer.flush(20)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            consumer_timeout_ms=2000,
        )
        consumer.assign([PythonPartition(topic, 0)])
        found = []
        for message in consumer:
            found.append(message.value)
            if len(found) == 2:
                break
        consumer.close()
        assert found == [b"0", b"2"]
        assert read(bootstrap, topic, committed=True) == [b"0", b"2"]

    def test_positions_are_committed_with_the_transaction(self, bootstrap, make, make_topic, unique):
        topic, group = make_topic(), unique("group")
        producer = make(unique("tx"))
        producer.begin_transaction()
        producer.send(topic, b"x", partition=0)
        producer.send_offsets_to_transaction({PythonPartition(topic, 0): PythonOffset(1, "", -1)}, group)
        producer.commit_transaction()
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group)
        assert consumer.committed(PythonPartition(topic, 0)) == 1
        consumer.close()

    def test_a_newer_producer_fences_the_older_one(self, make, make_topic, unique):
        topic, name = make_topic(), unique("tx")
        old = make(name)
        old.begin_transaction()
        old.send(topic, b"zombie", partition=0).get(20)
        make(name)
        with pytest.raises(ProducerFencedError):
            old.commit_transaction()


class TestAiokafka:
    def test_committed_records_are_read_and_aborted_ones_are_not(self, bootstrap, make_topic, unique):
        topic, group = make_topic(), unique("group")

        async def scene() -> list[bytes]:
            async with asyncio.timeout(60), AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=unique("tx")) as one:
                async with one.transaction():
                    await one.send_and_wait(topic, b"committed", partition=0)
                with contextlib.suppress(LookupError):
                    async with one.transaction():
                        await one.send_and_wait(topic, b"aborted", partition=0)
                        raise LookupError
                async with one.transaction():
                    await one.send_and_wait(topic, b"with offsets", partition=0)
                    await one.send_offsets_to_transaction({AioPartition(topic, 0): AioOffset(5, "")}, group)
            found = []
            async with AIOKafkaConsumer(
                bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest", group_id=group
            ) as consumer:
                assert await consumer.committed(AioPartition(topic, 0)) == 5
                consumer.assign([AioPartition(topic, 0)])
                await consumer.seek_to_beginning()
                while len(found) < 2:
                    found.append((await consumer.getone()).value)
            return found

        assert asyncio.run(scene()) == [b"committed", b"with offsets"]

    def test_a_newer_producer_fences_the_older_one(self, bootstrap, make_topic, unique):
        topic, name = make_topic(), unique("tx")

        async def scene() -> None:
            async with asyncio.timeout(60):
                old = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
                new = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
                await old.start()
                await old.begin_transaction()
                await old.send_and_wait(topic, b"zombie", partition=0)
                await new.start()
                with pytest.raises(AioFenced):
                    await old.commit_transaction()
                await new.stop()
                with contextlib.suppress(Exception):
                    await old.stop()

        asyncio.run(scene())
