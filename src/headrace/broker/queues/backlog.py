"""Where the messages of a lane wait: in the log, with what is needed next in memory; or in memory alone.

`batch_at` gives the batch that holds an offset when it is in memory. When it is not, `load` reads about a megabyte from there
on and calls back. What was just published stays in memory as long as readers keep up with it; of a long backlog the middle is
only in the log.

Bounds: a durable lane keeps at most `KEPT_BYTES` of what was published and one read of `READ_BYTES`; all durable lanes together
keep at most `Budget.limit_bytes` of what was published. A lane in memory holds what nobody has acknowledged: when the process
has too much, front ends stop reading from publishers.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from typing import Protocol

from headrace.broker.queues.batch import Batch
from headrace.broker.queues.run import Run
from headrace.log.errors import LogError, OffsetOutOfRange
from headrace.log.port import Buffer, Partition
from headrace.record.amqp import twin

logger = logging.getLogger("headrace.queues")

KEPT_BYTES = 1024 * 1024
READ_BYTES = 1024 * 1024
_TRIM_EVERY = 16_384  # messages
_TIDY_BATCHES = 256
Loaded = Callable[[], None]
Spawn = Callable[[Awaitable[object]], object]


class Budget:
    """What all durable lanes together keep in memory of what was published."""

    __slots__ = ("kept_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self.limit_bytes = limit_bytes
        self.kept_bytes = 0


class Backlog(Protocol):
    end: int  # the offset of the next message
    start: int  # nothing before it can be read

    @property
    def size_bytes(self) -> int: ...

    def append(self, run: Run, timestamp_ms: int, *, caught_up: bool) -> int: ...

    def batch_at(self, offset: int) -> Batch | None: ...

    def load(self, offset: int, max_bytes: int, loaded: Loaded) -> None: ...

    def passed(self, offset: int) -> None:
        """Nobody will ask for what lies before this offset soon."""
        ...

    def settled(self, floor: int) -> None:
        """What lies before this offset is needed no more."""
        ...

    def delete(self) -> None: ...


class _Batches:
    """Batches in the order of their offsets, found by offset, removed from the front."""

    __slots__ = ("_bases", "_batches", "_gone", "size_bytes")

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._batches: list[Batch | None] = []
        self._gone = 0  # removed from the front; their places are given back now and then
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._bases) - self._gone

    @property
    def end(self) -> int:
        last = self._batches[-1] if self._batches else None
        return last.end if last is not None else -1

    def find(self, offset: int) -> Batch | None:
        batches = self._batches
        batch = batches[-1] if batches else None
        if batch is not None and batch.base <= offset:  # the newest: consumers who keep up want no other
            return batch if offset < batch.end else None
        number = bisect_right(self._bases, offset) - 1
        if number < self._gone:
            return None
        batch = batches[number]
        return batch if batch is not None and offset < batch.end else None

    def add(self, batch: Batch) -> bool:
        """False when it is there already."""
        bases = self._bases
        if not bases or batch.base > bases[-1]:
            bases.append(batch.base)
            self._batches.append(batch)
        else:
            number = max(bisect_right(bases, batch.base), self._gone)
            if number > self._gone and bases[number - 1] == batch.base:
                return False
            bases.insert(number, batch.base)
            self._batches.insert(number, batch)
        self.size_bytes += batch.size_bytes
        return True

    def remove_before(self, offset: int) -> int:
        """Removes the batches that lie wholly before an offset; returns their size."""
        before = self.size_bytes
        while self._gone < len(self._bases):
            batch = self._batches[self._gone]
            assert batch is not None
            if batch.end > offset:
                break
            self.size_bytes -= batch.size_bytes
            self._batches[self._gone] = None
            self._gone += 1
        if self._gone > _TIDY_BATCHES and self._gone * 2 > len(self._bases):
            del self._bases[: self._gone], self._batches[: self._gone]
            self._gone = 0
        return before - self.size_bytes

    def clear(self) -> int:
        size, self.size_bytes = self.size_bytes, 0
        self._bases.clear()
        self._batches.clear()
        self._gone = 0
        return size


class MemoryBacklog:
    """For queues that need not survive the server."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self._batches = _Batches()

    @property
    def size_bytes(self) -> int:
        return self._batches.size_bytes

    def append(self, run: Run, timestamp_ms: int, *, caught_up: bool) -> int:
        base = self.end
        added = Batch(base, run.count, timestamp_ms, run.shared_batch(timestamp_ms))
        self._batches.add(added)
        self.end = added.end
        return base

    def batch_at(self, offset: int) -> Batch | None:
        return self._batches.find(offset)

    def load(self, offset: int, max_bytes: int, loaded: Loaded) -> None:
        raise AssertionError("everything is in memory")

    def passed(self, offset: int) -> None:
        pass

    def settled(self, floor: int) -> None:
        self.start = floor
        self._batches.remove_before(floor)

    def delete(self) -> None:
        self._batches.clear()


class LogBacklog:
    """For durable queues: a partition of the queue's own topic."""

    def __init__(self, partition: Partition, budget: Budget, spawn: Spawn) -> None:
        self._partition = partition
        self._budget = budget
        self._spawn = spawn
        self._batches = _Batches()
        self._loading = False
        self._loaded: Loaded | None = None
        self._trimming = False
        self._deleted = False
        self.start = partition.start_offset
        self.end = partition.end_offset

    @property
    def size_bytes(self) -> int:
        return self._partition.size_bytes

    def append(self, run: Run, timestamp_ms: int, *, caught_up: bool) -> int:
        batch, count = run.batch(timestamp_ms), run.count
        base = self._partition.append_own(batch, count, timestamp_ms)
        self.end = base + count
        if caught_up or self._has_room(base):
            self._keep(Batch(base, count, timestamp_ms, bytes(batch)))
        return base

    def _has_room(self, base: int) -> bool:
        kept, budget = self._batches, self._budget
        return kept.end == base and kept.size_bytes < KEPT_BYTES and budget.kept_bytes < budget.limit_bytes

    def _keep(self, batch: Batch) -> None:
        if self._batches.add(batch):
            self._budget.kept_bytes += batch.size_bytes

    def batch_at(self, offset: int) -> Batch | None:
        return self._batches.find(offset)

    def passed(self, offset: int) -> None:
        self._budget.kept_bytes -= self._batches.remove_before(offset)

    # --- reading

    def load(self, offset: int, max_bytes: int, loaded: Loaded) -> None:
        """One read at a time: whoever asks meanwhile is called when it has ended, and may ask again."""
        self._loaded = loaded
        if self._loading or self._deleted:
            return
        self._loading = True
        if offset >= self._partition.high_watermark:  # not durable yet, and so not readable
            self._partition.watch(self._readable)
            return
        try:
            data = self._partition.read(offset, max_bytes)
        except LogError as error:
            self._failed(error)
            return
        if isinstance(data, Awaitable):
            self._spawn(self._read_later(data))
        else:
            self._take(data)

    def _readable(self) -> None:
        self._partition.unwatch(self._readable)
        self._done()

    async def _read_later(self, reading: Awaitable[Buffer]) -> None:
        try:
            data = await reading
        except LogError as error:
            self._failed(error)
        else:
            self._take(data)

    def _take(self, data: Buffer) -> None:
        if not self._deleted:
            for base, count, timestamp_ms, batch in twin.split_batches(data):
                self._keep(Batch(base, count, timestamp_ms, batch))
        self._done()

    def _failed(self, error: LogError) -> None:
        if not isinstance(error, OffsetOutOfRange):
            logger.error("a queue's messages can't be read: %s-%d: %s", self._partition.topic, self._partition.index, error)
        self._loading = False  # nobody is called: to ask again at once would only fail again

    def _done(self) -> None:
        self._loading = False
        loaded, self._loaded = self._loaded, None
        if loaded is not None and not self._deleted:
            loaded()

    # --- forgetting

    def settled(self, floor: int) -> None:
        self.passed(floor)
        drained = floor == self.end and self._partition.size_bytes > KEPT_BYTES
        if (floor - self.start >= _TRIM_EVERY or (drained and floor > self.start)) and not self._trimming:
            self._trimming = True
            self._spawn(self._trim(floor))

    async def _trim(self, floor: int) -> None:
        try:
            if not self._deleted:
                self.start = await self._partition.trim(min(floor, self._partition.high_watermark))
        except LogError as error:
            logger.warning("a queue's log can't be trimmed: %s: %s", self._partition.topic, error)
        finally:
            self._trimming = False

    def delete(self) -> None:
        self._deleted = True
        self._budget.kept_bytes -= self._batches.clear()
