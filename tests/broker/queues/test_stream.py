"""Stream queues on a simulated disk: AMQP messages in a topic, and the topic's records as messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.broker.queues.conftest import Desk, Reader
from tests.log.conftest import Rig

from headrace.broker.queues.definition import QueueDefinition
from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.queues.queue import Outcome
from headrace.broker.queues.run import Run
from headrace.broker.queues.stream import StreamQueue, Streams
from headrace.broker.queues.stream_page import Pages
from headrace.broker.settings import Settings
from headrace.broker.topics import NewTopic, Topics
from headrace.broker.vhosts.effective import queue_settings
from headrace.record import Compression, Event, encode_batch
from headrace.record.amqp.message import Message, read_messages
from headrace.record.amqp.properties import Properties, decode_properties, encode_properties
from headrace.record.amqp.tables import Timestamp
from headrace.record.control import EndTransactionMarker, encode_marker
from headrace.record.partitioner import partition_for_key


class StreamReader(Reader):
    """A consumer that keeps the messages it gets."""

    def __init__(
        self, room: int = 1_000_000, *, prefetch: int = 10, global_qos: bool = False, no_ack: bool = False, **arguments: Any
    ):
        super().__init__(room, no_ack=no_ack)
        self.prefetch_count = prefetch
        self.global_qos = global_qos
        self.arguments = {f"x-stream-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.messages: list[Message] = []

    def deliver(self, chunk: Any) -> int:
        self.messages += read_messages(chunk.data, chunk.position, chunk.count)
        return super().deliver(chunk)

    def headers(self, name: str) -> list[Any]:
        return [(decode_properties(message.properties).headers or {}).get(name) for message in self.messages]

    @property
    def offsets(self) -> list[int]:
        return self.headers("x-stream-offset")

    def ack_all(self, queue: StreamQueue) -> None:
        out, self.out = self.out, {}
        for offset, (lane, _) in out.items():
            queue.ack(lane, offset, 1)


class StreamDesk(Desk):
    queues: dict[str, Any]

    def start(self) -> None:
        super().start()
        self.topics = Topics(self.rig.log, Settings.from_mapping({}))
        self.streams = Streams(self.topics)
        self.streams.restoring = False

    def stream(self, name: str = "s", vhost: str = "/", **arguments: Any) -> StreamQueue:
        definition = QueueDefinition(name, vhost, bytes(16), durable=True, arguments=arguments, kind="stream")
        settings = queue_settings("stream", arguments, {})
        queue = self.queues[name] = self.rig.call(lambda: self.streams.open(definition, settings, self.around))
        return queue

    def read(self, queue: StreamQueue, *args: Any, **how: Any) -> StreamReader:
        reader = StreamReader(*args, **how)
        self.rig.call(lambda: queue.consume(reader))
        self.settle()
        return reader

    def send(self, queue: StreamQueue, *bodies: bytes, key: str = "k", exchange: str = "", **properties: Any) -> Outcome:
        raw = encode_properties(Properties(**properties))
        run = Run.of([Message(exchange, key, raw, body) for body in bodies])
        outcome = self.rig.call(lambda: queue.publish(run))
        self.rig.settle()
        return outcome

    def produce(self, topic: str, *values: bytes, index: int = 0, **how: Any) -> None:
        """As a Kafka client does."""
        self.rig.append(*values, topic=topic, index=index, **how)
        self.settle()


@pytest.fixture
def desk(rig: Rig) -> StreamDesk:
    return StreamDesk(rig)


def text(queue: str) -> str:
    return f"queue '{queue}' in vhost '/'"


def refusal(work: Any, *args: Any, **how: Any) -> tuple[int, str]:
    with pytest.raises(AmqpRefusal) as caught:
        work(*args, **how)
    return caught.value.code, caught.value.text


# --- in and out


def test_what_amqp_publishes_is_read_by_amqp_and_by_kafka(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.send(queue, b"one", b"two", key="color", exchange="paint", content_type="text/plain", headers={"n": 1})
    reader = desk.read(queue, offset="first")
    assert [(m.exchange, m.routing_key, m.body) for m in reader.messages] == [
        ("paint", "color", b"one"),
        ("paint", "color", b"two"),
    ]
    found = decode_properties(reader.messages[1].properties)
    assert (found.content_type, found.headers) == ("text/plain", {"x-stream-offset": 1, "n": 1})
    records = desk.rig.records("s")
    assert [(r.key, r.value) for r in records] == [(b"color", b"one"), (b"color", b"two")]
    assert dict(records[0].headers)["amqp.content-type"] == b"text/plain"


def test_what_kafka_produces_is_read_by_amqp_whatever_its_compression(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.produce("s", b"plain", key=b"k1")
    desk.produce("s", b"a", b"b", key=b"k2", compression=Compression.ZSTD)
    reader = desk.read(queue, offset="first")
    assert [(m.routing_key, m.body) for m in reader.messages] == [("k1", b"plain"), ("k2", b"a"), ("k2", b"b")]
    assert reader.offsets == [0, 1, 2]


def test_a_reader_at_the_end_gets_what_comes_from_either_side(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.send(queue, b"old")
    reader = desk.read(queue)  # next
    desk.send(queue, b"amqp")
    desk.produce("s", b"kafka")
    desk.settle()
    assert reader.bodies == [b"amqp", b"kafka"]
    assert reader.offsets == [1, 2]


def test_messages_are_delivered_only_once_they_are_durable(desk: StreamDesk, rig: Rig) -> None:
    queue = desk.stream()
    reader = desk.read(queue)
    rig.call(lambda: queue.publish(Run.of([Message("", "k", b"\0\0", b"x")])))
    assert rig.partition("s").high_watermark == 0
    assert reader.bodies == []
    desk.settle()
    assert reader.bodies == [b"x"]


def test_every_consumer_has_its_own_place(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.send(queue, b"a", b"b", b"c")
    first, second = desk.read(queue, offset=b"first"), desk.read(queue, offset=1)
    assert (first.bodies, second.bodies) == ([b"a", b"b", b"c"], [b"b", b"c"])
    again = desk.read(queue, offset="first")
    assert again.bodies == [b"a", b"b", b"c"]
    assert queue.message_count == 3


@pytest.mark.parametrize("settle", ["ack", "requeue", "reject"])
def test_acknowledgements_of_any_kind_only_make_room(desk: StreamDesk, settle: str) -> None:
    queue = desk.stream()
    desk.send(queue, *(b"%d" % number for number in range(5)))
    reader = desk.read(queue, 2, offset="first")
    assert reader.bodies == [b"0", b"1"]
    assert queue.unacked_count == 2
    desk.rig.call(lambda: getattr(reader, settle)(queue, b"0"))
    desk.settle()
    assert reader.bodies == [b"0", b"1", b"2"]
    assert queue.unacked_count == 2


def test_a_long_stream_is_read_in_order_through_small_windows(desk: StreamDesk) -> None:
    queue = desk.stream()
    bodies = [b"%d" % number for number in range(1500)]
    for start in range(0, 1500, 500):
        desk.send(queue, *bodies[start : start + 500])
    reader = desk.read(queue, 70, offset="first")
    for _ in range(30):
        desk.rig.call(lambda: reader.ack_all(queue))
        desk.settle()
    assert reader.bodies == bodies
    assert reader.offsets == list(range(1500))


def test_what_a_transaction_aborted_or_has_not_committed_is_not_delivered(desk: StreamDesk, rig: Rig) -> None:
    queue = desk.stream()
    reader = desk.read(queue, offset="first")

    def transactional(value: bytes, producer: int, sequence: int) -> None:
        batch = encode_batch(
            [Event(b"k", value, timestamp_ms=rig.clock.now_ms())],
            producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        rig.call(lambda: rig.partition("s").append(batch))
        desk.settle()

    def end(producer: int, commit: bool) -> None:
        marker = encode_marker(
            EndTransactionMarker(commit, 0), producer_id=producer, producer_epoch=0, now_ms=rig.clock.now_ms()
        )
        rig.call(lambda: rig.partition("s").append_control(marker))
        desk.settle()

    transactional(b"aborted", 1, 0)
    desk.send(queue, b"after")
    desk.settle()
    assert reader.bodies == []  # nothing is stable behind an open transaction
    end(1, commit=False)
    transactional(b"committed", 2, 0)
    assert reader.bodies == [b"after"]
    end(2, commit=True)
    assert reader.bodies == [b"after", b"committed"]
    assert reader.offsets == [1, 3]
    assert desk.read(queue, offset="last").bodies == [b"committed"]


# --- where to begin


def test_last_begins_with_the_last_batch(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.send(queue, b"a", b"b")
    desk.send(queue, b"c", b"d")
    assert desk.read(queue, offset="last").bodies == [b"c", b"d"]


def test_last_of_an_empty_stream_is_what_comes_next(desk: StreamDesk) -> None:
    queue = desk.stream()
    reader = desk.read(queue, offset="last")
    desk.send(queue, b"a")
    desk.settle()
    assert reader.bodies == [b"a"]


def test_a_time_or_an_interval_begins_with_the_first_record_since(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.send(queue, b"old")
    desk.rig.advance(7200)
    desk.send(queue, b"new")
    now_s = desk.rig.clock.now_ms() // 1000
    assert desk.read(queue, offset=Timestamp(now_s - 60)).bodies == [b"new"]
    assert desk.read(queue, offset="1h").bodies == [b"new"]
    assert desk.read(queue, offset="3h").bodies == [b"old", b"new"]
    assert desk.read(queue, offset=Timestamp(now_s + 1000)).bodies == []


def test_an_offset_that_is_gone_begins_with_the_first_there_is(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.send(queue, b"a")
    desk.send(queue, b"b")
    desk.rig.run(desk.rig.partition("s").trim(1))
    assert desk.read(queue, offset=0).bodies == [b"b"]
    assert desk.read(queue, offset=-5).bodies == [b"b"]


def test_an_offset_still_to_come_is_waited_for(desk: StreamDesk) -> None:
    queue = desk.stream()
    reader = desk.read(queue, offset=2)
    desk.send(queue, b"a", b"b", b"c")
    desk.settle()
    assert reader.bodies == [b"c"]


def test_retention_moves_a_slow_reader_on(desk: StreamDesk) -> None:
    queue = desk.stream()
    for number in range(4):
        desk.send(queue, b"%d" % number)
    reader = desk.read(queue, 1, offset="first")
    desk.rig.run(desk.rig.partition("s").trim(3))
    desk.rig.call(lambda: reader.ack_all(queue))
    desk.settle()
    assert reader.bodies == [b"0", b"3"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("abc", '{longstr,<<"abc">>}'),
        ("0s", '{longstr,<<"0s">>}'),
        ("1x", '{longstr,<<"1x">>}'),
        (True, "{bool,true}"),
        (None, "{void,undefined}"),
    ],
)
def test_a_place_that_is_none_is_refused_in_rabbitmqs_words(desk: StreamDesk, value: object, shown: str) -> None:
    queue = desk.stream()
    assert refusal(desk.read, queue, offset=value) == (
        406,
        f"invalid arg 'x-stream-offset' for {text('s')}: {{invalid_stream_offset_arg,{shown}}}",
    )
    assert queue.consumer_count == 0


# --- what a stream does not do


def test_a_consumer_needs_a_prefetch_count_and_must_acknowledge(desk: StreamDesk) -> None:
    queue = desk.stream()
    assert refusal(desk.read, queue, prefetch=0) == (406, f"consumer prefetch count is not set for '{text('s')}'")
    assert refusal(desk.read, queue, no_ack=True) == (
        540,
        f"automatic acknowledgement not supported by stream queues {text('s')}",
    )
    assert refusal(desk.read, queue, global_qos=True) == (540, f"{text('s')} does not support global qos")


def test_get_and_purge_are_refused(desk: StreamDesk) -> None:
    queue = desk.stream()
    assert refusal(queue.get, False) == (540, f"basic.get not supported by stream queues {text('s')}")
    assert refusal(queue.purge) == (540, f"queue.purge not supported by stream queues {text('s')}")


# --- filters


def filtered(desk: StreamDesk, queue: StreamQueue, value: str | None, *bodies: bytes) -> None:
    desk.send(queue, *bodies, headers={} if value is None else {"x-stream-filter-value": value})


def test_a_filter_lets_only_its_values_pass(desk: StreamDesk) -> None:
    queue = desk.stream()
    filtered(desk, queue, "red", b"r1", b"r2")
    filtered(desk, queue, "blue", b"b1")
    filtered(desk, queue, None, b"n1")
    filtered(desk, queue, "red", b"r3")
    assert desk.read(queue, offset="first", filter="red").bodies == [b"r1", b"r2", b"r3"]
    assert desk.read(queue, offset="first", filter=["red", "blue", 3]).bodies == [b"r1", b"r2", b"b1", b"r3"]
    assert desk.read(queue, offset="first", filter="blue", match_unfiltered=True).bodies == [b"b1", b"n1"]
    assert desk.read(queue, offset="first", filter="green").bodies == []
    assert desk.read(queue, 1, offset="first", filter="red").offsets == [0]


def test_a_filter_passes_over_thousands_of_others(desk: StreamDesk) -> None:
    queue = desk.stream()
    for _ in range(6):
        filtered(desk, queue, "no", *[b"n"] * 1000)
    filtered(desk, queue, "yes", b"y")
    assert desk.read(queue, offset="first", filter="yes").offsets == [6000]


# --- the topic


def test_a_stream_is_the_topic_of_its_name_and_takes_one_that_is_there(desk: StreamDesk) -> None:
    desk.rig.create("there", 3)
    desk.produce("there", b"before", index=2)
    queue = desk.stream("there")
    assert len(queue.partitions) == 3
    reader = desk.read(queue, offset="first")
    for number in range(20):
        desk.send(queue, b"%d" % number, key=f"key{number}")
    desk.settle()
    assert sorted(reader.bodies) == sorted([b"before", *(b"%d" % number for number in range(20))])
    placed = dict(zip(reader.bodies, reader.headers("x-stream-partition"), strict=True))
    assert all(placed[b"%d" % n] == partition_for_key(b"key%d" % n, 3) for n in range(20))
    assert desk.read(queue, offset="first", partition=2).headers("x-stream-partition").count(2) == 1 + [
        partition_for_key(b"key%d" % n, 3) for n in range(20)
    ].count(2)
    assert refusal(desk.read, queue, partition=3)[0] == 406


def test_partitions_that_are_added_are_read_as_well(desk: StreamDesk) -> None:
    queue = desk.stream()
    reader = desk.read(queue)
    desk.rig.run(desk.topics.add_partitions("s", 2))
    desk.produce("s", b"new", index=1)
    assert reader.bodies == [b"new"]


def test_the_arguments_of_a_stream_are_settings_of_its_topic(desk: StreamDesk) -> None:
    desk.stream("s", **{"x-max-age": "7D", "x-max-length-bytes": 5_000_000, "x-stream-max-segment-size-bytes": 2_000_000})
    config = desk.rig.log.topics()["s"].config
    assert (config["retention.ms"], config["retention.bytes"], config["segment.bytes"]) == ("604800000", "5000000", "2000000")
    desk.stream("keeps.all")
    config = desk.rig.log.topics()["keeps.all"].config
    assert (config["retention.ms"], config["retention.bytes"]) == ("-1", "-1")


def test_sizes_beyond_rabbitmqs_limits_are_refused(desk: StreamDesk) -> None:
    too_large = {"x-stream-max-segment-size-bytes": 3_000_000_001}
    assert refusal(desk.stream, "s", **too_large) == (406, "Exceeded max value for x-stream-max-segment-size-bytes")
    assert refusal(desk.stream, "s", **{"x-stream-filter-size-bytes": 15})[1] == "Invalid value for x-stream-filter-size-bytes"
    assert "s" not in desk.rig.log.topics()


def test_a_policy_changes_what_it_speaks_of_and_nothing_else(desk: StreamDesk) -> None:
    queue = desk.stream("s", **{"x-max-length-bytes": 5_000_000})
    desk.rig.run(desk.topics.configure("s", lambda config: {**config, "retention.bytes": "7"}))
    desk.rig.call(lambda: queue.configure(queue_settings("stream", queue.arguments, {"max-age": "1h"})))
    desk.settle()
    config = desk.rig.log.topics()["s"].config
    assert (config["retention.ms"], config["retention.bytes"]) == ("3600000", "7")
    desk.rig.call(lambda: queue.configure(queue_settings("stream", queue.arguments, {})))
    desk.settle()
    assert desk.rig.log.topics()["s"].config["retention.ms"] == "-1"


def test_a_topic_that_is_there_is_not_changed_by_a_declaration(desk: StreamDesk) -> None:
    desk.rig.create("t", retention_ms="3600000")
    desk.stream("t", **{"x-max-age": "1h"})
    assert refusal(desk.stream, "t", **{"x-max-age": "2h"}) == (
        406,
        "inequivalent arg 'x-max-age' for queue 't' in vhost '/': received '2h' but current is '3600s'",
    )
    assert refusal(desk.stream, "t", **{"x-max-length-bytes": 7})[1].endswith(
        "received the value '7' of type 'long' but current is none"
    )
    assert desk.rig.log.topics()["t"].config["retention.ms"] == "3600000"


@pytest.mark.parametrize("name", ["no spaces", "ä", "a" * 250, "__headrace_x", "__consumer_offsets", ""])
def test_a_name_that_no_topic_may_have_is_refused(desk: StreamDesk, name: str) -> None:
    assert refusal(desk.stream, name)[0] == 406


def test_a_virtual_host_is_part_of_the_topics_name(desk: StreamDesk) -> None:
    assert desk.stream("orders", vhost="shop").topic == "shop.orders"
    assert refusal(desk.stream, "orders", vhost="/shop")[0] == 406


def test_to_delete_the_stream_is_to_delete_the_topic(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.send(queue, b"gone")
    reader = desk.read(queue)
    assert desk.rig.call(queue.delete) == 0
    assert reader.gone
    assert "s" not in desk.rig.log.topics()
    again = desk.stream()
    assert again.message_count == 0
    assert desk.streams._of_topic == {"s": {again: None}}
    desk.settle()


def test_a_topic_that_kafka_deletes_takes_the_queue_with_it(desk: StreamDesk) -> None:
    queue = desk.stream()
    reader = desk.read(queue)
    desk.rig.run(desk.topics.delete("s"))
    assert desk.unused == [queue]
    desk.rig.call(queue.delete)  # what the virtual host does then
    assert reader.gone


def test_a_stream_that_is_restored_takes_its_topic_as_it_is(desk: StreamDesk) -> None:
    desk.stream("s", **{"x-max-age": "1h"})
    desk.rig.run(desk.topics.configure("s", lambda config: {**config, "retention.ms": "5"}))
    desk.rig.settle()
    desk.rig.restart()
    desk.start()
    desk.streams.restoring = True
    assert desk.stream("s", **{"x-max-age": "1h"}).topic == "s"


def test_what_was_synced_survives_a_crash(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.send(queue, b"a", b"b", headers={"h": Timestamp(5)})
    desk.rig.reopen()
    desk.start()
    queue = desk.stream()
    reader = desk.read(queue, offset="first")
    assert reader.bodies == [b"a", b"b"]
    assert reader.headers("h") == [5, 5]


# --- what does not fit


def test_a_message_that_the_topic_does_not_take_is_rejected(desk: StreamDesk) -> None:
    desk.rig.create("small", max_message_bytes="2000")
    queue = desk.stream("small")
    assert desk.send(queue, bytes(3000)) is Outcome.REJECTED
    assert desk.send(queue, *[bytes(500)] * 20) is Outcome.ACCEPTED  # in several batches
    assert queue.message_count == 20
    desk.rig.create("compacted", cleanup_policy="compact")
    assert desk.send(desk.stream("compacted"), b"no key", key="") is Outcome.REJECTED


def test_a_record_with_more_headers_than_a_frame_holds_comes_without_them(desk: StreamDesk) -> None:
    queue = desk.stream()
    batch = encode_batch([Event(b"k", b"v", (("big", bytes(200_000)),), desk.rig.clock.now_ms())])
    desk.rig.call(lambda: desk.rig.partition("s").append(batch))
    desk.settle()
    reader = desk.read(queue, offset="first")
    assert decode_properties(reader.messages[0].properties).headers == {
        "x-stream-offset": 0,
        "x-opt-kafka-headers-omitted": True,
    }


def test_a_batch_that_cannot_be_read_is_passed_over_and_said(
    desk: StreamDesk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue = desk.stream()
    monkeypatch.setattr("headrace.broker.queues.stream_page.MAX_BATCH_RECORDS", 2)
    desk.produce("s", b"a", b"b", b"c", compression=Compression.GZIP)
    desk.produce("s", b"d")
    assert desk.read(queue, offset="first").bodies == [b"d"]
    assert "can't read the batch at 0" in caplog.text


def test_properties_that_are_none_are_an_error_of_the_client(desk: StreamDesk) -> None:
    queue = desk.stream()
    run = Run.of([Message("", "k", b"\x20\x00\x00\x00\x00\xff", b"x")])
    assert refusal(desk.rig.call, lambda: queue.publish(run))[0] == 502


def test_an_offset_header_of_the_publisher_is_replaced(desk: StreamDesk) -> None:
    queue = desk.stream()
    desk.send(queue, b"x", headers={"x-stream-offset": 99, "h": "v"}, content_type="t", content_encoding="e")
    reader = desk.read(queue, offset="first")
    found = decode_properties(reader.messages[0].properties)
    assert (found.headers, found.content_type, found.content_encoding) == ({"x-stream-offset": 0, "h": "v"}, "t", "e")


# --- bounds


def test_pages_are_bounded_and_read_again_when_they_are_gone(desk: StreamDesk) -> None:
    desk.streams.pages.limit_bytes = 50_000
    queue = desk.stream()
    bodies = [b"%d" % number + bytes(5000) for number in range(100)]
    for body in bodies:
        desk.send(queue, body)
    readers = [desk.read(queue, 3, offset="first") for _ in range(3)]
    for _ in range(60):
        for reader in readers:
            desk.rig.call(lambda reader=reader: reader.ack_all(queue))
        desk.settle()
        pages = desk.streams.pages
        assert pages.size_bytes <= 50_000 or len(pages._pages) == 1
    for reader in readers:
        assert reader.bodies == bodies
    desk.rig.call(queue.delete)
    assert (desk.streams.pages.size_bytes, desk.streams.pages._of_lane) == (0, {})


def test_only_so_many_reads_are_under_way_and_the_others_get_their_turn(
    desk: StreamDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.queues.stream.MAX_READS", 1)
    queues = [desk.stream(f"s{number}") for number in range(4)]
    for queue in queues:
        desk.send(queue, b"x")
    reading: list[int] = []

    class Slow:
        """A partition whose reads take a turn of the loop."""

        def __init__(self, real: Any) -> None:
            self._real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def read(self, *args: Any, **how: Any) -> Any:
            data = self._real.read(*args, **how)

            async def later() -> Any:
                import asyncio

                reading.append(desk.streams.reads)
                await asyncio.sleep(0)
                return data

            return later()

    for queue in queues:
        queue._topic = type("T", (), {"name": queue.topic, "partitions": [Slow(queue.partitions[0])]})()
    readers = [desk.read(queue, offset="first") for queue in queues]
    for _ in range(5):
        desk.settle()
    assert [reader.bodies for reader in readers] == [[b"x"]] * 4
    assert set(reading) == {1}


def test_cancelled_consumers_get_nothing_more_and_nobody_watches(desk: StreamDesk) -> None:
    queue = desk.stream()
    reader = desk.read(queue)
    desk.rig.call(lambda: queue.cancel(reader))
    desk.send(queue, b"x")
    desk.settle()
    assert reader.bodies == []
    assert not desk.rig.partition("s").watchers


def test_a_page_that_is_not_there_is_not_found() -> None:
    assert Pages().find("lane", 0) is None


def test_new_topics_come_with_the_events_that_others_wait_for(desk: StreamDesk) -> None:
    created: list[str] = []
    desk.topics.on_create.append(created.append)
    desk.stream("s")
    assert created == ["s"]
    with pytest.raises(Exception, match="already exists"):
        desk.rig.run(desk.topics.create(NewTopic("s")))


def test_arguments_are_kept(desk: StreamDesk) -> None:
    arguments: Mapping[str, object] = {"x-queue-type": "stream"}
    assert desk.stream("s", **arguments).arguments == arguments
