"""`headrace queue publish` and `exchange publish`: messages from arguments, from lines of stdin or of files.

As JSON a line is what `queue get --json` prints: `body` or `body_base64`, `properties`, `headers` and, for an exchange,
`routing_key`, each optional; where the message was found is ignored. Each message is one request, answered once the server
has taken it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.managing import ManagedSession, typed_settings
from headrace.cli.progress import Progress
from headrace.cli.reading import Idle, TooLong, opened, pieces
from headrace.cli.session import CommandError, Stopped, UsageError
from headrace.client.management import Management, ManagementError, NotFound

_NAMES = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
_NUMBERS = {"delivery_mode", "priority", "timestamp"}
_KNOWN = {"body", "body_base64", "properties", "headers", "routing_key"}
_IGNORED = {"queue", "exchange", "redelivered", "arrived_at", "size_bytes"}
_PERSISTENT, _TRANSIENT = 2, 1


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"


Bodies = Annotated[list[str] | None, typer.Argument(metavar="[BODY]...", show_default=False)]
FileOption = Annotated[
    list[Path], typer.Option("--file", "-F", metavar="PATH", help="Read a file; - is stdin; repeat for more.")
]
WholeOption = Annotated[bool, typer.Option("--whole", help="Each file is one message.")]
FormOption = Annotated[Form, typer.Option("--format", "-f", help="text, or json: an object a line.")]
HeaderOption = Annotated[
    list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every message; repeat for more.")
]
PropertyOption = Annotated[
    list[str],
    typer.Option("--property", "-P", metavar="NAME=VALUE", help="A property, such as priority=5; repeat for more."),
]
TransientOption = Annotated[bool, typer.Option("--transient", help="Need not survive a restart.")]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What the command line says about every message."""

    exchange: str
    routing_key: str | None  # None: what the message itself says, else nothing
    properties: dict[str, Any]
    headers: dict[str, Any]
    form: Form


@dataclass(slots=True)
class _Counts:
    sent: int = 0
    unrouted: int = 0


def outgoing(exchange: str, key: str | None, form: Form, header: list[str], property_: list[str], transient: bool) -> Outgoing:
    properties: dict[str, Any] = {"delivery_mode": _TRANSIENT if transient else _PERSISTENT}
    for text in property_:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in _NAMES:
            raise UsageError(f"--property: {text!r} is not a property: use name=value with {', '.join(_NAMES)}")
        if name in _NUMBERS and not (value.isascii() and value.isdigit()):
            raise UsageError(f"--property: {name} is a number, not {value!r}")
        properties[name] = int(value) if name in _NUMBERS else value
    return Outgoing(exchange, key, properties, typed_settings(header, "--header"), form)


def publish_all(
    session: ManagedSession,
    api: Management,
    template: Outgoing,
    bodies: list[str] | None,
    files: list[Path],
    *,
    whole: bool,
) -> int:
    """Sends them all; how many had no queue to go to."""
    if bodies and files:
        raise UsageError("give messages as arguments or as files, not both")
    counts = _Counts()
    progress = Progress("Publishing", shown=not session.quiet and not bodies, noun="messages")
    try:
        for source, line, data in _inputs(session, bodies, files, whole=whole):
            try:
                key, properties, body = _message(template, data)
            except ValueError as error:
                raise CommandError(f"{source}, line {line}: {error}") from None
            counts.unrouted += not api.publish(session.vhost, template.exchange, key, body, properties)
            counts.sent += 1
            progress.update(counts.sent)
    except Stopped:
        session.note(f"Interrupted: {_published(counts)}.")
        raise
    except NotFound:
        raise
    except (CommandError, ManagementError) as error:
        if counts.sent:
            raise CommandError(f"{error}; {_published(counts)}") from None
        raise
    finally:
        progress.stop()
    if session.json:
        session.emit({"exchange": template.exchange, "published": counts.sent, "unrouted": counts.unrouted})
    else:
        session.say(_published(counts))
    return counts.unrouted


def _published(counts: _Counts) -> str:
    return "1 message published" if counts.sent == 1 else f"{counts.sent} messages published"


def _message(template: Outgoing, data: bytes) -> tuple[str, dict[str, Any], bytes]:
    """The routing key, the properties with the headers among them, and the body. What the line says wins, but for the key."""
    properties, headers, key = dict(template.properties), dict(template.headers), template.routing_key
    body = data
    if template.form is Form.JSON:
        line = _parsed(data)
        body = _body(line)
        properties |= _object(line, "properties")
        headers |= _object(line, "headers")
        if key is None:
            key = str(line.get("routing_key", ""))
    if headers:
        properties["headers"] = headers
    return key or "", properties, body


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        line = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(line, dict):
        raise ValueError("a JSON object is needed")
    unknown = line.keys() - _KNOWN - _IGNORED
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]!r}: the fields are {', '.join(sorted(_KNOWN))}")
    return line


def _body(line: dict[str, Any]) -> bytes:
    if "body_base64" in line:
        try:
            return base64.b64decode(str(line["body_base64"]), validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("body_base64 is not base64") from None
    body = line.get("body", "")
    return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode("utf-8", "surrogatepass")


def _object(line: dict[str, Any], name: str) -> dict[str, Any]:
    found = line.get(name) or {}
    if not isinstance(found, dict):
        raise ValueError(f"{name} is not an object")
    return found


def _inputs(
    session: ManagedSession, bodies: list[str] | None, files: list[Path], *, whole: bool
) -> Iterator[tuple[str, int, bytes]]:
    if bodies:
        for number, body in enumerate(bodies, 1):
            yield "argument", number, os.fsencode(body)
        return
    for path in files or [Path("-")]:
        with opened(path, session.note, "Each line is a message; Ctrl-D ends.") as (fd, name):
            try:
                for piece in pieces(fd, name, b"" if whole else b"\n"):
                    if not isinstance(piece, Idle):
                        yield name, piece.line, piece.data
            except TooLong as error:
                raise CommandError(str(error)) from None
