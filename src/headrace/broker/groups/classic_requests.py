"""The requests of the classic protocol, whatever kind of group they find: a classic one, a consumer group with members of
both protocols (KIP-848), or none.

Also how classic groups come into being: new, from an empty consumer group, and from their row after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.broker.groups.budget import size_of_name
from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.joining import Joining
from headrace.broker.groups.classic.member import Join, Joined, Leaver, Member, Sync, Synced
from headrace.broker.groups.classic.staying import heartbeat, leave
from headrace.broker.groups.classic.syncing import Syncing
from headrace.broker.groups.consumer.change import Change
from headrace.broker.groups.consumer.classic_members import ClassicMembers
from headrace.broker.groups.consumer.environment import Environment
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.errors import (
    CoordinatorNotAvailable,
    GroupError,
    InconsistentProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    UnknownMember,
)
from headrace.broker.groups.records import GroupRow
from headrace.broker.groups.store import encoded_group

T = TypeVar("T")


class ClassicRequests:
    def __init__(self, env: Environment, members: ClassicMembers) -> None:
        self._env = env
        self._members = members  # of consumer groups
        self._rebalance = env.rebalance
        self._settings = env.rebalance.settings
        self._joining = Joining(env.rebalance, env.budget, env.new_uuid)
        self._syncing = Syncing(env.rebalance)

    async def join(self, join: Join) -> Joined:
        if not join.group_id:
            raise InvalidGroupId
        if not self._settings.min_session_timeout_ms <= join.session_timeout_ms <= self._settings.max_session_timeout_ms:
            raise InvalidSessionTimeout
        group = self._env.groups.get(join.group_id)
        if group is None:
            if join.member_id:
                raise UnknownMember
            group = self._create(join.group_id)
        if isinstance(group, ConsumerGroup):
            if group.members:
                joined = self._members.join(group, join)
                await self._env.store.synced()
                return joined
            group = self._from_empty(group)
        if not isinstance(group, ClassicGroup):
            raise InconsistentProtocol(member_id="")
        classic = group
        return await _answer(lambda reply: self._joining.join(classic, join, reply))

    async def sync(self, sync: Sync) -> Synced:
        group = self._group(sync.group_id)
        if isinstance(group, ConsumerGroup):
            synced = self._members.sync(group, sync)
            await self._env.store.synced()
            return synced
        classic = group
        return await _answer(lambda reply: self._syncing.sync(classic, sync, reply))

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> None:
        group = self._group(group_id)
        if isinstance(group, ConsumerGroup):
            self._members.heartbeat(group, member_id, group_instance_id, generation)
        else:
            heartbeat(group, member_id, group_instance_id, generation)

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[GroupError | None]:
        try:
            group = self._group(group_id)
        except UnknownMember:
            return [UnknownMember() for _ in leavers]
        if isinstance(group, ConsumerGroup):
            return self._members.leave(group, leavers)
        return leave(self._rebalance, group, leavers)

    # -- classic groups come into being

    def new_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self._env.clock, self._env.budget)

    def check_room(self, group_id: str) -> None:
        if not self._env.budget.fits(size_of_name(group_id)):
            raise CoordinatorNotAvailable("the groups take too much memory")

    def restore(self, group_id: str, row: GroupRow) -> ClassicGroup:
        group = self.new_group(group_id)
        group.restore(
            row,
            (
                Member(
                    kept.member_id,
                    kept.group_instance_id,
                    kept.client_id,
                    kept.client_host,
                    kept.session_timeout_ms,
                    kept.rebalance_timeout_ms,
                    row.protocol_type,
                    ((row.protocol or "", kept.subscription),),
                    self._rebalance.new_session(group, kept.member_id),
                    kept.assignment,
                )
                for kept in row.members
            ),
        )
        return group

    def resume(self) -> None:
        """After a restart the sessions of members run again."""
        for group in tuple(self._env.groups.values()):
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    member.keep_alive()
                if len(group.members) > self._settings.max_size:
                    self._rebalance.prepare(group, "group.max.size was lowered")

    def _group(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        if not group_id:
            raise InvalidGroupId
        group = self._env.groups.get(group_id)
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise UnknownMember
        return group

    def _create(self, group_id: str) -> ClassicGroup:
        """Kept from its first member on, so that a client finds after a restart what it was told to rejoin."""
        self.check_room(group_id)
        group = self.new_group(group_id)
        try:
            self._env.store.put_group(group_id, group.row({}))
        except GroupError:
            group.close()
            raise
        self._env.groups[group_id] = group
        return group

    def _from_empty(self, group: ConsumerGroup) -> ClassicGroup:
        """An empty consumer group becomes a classic one when somebody of that protocol joins."""
        classic = self.new_group(group.group_id)
        change = Change(group)
        change.remove_group()
        try:
            change.rows.update(encoded_group(group.group_id, classic.row({})))
            change.commit(self._env.store)
        except GroupError:
            classic.close()
            raise
        group.close()
        self._env.groups[group.group_id] = classic
        return classic


async def _answer(ask: Callable[[Callable[[T | GroupError], None]], None]) -> T:
    """Asks, and waits for the callback."""
    future: asyncio.Future[T | GroupError] = asyncio.get_running_loop().create_future()

    def reply(answer: T | GroupError) -> None:
        if not future.done():  # the client may have gone away while it waited
            future.set_result(answer)

    ask(reply)
    answer = await future
    if isinstance(answer, GroupError):
        raise answer
    return answer
