"""What one request, or one timer, changes in a consumer group: written to the table as a whole, then done in the books.

Everything is worked out first, on values. `commit` puts all rows in one batch; if the log refuses, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.broker.groups.consumer import rows
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import Member, Target
from headrace.broker.groups.consumer.rows import Key, Resolved
from headrace.broker.groups.records import encode_group_key
from headrace.broker.groups.store import GroupStore, encoded


class Change:
    def __init__(self, group: ConsumerGroup, *, provisional: bool = False) -> None:
        self.group = group
        self._provisional = provisional  # the group is not in the books yet
        self.rows: dict[bytes, bytes | None] = {}
        self._steps: list[Callable[[], None]] = []

    def commit(self, store: GroupStore) -> None:
        """Raises StorageFailed and GroupTooLarge, and then nothing has changed."""
        if self.rows:
            store.put_rows(self.rows)
        self._provisional = False
        for step in self._steps:
            step()

    def abandon(self) -> None:
        """Nothing comes of it."""
        if self._provisional:
            self.group.close()

    def then(self, step: Callable[[], None]) -> None:
        """Something to do, in its turn, once the rows are written."""
        self._steps.append(step)

    def subscription(self, member: Member) -> None:
        self._put(rows.MEMBER, member.member_id, partial(rows.encode_member, member))
        self._steps.append(partial(self.group.put_member, member))

    def assignment(self, member: Member) -> None:
        """What the member has now; `subscription` has been called if that changed too."""
        self._put(rows.CURRENT, member.member_id, partial(rows.encode_current, member))
        self._steps.append(partial(self.group.put_member, member))

    def target(self, member_id: str, target: Target) -> None:
        self._put(rows.TARGET, member_id, partial(rows.encode_target, target))
        self._steps.append(partial(self.group.targets.__setitem__, member_id, target))

    def assignment_epoch(self, epoch: int, timestamp_ms: int) -> None:
        def step() -> None:
            self.group.assignment_epoch = epoch
            self.group.assigned_at_ms = timestamp_ms

        self._put(rows.TARGET_EPOCH, "", partial(rows.encode_target_epoch, epoch, timestamp_ms))
        self._steps.append(step)

    def epoch(self, epoch: int, metadata_hash: int) -> None:
        def step() -> None:
            self.group.epoch = epoch
            self.group.metadata_hash = metadata_hash

        self._put(rows.GROUP, "", partial(rows.encode_group, epoch, metadata_hash))
        self._steps.append(step)

    def seen(self, version: int) -> None:
        """Of the topic catalog; not kept, since topics are looked at anew after a restart."""
        self._steps.append(partial(setattr, self.group, "seen_version", version))

    def regex(self, regex: str, resolved: Resolved) -> None:
        self._put(rows.REGEX, regex, partial(rows.encode_regex, resolved))
        self._steps.append(partial(self.group.resolved.__setitem__, regex, resolved))

    def forget_regex(self, regex: str) -> None:
        def step() -> None:
            self.group.resolved.pop(regex, None)

        self._remove(rows.REGEX, regex)
        self._steps.append(step)

    def remove_member(self, member_id: str) -> None:
        for kind in (rows.CURRENT, rows.TARGET, rows.MEMBER):
            self._remove(kind, member_id)
        self._steps.append(partial(self.group.drop_member, member_id))

    def remove_group(self) -> None:
        """The rows alone: whoever removes the group takes it out of the books."""
        for member_id in self.group.members:
            for kind in (rows.CURRENT, rows.TARGET, rows.MEMBER):
                self._remove(kind, member_id)
        for regex in self.group.resolved:
            self._remove(rows.REGEX, regex)
        self._remove(rows.TARGET_EPOCH, "")
        self._remove(rows.GROUP, "")

    def forget_classic_group(self) -> None:
        """The row that a classic group of this id had."""
        self.rows[encode_group_key(self.group.group_id)] = None

    def write_whole_group(self) -> None:
        """A row for everything that the books have already."""
        group = self.group
        for member_id, member in group.members.items():
            self._put(rows.MEMBER, member_id, partial(rows.encode_member, member))
            self._put(rows.TARGET, member_id, partial(rows.encode_target, group.targets[member_id]))
            self._put(rows.CURRENT, member_id, partial(rows.encode_current, member))
        self._put(rows.GROUP, "", partial(rows.encode_group, group.epoch, group.metadata_hash))
        self._put(rows.TARGET_EPOCH, "", partial(rows.encode_target_epoch, group.assignment_epoch, group.assigned_at_ms))

    def _put(self, kind: int, name: str, encode: Callable[[], bytes]) -> None:
        key, value = encoded(lambda: (rows.encode_key(Key(kind, self.group.group_id, name)), encode()))
        self.rows[key] = value

    def _remove(self, kind: int, name: str) -> None:
        self.rows[rows.encode_key(Key(kind, self.group.group_id, name))] = None
