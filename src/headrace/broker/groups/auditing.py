"""What the audit trail says about groups that are moved from outside.

Somebody who is no member commits for two reasons: to move a group, or because it reads without a group's help and keeps its
position there. Over Kafka the two look the same, so there only a move backwards is taken for one; whatever another protocol
asks for is one.

Bound: `MOST_TOLD` moves in an entry, with how many there were in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.audit import About, now_acting

if TYPE_CHECKING:
    from headrace.broker.groups.offsets import NewOffset, TopicPartition
    from headrace.broker.groups.records import CommittedOffset

MOST_TOLD = 50

Before = Mapping[str, Mapping[int, "CommittedOffset"]]
Move = tuple[str, int, int | None, int | None]  # topic, partition, from where, and whereto; None: no position


def moved_from(before: Before, after: Iterable[NewOffset], forgotten: Iterable[TopicPartition] = ()) -> list[Move]:
    """Those that change something; none of them where nobody keeps a trail."""
    acting = now_acting()
    if acting is None or not acting.audit.enabled:
        return []
    wanted: list[tuple[str, int, int | None]] = [(new.topic, new.partition, new.offset) for new in after]
    wanted += [(topic, partition, None) for topic, partition in forgotten]
    moves: list[Move] = []
    for topic, partition, offset in wanted:
        held = before.get(topic, {}).get(partition)
        if (None if held is None else held.offset) != offset:
            moves.append((topic, partition, None if held is None else held.offset, offset))
    return moves


def note_moves(group_id: str, moves: Sequence[Move]) -> None:
    acting = now_acting()
    if acting is None or not moves:
        return
    told = [
        {"topic": topic, "partition": partition, "from": old, "to": new} for topic, partition, old, new in moves[:MOST_TOLD]
    ]
    count = {"count": len(moves)} if len(moves) > MOST_TOLD else {}
    acting.note("group.offsets.move", About(group_id, {"moved": told, **count}), None)


def note_moved(group_id: str, before: Before, after: Sequence[NewOffset]) -> None:
    """Of a commit by somebody who is no member."""
    moves = moved_from(before, after)
    acting = now_acting()
    if acting is None or (
        acting.actor.protocol == "kafka"
        and not any(old is not None and new is not None and new < old for _, _, old, new in moves)
    ):
        return
    note_moves(group_id, moves)
