"""Fetching back what a feed has lost: reads a topic over TCP, on a thread of its own, while datagrams go on coming in.

One question is answered after the other, each in pieces. A server that is away for a while is waited for: when nothing can be
read for `give_up_s` the rest of the question is answered with why.

Bound: `MAX_PIECES` pieces that nobody has taken yet, each of one fetch (`MOST_BYTES`, or one batch if that is longer).
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from dataclasses import dataclass

from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.errors import ClientError, UnknownName
from headrace.client.kafka.offsets import Isolation, end_offsets, start_offsets
from headrace.client.kafka.partitions import TopicPartition
from headrace.client.kafka.reader import Reader
from headrace.multicast.feed.ordering import Records, Stream

MAX_PIECES = 8
LEAST_BYTES, MOST_BYTES = 16 * 1024, 1024 * 1024  # of a fetch
EVENT_BYTES = 512  # or so: what is not missing should not be fetched either
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Question:
    """The events of a stream from `first` up to `to`; up to where the log ends now, without one."""

    stream: Stream
    session: int | None
    topic: str
    first: int
    to: int | None


@dataclass(frozen=True, slots=True)
class Piece:
    """The events there are from `first` up to `to`; none of them can be had, if `lost` says why. The last one of a question is
    `final`."""

    question: Question
    first: int
    to: int
    records: Records
    lost: str | None = None
    final: bool = False


class Recovery:
    """`wake` is a file descriptor: it can be read from when there is a piece to `take`."""

    def __init__(self, servers: str, give_up_s: float) -> None:
        self._cluster = Cluster(servers, timeout_s=max(1.0, give_up_s))
        self._give_up_s = give_up_s
        self._questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._pieces: queue.Queue[Piece] = queue.Queue(MAX_PIECES)
        self._closed = False
        self.wake, self._waker = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self._waker, False)
        self._thread: threading.Thread | None = None

    def starts(self, topic: str, start: str | int) -> dict[int, int]:
        """Where to begin in each partition of a topic. Before anything was asked. Raises ClientError."""
        partitions = [TopicPartition(topic, one.index) for one in self._cluster.topic(topic).partitions]
        begin = start_offsets(self._cluster, partitions)
        if isinstance(start, int):
            end = end_offsets(self._cluster, partitions)
            return {one.partition: max(begin[one], min(start, end[one])) for one in partitions}
        return {one.partition: offset for one, offset in begin.items()}

    def ask(self, question: Question) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="headrace-feed-recovery", daemon=True)
            self._thread.start()
        self._questions.put(question)

    def take(self) -> Piece | None:
        """The next piece of an answer, if one is there."""
        try:
            return self._pieces.get_nowait()
        except queue.Empty:
            with contextlib.suppress(BlockingIOError):
                os.read(self.wake, 1024)
            with contextlib.suppress(queue.Empty):  # it came just before the pipe was emptied
                return self._pieces.get_nowait()
            return None

    @property
    def has_piece(self) -> bool:
        return not self._pieces.empty()

    def close(self) -> None:
        """Waits for nobody: a thread that is busy lets go of what it has when it is done."""
        self._closed = True
        self._questions.put(None)
        if self._thread is None:
            self._let_go()

    # --- the thread

    def _work(self) -> None:
        self._cluster.insist()  # whoever sends the feed will be back
        reader = Reader(self._cluster, {}, Isolation.READ_COMMITTED)
        while (question := self._questions.get()) is not None and not self._closed:
            try:
                self._answer(reader, question)
            except Exception as error:  # whatever it is, somebody waits for the answer
                first = reader.positions.get(_partition(question), question.first)
                to = first if question.to is None else max(first, question.to)
                self._put(Piece(question, first, to, [], f"{type(error).__name__}: {error}", final=True))
        reader.close()
        self._let_go()

    def _answer(self, reader: Reader, question: Question) -> None:
        partition = _partition(question)
        reader.positions = {partition: question.first}
        to = question.to
        if to is None:
            to = end_offsets(self._cluster, [partition], Isolation.READ_COMMITTED)[partition]
        position = question.first
        moved_at = time.monotonic()
        while position < to and not self._closed:
            reader.partition_bytes = max(LEAST_BYTES, min(MOST_BYTES, (to - position) * EVENT_BYTES))
            try:
                received = reader.poll(POLL_S)
            except UnknownName:
                if time.monotonic() - moved_at > self._give_up_s:
                    raise
                time.sleep(POLL_S)
                continue
            for gap in reader.gaps:
                self._put(Piece(question, position, gap.found, [], "not in the log any more"))
                position = gap.found
            reader.gaps.clear()
            reached = reader.positions[partition]
            if reached > position:
                records = [(one.offset, one.timestamp_ms, one.key, one.value, one.headers) for one in received]
                if reached > to:  # what is beyond has come by other ways, or will
                    reached, records = to, [record for record in records if record[0] < to]
                self._put(Piece(question, position, reached, records))
                position, moved_at = reached, time.monotonic()
            elif time.monotonic() - moved_at > self._give_up_s:
                raise ClientError(f"the log has nothing at offset {position} of {partition}")
        self._put(Piece(question, position, position, [], final=True))

    def _put(self, piece: Piece) -> None:
        while not self._closed:
            try:
                self._pieces.put(piece, timeout=0.2)
            except queue.Full:
                continue
            with contextlib.suppress(BlockingIOError, OSError):
                os.write(self._waker, b"\0")
            return

    def _let_go(self) -> None:
        self._cluster.close()
        os.close(self.wake)
        os.close(self._waker)


def _partition(question: Question) -> TopicPartition:
    return TopicPartition(question.topic, question.stream.partition)
