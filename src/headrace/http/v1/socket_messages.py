"""The messages of a WebSocket, JSON both ways, told apart by `type`. A member that is not known is refused.

From the client:

    {"type": "subscribe", "topic": "orders", "subscription": "mine", "from": "latest", "position": …, "partition": …,
     "filter": …, "credit": 100}
    {"type": "credit", "subscription": "mine", "credit": 50}
    {"type": "unsubscribe", "subscription": "mine"}
    {"type": "publish", "id": 7, "topic": "orders", "event": {…}}          or "events": […]
    {"type": "ping", "id": 8}

From the server:

    {"type": "subscribed", "subscription": "mine", "topic": "orders", "position": "kQ3fZg.16"}
    {"type": "events", "subscription": "mine", "position": "kQ3fZg.18", "events": [{…}, {…}]}
    {"type": "notice", "subscription": "mine", "position": …, "notice": "gap", "partition": 0, "from": 18, "to": 30}
    {"type": "unsubscribed", "subscription": "mine"}
    {"type": "published", "id": 7, "events": [{"partition": 0, "offset": 16, "timestamp": …}]}
    {"type": "error", "id": 7, "subscription": …, "status": 413, "code": …, "detail": …}
    {"type": "pong", "id": 8}
    {"type": "heartbeat"}

A subscription is called like its topic if it has no name of its own; on a socket of one topic, `topic` may be left out.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, DecodeError, Meta, MsgspecError, Raw, Struct, UnsetType, ValidationError, field
from msgspec.json import Decoder, encode

from headrace.http.problems import Problem

Name = Annotated[str, Meta(min_length=1, max_length=249)]
Id = Annotated[str, Meta(max_length=200)] | int | None
Credit = Annotated[int, Meta(ge=1, le=1_000_000)]


class Subscribe(Struct, tag="subscribe", forbid_unknown_fields=True):
    topic: Name | None = None
    subscription: Name | None = None
    place: str | int = field(name="from", default="latest")
    position: str | None = None
    partition: int | None = None
    filter: str | None = None
    credit: Credit | None = None  # none: as fast as the socket takes them


class MoreCredit(Struct, tag="credit", forbid_unknown_fields=True):
    credit: Credit
    subscription: Name | None = None


class Unsubscribe(Struct, tag="unsubscribe", forbid_unknown_fields=True):
    subscription: Name | None = None


class Publish(Struct, tag="publish", forbid_unknown_fields=True):
    id: Id = None
    topic: Name | None = None
    event: Raw | UnsetType = UNSET
    events: list[Raw] | UnsetType = UNSET


class Ping(Struct, tag="ping", forbid_unknown_fields=True):
    id: Id = None


FromClient = Subscribe | MoreCredit | Unsubscribe | Publish | Ping

_decode = Decoder(FromClient).decode


class _WithId(Struct):
    id: Id = None


_decode_id = Decoder(_WithId).decode


class NotJson(Exception):
    """Not JSON at all: whoever sends that does not speak this protocol."""


def decode_message(text: str) -> FromClient:
    """Raises NotJson, and Problem for JSON that is no message."""
    try:
        message: FromClient = _decode(text)
    except ValidationError as error:
        raise Problem(400, "invalid_message", str(error)) from None
    except (DecodeError, RecursionError) as error:
        raise NotJson(str(error)) from None
    return message


def id_of(text: str) -> Id:
    """Of a message that is none, so that whoever sent it knows which one."""
    try:
        found: Id = _decode_id(text).id
    except MsgspecError:
        return None
    return found


def made(kind: str, **members: Any) -> bytes:
    return encode({"type": kind, **{name: value for name, value in members.items() if value is not None}})


def made_error(problem: Problem, **members: Any) -> bytes:
    return made("error", **members, status=problem.status, code=problem.code, detail=problem.detail, **problem.more)


def made_events(subscription: str, position: str, lines: list[bytes]) -> bytes:
    """Of events that are JSON already."""
    head = b'{"type":"events","subscription":%s,"position":"%s","events":[' % (encode(subscription), position.encode())
    return head + b",".join(lines) + b"]}"
