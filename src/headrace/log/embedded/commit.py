"""Group commit: many writes become durable with one sync.

Appends write their batch into the segment (the page cache) at once and add it here. While one group is being synced on the
commit thread, the next one gathers; so under load a sync serves everybody who came in the meantime, and on a quiet server a
write waits for nobody. Two ways to sync a group, chosen by what it holds:

    small, or spread over many segments    one frame in the journal, one sync
    large, in few segments                 those segments are synced themselves, and nothing is written twice

A small group is handed over by the event loop without a turn of the commit thread's, where the disk can do that
(`Journal.start`): on a quiet server waking a thread of Python, and being woken by it, costs as much as the sync.

A write may ask to reach its segment only after the journal has it (`after_journal`), which is how several writes happen
together or not at all. Or it may be left `behind`: the segment is written once its group is handed over, while the disk is at
work, because on a quiet server that is time in which nobody waits. If there is no room for it then, it is put off until the
journal has it, like those.

When the sync fails nothing is acknowledged and the log is read-only from then on: what the disk holds is unknown.

Bound: `waiting_bytes` counts what is not durable yet; at `LIMIT_BYTES` front ends stop reading from producers until it falls.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from headrace.clock import Clock, Timer
from headrace.dataclass import dataclass
from headrace.disk.port import NOT_BEGUN, Disk
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.journal import BATCH, NO_SPACE, Entry, Journal
from headrace.log.embedded.threads import Worker
from headrace.log.port import Synced
from headrace.times import Times

if TYPE_CHECKING:
    from headrace.log.embedded.partition import EmbeddedPartition
    from headrace.log.embedded.segment import Segment

logger = logging.getLogger("headrace.log")

LIMIT_BYTES = 64 * 1024 * 1024
_LINGER_S = 0.01  # how long writes that nobody waits for may gather
_RETRY_S = 0.02  # how long a group that found no room waits for a checkpoint to make some
_DIRECT_BYTES = 128 * 1024
_DIRECT_SEGMENTS = 4
_QUICK_BYTES = 80 * 1024  # up to here the event loop frames a group; above, the commit thread's own core is worth more
_BUSY_S = 2.0  # a journal that grows again within this time belongs to a server that is worth 192 MB of disk
_PREPARE_EVERY_S = 0.008
_GROUP_BYTES = 16 * 1024 * 1024  # a group is closed at this size, so that no frame and no wait grows without end


class Write(NamedTuple):
    partition: EmbeddedPartition
    segment: Segment | None  # None for a trim
    entry: Entry
    end_offset: int
    end_position: int
    after_journal: bool = False
    sync_first: tuple[Segment, ...] = ()  # what was written before with a weaker promise


@dataclass(slots=True, eq=False)
class _Group:
    writes: list[Write] = field(default_factory=list)
    callbacks: list[Synced] = field(default_factory=list)
    size_bytes: int = 0
    journal_only: bool = False
    sync_first: bool = False  # some of its writes do
    urgent: bool = False  # somebody waits for it
    durable: bool = False  # what is left to do is to write what waited for the journal


class GroupCommit:
    def __init__(
        self,
        *,
        journal: Journal,
        files: OpenFiles,
        disk: Disk,
        clock: Clock,
        worker: Worker,
        keeper: Worker,
        failed: Callable[[Exception], None],
        wants_checkpoint: Callable[[], None],
    ) -> None:
        self.journal = journal
        self.waiting_bytes = 0
        self.times = Times()
        self._files = files
        self._disk = disk
        self._clock = clock
        self._worker = worker
        self._keeper = keeper
        self._failed = failed
        self._wants_checkpoint = wants_checkpoint
        self._gathering = _Group()
        self._queue: list[_Group] = []  # closed because they were full
        self._syncing: _Group | None = None
        self._linger: Timer | None = None  # for writes that nobody waits for; it goes on when somebody does, and may be early
        self.roomy = False  # the disk is far from full
        self.behind: list[Write] = []  # the segments do not have these yet
        self._soon = False  # the next group begins at the end of the turn
        self._checkpoint_asked_at = 0
        self._growths = 0
        self._grew_s = -_BUSY_S
        self._preparing = False
        self._together = False  # the gathering group must not be closed now
        self._stopped: Exception | None = None
        self._closing = False
        self.refused: _Group | None = None  # found no room while the log closes
        self.applied_sequence = journal.next_sequence  # every frame below it has reached its segments

    # --- on the event loop

    def add(self, write: Write, *, urgent: bool, behind: bool = False) -> None:
        group = self._gathering
        group.writes.append(write)
        if behind:
            self.behind.append(write)
        size = len(write.entry.content)
        group.size_bytes += size
        self.waiting_bytes += size
        if write.after_journal:
            group.journal_only = True
        if write.sync_first:
            group.sync_first = True
        if group.size_bytes >= _GROUP_BYTES and not self._together:
            self.close_group()
            urgent = True
        elif urgent:
            group.urgent = True
        if self._syncing is None:
            if urgent:
                self._start_soon()
            elif self._linger is None:
                self._start_later()

    def close_group(self) -> None:
        """What comes next goes into another group."""
        self._queue.append(self._gathering)
        self._gathering = _Group()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is added inside goes into one group. It may share it with what has gathered, as long as that is little: writes
        that must happen together should not wait in line for one sync each."""
        if self._gathering.size_bytes >= _DIRECT_BYTES:
            self.close_group()
        self._together = True
        try:
            yield
        finally:
            self._together = False
            if self._gathering.size_bytes >= _GROUP_BYTES:
                self.close_group()
                self._start_soon()

    def after(self, synced: Synced, *, now: bool = False) -> None:
        if self._gathering.writes or self._queue:
            self._gathering.callbacks.append(synced)
            self._gathering.urgent = True
            if now:
                self._start()
            else:
                self._start_soon()
        elif self._syncing is not None:
            self._syncing.callbacks.append(synced)
        else:
            synced(None)

    def hurry(self) -> None:
        """Somebody waits for what has gathered."""
        self._gathering.urgent = True
        self._start_soon()

    def _start_soon(self) -> None:
        if self._syncing is None and not self._soon:
            self._soon = True
            self._clock.call_later(0, self._due)

    def _due(self) -> None:
        self._soon = False
        self._start()

    def _start_later(self) -> None:
        self._linger = self._clock.call_later(_LINGER_S, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        self._start()

    @property
    def idle(self) -> bool:
        return self._syncing is None and not self._queue and not self._gathering.writes

    def _start(self) -> None:
        if self._syncing is not None:
            return
        if self._queue:
            group = self._queue.pop(0)
        else:
            group, self._gathering = self._gathering, _Group()
            if not group.writes and not group.callbacks:
                return
        self._syncing = group
        begun = self._start_direct(group)
        if self.behind:
            self.write_behind()
        if not begun:
            self._submit(group)

    @property
    def quiet(self) -> bool:
        """What is added now will be handed over at the end of the turn, or soon, and may be left behind until then. Not so on a
        disk that is nearly full, where whoever appends is told at once."""
        return self.roomy and self._syncing is None

    def write_behind(self) -> None:
        """What was left behind reaches its segments."""
        writes, self.behind = self.behind, []
        for number, write in enumerate(writes):
            assert write.segment is not None
            try:
                write.segment.file().write(write.entry.position, (write.entry.content,))
            except OSError as error:
                if error.errno in NO_SPACE:
                    self._put_off(writes[number:])
                else:
                    self._failed(error)
                return

    def _put_off(self, late: list[Write]) -> None:
        found = set(map(id, late))
        for group in filter(None, (self._syncing, *self._queue, self._gathering)):
            for number, write in enumerate(group.writes):
                if id(write) in found:
                    group.writes[number] = write._replace(after_journal=True)
                    group.journal_only = True
                    write.partition.pending_reserved += 1

    def _start_direct(self, group: _Group) -> bool:
        if group.journal_only or group.sync_first or group.size_bytes > _QUICK_BYTES or not group.writes:
            return False
        began_s = self._clock.monotonic()

        def done(error: Exception | None) -> None:
            if isinstance(error, OSError) and error.errno in (*NO_SPACE, *NOT_BEGUN):  # it promised more than it has, or can
                self._submit(group)
                return
            self.times.add(self._clock.monotonic() - began_s)
            if group.journal_only and error is None:  # not when it was begun: some of it was put off since
                group.durable = True
                self._submit(group)
            else:
                self._finish(group, error)

        return self.journal.start([write.entry for write in group.writes], group.size_bytes, done)

    def _submit(self, group: _Group) -> None:
        room = [True]

        def job() -> None:
            began_s = self._clock.monotonic()
            room[0] = self._make_durable(group)
            self.times.add(self._clock.monotonic() - began_s)

        def done(error: Exception | None) -> None:
            if error is not None or room[0]:
                self._finish(group, error)
                return
            if self._closing:
                self.refused = group
            else:
                self._clock.call_later(_RETRY_S, lambda: self._submit(group))
            self._wants_checkpoint()  # it makes room in the journal

        self._worker.submit(job, done)

    def _finish(self, group: _Group, error: Exception | None) -> None:
        self._syncing = None
        self.waiting_bytes -= group.size_bytes
        error = error or self._stopped
        if error is not None:
            self._failed(error)
        else:
            self.applied_sequence = self.journal.next_sequence
            watched: dict[EmbeddedPartition, None] = {}
            for write in group.writes:
                write.partition.now_durable(write)
                if write.partition.watchers:
                    watched[write.partition] = None
            for partition in watched:
                partition.tell_watchers()
            if self.journal.filled_files > self._checkpoint_asked_at:
                self._checkpoint_asked_at = self.journal.filled_files
                self._wants_checkpoint()
            if self.journal.growths > self._growths:
                self._growths = self.journal.growths
                self._journal_grew()
        _tell(group.callbacks, error)
        if self._syncing is None:
            if self._queue or self._gathering.urgent:
                self._start_soon()  # answers go out first, and whoever is there by then comes along
            elif self._gathering.writes and self._linger is None:
                self._start_later()

    def _journal_grew(self) -> None:
        now_s = self._clock.monotonic()
        busy, self._grew_s = now_s - self._grew_s < _BUSY_S, now_s
        if busy and not self._preparing:
            self._preparing = True
            self._prepare()

    def _prepare(self) -> None:
        """Has the journal's other files made ready, a little at a time: frames are written meanwhile."""
        if self._closing or self._stopped is not None:
            return

        def job() -> None:
            self._preparing = self.journal.prepare()

        def done(error: Exception | None) -> None:
            if error is not None:
                self._preparing = False
                if not isinstance(error, OSError) or error.errno not in NO_SPACE:
                    self._failed(error)
            elif self._preparing:
                self._clock.call_later(_PREPARE_EVERY_S, self._prepare)

        self._keeper.submit(job, done)

    def stop(self, error: Exception) -> None:
        """After a failed sync nobody knows what the disk holds: what is not durable yet never will be, nor what follows."""
        self._stopped = error
        groups, self._queue, self._gathering = [*self._queue, self._gathering], [], _Group()
        self.behind.clear()
        for group in groups:
            self.waiting_bytes -= group.size_bytes
            _tell(group.callbacks, error)

    def close(self) -> None:
        """From now on a group that finds no room waits for `try_again`, not for better times."""
        self._closing = True

    def try_again(self, *, made_room: bool) -> None:
        """The checkpoint that was wanted for the refused group has ended."""
        group, self.refused = self.refused, None
        if group is not None and made_room:
            self._submit(group)
        elif group is not None:
            self._finish(group, OSError(errno.ENOSPC, "no room in the journal, and the log is closing"))

    # --- on the commit thread

    def _make_durable(self, group: _Group) -> bool:
        """False when there is no room for it: in the journal for a group that needs it, or on the disk for what waited for the
        journal. It may be tried again."""
        if not group.durable:
            if not self._sync_group(group):
                return False
            group.durable = True
        for write in group.writes:
            if write.after_journal and write.segment is not None and write.entry.kind == BATCH:
                try:
                    with self._files.lend(write.segment.path, create=True) as file:
                        file.write(write.entry.position, (write.entry.content,))
                except OSError as error:
                    if error.errno not in NO_SPACE:
                        raise
                    return False
        return True

    def _sync_group(self, group: _Group) -> bool:
        earlier = {segment for write in group.writes for segment in write.sync_first}
        if earlier:
            self._sync_segments(earlier, may_be_gone=True)
        segments = {write.segment for write in group.writes if write.segment is not None}
        large = group.size_bytes >= _DIRECT_BYTES and len(segments) <= _DIRECT_SEGMENTS
        if group.writes and (group.journal_only or not large):
            journaled = self.journal.write([write.entry for write in group.writes], at_any_size=group.journal_only)
            if not journaled and group.journal_only:
                return False
            large = not journaled
        if large:
            self._sync_segments(segments)
        return True

    def _sync_segments(self, segments: set[Segment], *, may_be_gone: bool = False) -> None:
        named: dict[str, list[Segment]] = {}  # whose name is not durable yet, by folder
        ordered = sorted(segments, key=lambda segment: segment.path)  # an order that a test can repeat
        errors = self._files.sync([segment.path for segment in ordered])
        for segment in ordered:
            error = errors.get(segment.path)
            if error is not None:
                if may_be_gone and isinstance(error, FileNotFoundError):
                    continue  # trimmed meanwhile, or about to be written by this very group
                raise error
            if not segment.entry_synced:
                named.setdefault(segment.folder, []).append(segment)
        for folder, inside in named.items():
            self._disk.sync_folder(folder)
            for segment in inside:
                segment.entry_synced = True


def _tell(callbacks: list[Synced], error: Exception | None) -> None:
    for callback in callbacks:
        try:
            callback(error)
        except Exception:  # one who waits must not take the others with him
            logger.exception("a callback after a sync failed")
