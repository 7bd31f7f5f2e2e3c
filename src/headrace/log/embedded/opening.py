"""Opening the folder: from what is on disk to topics with partitions, after a clean end or a crash."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.dataclass import dataclass
from headrace.disk.port import Disk
from headrace.log.embedded.checkpoint import Checkpoint, Row
from headrace.log.embedded.compaction_manifest import NONE, Manifest, problem_with, read_manifest, sweep
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.journal import Entry, read_frames
from headrace.log.embedded.layout import TOPICS, topic_id_of
from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.embedded.recovery import Promise, open_clean, recover, redo
from headrace.log.embedded.segment import Segment
from headrace.log.errors import StorageError

if TYPE_CHECKING:
    from headrace.log.embedded.archive.archive import Archive

logger = logging.getLogger("headrace.log")

Place = tuple[UUID, int]  # topic id and partition number


@dataclass(slots=True)
class Opening:
    """The state of a start. Partitions are asked for in any order; the table of topics comes first."""

    disk: Disk
    files: OpenFiles
    checkpoint: Checkpoint
    next_sequence: int
    entries: dict[Place, list[Entry]] = field(default_factory=dict)
    recovered: int = 0
    broken: dict[Place, Row] = field(default_factory=dict)
    archive: Archive | None = None  # once its rows are known

    @classmethod
    def of(cls, disk: Disk, files: OpenFiles, checkpoint: Checkpoint) -> Opening:
        if checkpoint.clean:
            return cls(disk, files, checkpoint, checkpoint.floor)
        frames, next_sequence = read_frames(disk, checkpoint.key, checkpoint.floor)
        entries: dict[Place, list[Entry]] = defaultdict(list)
        for frame in frames:
            for entry in frame:
                entries[entry.topic_id, entry.partition].append(entry)
        return cls(disk, files, checkpoint, next_sequence, dict(entries))

    def restore(self, partition: EmbeddedPartition) -> None:
        """Gives a partition what the disk holds of it."""
        place = (partition.topic_id, partition.index)
        row: Row | None = self.checkpoint.rows.get(place)
        interval = partition.config.index_interval_bytes
        if self.checkpoint.clean and (row is None or row.promised_end <= row.end_offset):
            if row is None:
                return
            start = row.start_offset
            local = self._local_start(partition, start)
            manifest, problem = self._compacted(partition.folder, row, local)
            there = row._replace(start_offset=local)
            found = open_clean(self.disk, self.files, partition.folder, there, interval, manifest)
        else:
            entries = self.entries.get(place, [])
            promise = redo(self.disk, partition.folder, entries, row) if entries else Promise(row.start_offset if row else 0)
            if row is None and not entries and not self.disk.list(partition.folder):
                return
            start = promise.start_offset
            local = promise.start_offset = self._local_start(partition, start)
            manifest, problem = self._compacted(partition.folder, row, local)
            found = recover(self.disk, self.files, partition.folder, row, promise, interval, manifest)
            self.recovered += found.changed
        if problem:
            found.broken, found.row = problem, found.row or row
        if found.segments and found.segments[-1].number:  # a cleaned copy is never written to
            found.segments.append(Segment(self.files, partition.folder, found.end_offset, interval))
        partition.manifest = manifest
        if local > start:  # what lies between is in the archive
            found.start_offset = start
            found.end_offset = max(found.end_offset, local)
            found.row = found.row._replace(start_offset=start) if found.row is not None else None
        partition.restore(found.segments, found.start_offset, found.end_offset, found.producers_from)
        if self.archive is not None:
            self.archive.claim(partition)
        if found.row is not None:
            partition.broken = found.broken
            self.broken[place] = found.row
            logger.error("partition %s-%d is damaged and refuses writes: %s", partition.topic, partition.index, found.broken)
        else:
            partition.learn_producers()

    def _compacted(self, folder: str, row: Row | None, start_offset: int) -> tuple[Manifest, str]:
        """Which segments are cleaned copies, and what is wrong with them, if anything; what a cleaning left behind goes."""
        if row is None:
            return NONE, ""
        try:
            manifest = read_manifest(self.disk, folder)
        except StorageError as error:
            return NONE, str(error)
        problem = problem_with(self.disk, folder, manifest, start_offset)
        if not problem:
            sweep(self.disk, self.files, folder, manifest)
        return manifest, problem

    def _local_start(self, partition: EmbeddedPartition, start_offset: int) -> int:
        if self.archive is None:
            return start_offset
        rows = self.archive.rows_of((partition.topic_id, partition.index))
        from headrace.log.embedded.archive.local import local_floor  # a folder without an archive does not load it

        return local_floor(self.disk, self.files, partition.folder, rows, start_offset)

    def remove_orphans(self, known: Mapping[UUID, int]) -> None:
        """Folders of topics whose deletion was under way, and of partitions that were never promised: their numbers will be
        used again, so their removal is made durable."""
        for name in self.disk.list(TOPICS):
            topic_id = topic_id_of(name)
            folder = f"{TOPICS}/{name}"
            if topic_id is None:
                continue
            if topic_id not in known:
                self.disk.remove_folder(folder)
                continue
            surplus = [inside for inside in self.disk.list(folder) if inside.isdigit() and int(inside) >= known[topic_id]]
            for inside in surplus:
                self.disk.remove_folder(f"{folder}/{inside}")
            if surplus:
                self.disk.sync_folder(folder)
