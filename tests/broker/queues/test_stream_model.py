"""Whatever is written by either side, trimmed and read through windows of any size: readers get what is there, in order."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.broker.queues.test_stream import StreamDesk, StreamReader
from tests.log.conftest import Rig

from headrace.record import Compression, Event, encode_batch
from headrace.record.control import EndTransactionMarker, encode_marker

COLORS = (None, "red", "blue")

writes = st.one_of(
    st.tuples(st.just("amqp"), st.integers(1, 5), st.sampled_from(COLORS)),
    st.tuples(
        st.just("kafka"), st.integers(1, 5), st.sampled_from(COLORS), st.sampled_from([Compression.NONE, Compression.LZ4])
    ),
    st.tuples(st.just("transaction"), st.integers(1, 3), st.sampled_from(COLORS), st.booleans()),
)
reads = st.tuples(
    st.just("read"),
    st.integers(0, 30),  # where it begins
    st.sampled_from([1, 2, 7, 1000]),  # its window
    st.sampled_from([None, ("red", False), ("red", True), ("blue", False)]),
)
steps = st.lists(st.one_of(writes, writes, reads, st.just(("trim",)), st.just(("ack",)), st.just(("squeeze",))), max_size=25)


class Model:
    """The records of the stream as they should be read."""

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes, str | None]] = []  # offset, body, filter value
        self.end = 0
        self.start = 0
        self.number = 0

    def add(self, count: int, color: str | None, *, seen: bool = True) -> list[bytes]:
        bodies = []
        for _ in range(count):
            body = b"%d" % self.number
            self.number += 1
            bodies.append(body)
            if seen:
                self.records.append((self.end, body, color))
            self.end += 1
        return bodies


def produced(desk: StreamDesk, bodies: list[bytes], color: str | None, **how: Any) -> None:
    headers = () if color is None else (("x-stream-filter-value", color.encode()),)
    events = [Event(None, body, headers, desk.rig.clock.now_ms()) for body in bodies]
    desk.rig.call(lambda: desk.rig.partition("s").append(encode_batch(events, **how)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_every_reader_gets_everything_from_its_place_on_in_order_and_once(steps: list[tuple[Any, ...]]) -> None:
    rig = Rig()
    rig.open()
    try:
        run(rig, steps)
    finally:
        rig.end()


def run(rig: Rig, steps: list[tuple[Any, ...]]) -> None:
    desk = StreamDesk(rig)
    queue = desk.stream()
    model = Model()
    readers: list[tuple[StreamReader, int, Any]] = []
    for producer, (kind, *how) in enumerate(steps):
        if kind == "amqp":
            count, color = how
            headers = None if color is None else {"x-stream-filter-value": color}
            desk.send(queue, *model.add(count, color), headers=headers)
        elif kind == "kafka":
            count, color, compression = how
            produced(desk, model.add(count, color), color, compression=compression)
        elif kind == "transaction":
            count, color, commit = how
            bodies = model.add(count, color, seen=commit)
            produced(desk, bodies, color, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
            marker = encode_marker(
                EndTransactionMarker(commit, 0), producer_id=producer, producer_epoch=0, now_ms=rig.clock.now_ms()
            )
            rig.call(lambda marker=marker: rig.partition("s").append_control(marker))
            model.end += 1
        elif kind == "read":
            offset, window, wanted = how
            arguments = {} if wanted is None else {"filter": wanted[0], "match_unfiltered": wanted[1]}
            reader = StreamReader(window, offset=offset, **arguments)
            rig.call(lambda reader=reader: queue.consume(reader))
            readers.append((reader, max(offset, model.start), wanted))
        elif kind == "trim":
            rig.settle()
            model.start = (model.start + rig.partition("s").high_watermark) // 2
            rig.run(rig.partition("s").trim(model.start))
        elif kind == "squeeze":
            desk.streams.pages.limit_bytes = 2000
        else:
            for reader, _, _ in readers:
                rig.call(lambda reader=reader: reader.ack_all(queue))
    for _ in range(200):
        desk.settle()
        if not any(reader.out for reader, _, _ in readers):
            break
        for reader, _, _ in readers:
            rig.call(lambda reader=reader: reader.ack_all(queue))
    for reader, begins, wanted in readers:
        expected = [
            (offset, body)
            for offset, body, color in model.records
            if offset >= begins and (wanted is None or color == wanted[0] or (color is None and wanted[1]))
        ]
        got = list(zip(reader.offsets, reader.bodies, strict=True))
        still_there = [pair for pair in expected if pair[0] >= model.start or pair in got]
        assert got == still_there  # what was trimmed before its turn may be missing, nothing else
        assert reader.offsets == sorted(set(reader.offsets))
