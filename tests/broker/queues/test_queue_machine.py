"""A durable queue on a disk that forgets what was not synced, against a simple model.

Publishing, delivering, acknowledging, giving back, syncing, crashing and restarting happen in any order. Then, always:

- what was published and durable, and never acknowledged, is delivered again or still there;
- what was acknowledged comes back only after a crash, and then it is flagged as redelivered;
- nothing is delivered that was not published, and never flagged messages come in the order they were published.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.broker.queues.conftest import Desk, Reader
from tests.log.conftest import SOAK, Rig

from headrace.broker.queues.queue import Queue


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(held=True)
        self.rig.open()
        self.desk = Desk(self.rig)
        self.numbers = 0
        self.published: set[bytes] = set()
        self.durable: set[bytes] = set()
        self.waiting: set[bytes] = set()  # published since the last sync
        self.acknowledged: set[bytes] = set()
        self.delivered: set[bytes] = set()
        self.crashed = False
        self.lanes = 1
        self.queue: Queue
        self.reader: Reader | None = None
        self._open_queue()

    def _open_queue(self) -> None:
        self.queue = self.desk.queue(max_priority=self.lanes - 1)
        self.rig.settle()
        self.reader = None
        self.seen = 0
        self.last_in_order = b""

    @rule(count=st.integers(1, 5), size=st.sampled_from([1, 200, 30_000]))
    def publish(self, count: int, size: int) -> None:
        bodies = [b"%06d" % (self.numbers + number) + bytes(size) for number in range(count)]
        self.numbers += count
        self.desk.publish(self.queue, *bodies)
        names = {body[:6] for body in bodies}
        self.published |= names
        self.waiting |= names

        def synced(error: Exception | None) -> None:
            if error is None:
                self.durable |= names

        self.rig.call(lambda: self.desk.turns.after_turn(synced))

    @precondition(lambda self: self.reader is None)
    @rule(room=st.sampled_from([1, 3, 1000]))
    def consume(self, room: int) -> None:
        self.reader = self.desk.consume(self.queue, room=room)

    @precondition(lambda self: self.reader is not None)
    @rule()
    def leave(self) -> None:
        """The consumer's connection dies: what it holds goes back."""
        reader = self.reader
        assert reader is not None
        self.rig.call(lambda: self.queue.cancel(reader))
        for offset, (lane, _) in sorted(reader.out.items()):
            self.rig.call(lambda offset=offset, lane=lane: self.queue.requeue(lane, offset, 1, failed=False))
        self._check_deliveries()
        self.reader = None
        self.seen = 0

    def _held(self, data: Any) -> list[bytes]:
        assert self.reader is not None
        held = sorted(body for _, body in self.reader.out.values())
        return data.draw(st.lists(st.sampled_from(held), unique=True, max_size=4)) if held else []

    @precondition(lambda self: self.reader is not None and self.reader.out)
    @rule(data=st.data())
    def ack(self, data: Any) -> None:
        assert self.reader is not None
        for body in self._held(data):
            self.rig.call(lambda body=body: self.reader.ack(self.queue, body))
            self.acknowledged.add(body[:6])

    @precondition(lambda self: self.reader is not None and self.reader.out)
    @rule()
    def ack_all(self) -> None:
        assert self.reader is not None
        for body in sorted(body for _, body in self.reader.out.values()):
            self.rig.call(lambda body=body: self.reader.ack(self.queue, body))
            self.acknowledged.add(body[:6])

    @precondition(lambda self: self.reader is not None and self.reader.out)
    @rule(data=st.data())
    def give_back(self, data: Any) -> None:
        assert self.reader is not None
        for body in self._held(data):
            self.rig.call(lambda body=body: self.reader.requeue(self.queue, body))

    @rule(milliseconds=st.sampled_from([0, 1, 6, 50]))
    def time_passes(self, milliseconds: int) -> None:
        self.rig.advance(milliseconds / 1000)
        self.rig.turn()

    @rule()
    def disk_works(self) -> None:
        self.rig.call(self.rig.commit_worker.work)

    @rule()
    def disk_reports(self) -> None:
        self.rig.call(self.rig.commit_worker.tell)
        self.rig.turn()

    @rule()
    def all_settles(self) -> None:
        self.desk.settle()

    @rule()
    def checkpoint(self) -> None:
        self.rig.checkpoint()

    @rule(seed=st.integers(0, 1000))
    def power_fails(self, seed: int) -> None:
        self._check_deliveries()
        self.rig.crash(seed)
        self._start_again()

    @rule()
    def killed(self) -> None:
        self._check_deliveries()
        self.rig.kill()
        self._start_again()

    def _start_again(self) -> None:
        self.crashed = True
        self.waiting.clear()
        self.rig.open()
        self.desk.queues.clear()
        self.desk.start()
        self._open_queue()

    @rule()
    def restarted(self) -> None:
        self._check_deliveries()
        self.desk.close()
        self.rig.close()
        self.durable |= self.waiting  # a clean end leaves nothing behind
        self.waiting.clear()
        self.rig.open()
        self.desk.start()
        self._open_queue()

    @invariant()
    def deliveries_are_right(self) -> None:
        if hasattr(self, "queue"):
            self._check_deliveries()

    def _check_deliveries(self) -> None:
        if self.reader is None:
            return
        for body, redelivered in self.reader.got[self.seen :]:
            name = body[:6]
            assert name in self.published, "nobody published it"
            if name in self.acknowledged:
                assert self.crashed, "acknowledged, and back without a crash"
                assert redelivered, "acknowledged before, and not flagged"
                self.acknowledged.discard(name)
            if name in self.delivered:
                assert redelivered, "delivered before, and not flagged"
            if not redelivered:
                assert name > self.last_in_order, "out of order"
                self.last_in_order = name
            self.delivered.add(name)
        self.seen = len(self.reader.got)

    def teardown(self) -> None:
        try:
            self._check_deliveries()
            if self.reader is not None:
                self.leave()
            reader = self.reader = self.desk.consume(self.queue)
            for _ in range(10):
                self.desk.settle()
            self._check_deliveries()
            there = {body[:6] for body in reader.bodies}
            lost = self.durable - self.acknowledged - there
            assert not lost, f"durable, never acknowledged, and gone: {sorted(lost)}"
        finally:
            self.rig.end()


class PriorityQueueMachine(QueueMachine):
    """Two lanes."""

    def _open_queue(self) -> None:
        self.lanes = 2
        super()._open_queue()


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(settings.get_profile("log-soak" if SOAK else "log"), max_examples=3000 if SOAK else 40)
TestPriorityQueue = PriorityQueueMachine.TestCase
TestPriorityQueue.settings = TestQueue.settings
