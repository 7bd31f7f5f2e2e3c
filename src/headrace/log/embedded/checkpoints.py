"""Writing checkpoints: when, in which order, and what a failure means.

A checkpoint syncs the segments that changed, saves what is known of their producers and then says in one file how far
everything is safe (`checkpoint` has the format, `saving` the steps of one partition). Afterwards the journal may forget what
it held. One runs at a time, on the keeper's thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.log.embedded.checkpoint import Checkpoint, Row, SyncFailed, write_checkpoint
from headrace.log.embedded.journal import NO_SPACE
from headrace.log.embedded.saving import checkpoint_steps, row_of
from headrace.log.errors import ReadOnly
from headrace.log.port import Durability

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog
    from headrace.log.embedded.partition import EmbeddedPartition

Place = tuple[UUID, int]  # topic id, partition


class Checkpoints:
    def __init__(self, log: EmbeddedLog, key: bytes) -> None:
        self._log = log
        self.key = key  # of this folder, in every journal frame
        self.rows: dict[Place, Row] = {}
        self.changed: set[EmbeddedPartition] = set()  # written to since the last checkpoint
        self.running = asyncio.Lock()

    def begin(self, next_sequence: int, broken: dict[Place, Row]) -> None:
        """The first one of a start: what recovery found, and that the server runs."""
        self.rows = self._rows_now() | broken
        write_checkpoint(self._log.disk, Checkpoint(self.key, next_sequence, clean=False, rows=self.rows))

    def forget(self, partition: EmbeddedPartition) -> None:
        self.changed.discard(partition)
        self.rows.pop((partition.topic_id, partition.index), None)

    @property
    def needed(self) -> bool:
        commit = self._log.commit
        return bool(self.changed) or commit.journal.floor < commit.applied_sequence

    async def run(self, *, clean: bool = False) -> None:
        async with self.running:
            if isinstance(self._log.refusal, ReadOnly):
                return
            changed = self.changed
            self.changed = {p for p in changed if p.high_watermark < p.end_offset}  # what waits for a sync is for the next one
            try:
                await self._write(changed, clean)
            except BaseException as error:
                self.changed |= changed
                for partition in changed:
                    partition.checkpoint_failed()
                if isinstance(error, FileNotFoundError):
                    return  # a topic was deleted meanwhile; the next checkpoint does without it
                if not isinstance(error, OSError | SyncFailed):
                    raise
                if isinstance(error, SyncFailed) or error.errno not in NO_SPACE:
                    self._log.sync_failed(error)

    async def _write(self, changed: set[EmbeddedPartition], clean: bool) -> None:
        log = self._log
        floor = log.commit.applied_sequence
        kept = [p for p in changed if p.durability is not Durability.MEMORY and not p.broken]
        kept.sort(key=lambda partition: partition.folder)  # an order that a test can repeat
        work = [step for partition in kept for step in checkpoint_steps(partition)]
        rows = self.rows | {(partition.topic_id, partition.index): row_of(partition) for partition in kept}
        checkpoint = Checkpoint(self.key, floor, clean, rows)

        def job() -> None:
            for step in work:
                step()
            write_checkpoint(log.disk, checkpoint)

        await log.keeper_job(job)
        self.rows = {place: row for place, row in rows.items() if log.topic_by_id(place[0]) is not None}
        log.commit.journal.raise_floor(floor)

    def _rows_now(self) -> dict[Place, Row]:
        return {
            (partition.topic_id, partition.index): row_of(partition)
            for topic in self._log.topics().values()
            for partition in topic.partitions
            if partition.durability is not Durability.MEMORY and partition.end_offset and not partition.broken
        }
