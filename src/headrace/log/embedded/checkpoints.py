"""Writing checkpoints: when, in which order, and what a failure means.

A checkpoint syncs the segments that changed, saves what is known of their producers and then says in one file how far
everything is safe (`checkpoint` has the format, `saving` the steps of one partition). Afterwards the journal may forget what
it held. One runs at a time, on the keeper's thread, and leaves the disk to others half of the time, unless somebody waits for
it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.log.embedded.checkpoint import Checkpoint, Row, SyncFailed, write_checkpoint
from headrace.log.embedded.journal import NO_SPACE
from headrace.log.embedded.saving import Plan, carry_out, plan_of, row_of, standing_of
from headrace.log.errors import ReadOnly
from headrace.log.port import Durability

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog
    from headrace.log.embedded.partition import EmbeddedPartition

Place = tuple[UUID, int]  # topic id, partition

_PLANNED_AT_ONCE = 32  # partitions; then everybody else has a turn


class Checkpoints:
    def __init__(self, log: EmbeddedLog, key: bytes) -> None:
        self._log = log
        self.key = key  # of this folder, in every journal frame
        self.rows: dict[Place, Row] = {}
        self.changed: dict[EmbeddedPartition, None] = {}  # written to since the last checkpoint, in an order a test can repeat
        self._gone: set[EmbeddedPartition] = set()  # deleted since the last one began
        self.running = asyncio.Lock()
        self._hurried = threading.Event()  # the one that runs rests no more

    def begin(self, next_sequence: int, broken: dict[Place, Row]) -> None:
        """The first one of a start: what recovery found, and that the server runs."""
        self.rows = self._rows_now() | broken
        write_checkpoint(self._log.disk, Checkpoint(self.key, next_sequence, clean=False, rows=self.rows))

    def forget(self, partition: EmbeddedPartition) -> None:
        self.changed.pop(partition, None)
        self.rows.pop((partition.topic_id, partition.index), None)
        self._gone.add(partition)

    def hurry(self) -> None:
        """Somebody waits for the one that runs."""
        self._hurried.set()

    @property
    def needed(self) -> bool:
        commit = self._log.commit
        return bool(self.changed) or commit.journal.floor < commit.applied_sequence

    async def run(self, *, clean: bool = False) -> None:
        async with self.running:
            if isinstance(self._log.refusal, ReadOnly):
                return
            changed = self.changed
            self.changed = {p: None for p in changed if p.high_watermark < p.end_offset}  # they wait for the next one
            self._gone.clear()
            self._hurried.clear()
            if clean:
                self._hurried.set()
            try:
                await self._write(changed, clean)
            except BaseException as error:
                for partition in changed:
                    if self._log.topic_by_id(partition.topic_id) is not None:
                        self.changed[partition] = None
                        partition.checkpoint_failed()
                if isinstance(error, FileNotFoundError):
                    return  # a topic was deleted meanwhile; the next checkpoint does without it
                if not isinstance(error, OSError | SyncFailed):
                    raise
                if isinstance(error, SyncFailed) or error.errno not in NO_SPACE:
                    self._log.sync_failed(error)

    async def _write(self, changed: Iterable[EmbeddedPartition], clean: bool) -> None:
        log = self._log
        floor = log.commit.applied_sequence
        standings = [(p, standing_of(p)) for p in changed if p.durability is not Durability.MEMORY and not p.broken]
        plans: list[Plan] = []  # they need not be of the same moment: what a partition has more by then is in the journal
        rows: dict[Place, Row] = {}
        for number, (partition, standing) in enumerate(standings, 1):
            plans.append(plan_of(partition, standing.segment_base))
            rows[partition.topic_id, partition.index] = row_of(partition, standing)
            if not number % _PLANNED_AT_ONCE:
                await asyncio.sleep(0)
        if self._gone:
            plans = [plan for plan in plans if plan.partition not in self._gone]
            self._without_gone(rows)
        checkpoint = Checkpoint(self.key, floor, clean, self.rows | rows)

        def job() -> None:
            carry_out(plans, log.files, log.disk, self._hurried.wait)
            write_checkpoint(log.disk, checkpoint)

        await log.keeper_job(job)
        self._without_gone(rows)
        self.rows.update(rows)
        log.commit.journal.raise_floor(floor)

    def _without_gone(self, rows: dict[Place, Row]) -> None:
        for partition in self._gone:
            rows.pop((partition.topic_id, partition.index), None)

    def _rows_now(self) -> dict[Place, Row]:
        return {
            (partition.topic_id, partition.index): row_of(partition, standing_of(partition))
            for topic in self._log.topics().values()
            for partition in topic.partitions
            if partition.durability is not Durability.MEMORY and partition.end_offset and not partition.broken
        }
