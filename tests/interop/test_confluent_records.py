"""librdkafka through confluent-kafka: what is produced is what is consumed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.interop

DEADLINE_S = 30.0


@pytest.fixture
def produce(bootstrap: str) -> Callable[..., list[Message]]:
    """Sends records `(key, value, headers, timestamp_ms)` and returns the delivery reports, in order."""

    def send(topic: str, records: list[Any], partition: int = -1, **config: Any) -> list[Message]:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **dotted(config)})
        reports: list[Message] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            reports.append(message)

        for key, value, headers, timestamp_ms in records:
            producer.produce(
                topic, value, key, partition, timestamp=timestamp_ms, headers=headers or None, on_delivery=delivered
            )
        assert producer.flush(DEADLINE_S) == 0
        assert len(reports) == len(records)
        return reports

    return send


@pytest.fixture
def consumer(bootstrap: str, unique: Callable[[str], str]) -> Iterator[Callable[..., Consumer]]:
    made: list[Consumer] = []

    def make(*partitions: TopicPartition, **config: Any) -> Consumer:
        made.append(
            Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": unique("group"),
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "fetch.wait.max.ms": 100,
                    **dotted(config),
                }
            )
        )
        if partitions:
            made[-1].assign(list(partitions))
        return made[-1]

    yield make
    for one in made:
        one.close()


def dotted(config: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in config.items()}


def take(consumer: Consumer, count: int, timeout_s: float = DEADLINE_S) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} records after {timeout_s} s"
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        messages.append(message)
    return messages


def number(*values: int) -> list[tuple[None, bytes, None, int]]:
    return [(None, str(value).encode(), None, 0) for value in values]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_byte_for_byte(compression, make_topic, samples, produce, consumer):
    topic = make_topic()
    produce(topic, samples, compression_type=compression)
    messages = take(consumer(TopicPartition(topic, 0, 0)), len(samples))
    assert [m.offset() for m in messages] == list(range(len(samples)))
    for sample, message in zip(samples, messages, strict=True):
        assert (message.key(), message.value()) == (sample.key, sample.value)
        assert (message.headers() or []) == sample.headers
        assert message.timestamp() == (TIMESTAMP_CREATE_TIME, sample.timestamp_ms)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_delivers(acks, make_topic, produce, consumer):
    topic = make_topic()
    produce(topic, number(*range(200)), acks=acks)
    assert [m.value() for m in take(consumer(TopicPartition(topic, 0, 0)), 200)] == [str(n).encode() for n in range(200)]


def test_a_partition_keeps_the_order_and_a_key_its_partition(make_topic, produce, consumer):
    topic = make_topic(3)
    sent = [(f"key-{n % 17}".encode(), str(n).encode(), None, 0) for n in range(900)]
    produce(topic, sent, enable_idempotence=True, batch_num_messages=13)
    messages = take(consumer(*(TopicPartition(topic, p, 0) for p in range(3))), len(sent))
    home: dict[bytes, int] = {}
    for partition in range(3):
        values = [int(m.value()) for m in messages if m.partition() == partition]
        assert values == sorted(values)
        assert values
        assert [m.offset() for m in messages if m.partition() == partition] == list(range(len(values)))
    for message in messages:
        assert home.setdefault(message.key(), message.partition()) == message.partition()


def test_delivery_reports_carry_the_offsets_the_records_have(make_topic, produce, consumer):
    topic = make_topic()
    reports = produce(topic, number(*range(50)), batch_num_messages=7)
    stored = {m.offset(): m.value() for m in take(consumer(TopicPartition(topic, 0, 0)), 50)}
    assert {m.offset(): m.value() for m in reports} == stored


def test_an_idempotent_producer_with_many_batches_in_flight_writes_once_in_order(make_topic, produce, consumer):
    topic = make_topic()
    produce(topic, number(*range(3000)), enable_idempotence=True, batch_num_messages=3, linger_ms=0)
    assert [int(m.value()) for m in take(consumer(TopicPartition(topic, 0, 0)), 3000)] == list(range(3000))


def test_a_record_larger_than_a_fetch_still_arrives(make_topic, produce, consumer):
    topic = make_topic(config={"max.message.bytes": "9000000"})
    large = random.Random(1).randbytes(5_000_000)
    produce(topic, [(b"k", large, None, 0), *number(1)], message_max_bytes=9_000_000)
    reader = consumer(
        TopicPartition(topic, 0, 0), fetch_max_bytes=1_000_000, message_max_bytes=1_000_000, fetch_message_max_bytes=1000
    )
    first, second = take(reader, 2)
    assert first.value() == large
    assert second.value() == b"1"


def test_a_batch_over_max_message_bytes_is_refused_by_name(make_topic, bootstrap):
    topic = make_topic(config={"max.message.bytes": "1000"})
    producer = Producer({"bootstrap.servers": bootstrap})
    errors: list[KafkaError | None] = []
    for size in (5000, 100):
        producer.produce(topic, random.Random(1).randbytes(size), on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(DEADLINE_S) == 0
    assert errors[0] is not None
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert errors[1] is None


FAR_AHEAD_MS = 9 * 10**12
REFUSED = {
    "no key in a compacted topic": ({"cleanup.policy": "compact"}, 0, KafkaError.INVALID_RECORD),
    "a time too far ahead": ({"message.timestamp.after.max.ms": "1000"}, FAR_AHEAD_MS, KafkaError.INVALID_TIMESTAMP),
    "a time too long ago": ({"message.timestamp.before.max.ms": "1000"}, 1000, KafkaError.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize(("config", "timestamp_ms", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_record_against_its_topics_rules_is_refused_by_name(config, timestamp_ms, expected, make_topic, bootstrap):
    topic = make_topic(config=config)
    producer = Producer({"bootstrap.servers": bootstrap})
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x", timestamp=timestamp_ms, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert errors[0] is not None
    assert errors[0].code() == expected


def test_offsets_for_times_and_watermarks(make_topic, produce, consumer):
    topic = make_topic()
    produce(topic, [(None, b"x", None, 1_000_000 + 10 * n) for n in range(100)], batch_num_messages=9)
    reader = consumer()

    def at(timestamp_ms: int) -> int:
        return reader.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], DEADLINE_S)[0].offset

    assert [at(1_000_000), at(1_000_250), at(1_000_251), at(1_000_990)] == [0, 25, 26, 99]
    assert at(1_000_991) == OFFSET_END
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S, cached=False) == (0, 100)


@pytest.mark.parametrize("acks", ["1", "all"])
def test_what_is_acknowledged_is_at_once_part_of_the_log(acks, make_topic, bootstrap, consumer):
    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0})
    reader = consumer()
    for n in range(30):
        producer.produce(topic, b"x", partition=0)
        assert producer.flush(DEADLINE_S) == 0
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S, cached=False) == (0, n + 1)


def test_seek_goes_to_any_offset_back_and_forth(make_topic, produce, consumer):
    topic = make_topic()
    produce(topic, number(*range(100)), batch_num_messages=10)
    reader = consumer(TopicPartition(topic, 0, 55))
    assert [int(m.value()) for m in take(reader, 3)] == [55, 56, 57]
    for target in (3, 98, OFFSET_BEGINNING):
        reader.seek(TopicPartition(topic, 0, target))
        assert int(take(reader, 1)[0].value()) == max(target, 0)


def test_a_reader_at_the_end_sees_only_what_comes_next(make_topic, produce, consumer):
    topic = make_topic()
    produce(topic, number(*range(20)))
    reader = consumer(TopicPartition(topic, 0, OFFSET_END), enable_partition_eof=True)
    while True:  # the end is reached before anything new is produced
        message = reader.poll(DEADLINE_S)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        pytest.fail(f"an old record came: {message.value()}")
    produce(topic, number(777))
    assert take(reader, 1)[0].offset() == 20


def test_a_long_poll_is_woken_by_the_next_append(make_topic, produce, consumer):
    topic = make_topic()
    reader = consumer(TopicPartition(topic, 0, 0), fetch_wait_max_ms=200_000, socket_timeout_ms=210_000)
    found: list[Message | None] = []
    waiting = threading.Thread(target=lambda: found.append(reader.poll(DEADLINE_S)))
    waiting.start()
    produce(topic, number(1))
    waiting.join(DEADLINE_S + 5)
    assert found[0] is not None
    assert found[0].value() == b"1"


def test_a_fetch_waits_for_min_bytes(make_topic, produce, consumer):
    topic = make_topic()
    reader = consumer(TopicPartition(topic, 0, 0), fetch_min_bytes=2000, fetch_wait_max_ms=200_000, socket_timeout_ms=210_000)
    produce(topic, [(None, b"a" * 900, None, 0)])
    assert reader.poll(0.7) is None
    produce(topic, [(None, b"b" * 1900, None, 0)])
    assert [m.value()[:1] for m in take(reader, 2)] == [b"a", b"b"]


def test_small_fetches_over_many_partitions_starve_none(make_topic, produce, consumer):
    topic = make_topic(12)
    for partition in range(12):
        produce(topic, [(None, bytes(3000), None, 0)] * 20, partition=partition, batch_num_messages=2)
    reader = consumer(
        *(TopicPartition(topic, p, 0) for p in range(12)),
        fetch_max_bytes=20_000,
        message_max_bytes=20_000,
        max_partition_fetch_bytes=8000,
    )
    messages = take(reader, 240)
    for partition in range(12):
        assert [m.offset() for m in messages if m.partition() == partition] == list(range(20))


def test_log_append_time_stamps_on_arrival(make_topic, produce, consumer):
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    produce(topic, [(None, b"x", None, 1000)])
    kind, timestamp_ms = take(consumer(TopicPartition(topic, 0, 0)), 1)[0].timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before - 1000 <= timestamp_ms <= time.time() * 1000 + 1000


def test_an_offset_out_of_range_is_an_error_or_a_reset_as_asked(make_topic, produce, consumer):
    topic = make_topic()
    produce(topic, number(0, 1, 2))
    strict = consumer(TopicPartition(topic, 0, 500), auto_offset_reset="error")
    message = strict.poll(DEADLINE_S)
    assert message is not None
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    lenient = consumer(TopicPartition(topic, 0, 500), auto_offset_reset="earliest")
    assert take(lenient, 1)[0].offset() == 0


def test_producing_to_an_unknown_topic_creates_it(unique, produce, admin: AdminClient):
    topic = unique("auto")
    produce(topic, number(1))
    assert len(admin.list_topics(topic, timeout=15).topics[topic].partitions) == 4
    admin.delete_topics([topic])[topic].result(15)


def test_subscribing_to_an_unknown_topic_does_not_create_it_unless_asked(unique, consumer, admin: AdminClient):
    topic = unique("absent")
    reader = consumer(allow_auto_create_topics=False)
    reader.subscribe([topic])
    message = reader.poll(DEADLINE_S)
    assert message is not None
    assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin.list_topics(timeout=15).topics


def test_deleting_a_topic_under_a_consumer_tells_it_so(make_topic, produce, consumer, admin: AdminClient):
    topic = make_topic()
    produce(topic, number(*range(10)))
    reader = consumer(topic_metadata_refresh_interval_ms=500)
    reader.subscribe([topic])
    take(reader, 10)
    admin.delete_topics([topic])[topic].result(15)
    deadline = time.monotonic() + DEADLINE_S
    while (message := reader.poll(0.5)) is None or not message.error():
        assert time.monotonic() < deadline
    assert message.error().code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)
    with pytest.raises(KafkaException):
        reader.get_watermark_offsets(TopicPartition(topic, 0), 5, cached=False)
