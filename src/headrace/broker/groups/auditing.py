"""What the audit trail says about groups that are moved from outside.

Somebody who is no member commits for two reasons: to move a group, or because it reads without a group's help and keeps its
position there. Over Kafka the two look the same, so there only a move backwards is taken for one; whatever another protocol
asks for is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.audit import About, now_acting

if TYPE_CHECKING:
    from headrace.broker.groups.offsets import NewOffset
    from headrace.broker.groups.records import CommittedOffset

MOST_TOLD = 50


def note_moved(group_id: str, before: Mapping[str, Mapping[int, CommittedOffset]], after: Sequence[NewOffset]) -> None:
    acting = now_acting()
    if acting is None or not acting.audit.enabled:
        return
    moved: list[dict[str, object]] = []
    back = acting.actor.protocol != "kafka"
    for new in after:
        held = before.get(new.topic, {}).get(new.partition)
        if held is None or held.offset != new.offset:
            moved.append(
                {
                    "topic": new.topic,
                    "partition": new.partition,
                    "from": None if held is None else held.offset,
                    "to": new.offset,
                }
            )
        back = back or (held is not None and new.offset < held.offset)
    if moved and back:
        acting.note("group.offsets.move", About(group_id, {"moved": moved[:MOST_TOLD]}), None)
