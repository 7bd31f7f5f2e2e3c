"""confluent-kafka's ShareConsumer (librdkafka): a pool of workers, acknowledgements of each kind, dead letters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headrace.testing import wait_until

confluent_kafka = pytest.importorskip("confluent_kafka")
if not hasattr(confluent_kafka, "ShareConsumer"):
    pytest.skip("this confluent-kafka has no ShareConsumer", allow_module_level=True)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

ACCEPT, RELEASE, REJECT = (
    confluent_kafka.AcknowledgeType.ACCEPT,
    confluent_kafka.AcknowledgeType.RELEASE,
    confluent_kafka.AcknowledgeType.REJECT,
)


@pytest.fixture
def make_group(admin: AdminClient, unique: Callable[[str], str]) -> Callable[..., str]:
    """A share group's name, with settings: `make_group(share_delivery_count_limit="3")`."""

    def make(**config: str) -> str:
        group = unique("pool")
        named = {"share.auto.offset.reset": "earliest"} | {name.replace("_", "."): value for name, value in config.items()}
        entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in named.items()]
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(15)
        return group

    return make


@pytest.fixture
def share_consumer(bootstrap: str):
    made = []

    def make(group: str, topic: str, **config: object):
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "fetch.wait.max.ms": 100, "log_level": 2}
        consumer = confluent_kafka.ShareConsumer(settings | {name.replace("_", "."): value for name, value in config.items()})
        consumer.subscribe([topic])
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close()


def produce(bootstrap: str, topic: str, count: int, partitions: int = 1) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(15) == 0


def good(messages) -> list:
    return [message for message in messages if message.error() is None]


def poll(consumer) -> list:
    return good(consumer.poll(0.2))


def take(consumer, count: int) -> list:
    found: list = []
    wait_until(lambda: found.extend(poll(consumer)) or len(found) >= count, timeout_s=20, what=f"{count} records")
    assert len(found) == count
    return found


def test_three_workers_on_two_partitions_share_all_records(bootstrap, make_topic, make_group, share_consumer):
    topic, group = make_topic(partitions=2), make_group()
    produce(bootstrap, topic, 900, partitions=2)
    workers = [share_consumer(group, topic) for _ in range(3)]
    got: list[tuple[int, int]] = []

    def all_there() -> bool:
        for worker in workers:
            got.extend((message.partition(), message.offset()) for message in poll(worker))
        return len(got) >= 900

    wait_until(all_there, timeout_s=20, what="900 records")
    assert len(set(got)) == len(got) == 900


def test_released_records_come_again_and_accepted_ones_do_not(bootstrap, make_topic, make_group, share_consumer):
    topic, group = make_topic(), make_group()
    produce(bootstrap, topic, 10)
    consumer = share_consumer(group, topic, share_acknowledgement_mode="explicit")
    for message in take(consumer, 10):
        consumer.acknowledge(message, RELEASE if message.offset() % 2 else ACCEPT)
    assert all(error is None for error in consumer.commit_sync().values())
    again = take(consumer, 5)
    assert [message.offset() for message in again] == [1, 3, 5, 7, 9]
    for message in again:
        consumer.acknowledge(message, ACCEPT)
    assert all(error is None for error in consumer.commit_sync().values())
    assert poll(consumer) == []


def test_a_rejected_record_is_in_the_dead_letter_topic_with_its_history(bootstrap, make_topic, make_group, share_consumer):
    topic = make_topic()
    dead = f"dlq.{topic}"
    group = make_group(errors_deadletterqueue_topic_name=dead)
    produce(bootstrap, topic, 3)
    consumer = share_consumer(group, topic, share_acknowledgement_mode="explicit")
    for message in take(consumer, 3):
        consumer.acknowledge(message, REJECT if message.offset() == 1 else ACCEPT)
    assert all(error is None for error in consumer.commit_sync().values())
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group + "-reader", "auto.offset.reset": "earliest"})
    try:
        reader.assign([TopicPartition(dead, 0, 0)])
        letters: list = []
        wait_until(
            lambda: letters.extend(m for m in reader.consume(1, 1.0) if m.error() is None) or letters, what="a dead letter"
        )
        headers = {name: value.decode() for name, value in letters[0].headers()}
        assert letters[0].value() == b"1"
        assert headers["__dlq.errors.topic"] == topic
        assert headers["__dlq.errors.offset"] == "1"
        assert headers["__dlq.errors.group"] == group
        assert headers["__dlq.errors.message"] == "Offset rejected by client."
    finally:
        reader.close()
