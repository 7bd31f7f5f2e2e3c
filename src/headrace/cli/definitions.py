"""`headrace definitions`: export and import, in RabbitMQ's own JSON.

What an import did is found by comparing what is defined before and after it, so it is told truly also where a server leaves
out a kind of thing that it does not have. A dry run compares the file with what is there and sends nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.managing import ManagedSession, add_managed_command
from headrace.cli.session import CommandError, write_out
from headrace.client.management import NotFound

app = typer.Typer(no_args_is_help=True, help="Definitions: export, import (RabbitMQ's JSON).")

# What tells two things of a kind apart; a file of one virtual host leaves `vhost` out.
_IDENTITY: dict[str, tuple[str, ...]] = {
    "users": ("name",),
    "vhosts": ("name",),
    "permissions": ("user", "vhost"),
    "topic_permissions": ("user", "vhost", "exchange"),
    "parameters": ("component", "vhost", "name"),
    "global_parameters": ("name",),
    "policies": ("vhost", "name"),
    "queues": ("vhost", "name"),
    "exchanges": ("vhost", "name"),
    "bindings": ("vhost", "source", "destination", "destination_type", "routing_key", "arguments"),
}
_SECRET_MODE = 0o600  # a definitions file has hashes of passwords

VhostOnly = Annotated[
    str | None,
    typer.Option("--vhost", "-V", rich_help_panel="Server", help="Only this virtual host.", show_default="everything"),
]


def export(
    session: ManagedSession,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="stdout unless given.", show_default=False)] = None,
    vhost: VhostOnly = None,
) -> None:
    """Write virtual hosts, users, policies, exchanges, queues and bindings as JSON; no messages."""
    with session.api() as api:
        try:
            found = api.definitions(vhost)
        except NotFound:
            raise NotFound(f"there is no vhost '{vhost}'; see 'headrace vhost list'") from None
    if file is None or str(file) == "-":
        indent = 2 if sys.stdout.isatty() and not session.json else None
        write_out(_dumped(found, indent))
        return
    _write(file, _dumped(found, 2))
    counts = {kind: len(found[kind]) for kind in _IDENTITY if isinstance(found.get(kind), list)}
    if session.json:
        session.emit({"file": str(file), "definitions": counts})
    else:
        session.say(
            f"{file}: " + (", ".join(f"{_words(kind)} {count}" for kind, count in counts.items() if count) or "nothing")
        )


def _dumped(definitions: Mapping[str, Any], indent: int | None) -> bytes:
    return json.dumps(definitions, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _write(file: Path, data: bytes) -> None:
    """Whole or not at all, and not for everybody to read."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SECRET_MODE)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None  # the name that was given, not this one
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
        os.replace(beside, file)
    except BaseException:
        os.unlink(beside)
        raise


def import_(
    session: ManagedSession,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- is stdin.", show_default=False)],
    vhost: VhostOnly = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare with what is there, change nothing.")] = False,
) -> None:
    """Declare everything in a file of RabbitMQ's definitions; what is there already stays."""
    wanted = _read(file)
    with session.api() as api:
        try:
            before = api.definitions(vhost)
            if not dry_run:
                api.import_definitions(wanted, vhost)
            after = wanted if dry_run else api.definitions(vhost)
        except NotFound:
            raise NotFound(f"there is no vhost '{vhost}'; 'headrace vhost create {vhost}' makes it") from None
    rows = {kind: _compared(kind, wanted, before, after, vhost) for kind in _IDENTITY if wanted.get(kind)}
    if session.json:
        session.emit({"definitions": rows, "dry_run": dry_run})
    elif rows:
        session.table(
            ("DEFINITIONS", "IN FILE", "NEW", "CHANGED", "THERE BEFORE", "NOT TAKEN"),
            [(_words(kind), *row.values()) for kind, row in rows.items()],
        )
    else:
        session.note(f"{file}: no definitions in it")
    left = sum(row["not_taken"] for row in rows.values())
    if left:
        session.note(f"{left} of them were not taken: the server has no such things, or they were in its way.")


def _read(file: Path) -> dict[str, Any]:
    name = "stdin" if str(file) == "-" else str(file)
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{name} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CommandError(f"{name} has no definitions: a JSON object is needed, as 'headrace definitions export' writes it")
    for kind in _IDENTITY:
        things = found.get(kind, [])
        if not isinstance(things, list) or not all(isinstance(thing, dict) for thing in things):
            raise CommandError(f"{name}: '{kind}' is not a list of objects")
    return found


def _compared(
    kind: str, wanted: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any], vhost: str | None
) -> dict[str, int]:
    asked = _by_identity(kind, wanted, vhost)
    old, new = _by_identity(kind, before, vhost), _by_identity(kind, after, vhost)
    there = [name for name in asked if name in new]
    changed = sum(1 for name in there if name in old and not _agree(old[name], new[name]))
    created = sum(1 for name in there if name not in old)
    return {
        "in_file": len(asked),
        "new": created,
        "changed": changed,
        "there_before": len(there) - created - changed,
        "not_taken": len(asked) - len(there),
    }


def _by_identity(kind: str, definitions: Mapping[str, Any], vhost: str | None) -> dict[str, Mapping[str, Any]]:
    found = {}
    for thing in definitions.get(kind) or []:
        identity = {part: vhost if part == "vhost" and vhost is not None else thing.get(part) for part in _IDENTITY[kind]}
        identity = {part: value or None for part, value in identity.items()}  # RabbitMQ writes no arguments as {} or []
        found[json.dumps(identity, sort_keys=True)] = thing
    return found


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """In what both say: a file made by hand leaves out what is usual."""
    return all(_plain(one[name]) == _plain(other[name]) for name in one.keys() & other.keys() if name != "vhost")


def _plain(value: Any) -> Any:
    return value or None if isinstance(value, list | dict) else value


def _words(kind: str) -> str:
    return kind.replace("_", " ")


_COMMANDS: dict[str, Callable[..., None]] = {"export": export, "import": import_}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function, vhost=False)
