"""How `queue peek` and `queue get` show messages.

For people: a line that says where the message came from, a line for each property, its deaths in words, then the body: text
when it is UTF-8 (on a terminal JSON is laid out, and what would control the terminal is escaped), base64 when it is not. As
JSON: one object a line, which `queue publish -f json` and `exchange publish -f json` read back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from headrace.cli.managing import printable, value_text
from headrace.cli.moments import iso
from headrace.client.management import Message

_DEATHS = "x-death"
_SAID_BY_DEATHS = ("x-first-death-", "x-last-death-")
_MODES = {1: "transient", 2: "persistent"}
_INDENT = 18


def message_object(message: Message, queue: str) -> dict[str, Any]:
    """The documented object; a body that is not UTF-8 comes as `body_base64`."""
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "queue": queue,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "redelivered": message.redelivered,
        "properties": message.properties,
        "headers": message.headers,
        **({} if message.arrived_at_ms is None else {"arrived_at": message.arrived_at_ms}),
        "size_bytes": len(message.body),
        **body,
    }


def message_text(message: Message, number: int, *, terminal: bool) -> str:
    size = len(message.body)
    facts = [
        f"exchange '{printable(message.exchange)}'",
        f"key '{printable(message.routing_key)}'",
        "1 byte" if size == 1 else f"{size} bytes",
        *([] if message.arrived_at_ms is None else [iso(message.arrived_at_ms)]),
        *(["redelivered"] if message.redelivered else []),
    ]
    lines = [f"[{number}] {', '.join(facts)}"]
    for name, value in message.properties.items():
        lines.append(_line(name, _property_text(name, value)))
    deaths = _deaths(message.headers)
    for name, value in message.headers.items():
        if deaths and (name == _DEATHS or name.startswith(_SAID_BY_DEATHS)):
            continue
        lines.append(_line(printable(name), value_text(value)))
    for position, death in enumerate(deaths):
        lines.append(_line("" if position else "died", death_text(death)))
    lines.append(_body_text(message.body, terminal=terminal))
    return "\n".join(lines)


def death_text(death: Mapping[str, Any]) -> str:
    """`rejected 3 times in queue 'work' (exchange 'orders', key 'new'), first at 2026-03-01T09:30:00.000Z`"""
    count = death.get("count", 1)
    times = "" if count == 1 else f" {count} times"
    keys = death.get("routing-keys")
    key = ", ".join(map(str, keys)) if isinstance(keys, list) else ""
    text = (
        f"{death.get('reason', '?')}{times} in queue '{death.get('queue', '')}'"
        f" (exchange '{death.get('exchange', '')}', key '{key}')"
    )
    at = death.get("time")
    if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < 250_000_000_000:
        text += f", first at {iso(at * 1000)}" if count != 1 else f", at {iso(at * 1000)}"
    if death.get("original-expiration") is not None:
        text += f", had expiration {death['original-expiration']}"
    return printable(text)


def _deaths(headers: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Publishers may write what they like into x-death: only what looks like RabbitMQ's own counts."""
    found = headers.get(_DEATHS)
    if isinstance(found, list) and found and all(isinstance(death, Mapping) and "reason" in death for death in found):
        return found
    return []


def _line(name: str, value: str) -> str:
    return f"    {name:<{_INDENT}}{value}" if len(name) < _INDENT else f"    {name} {value}"


def _property_text(name: str, value: object) -> str:
    if name == "delivery_mode" and isinstance(value, int) and value in _MODES:
        return _MODES[value]
    if name == "timestamp" and isinstance(value, int) and 0 <= value < 250_000_000_000:
        return f"{value} ({iso(value * 1000)})"
    return value_text(value)


def _body_text(body: bytes, *, terminal: bool) -> str:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return f"(not text; in base64) {base64.b64encode(body).decode()}"
    if not terminal:
        return text
    if body[:1] in (b"{", b"["):
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return "\n".join(printable(line.replace("\t", "    ")) for line in text.split("\n"))
