"""`headrace group lag`: how far groups are behind, once or again and again.

Lag is in records: the end of a partition less what the group has committed. With `--age` also in time: how long ago the
first record that the group has not read was written, for which that record is fetched.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from headrace.cli.session import Session, UsageError
from headrace.client.kafka import Cluster, TopicPartition, end_offsets
from headrace.client.kafka.groups import SHARE, GroupInfo, MemberInfo, committed_offsets, describe_group, list_groups
from headrace.client.kafka.reader import Reader
from headrace.client.kafka.share_groups import SharePosition, share_positions

_FETCHED_AT_ONCE = 16  # partitions whose first unread record is looked up together
_CLEAR = "\x1b[2J\x1b[H"

Groups = Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", show_default=False)]


def lag(
    session: Session,
    groups: Groups = None,
    all_groups: Annotated[bool, typer.Option("--all", help="Every group there is.")] = False,
    age: Annotated[bool, typer.Option("--age", help="Also how old the first unread record is.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="How often with --watch.")] = 2.0,
) -> None:
    """Show how far behind groups are, partition by partition."""
    if bool(groups) == all_groups:
        raise UsageError("name groups, or give --all")
    with session.cluster() as cluster:
        while True:
            names = groups or [group.name for group in list_groups(cluster)]
            described = [described_group(cluster, describe_group(cluster, name)) for name in names]
            if age:
                _add_ages(session, cluster, described)
            _show(session, described, age=age, clear=watch and sys.stdout.isatty())
            if not watch:
                return
            time.sleep(every)


def _show(session: Session, described: list[dict[str, Any]], *, age: bool, clear: bool) -> None:
    if session.json:
        keys = ("name", "state", "type", "lag", "partitions")
        session.emit({"groups": [{key: group[key] for key in keys} for group in described]})
        return
    if clear:
        session.say(_CLEAR)
    columns = ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", *(("AGE",) if age else ()))
    rows = [
        (group["name"], *lag_row(row)[:5], *((_age_text(row["age_ms"]),) if age else ()))
        for group in described
        for row in group["partitions"]
    ]
    if rows:
        session.table(columns, rows)
    for group in described:
        session.note(f"{group['name']}: {group['lag']} behind")


def described_group(cluster: Cluster, info: GroupInfo) -> dict[str, Any]:
    """A group with its members, and where it stands in each partition."""
    shared: Mapping[TopicPartition, SharePosition] = {}
    if info.kind == SHARE:
        shared = share_positions(cluster, info.name)
        committed = {partition: position.start_offset for partition, position in shared.items()}
    else:
        committed = {partition: found.offset for partition, found in committed_offsets(cluster, info.name).items()}
    readers: dict[TopicPartition, MemberInfo] = {
        TopicPartition(topic, index): member
        for member in info.members
        for topic, indexes in member.assignment.items()
        for index in indexes
    }
    ends = _known_ends(cluster, committed.keys() | readers.keys())
    rows: list[dict[str, Any]] = []
    for partition in sorted(committed.keys() | readers.keys()):
        offset, end = committed.get(partition), ends.get(partition)
        behind = None if offset is None or end is None else max(0, end - offset)
        if partition in shared and shared[partition].lag is not None:
            behind = shared[partition].lag
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed_offset": offset,
                "end_offset": end,
                "lag": behind,
                # many members of a share group read a partition, so none of them is its reader
                "member_id": readers[partition].member_id if partition in readers and info.kind != SHARE else None,
                "client_id": readers[partition].client_id if partition in readers and info.kind != SHARE else None,
            }
        )
    return {
        "name": info.name,
        "state": info.state,
        "type": info.kind,
        "assignor": info.assignor,
        "coordinator": info.coordinator,
        "lag": sum(row["lag"] or 0 for row in rows),
        "members": [
            {
                "id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "assignment": member.assignment,
            }
            for member in info.members
        ],
        "partitions": rows,
    }


def _known_ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Offsets outlive their topics, and leaders may be missing, so some have no end."""
    wanted = set(partitions)
    if not wanted:
        return {}
    topics = cluster.metadata({partition.topic for partition in wanted}).topics.values()
    led = {TopicPartition(topic.name, one.index) for topic in topics for one in topic.partitions if one.leader >= 0}
    return end_offsets(cluster, wanted & led) if wanted & led else {}


def lag_row(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["topic"], row["partition"], row["committed_offset"], row["end_offset"], row["lag"], row["member_id"])


# -- lag in time


def _add_ages(session: Session, cluster: Cluster, described: list[dict[str, Any]]) -> None:
    rows = [row for group in described for row in group["partitions"]]
    wanted = {(TopicPartition(row["topic"], row["partition"]), row["committed_offset"]) for row in rows if row["lag"]}
    written_ms: dict[tuple[TopicPartition, int], int] = {}
    pending = sorted(wanted)
    while pending:
        taken: dict[TopicPartition, int] = {}
        for partition, offset in pending:  # two groups may stand at different offsets of one partition: one after the other
            if len(taken) < _FETCHED_AT_ONCE and partition not in taken:
                taken[partition] = offset
        found = _timestamps(cluster, taken, session.timeout_s)
        for partition, offset in taken.items():
            pending.remove((partition, offset))
            if partition in found:
                written_ms[partition, offset] = found[partition]
    now_ms = time.time_ns() // 1_000_000
    for row in rows:
        at = written_ms.get((TopicPartition(row["topic"], row["partition"]), row["committed_offset"]))
        row["age_ms"] = 0 if row["lag"] == 0 else None if at is None else max(0, now_ms - at)


def _timestamps(cluster: Cluster, positions: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, int]:
    """When the first record at or after each position was written; those that take too long are left out."""
    found: dict[TopicPartition, int] = {}
    reader = Reader(cluster, positions)
    deadline = time.monotonic() + timeout_s
    try:
        while reader.positions and time.monotonic() < deadline:
            for record in reader.poll():
                partition = TopicPartition(record.topic, record.partition)
                found.setdefault(partition, record.timestamp_ms)
                reader.positions.pop(partition, None)
    finally:
        reader.close()
    return found


def _age_text(age_ms: int | None) -> str | None:
    if age_ms is None:
        return None
    seconds = age_ms // 1000
    for size, unit, smaller, lower in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // smaller}{lower}"
    return f"{seconds}s"
