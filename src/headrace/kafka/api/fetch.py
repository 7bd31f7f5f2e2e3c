"""Fetch, versions 4 to 18: the hot way out. Written by hand; stored bytes go to the socket as they are.

Behaviour: whole batches up to the partition's and the request's max bytes, at least one batch wherever there is one, so a
batch larger than both still moves a reader on. With fewer than min bytes it waits for max wait at most (the long poll) and is
woken by the append that makes up the number. Readers see up to the high watermark: what is as durable as the topic promises;
readers of committed records up to the last stable offset, and are told which transactions there were aborted.
A client above its consumer quota gets an answer without data, and nothing more is read from it for a while.

Versions: 4 isolation level and aborted list (KIP-98) · 5 log start offset · 7 sessions (KIP-227) · 9 leader epoch (KIP-320) ·
11 rack (KIP-392; one node has one rack) · 12 flexible, last fetched epoch (KIP-595) · 13 topic ids (KIP-516) · 15 replica state
(KIP-903) · 16 node endpoints (KIP-951) · 17 directory ids (KIP-853) · 18 a follower's high watermark (KIP-1166).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of
from headrace.kafka.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, Session, TopicKey, Wanted
from headrace.log.errors import LogError
from headrace.log.port import PART_BYTES, Buffer, FilePart, Partition
from headrace.record.twin import encode_fetch_response, parse_fetch

if TYPE_CHECKING:
    from headrace.kafka.connection import KafkaConnection, Slot
    from headrace.kafka.throttle import Ticket

Data = Buffer | FilePart
Part = tuple[int, int, int, int, int, list[tuple[int, int]] | None, Data]

_READ_COMMITTED = 1
_TOPIC_IDS_SINCE = 13
_MOST_WALKED = 256


def handle(connection: KafkaConnection, view: memoryview, start: int, end: int, version: int, correlation: int) -> None:
    max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, topics, forgotten = parse_fetch(view, start, end, version)
    wanted = [
        Wanted(topic, index, leader_epoch, offset, partition_bytes)
        for topic, partitions in topics
        for index, leader_epoch, offset, _, _, partition_bytes in partitions
    ]
    sessions = connection.listener.sessions
    session: Session | None = None
    incremental = False
    if epoch in (FINAL_EPOCH, FIRST_EPOCH):
        if session_id:
            sessions.close(session_id)
        if epoch == FIRST_EPOCH and wanted:
            session = sessions.create(version >= _TOPIC_IDS_SINCE, wanted)
    elif version >= 7:
        found = sessions.resume(session_id, epoch, version >= _TOPIC_IDS_SINCE, wanted, forgotten)
        if not isinstance(found, Session):
            connection.respond(encode_fetch_response(version, correlation, found, 0, 0, []))
            return
        session, incremental = found, True
    ticket = connection.throttle.ticket if connection.throttle is not None else None
    if ticket is not None:
        max_bytes = min(max_bytes, ticket.most_fetched)
        min_bytes = min(min_bytes, max_bytes)
    request = _Request(connection, version, correlation, max_bytes, isolation == _READ_COMMITTED, session, incremental)
    request.ticket = ticket
    request.wanted = session.wanted.values() if session is not None else wanted
    if max_wait_ms <= 0 or request.has_enough(min_bytes):
        request.answer(None)
    else:
        request.park(max_wait_ms, min_bytes)


class _Request:
    """One fetch, from its parsing to its answer."""

    __slots__ = (
        "_done",
        "_incremental",
        "_max_bytes",
        "_min_bytes",
        "_read_committed",
        "_session",
        "_slot",
        "_timer",
        "_version",
        "_watched",
        "connection",
        "correlation",
        "ticket",
        "wanted",
    )

    def __init__(
        self,
        connection: KafkaConnection,
        version: int,
        correlation: int,
        max_bytes: int,
        read_committed: bool,
        session: Session | None,
        incremental: bool,
    ) -> None:
        self.connection = connection
        self.correlation = correlation
        self.wanted: Iterable[Wanted] = ()
        self.ticket: Ticket | None = None
        self._version = version
        self._max_bytes = min(max_bytes, connection.listener.max_fetch_bytes)
        self._read_committed = read_committed
        self._session = session
        self._incremental = incremental
        self._watched: list[Partition] = []
        self._slot: Slot | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._done = False
        self._min_bytes = 0

    def _find(self, topic: TopicKey, index: int) -> Partition | ErrorCode:
        log = self.connection.broker.log
        known = log.topic_by_id(UUID(bytes=topic)) if isinstance(topic, bytes) else log.topics().get(topic)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID if isinstance(topic, bytes) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not 0 <= index < len(known.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return known.partitions[index]

    def has_enough(self, min_bytes: int) -> bool:
        """Whether an answer now would have something to say: enough bytes, or an error."""
        if min_bytes <= 0:
            return True
        total = 0
        for want in self.wanted:
            partition = self._find(want.topic, want.index)
            if isinstance(partition, ErrorCode) or _epoch_error(partition, want):
                return True
            if want.offset < (partition.last_stable_offset if self._read_committed else partition.high_watermark):
                total += partition.readable_bytes(want.offset, want.max_bytes) if min_bytes > 1 else 1
                if total >= min_bytes:
                    return True
            elif want.offset > partition.end_offset or want.offset < partition.start_offset:
                return True
        return False

    # --- waiting

    def park(self, max_wait_ms: int, min_bytes: int) -> None:
        self._min_bytes = min_bytes
        if self.ticket is not None:
            self.ticket.park()
        self._slot = self.connection.take_slot()
        for want in self.wanted:
            partition = self._find(want.topic, want.index)
            if not isinstance(partition, ErrorCode):
                partition.watch(self._changed)
                self._watched.append(partition)
        self._timer = asyncio.get_running_loop().call_later(max_wait_ms / 1000, self._wake)
        self.connection.on_close.append(self._abandon)

    def _changed(self) -> None:
        if not self._done and self.has_enough(self._min_bytes):
            self._wake()

    def _wake(self) -> None:
        if not self._done:
            self._stop_waiting()
            self.connection.on_close.remove(self._abandon)
            self.answer(self._slot)

    def _abandon(self) -> None:
        if not self._done:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
        for partition in self._watched:
            partition.unwatch(self._changed)
        self._watched.clear()

    # --- answering

    def answer(self, slot: Slot | None) -> None:
        left = self._max_bytes
        parts: list[tuple[Wanted, Part | tuple[Partition, Awaitable[Buffer]]]] = []
        waits = False
        nothing_yet = True
        for want in self.wanted:
            partition = self._find(want.topic, want.index)
            if isinstance(partition, ErrorCode):
                parts.append((want, _refused(want, partition)))
                continue
            error: int = _epoch_error(partition, want)
            data: Data | Awaitable[Buffer] = b""
            if not error:
                try:
                    if nothing_yet or left > 0:
                        data = self._read(partition, want, left, nothing_yet)
                except LogError as refused:
                    error = code_of(refused)
            if error:
                parts.append((want, _refused(want, error)))
                continue
            if isinstance(data, Awaitable):
                waits = True
                nothing_yet = False
                left -= want.max_bytes
                parts.append((want, (partition, data)))
                continue
            if len(data):
                nothing_yet = False
                left -= len(data)
            parts.append((want, self._part(want, partition, data)))
        if waits:
            slot = slot or self.connection.take_slot()
            task = asyncio.get_running_loop().create_task(self._answer_later(parts, slot))
            self.connection.keep(task)
        else:
            self._send([(want, part) for want, part in parts if len(part) == 7], slot)

    def _read(self, partition: Partition, want: Wanted, left: int, at_least_one: bool) -> Data | Awaitable[Buffer]:
        most = min(want.max_bytes, left)
        if most >= PART_BYTES:
            part = partition.part(want.offset, most, committed=self._read_committed)
            if part is not None:
                return part
        return partition.read(want.offset, most, at_least_one=at_least_one, committed=self._read_committed)

    async def _answer_later(self, parts: list[tuple[Wanted, Part | tuple[Partition, Awaitable[Buffer]]]], slot: Slot) -> None:
        ready: list[tuple[Wanted, Part]] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.connection.broker.settings.get_int("remote.fetch.max.wait.ms") / 1000
        for want, part in parts:
            if len(part) == 7:
                ready.append((want, part))
                continue
            partition, data = part
            if want.offset < partition.local_start_offset:
                data = _until(data, deadline - loop.time())
            try:
                ready.append((want, self._part(want, partition, await data)))
            except LogError as refused:
                ready.append((want, _refused(want, code_of(refused))))
            except OSError:
                ready.append((want, _refused(want, ErrorCode.KAFKA_STORAGE_ERROR)))
        self._send(ready, slot)

    def _part(self, want: Wanted, partition: Partition, data: Data) -> Part:
        if len(data):
            self.connection.listener.traffic.bytes_out[partition.topic] += len(data)
        watermark = partition.high_watermark
        stable = partition.last_stable_offset
        aborted: list[tuple[int, int]] | None = None
        if self._read_committed:
            aborted = partition.aborted(want.offset, _end_of(data, stable)) if len(data) else []
        return (want.index, 0, watermark, stable, partition.start_offset, aborted, data)

    def _send(self, parts: list[tuple[Wanted, Part]], slot: Slot | None) -> None:
        session = self._session
        throttle_ms = 0
        if self.ticket is not None:
            throttle_ms, sent = self.ticket.fetched(sum(len(part[6]) for _, part in parts))
            if not sent:
                self._send_nothing(throttle_ms, slot)
                return
        topics: list[tuple[TopicKey, list[Part]]] = []
        served: list[Wanted] = []
        for want, part in parts:
            _, error, watermark, _, start, _, data = part
            if len(data):
                served.append(want)
            elif self._incremental and not error and want.sent_watermark == watermark and want.sent_start == start:
                continue
            want.sent_watermark, want.sent_start = watermark, start
            if topics and topics[-1][0] == want.topic:
                topics[-1][1].append(part)
            else:
                topics.append((want.topic, [part]))
        if session is not None and len(session.wanted) > 1:
            session.rotate(served)
        session_id = session.session_id if session is not None else 0
        # The encoder asks records how long they are, and passes them on: of a file it wants no more.
        answer = encode_fetch_response(self._version, self.correlation, 0, session_id, throttle_ms, topics)  # type: ignore[arg-type]
        self.connection.respond(answer, slot)

    def _send_nothing(self, throttle_ms: int, slot: Slot | None) -> None:
        """Above its quota: the reader asks again after its pause. A session that was to begin doesn't."""
        session_id = 0
        if self._session is not None and self._incremental:
            session_id = self._session.session_id
        elif self._session is not None:
            self.connection.listener.sessions.close(self._session.session_id)
        self.connection.respond(encode_fetch_response(self._version, self.correlation, 0, session_id, throttle_ms, []), slot)


def _refused(want: Wanted, error: int) -> Part:
    return (want.index, error, -1, -1, -1, None, b"")


async def _until(data: Awaitable[Buffer], seconds: float) -> Buffer:
    """What comes from the archive in time (KIP-1018), else nothing. It goes on coming, so a reader who asks again finds it."""
    try:
        return await asyncio.wait_for(asyncio.shield(data), max(0.0, seconds))
    except TimeoutError:
        return b""


def _end_of(data: Data, stable: int) -> int:
    """Behind which offset nothing of these batches lies. Walking over all of them is not worth it for a small answer, nor for
    a large one: what the reader is told too much of aborted transactions it does not use."""
    if isinstance(data, FilePart):
        return stable
    position, size = 0, len(data)
    for _ in range(_MOST_WALKED):
        following = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if following >= size:
            base = int.from_bytes(data[position : position + 8], "big")
            return base + int.from_bytes(data[position + 23 : position + 27], "big") + 1
        position = following
    return stable


def _epoch_error(partition: Partition, want: Wanted) -> int:
    """KIP-320: a reader whose leader epoch is not ours has old or newer metadata."""
    if want.leader_epoch < 0 or want.leader_epoch == partition.leader_epoch:
        return 0
    return ErrorCode.FENCED_LEADER_EPOCH if want.leader_epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
