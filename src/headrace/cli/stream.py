"""`headrace stream`: Kinesis streams. list, create, describe, delete, retention and mode here; shards, records, consumers and
tags in the files beside."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.cli import stream_consumers, stream_putting, stream_reading, stream_shards, stream_tags
from headrace.cli.managing import Every, Pattern, Watch, Yes, again_and_again, confirm, matcher
from headrace.cli.moments import iso
from headrace.cli.session import CommandError, UsageError
from headrace.cli.stream_tags import tags_given
from headrace.cli.streaming import Name, Names, StreamSession, add_stream_command, count_of, stream_named
from headrace.client.kinesis.api import Kinesis
from headrace.client.kinesis.errors import NotFound, Refused
from headrace.client.kinesis.values import Consumer, Stream

app = typer.Typer(
    no_args_is_help=True,
    help="Kinesis streams: list, create, describe, delete; their shards, records, consumers and tags.",
)

_EXISTS = "ResourceInUseException"


class Mode(StrEnum):
    ON_DEMAND = "on-demand"
    PROVISIONED = "provisioned"


def list_(session: StreamSession, pattern: Pattern = None, watch: Watch = False, every: Every = 2.0) -> None:
    """List the streams of the region."""
    wanted = matcher(pattern)
    with session.kinesis() as kinesis:

        def show() -> None:
            streams = [stream for stream in kinesis.streams() if wanted(stream.name)]
            if session.json:
                rows = [
                    {"name": s.name, "arn": s.arn, "status": s.status, "mode": _mode(s.mode), "created": s.created_ms}
                    for s in streams
                ]
                session.emit({"streams": rows})
            elif streams:
                session.table(
                    ("STREAM", "STATUS", "MODE", "CREATED"),
                    [(s.name, s.status, _mode(s.mode), None if s.created_ms is None else iso(s.created_ms)) for s in streams],
                )
            elif pattern:
                session.note("No such streams.")
            else:
                session.note(f"No streams in region {session.region}. Make one with 'headrace stream create NAME'.")

        again_and_again(session, show, watch=watch, every=every)


def create(
    session: StreamSession,
    streams: Names,
    shards: Annotated[int | None, typer.Option("--shards", "-n", min=1, help="How many.", show_default="1")] = None,
    on_demand: Annotated[
        bool, typer.Option("--on-demand", help="The server chooses the number of shards, and changes it as it likes.")
    ] = False,
    retention_hours: Annotated[
        int | None, typer.Option("--retention-hours", metavar="HOURS", min=24, show_default="24")
    ] = None,
    tag: Annotated[list[str], typer.Option("--tag", metavar="NAME=VALUE", help="A tag; repeat for more.")] = [],  # noqa: B006
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing stream is no error.")] = False,
) -> None:
    """Create streams, and wait until they can be used."""
    if on_demand and shards is not None:
        raise UsageError("--on-demand leaves the number of shards to the server: leave out --shards")
    tags = tags_given(tag, "--tag")
    done: list[dict[str, Any]] = []
    with session.kinesis() as kinesis:
        try:
            for name in streams:
                made = _create(kinesis, name, None if on_demand else shards or 1, retention_hours, tags, if_not_exists)
                done.append(made)
                if not session.json:
                    verb = "created" if made["created"] else "exists"
                    session.say(f"{name}: {verb} with {count_of(made['shards'], 'shard')}")
        finally:
            if session.json:
                session.emit({"streams": done})


def _create(
    kinesis: Kinesis,
    name: str,
    shards: int | None,
    retention_hours: int | None,
    tags: dict[str, str],
    if_not_exists: bool,
) -> dict[str, Any]:
    created = True
    try:
        kinesis.create_stream(name, shards=shards, tags=tags)
    except Refused as refused:
        if refused.code != _EXISTS:
            raise
        if not if_not_exists:
            raise CommandError(f"{refused}; change it with 'headrace stream scale', 'retention' or 'mode'") from None
        created = False
    found = kinesis.wait_until_active(name)
    if created and retention_hours is not None:
        kinesis.set_retention(name, retention_hours)
        found = kinesis.wait_until_active(name)
    return {"name": name, "created": created, "arn": found.arn, "shards": found.open_shards}


def describe(session: StreamSession, streams: Names) -> None:
    """Show settings, consumers and tags."""
    shown = []
    with session.kinesis() as kinesis:
        for name in streams:
            with stream_named(session, kinesis, name):
                stream = kinesis.stream(name)
                shown.append((stream, kinesis.consumers(stream.arn), kinesis.tags(name)))
    if session.json:
        session.emit({"streams": [_details(*one) for one in shown]})
        return
    for number, one in enumerate(shown):
        if number:
            session.say("")
        _print_details(session, *one)


def _details(stream: Stream, consumers: list[Consumer], tags: dict[str, str]) -> dict[str, Any]:
    return {
        "name": stream.name,
        "arn": stream.arn,
        "id": stream.stream_id,
        "status": stream.status,
        "mode": _mode(stream.mode),
        "open_shards": stream.open_shards,
        "retention_hours": stream.retention_hours,
        "created": stream.created_ms,
        "encryption": stream.encryption,
        "key_id": stream.key_id,
        "max_record_kib": stream.max_record_kib,
        "consumers": [stream_consumers.consumer_object(one) for one in consumers],
        "tags": tags,
    }


def _print_details(session: StreamSession, stream: Stream, consumers: list[Consumer], tags: dict[str, str]) -> None:
    session.say(f"stream      {stream.name}")
    session.say(f"arn         {stream.arn}")
    session.say(f"status      {stream.status}")
    session.say(f"mode        {_mode(stream.mode) or '-'}")
    session.say(f"shards      {stream.open_shards} open")
    session.say(f"retention   {stream.retention_hours} hours")
    if stream.created_ms is not None:
        session.say(f"created     {iso(stream.created_ms)}")
    if stream.encryption != "NONE":
        session.say(f"encryption  {stream.encryption} {stream.key_id or ''}".rstrip())
    if stream.max_record_kib is not None:
        session.say(f"records     up to {stream.max_record_kib} KiB")
    for number, (name, value) in enumerate(tags.items()):
        session.say(f"{'' if number else 'tags':<12}{name}={value}")
    if consumers:
        session.say("")
        stream_consumers.print_consumers(session, consumers)


def delete(
    session: StreamSession,
    streams: Names,
    with_consumers: Annotated[
        bool, typer.Option("--with-consumers", help="Also when consumers are registered, and those with it.")
    ] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A stream that does not exist is no error.")] = False,
    yes: Yes = False,
) -> None:
    """Delete streams with their records, for good."""
    what = f"stream '{streams[0]}'" if len(streams) == 1 else f"{len(streams)} streams ({', '.join(streams)})"
    confirm(session, f"Delete {what} with all records?", yes=yes)
    done: list[dict[str, Any]] = []
    with session.kinesis() as kinesis:
        try:
            for name in streams:
                deleted = True
                try:
                    with stream_named(session, kinesis, name):
                        kinesis.delete_stream(name, with_consumers=with_consumers)
                    kinesis.wait_until_gone(name)
                except NotFound:
                    if not if_exists:
                        raise
                    deleted = False
                except Refused as refused:
                    if refused.code == _EXISTS and not with_consumers:
                        raise CommandError(f"{refused}; --with-consumers deletes those as well") from None
                    raise
                done.append({"name": name, "deleted": deleted})
                if not session.json:
                    session.say(f"{name}: {'deleted' if deleted else 'does not exist'}")
        finally:
            if session.json:
                session.emit({"streams": done})


def retention(
    session: StreamSession,
    stream: Name,
    hours: Annotated[int | None, typer.Argument(metavar="[HOURS]", min=24, show_default=False)] = None,
) -> None:
    """Show for how long records are kept, or change it."""
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        before = kinesis.stream(stream).retention_hours if hours is None else kinesis.set_retention(stream, hours)
        now = before if hours is None else kinesis.wait_until_active(stream).retention_hours
    if session.json:
        session.emit({"stream": stream, "retention_hours": now, "retention_hours_before": before})
    else:
        session.say(f"{stream}: {now} hours" + (f", before {before}" if now != before else ""))


def mode(
    session: StreamSession,
    stream: Name,
    to: Annotated[Mode, typer.Argument(metavar="on-demand|provisioned", show_default=False)],
) -> None:
    """Change who chooses the number of shards."""
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        kinesis.set_mode(stream, to.name)
        now = _mode(kinesis.wait_until_active(stream).mode)
    if session.json:
        session.emit({"stream": stream, "mode": now})
    else:
        session.say(f"{stream}: {now}")


def _mode(of_aws: str | None) -> str | None:
    return None if of_aws is None else of_aws.lower().replace("_", "-")


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_,
    "create": create,
    "describe": describe,
    "delete": delete,
    "retention": retention,
    "mode": mode,
    "shards": stream_shards.shards,
    "split": stream_shards.split,
    "merge": stream_shards.merge,
    "scale": stream_shards.scale,
    "put": stream_putting.put,
    "get": stream_reading.get,
    "tail": stream_reading.tail,
}
for _name, _function in _COMMANDS.items():
    add_stream_command(app, _name, _function)
app.add_typer(stream_consumers.app, name="consumers")
app.add_typer(stream_tags.app, name="tags")
