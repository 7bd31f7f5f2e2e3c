"""The ends of a route as `headrace route create` takes them: one option that names each end, and `--set` for the rest of it.

An end is what the server takes as `source` or `destination`. `--set NAME=VALUE` is a member of the end that is not the topic
that is read; a value that is JSON is that, anything else is text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.managing import ManagedSession
from headrace.cli.session import UsageError
from headrace.client.routes import RoutesClient

_FROM, _TO, _SHAPE = "Where from (one)", "Where to (one)", "What, and in what form"


def _option(*names: str, panel: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, metavar=metavar, rich_help_panel=panel, help=help, show_default=False)


_CEL = {"metavar": "CEL", "panel": _SHAPE}

FromTopic = Annotated[str | None, _option("--topic", "--from-topic", "-t", panel=_FROM, help="A topic to read.")]
FromWebhook = Annotated[
    str | None,
    _option(
        "--from-webhook",
        metavar="SCHEME",
        panel=_FROM,
        help="What is posted to /v1/receive/ROUTE, signed as standard, github, stripe, …; with --to-topic.",
    ),
]
FromZmq = Annotated[
    str | None, _option("--from-zmq", metavar="ADDRESS", panel=_FROM, help="A ZeroMQ socket (pull); with --to-topic.")
]
FromUdp = Annotated[
    str | None, _option("--from-udp", metavar="GROUP:PORT", panel=_FROM, help="A multicast feed; with --to-topic.")
]
ToExchange = Annotated[
    str | None,
    _option("--exchange", "--to-exchange", "-x", panel=_TO, help="An exchange to publish to; amq.default is the default one."),
]
ToTopic = Annotated[str | None, _option("--to-topic", metavar="TOPIC", panel=_TO, help="A topic to write to.")]
ToUrl = Annotated[str | None, _option("--to-url", metavar="URL", panel=_TO, help="A webhook to send to.")]
ToZmq = Annotated[str | None, _option("--to-zmq", metavar="ADDRESS", panel=_TO, help="A ZeroMQ socket (pub).")]
ToUdp = Annotated[str | None, _option("--to-udp", metavar="GROUP:PORT", panel=_TO, help="A multicast feed.")]
RoutingKey = Annotated[
    str | None, _option("--routing-key", "-k", panel=_TO, help="To an exchange: in place of each record's own key.")
]
Optional = Annotated[bool, _option("--optional", panel=_TO, help="To an exchange: a record that no queue takes is no failure.")]
Members = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        show_default=False,
        help="Another member of the end that is not the topic read, such as timeout_s=5; repeat for more.",
    ),
]
Filter = Annotated[str | None, _option("--filter", help="Only records for which this is true.", **_CEL)]
Value = Annotated[str | None, _option("--value", help="The value becomes this.", **_CEL)]
Key = Annotated[str | None, _option("--key", help="The key becomes this.", **_CEL)]
Headers = Annotated[str | None, _option("--headers", help="The headers become this map.", **_CEL)]

Json = dict[str, Any]


def source_of(topic: str | None, webhook: str | None, zmq: str | None, udp: str | None) -> Json:
    """Raises UsageError."""
    given: dict[str, Json] = {}
    if topic is not None:
        given["--topic"] = {"type": "topic", "topic": topic}
    if webhook is not None:
        given["--from-webhook"] = {"type": "webhook", "scheme": webhook}
    if zmq is not None:
        given["--from-zmq"] = {"type": "zmq", "address": zmq}
    if udp is not None:
        given["--from-udp"] = {"type": "udp", **_group(udp, "--from-udp")}
    return _one(given, "--topic, --from-webhook, --from-zmq, --from-udp")


def destination_of(exchange: Json | None, topic: str | None, url: str | None, zmq: str | None, udp: str | None) -> Json:
    """Raises UsageError."""
    given: dict[str, Json] = {}
    if exchange is not None:
        given["--exchange"] = exchange
    if topic is not None:
        given["--to-topic"] = {"type": "topic", "topic": topic}
    if url is not None:
        given["--to-url"] = {"type": "webhook", "url": url}
    if zmq is not None:
        given["--to-zmq"] = {"type": "zmq", "address": zmq}
    if udp is not None:
        given["--to-udp"] = {"type": "udp", **_group(udp, "--to-udp")}
    return _one(given, "--exchange, --to-topic, --to-url, --to-zmq, --to-udp")


def with_members(end: Mapping[str, Any], members: list[str]) -> Json:
    """Raises UsageError."""
    found = dict(end)
    for member in members:
        name, equals, value = member.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {member!r} is not NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def transform_of(value: str | None, key: str | None, headers: str | None) -> dict[str, str] | None:
    given = {"value": value, "key": key, "headers": headers}
    return {part: text for part, text in given.items() if text is not None} or None


@contextmanager
def routes_of(session: ManagedSession) -> Iterator[RoutesClient]:
    with RoutesClient(session.url, user=session.user, password=session.password, timeout_s=session.timeout_s) as api:
        yield api


def read_json(place: str, what: str) -> Any:
    """Of a file, or - for standard input. Raises UsageError."""
    try:
        text = sys.stdin.read() if place == "-" else Path(place).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{place} can't be read: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{'standard input' if place == '-' else place} is no {what}: {error}") from None


def _one(given: Mapping[str, Json], choices: str) -> Json:
    if len(given) != 1:
        text = f"not {' and '.join(given)}" if given else "and none is given"
        raise UsageError(f"a route has exactly one of {choices}, {text}")
    return next(iter(given.values()))


def _group(text: str, option: str) -> Json:
    group, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise UsageError(f"{option} {text!r} is not GROUP:PORT, such as 239.1.2.3:7400")
    return {"group": group.removeprefix("[").removesuffix("]"), "port": int(port)}
