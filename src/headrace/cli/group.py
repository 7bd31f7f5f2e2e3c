"""`headrace group`: list, describe, lag, reset, delete, delete-offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from headrace.cli import arguments
from headrace.cli.lag import described_group, lag, lag_row
from headrace.cli.moments import span_ms
from headrace.cli.positions import EARLIEST, LATEST, Anchor, Position
from headrace.cli.resolving import resolve
from headrace.cli.session import CommandError, Session, UsageError, add_command
from headrace.client.kafka import Cluster, TopicPartition, UnknownName, end_offsets, start_offsets
from headrace.client.kafka.groups import (
    commit_offsets,
    committed_offsets,
    delete_group,
    delete_offsets,
    describe_group,
    list_groups,
)

app = typer.Typer(no_args_is_help=True, help="Consumer groups: list, describe, lag, reset, delete, delete-offsets.")

Named = tuple[str, list[int] | None]  # a topic, and some of its partitions or all of them

Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
Groups = Annotated[list[str], typer.Argument(metavar="GROUP", show_default=False)]
TopicOption = Annotated[
    list[str],
    typer.Option("--topic", "-t", metavar="TOPIC[:0,1]", help="A topic, or some of its partitions; repeat for more."),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="Every topic for which the group has committed offsets.")]


def list_(session: Session) -> None:
    """List groups."""
    with session.cluster() as cluster:
        groups = list_groups(cluster)
    if session.json:
        rows = [{"name": g.name, "state": g.state, "type": g.kind, "protocol_type": g.protocol_type} for g in groups]
        session.emit({"groups": rows})
    elif groups:
        session.table(("GROUP", "STATE", "TYPE"), [(g.name, g.state or None, g.kind) for g in groups])
    else:
        session.note("No groups. 'headrace consume TOPIC --group NAME' makes one.")


def describe(session: Session, groups: Groups) -> None:
    """Show state, members, committed offsets and lag."""
    with session.cluster() as cluster:
        described = [described_group(cluster, describe_group(cluster, name)) for name in groups]
    if session.json:
        session.emit({"groups": described})
        return
    for number, group in enumerate(described):
        if number:
            session.say("")
        session.say(f"group        {group['name']}")
        session.say(f"state        {group['state']}")
        session.say(f"type         {group['type']}{', ' + group['assignor'] if group['assignor'] else ''}")
        session.say(f"coordinator  broker {group['coordinator']}")
        session.say(f"lag          {group['lag']}")
        if group["members"]:
            session.say("")
            session.table(
                ("MEMBER", "CLIENT", "HOST", "PARTITIONS"),
                [(m["id"], m["client_id"], m["host"], _partitions_text(m["assignment"])) for m in group["members"]],
            )
        if group["partitions"]:
            session.say("")
            _lag_table(session, group["partitions"])


def _lag_table(session: Session, rows: list[dict[str, Any]]) -> None:
    session.table(("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"), [lag_row(row) for row in rows])


def _partitions_text(assignment: dict[str, list[int]]) -> str:
    return " ".join(f"{topic}[{','.join(map(str, sorted(p)))}]" for topic, p in sorted(assignment.items())) or "-"


def reset(
    session: Session,
    group: Group,
    topic: TopicOption = [],  # noqa: B006
    all_topics: AllTopics = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest record kept.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end: skip everything.")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="N", min=0, help="To this offset.", show_default=False)
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option("--shift", metavar="N", help="By N from where it is; negative goes back.", show_default=False),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option("--to-time", metavar="TIME", help="To the first record at or after a time.", show_default=False),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="SPAN", help="To that long ago: 30m, 2h, P1D.", show_default=False),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")] = False,
) -> None:
    """Move the offsets of a group that has no active members.

    Shows what would change and changes nothing unless --execute is given.
    """
    target = _target(to_earliest, to_latest, to_offset, shift, to_time, by_duration)
    if bool(topic) == all_topics:
        raise UsageError("say which topics: --topic NAME (repeat for more) or --all-topics")
    named = [arguments.topic_partitions(text) for text in topic]
    with session.cluster() as cluster:
        busy = _why_busy(cluster, group)
        committed = {partition: one.offset for partition, one in committed_offsets(cluster, group).items()}
        partitions = _all_of(committed, group) if all_topics else _chosen(cluster, named)
        new = _shifted(cluster, partitions, committed, shift) if target is None else resolve(cluster, target, partitions)
        if execute:
            if busy is not None:
                raise CommandError(f"{busy}; stop them and try again")
            commit_offsets(cluster, group, new)
    rows = [
        {"topic": p.topic, "partition": p.partition, "offset_before": committed.get(p), "offset": new[p]} for p in sorted(new)
    ]
    if session.json:
        session.emit({"group": group, "executed": execute, "partitions": rows})
        return
    session.table(("TOPIC", "PARTITION", "NOW" if not execute else "BEFORE", "NEW"), [tuple(r.values()) for r in rows])
    if not execute:
        session.note("Nothing was changed: add --execute to do it." + (f" But {busy}." if busy else ""))


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    shift: int | None,
    to_time: str | None,
    by_duration: str | None,
) -> Position | None:
    """None when the offsets are to be shifted from where they are."""
    given = [to_earliest or None, to_latest or None, to_offset, shift, to_time, by_duration]
    if sum(one is not None for one in given) != 1:
        raise UsageError("say where to, once: --to-earliest, --to-latest, --to-offset, --shift, --to-time or --by-duration")
    if to_earliest:
        return EARLIEST
    if to_latest:
        return LATEST
    if to_offset is not None:
        return Position(Anchor.OFFSET, to_offset)
    if to_time is not None:
        return Position(Anchor.TIME, arguments.moment(to_time, "--to-time"))
    if by_duration is not None:
        ago = span_ms(by_duration)
        if ago is None:
            raise UsageError(f"--by-duration: {by_duration!r} is not a span of time: use 30m, 2h, 7d or P1DT6H")
        return Position(Anchor.TIME, max(0, arguments.now_ms() - ago))
    return None


def _why_busy(cluster: Cluster, group: str) -> str | None:
    """Why the offsets of a group can't be set from outside, if so. A group that does not exist may be given some."""
    try:
        info = describe_group(cluster, group)
    except UnknownName:
        return None
    if info.empty:
        return None
    count = len(info.members)
    clients = ", ".join(sorted({f"{member.client_id} on {member.host}" for member in info.members})[:3])
    return f"group '{group}' is {info.state} with {count} active member{'' if count == 1 else 's'} ({clients})"


def _all_of(committed: dict[TopicPartition, int], group: str) -> list[TopicPartition]:
    if not committed:
        raise CommandError(f"group '{group}' has no committed offsets: name the topics with --topic")
    return sorted(committed)


def _chosen(cluster: Cluster, named: list[Named]) -> list[TopicPartition]:
    partitions: dict[TopicPartition, None] = {}
    for name, indexes in named:
        info = cluster.topic(name)
        for index in [one.index for one in info.partitions] if indexes is None else indexes:
            partitions[TopicPartition(name, info.partition(index).index)] = None
    return list(partitions)


def _shifted(
    cluster: Cluster, partitions: list[TopicPartition], committed: dict[TopicPartition, int], shift: int | None
) -> dict[TopicPartition, int]:
    for partition in partitions:
        if partition not in committed:
            raise CommandError(f"{partition} has no committed offset to shift from: use --to-offset or --to-earliest")
    starts = start_offsets(cluster, partitions)
    ends = end_offsets(cluster, partitions)
    return {p: max(starts[p], min(committed[p] + (shift or 0), ends[p])) for p in partitions}


def delete(session: Session, groups: Groups) -> None:
    """Delete groups and their offsets."""
    done: list[dict[str, Any]] = []
    with session.cluster() as cluster:
        try:
            for name in groups:
                busy = _why_busy(cluster, name)
                if busy is not None:
                    raise CommandError(f"{busy}; stop them and try again")
                describe_group(cluster, name)
                delete_group(cluster, name)
                done.append({"name": name, "deleted": True})
                if not session.json:
                    session.say(f"{name}: deleted")
        finally:
            if session.json:
                session.emit({"groups": done})


def delete_offsets_(
    session: Session,
    group: Group,
    topic: TopicOption = [],  # noqa: B006
    all_topics: AllTopics = False,
) -> None:
    """Forget what a group has committed for some topics."""
    if bool(topic) == all_topics:
        raise UsageError("say which topics: --topic NAME (repeat for more) or --all-topics")
    named = [arguments.topic_partitions(text) for text in topic]
    with session.cluster() as cluster:
        describe_group(cluster, group)
        committed = committed_offsets(cluster, group)
        chosen = sorted(committed) if all_topics else _committed_for(committed, named, group)
        if chosen:
            delete_offsets(cluster, group, chosen)
    rows = [{"topic": p.topic, "partition": p.partition, "offset_before": committed[p].offset} for p in chosen]
    if session.json:
        session.emit({"group": group, "partitions": rows})
    elif rows:
        session.table(("TOPIC", "PARTITION", "FORGOTTEN"), [tuple(row.values()) for row in rows])
    else:
        session.note(f"Group '{group}' has no committed offsets there.")


def _committed_for(committed: Iterable[TopicPartition], named: list[Named], group: str) -> list[TopicPartition]:
    """By name alone: the topic itself may be gone."""
    chosen: set[TopicPartition] = set()
    for name, indexes in named:
        found = {p for p in committed if p.topic == name and (indexes is None or p.partition in indexes)}
        if not found:
            raise CommandError(f"group '{group}' has no committed offsets for '{name}' there")
        chosen |= found
    return sorted(chosen)


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_,
    "describe": describe,
    "lag": lag,
    "reset": reset,
    "delete": delete,
    "delete-offsets": delete_offsets_,
}
for _name, _function in _COMMANDS.items():
    add_command(app, _name, _function)
