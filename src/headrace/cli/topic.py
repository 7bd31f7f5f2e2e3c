"""`headrace topic`: list, create, describe, alter, delete, trim."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli import arguments
from headrace.cli.resolving import resolve
from headrace.cli.session import CommandError, Session, UsageError, add_command, human_bytes
from headrace.client.kafka import Cluster, Refused, TopicPartition, end_offsets, start_offsets
from headrace.client.kafka.cluster import TopicInfo
from headrace.client.kafka.topics import (
    SERVER_DEFAULT,
    Config,
    ConfigSource,
    PartitionSize,
    alter_configs,
    create_topic,
    delete_records,
    delete_topic,
    partition_sizes,
    set_partitions,
    topic_configs,
    wait_until_led,
)
from headrace.kafka.codec.errors import ErrorCode

app = typer.Typer(no_args_is_help=True, help="Topics: list, create, describe, alter, delete, trim.")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", show_default=False)]
ConfigOption = Annotated[
    list[str], typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting, by Kafka's name; repeat for more.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Let the server check it, change nothing.")]


def list_(
    session: Session,
    pattern: Annotated[
        str | None, typer.Argument(metavar="[REGEX]", help="Only topics whose name has a match.", show_default=False)
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics as well.")] = False,
) -> None:
    """List topics."""
    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None
    with session.cluster() as cluster:
        found = cluster.metadata().topics.values()
    topics = sorted(
        (topic for topic in found if (internal or not topic.internal) and wanted.search(topic.name)),
        key=lambda topic: topic.name,
    )
    if session.json:
        session.emit({"topics": [_summary(topic) for topic in topics]})
    elif topics:
        rows = [(topic.name, len(topic.partitions), _replication_factor(topic)) for topic in topics]
        session.table(("TOPIC", "PARTITIONS", "REPLICAS"), rows)
    else:
        session.note("No topics. Make one with 'headrace topic create NAME'.")


def create(
    session: Session,
    topics: Topics,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, show_default="the server's num.partitions")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", "-r", min=1, show_default="the server's default.replication.factor")
    ] = None,
    config: ConfigOption = [],  # noqa: B006  typer copies it
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing topic is no error.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Create topics."""
    configs = arguments.settings(config)
    done: list[dict[str, Any]] = []
    with session.cluster() as cluster:
        try:
            for name in topics:
                made = _create(cluster, name, partitions, replicas, configs, if_not_exists, dry_run)
                done.append(made)
                if not session.json:
                    session.say(_created_line(made, dry_run))
        finally:
            if session.json:
                session.emit({"topics": done, "dry_run": dry_run})


def _create(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    replicas: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
    dry_run: bool,
) -> dict[str, Any]:
    try:
        made = create_topic(
            cluster,
            name,
            partitions=partitions or SERVER_DEFAULT,
            replication_factor=replicas or SERVER_DEFAULT,
            configs=configs,
            validate_only=dry_run,
        )
    except Refused as refused:
        if refused.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        if not if_not_exists:
            raise CommandError(f"topic '{name}' exists; change it with 'headrace topic alter {name}'") from None
        topic = cluster.topic(name)
        return {
            "name": name,
            "created": False,
            "partitions": len(topic.partitions),
            "replication_factor": _replication_factor(topic),
        }
    if not dry_run:
        wait_until_led(cluster, name)
    return {
        "name": name,
        "created": not dry_run,
        "partitions": made.partitions,
        "replication_factor": made.replication_factor,
    }


def _created_line(made: dict[str, Any], dry_run: bool) -> str:
    count = made["partitions"]
    size = "1 partition" if count == 1 else f"{count} partitions"
    if dry_run:
        return f"{made['name']}: could be created with {size}"
    return f"{made['name']}: {'created' if made['created'] else 'exists'} with {size}"


def describe(
    session: Session,
    topics: Topics,
    all_configs: Annotated[bool, typer.Option("--all-configs", "-a", help="Show settings that are defaults, too.")] = False,
) -> None:
    """Show partitions, offsets, sizes and the settings that differ from the server's defaults."""
    with session.cluster() as cluster:
        infos = cluster.topics(topics)
        partitions = [TopicPartition(t.name, p.index) for t in infos.values() for p in t.partitions if p.leader >= 0]
        starts = start_offsets(cluster, partitions)
        ends = end_offsets(cluster, partitions)
        sizes = partition_sizes(cluster, partitions)
        configs = topic_configs(cluster, infos)
    described = [
        _described(topic, starts, ends, sizes, _shown(configs.get(topic.name, []), all_configs)) for topic in infos.values()
    ]
    if session.json:
        session.emit({"topics": described})
        return
    for number, topic in enumerate(described):
        if number:
            session.say("")
        _print_description(session, topic)


def _described(
    topic: TopicInfo,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    sizes: dict[TopicPartition, PartitionSize],
    configs: list[Config],
) -> dict[str, Any]:
    rows = []
    for one in topic.partitions:
        partition = TopicPartition(topic.name, one.index)
        rows.append(
            {
                "partition": one.index,
                "leader": one.leader if one.leader >= 0 else None,
                "replicas": list(one.replicas),
                "in_sync": list(one.in_sync),
                "start_offset": starts.get(partition),
                "end_offset": ends.get(partition),
                "size_bytes": size.local if (size := sizes.get(partition)) else None,
                "archived_bytes": size.archived if size else None,
                "dirty_bytes": size.dirty if size else None,
            }
        )
    return {
        "name": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.internal,
        "configs": {config.name: config.value for config in configs},
        "partitions": rows,
    }


def _print_description(session: Session, topic: dict[str, Any]) -> None:
    rows = topic["partitions"]
    session.say(f"topic       {topic['name']}{'  (internal)' if topic['internal'] else ''}")
    session.say(f"id          {topic['id']}")
    session.say(f"offsets     {sum((row['end_offset'] or 0) - (row['start_offset'] or 0) for row in rows)}")
    session.say(f"size        {human_bytes(sum(row['size_bytes'] or 0 for row in rows))}")
    archived = sum(row["archived_bytes"] or 0 for row in rows)
    if archived:
        session.say(f"archived    {human_bytes(archived)}")
    dirty = sum(row["dirty_bytes"] or 0 for row in rows)
    if dirty:
        share = dirty / max(1, sum(row["size_bytes"] or 0 for row in rows))
        session.say(f"dirty       {human_bytes(dirty)} ({share:.0%}) not compacted yet")
    for number, (name, value) in enumerate(topic["configs"].items()):
        session.say(f"{'' if number else 'configs':<12}{name}={'' if value is None else value}")
    session.say("")
    session.table(
        ("PARTITION", "LEADER", "REPLICAS", "IN-SYNC", "START", "END", "BYTES", *(["ARCHIVED"] if archived else [])),
        [
            (
                row["partition"],
                row["leader"],
                ",".join(map(str, row["replicas"])),
                ",".join(map(str, row["in_sync"])),
                row["start_offset"],
                row["end_offset"],
                row["size_bytes"],
                *([row["archived_bytes"]] if archived else []),
            )
            for row in rows
        ],
    )


def alter(
    session: Session,
    topic: Topic,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Grow to this many.", show_default=False)
    ] = None,
    config: ConfigOption = [],  # noqa: B006
    unset: Annotated[
        list[str], typer.Option("--unset", "-u", metavar="NAME", help="Give a setting its default back; repeat for more.")
    ] = [],  # noqa: B006
    dry_run: DryRun = False,
) -> None:
    """Add partitions, change settings."""
    changed = arguments.settings(config)
    if partitions is None and not changed and not unset:
        raise UsageError("nothing to change: give --partitions, --config or --unset")
    with session.cluster() as cluster:
        cluster.topic(topic)
        if changed or unset:
            alter_configs(cluster, topic, changed=changed, removed=unset, validate_only=dry_run)
        if partitions is not None:
            set_partitions(cluster, topic, partitions, validate_only=dry_run)
    if session.json:
        session.emit({"topic": topic, "partitions": partitions, "set": changed, "unset": unset, "dry_run": dry_run})
        return
    changes = [f"{partitions} partitions"] if partitions is not None else []
    changes += [f"{name}={value}" for name, value in changed.items()] + [f"{name} unset" for name in unset]
    session.say(f"{topic}: {'could be changed to ' if dry_run else ''}{', '.join(changes)}")


def delete(
    session: Session,
    topics: Topics,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A topic that does not exist is no error.")] = False,
) -> None:
    """Delete topics and everything in them, for good."""
    done: list[dict[str, Any]] = []
    with session.cluster() as cluster:
        try:
            for name in topics:
                deleted = _delete(cluster, name, if_exists)
                done.append({"name": name, "deleted": deleted})
                if not session.json:
                    session.say(f"{name}: {'deleted' if deleted else 'does not exist'}")
        finally:
            if session.json:
                session.emit({"topics": done})


def _delete(cluster: Cluster, name: str, if_exists: bool) -> bool:
    try:
        delete_topic(cluster, name)
    except Refused as refused:
        if refused.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        if not if_exists:
            cluster.topic(name)  # says which name may have been meant
        return False
    return True


def trim(
    session: Session,
    topic: Topic,
    to: Annotated[
        str, typer.Option("--to", metavar="POSITION", help="The first record to keep: an offset, latest, -N, a time.")
    ],
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", min=0, help="Only this partition; repeat for more.")
    ] = [],  # noqa: B006
) -> None:
    """Delete the oldest records, for good."""
    where = arguments.position(to, "--to")
    with session.cluster() as cluster:
        info = cluster.topic(topic)
        indexes = [info.partition(index).index for index in partition] or [one.index for one in info.partitions]
        wanted = [TopicPartition(topic, index) for index in indexes]
        before = start_offsets(cluster, wanted)
        targets = resolve(cluster, where, wanted)
        after = delete_records(cluster, targets)
    rows = [
        {
            "partition": one.partition,
            "start_offset_before": before[one],
            "start_offset": after[one],
            "deleted": after[one] - before[one],
        }
        for one in wanted
    ]
    if session.json:
        session.emit({"topic": topic, "partitions": rows})
    else:
        session.table(("PARTITION", "START BEFORE", "START", "DELETED"), [tuple(row.values()) for row in rows])


def _summary(topic: TopicInfo) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.internal,
        "partitions": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
    }


def _replication_factor(topic: TopicInfo) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _shown(configs: list[Config], all_configs: bool) -> list[Config]:
    chosen = [config for config in configs if all_configs or config.source == ConfigSource.TOPIC]
    return sorted(chosen, key=lambda config: config.name)


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_,
    "create": create,
    "describe": describe,
    "alter": alter,
    "delete": delete,
    "trim": trim,
}
for _name, _function in _COMMANDS.items():
    add_command(app, _name, _function)
