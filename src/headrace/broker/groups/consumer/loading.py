"""Brings consumer groups back from their rows, in whatever order these come."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from headrace.broker.groups.budget import Budget
from headrace.broker.groups.consumer import rows
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import Member
from headrace.broker.row_fields import MalformedRow
from headrace.clock import Clock

logger = logging.getLogger(__name__)


def load(kept: Iterable[tuple[bytes, bytes]], clock: Clock, budget: Budget) -> dict[str, ConsumerGroup]:
    """A row that can't be read is reported and left where it is."""
    found: dict[rows.Key, bytes] = {}
    for key, value in kept:
        try:
            named = rows.decode_key(key)
        except MalformedRow as error:
            logger.warning("a row with key %s can't be read: %s", key.hex(), error)
            continue
        if named is not None:
            found[named] = value
    groups: dict[str, ConsumerGroup] = {}
    # Members come before what is said about them.
    for named in sorted(found, key=lambda named: named.kind):
        group = groups.get(named.group)
        if group is None:
            group = groups[named.group] = ConsumerGroup(named.group, clock, budget)
        try:
            _apply(group, named, found[named])
        except MalformedRow as error:
            logger.warning("group %r: a row of kind %d can't be read: %s", named.group, named.kind, error)
    return groups


def _apply(group: ConsumerGroup, key: rows.Key, value: bytes) -> None:
    match key.kind:
        case rows.GROUP:
            group.epoch, group.metadata_hash = rows.decode_group(value)
        case rows.TARGET_EPOCH:
            group.assignment_epoch, group.assigned_at_ms = rows.decode_target_epoch(value)
        case rows.MEMBER:
            group.put_member(rows.decode_member(value, key.name))
        case rows.TARGET:
            group.targets[key.name] = rows.decode_target(value)
        case rows.CURRENT:
            current = rows.decode_current(value)
            member = group.members.get(key.name, Member(key.name))
            group.put_member(
                replace(
                    member,
                    epoch=current.epoch,
                    previous_epoch=current.previous_epoch,
                    state=current.state,
                    assigned=current.assigned,
                    revoking=current.revoking,
                )
            )
        case rows.REGEX:
            # Versions of topics begin anew with the server, so this one is looked up again soon.
            group.resolved[key.name] = replace(rows.decode_regex(value), version=0)
