"""Queues on a log with a simulated disk; consumers and publishers that are lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from tests.log.conftest import Rig

from headrace.broker.queues.backlog import Budget
from headrace.broker.queues.consumers import Chunk
from headrace.broker.queues.definition import QueueDefinition
from headrace.broker.queues.queue import Queue
from headrace.broker.queues.run import Run
from headrace.broker.queues.settings import QueueSettings
from headrace.broker.queues.state import QueueStates
from headrace.broker.queues.surroundings import Surroundings
from headrace.broker.queues.turns import Turns
from headrace.record.amqp.message import Message, read_messages
from headrace.record.amqp.properties import Properties, encode_properties


class Reader:
    """A consumer that keeps what it gets."""

    def __init__(self, room: int = 1_000_000, *, no_ack: bool = False, priority: int = 0, exclusive: bool = False) -> None:
        self.tag = "reader"
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.arguments: Mapping[str, object] = {}
        self.limit = room
        self.chunks: list[Chunk] = []
        self.got: list[tuple[bytes, bool]] = []  # body, redelivered
        self.out: dict[int, tuple[int, bytes]] = {}  # offset -> lane, body
        self.gone = False

    def room(self) -> int:
        return self.limit - len(self.out)

    def deliver(self, chunk: Chunk) -> int:
        from headrace.record.amqp.twin import skip

        self.chunks.append(chunk)
        for number, message in enumerate(read_messages(chunk.data, chunk.position, chunk.count)):
            self.got.append((message.body, chunk.redelivered))
            if not self.no_ack:
                self.out[chunk.first_offset + number] = (chunk.lane, message.body)
        return skip(chunk.data, chunk.position, chunk.count)

    def cancelled(self) -> None:
        self.gone = True

    @property
    def bodies(self) -> list[bytes]:
        return [body for body, _ in self.got]

    def _take(self, *bodies: bytes) -> Iterator[tuple[int, int]]:
        for body in bodies:
            offset = next(offset for offset, (_, held) in self.out.items() if held == body)
            lane, _ = self.out.pop(offset)
            yield lane, offset

    def ack(self, queue: Queue, *bodies: bytes) -> None:
        for lane, offset in self._take(*bodies):
            queue.ack(lane, offset, 1)

    def requeue(self, queue: Queue, *bodies: bytes) -> None:
        for lane, offset in self._take(*bodies):
            queue.requeue(lane, offset, 1)

    def reject(self, queue: Queue, *bodies: bytes) -> None:
        for lane, offset in self._take(*bodies):
            queue.reject(lane, offset, 1)


class Desk:
    """One server's worth of queues, that can be crashed and started again."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.dead: list[tuple[str, bytes, str]] = []  # queue, body, reason
        self.unused: list[Queue] = []
        self.queues: dict[str, Queue] = {}
        self.start()

    def start(self) -> None:
        log, clock = self.rig.log, self.rig.clock
        self.turns = Turns(clock, log)
        self.states = QueueStates(log, clock, self.turns)
        self.rig.run(self.states.start())
        self.around = Surroundings(
            log, clock, self.turns, self.states, Budget(), log.spawn, "fsync", self._dead_letter, self.unused.append
        )

    def _dead_letter(self, queue: Queue, messages: list[Message], reason: str) -> bool:
        self.dead += [(queue.name, message.body, reason) for message in messages]
        return False

    def queue(self, name: str = "q", *, durable: bool = True, kind: str = "classic", **settings: object) -> Queue:
        definition = QueueDefinition(name, "/", name.encode().ljust(16, b"."), durable=durable, kind=kind)
        queue = self.queues[name] = self.rig.call(
            lambda: Queue(definition, QueueSettings(**settings), self.around)  # type: ignore[arg-type]
        )
        return queue

    def publish(self, queue: Queue, *bodies: bytes, **properties: object) -> None:
        raw = encode_properties(Properties(delivery_mode=2, **properties))  # type: ignore[arg-type]
        run = Run.of([Message("", queue.name, raw, body) for body in bodies])
        self.rig.call(lambda: queue.publish(run))

    def consume(self, queue: Queue, **how: object) -> Reader:
        reader = Reader(**how)  # type: ignore[arg-type]
        self.rig.call(lambda: queue.consume(reader))
        return reader

    def settle(self) -> None:
        """Turns, syncs and reads until nothing moves."""
        for _ in range(6):
            self.rig.advance(0.02)
            self.rig.settle()

    def close(self) -> None:
        self.rig.call(self.turns.close)
        lanes = [entry for queue in self.queues.values() for entry in queue.lane_keys()]
        self.rig.call(lambda: self.states.close(lanes))
        self.queues.clear()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    rig.open()
    yield rig
    rig.end()


@pytest.fixture
def desk(rig: Rig) -> Desk:
    return Desk(rig)
