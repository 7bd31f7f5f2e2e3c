"""The steps that take a classic group from one generation to the next.

A rebalance begins with `prepare`, gathers members until all have joined or the time is up, and ends its first half in
`complete_join`, which gives everyone the new generation. `syncing` does the second half. Time limits:

    initial   group.initial.rebalance.delay.ms, prolonged while members keep arriving, up to the rebalance timeout
    joining   the longest rebalance timeout of the members; dynamic members that miss it are removed
    syncing   the same again for the SyncGroup of each member
"""

from __future__ import annotations

import logging

from headrace.broker.groups.countdown import Countdown
from headrace.broker.groups.errors import GroupError, RebalanceInProgress, UnknownMember
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.store import GroupStore
from headrace.clock import Clock

from .group import ClassicGroup, State
from .member import Member, Synced

logger = logging.getLogger(__name__)


class Rebalance:
    def __init__(self, clock: Clock, store: GroupStore, settings: GroupSettings) -> None:
        self.clock = clock
        self.store = store
        self.settings = settings

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> None:
        """Something changed: starts a rebalance, or moves on the one that is under way."""
        if group.state is State.PREPARING_REBALANCE:
            self.complete_if_joined(group)
        elif group.state is not State.DEAD:
            self.prepare(group, reason)

    def prepare(self, group: ClassicGroup, reason: str) -> None:
        if group.state is State.COMPLETING_REBALANCE:
            group.assign({})
            self.propagate(group, RebalanceInProgress())
        self.stop_sync(group)
        logger.info("group %r leaves generation %d: %s", group.group_id, group.generation, reason)
        initial = group.state is State.EMPTY
        group.move_to(State.PREPARING_REBALANCE)
        if initial:
            group.grew_while_initial = False
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.all_joined:
            self.complete_join(group)
        else:
            self._wait_for_joins(group)

    def complete_if_joined(self, group: ClassicGroup) -> None:
        """The initial rebalance is not cut short: more members are expected."""
        if group.state is State.PREPARING_REBALANCE and group.previous_state is not State.EMPTY and group.all_joined:
            self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> None:
        """The first half ends: whoever has joined is in the next generation."""
        if group.join_deadline is not None:
            group.join_deadline.stop()
        late = [m for m in group.members.values() if not m.awaits_join and not m.is_static]
        for member in late:
            group.remove(member.member_id)
        if late:
            logger.info("group %r: %d members did not rejoin and are removed", group.group_id, len(late))
        if group.members and not group.elect_joined_leader():
            # Only silent static members are left. Their sessions decide.
            self._wait_for_joins(group)
            return
        group.begin_generation()
        if not group.members:
            self._save_empty(group)
            return
        logger.info("group %r: generation %d with %d members", group.group_id, group.generation, len(group.members))
        for member in tuple(group.members.values()):
            group.answer_join(member, group.joined(member.member_id))
            member.keep_alive()
            member.is_new = False
            group.unsynced_members.add(member.member_id)
        group.sync_deadline = group.sync_deadline or Countdown(self.clock, lambda: self._sync_time_is_up(group))
        group.sync_deadline.restart(group.rebalance_timeout_ms)

    def propagate(self, group: ClassicGroup, error: GroupError | None = None) -> None:
        """Answers every parked SyncGroup, and lets the sessions of those members run again."""
        for member in group.members.values():
            if member.answer_sync(error or Synced(group.protocol_type, group.protocol, member.assignment)):
                member.keep_alive()

    def heard_sync(self, group: ClassicGroup, member_id: str) -> None:
        group.unsynced_members.discard(member_id)
        if not group.unsynced_members and group.sync_deadline is not None:
            group.sync_deadline.stop()

    def stop_sync(self, group: ClassicGroup) -> None:
        group.unsynced_members.clear()
        if group.sync_deadline is not None:
            group.sync_deadline.stop()

    def new_session(self, group: ClassicGroup, member_id: str) -> Countdown:
        """The countdown that removes this member, pending or joined, when nothing is heard of it."""
        return Countdown(self.clock, lambda: self._session_is_over(group, member_id))

    def remove(self, group: ClassicGroup, member: Member, reason: str) -> None:
        # A parked JoinGroup is answered with UNKNOWN_MEMBER_ID, so that a live client asks again.
        group.answer_join(member, UnknownMember(member_id=""))
        group.remove(member.member_id)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare_or_complete(group, reason)
        elif group.state is State.PREPARING_REBALANCE and group.all_joined:
            self.complete_join(group)

    def _session_is_over(self, group: ClassicGroup, member_id: str) -> None:
        if group.state is State.DEAD:
            return
        if member_id in group.pending_members:
            group.forget_pending(member_id)
            if group.state is State.PREPARING_REBALANCE and group.all_joined:
                self.complete_join(group)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        if member.satisfies_heartbeat:
            member.keep_alive()
        else:
            self.remove(group, member, f"nothing heard of member {member_id!r}")

    def _sync_time_is_up(self, group: ClassicGroup) -> None:
        if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.unsynced_members:
            return
        silent = sorted(group.unsynced_members)
        for member_id in silent:
            group.remove(member_id)
        self.prepare(group, f"no SyncGroup from {len(silent)} members")

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        self._restart_join(group, Countdown(self.clock, lambda: self.complete_join(group)), group.rebalance_timeout_ms)

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, left_ms: int) -> None:
        """The group is new, so others are probably on their way."""

        def time_is_up() -> None:
            if group.grew_while_initial and left_ms:
                group.grew_while_initial = False
                next_ms = min(self.settings.initial_rebalance_delay_ms, left_ms)
                self._wait_for_more(group, next_ms, max(left_ms - delay_ms, 0))
            else:
                self.complete_join(group)

        self._restart_join(group, Countdown(self.clock, time_is_up), delay_ms)

    def _restart_join(self, group: ClassicGroup, countdown: Countdown, delay_ms: int) -> None:
        if group.join_deadline is not None:
            group.join_deadline.stop()
        group.join_deadline = countdown
        countdown.restart(delay_ms)

    def _save_empty(self, group: ClassicGroup) -> None:
        try:
            self.store.put_group(group.group_id, group.row({}))
        except GroupError as error:
            # After a crash the previous generation would come back and time out: safe, since nobody is in this one.
            logger.warning("group %r is empty, which could not be kept: %s", group.group_id, error)
