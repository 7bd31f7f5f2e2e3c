"""`headrace stream tags`: list, set, remove."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from headrace.cli.session import UsageError
from headrace.cli.streaming import Name, StreamSession, add_stream_command, stream_named

app = typer.Typer(no_args_is_help=True, help="Tags of a stream: list, set, remove.")


def tags_given(given: Iterable[str], option: str) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option}: {text!r} is not a tag: use name=value")
        found[name] = value
    return found


def list_(session: StreamSession, stream: Name) -> None:
    """List the tags of a stream."""
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        _show(session, stream, kinesis.tags(stream))


def set_(
    session: StreamSession,
    stream: Name,
    tags: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", show_default=False)],
) -> None:
    """Add tags, or change their values."""
    wanted = tags_given(tags, "tags")
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        kinesis.add_tags(stream, wanted)
        _show(session, stream, kinesis.tags(stream))


def remove(
    session: StreamSession,
    stream: Name,
    names: Annotated[list[str], typer.Argument(metavar="NAME", show_default=False)],
) -> None:
    """Remove tags."""
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        kinesis.remove_tags(stream, names)
        _show(session, stream, kinesis.tags(stream))


def _show(session: StreamSession, stream: str, tags: dict[str, str]) -> None:
    if session.json:
        session.emit({"stream": stream, "tags": tags})
    elif tags:
        session.table(("TAG", "VALUE"), list(tags.items()))
    else:
        session.note(f"{stream}: no tags")


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "set": set_, "remove": remove}
for _name, _function in _COMMANDS.items():
    add_stream_command(app, _name, _function)
