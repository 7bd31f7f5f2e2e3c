"""What a route is: the topic it reads, where it delivers, and what happens to records that can't be delivered.

A definition is a JSON object, as people send it and as a row of the table `__headrace_routes` keeps it:

    {"topic": "orders",
     "destination": {"type": "exchange", "vhost": "/", "exchange": "shop", "routing_key": null, "mandatory": true},
     "on_failure": "dead-letter", "paused": false}

A member that is not known is refused, so that a misspelt one is not taken for its default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.broker.routes.errors import InvalidRoute
from headrace.broker.topics import HIDDEN_PREFIX, check_name
from headrace.log.errors import InvalidName

GROUP_PREFIX = "headrace.route."
DEAD_LETTERS = ".dead-letters"
MAX_NAME = 200  # the name of its dead-letter topic must be one that a topic may have
MAX_SHORT_STRING = 255  # of AMQP, in bytes

_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_MEMBERS = frozenset({"topic", "destination", "on_failure", "paused"})

Json = Mapping[str, object]


class OnFailure(StrEnum):
    """What becomes of a record that can't be delivered, now or later."""

    DEAD_LETTER = "dead-letter"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class ExchangeTarget:
    """An exchange; it need not be there yet. Without a routing key each record's own key is that."""

    exchange: str
    vhost: str = "/"
    routing_key: str | None = None
    mandatory: bool = True  # a record that no queue takes has failed

    kind = "exchange"

    def json(self) -> dict[str, object]:
        return {
            "type": self.kind,
            "vhost": self.vhost,
            "exchange": self.exchange,
            "routing_key": self.routing_key,
            "mandatory": self.mandatory,
        }

    @classmethod
    def of(cls, given: Json) -> ExchangeTarget:
        _check_members(given, {"type", "vhost", "exchange", "routing_key", "mandatory"}, "destination.")
        routing_key = given.get("routing_key")
        return cls(
            _short(given, "exchange", "destination."),
            _short(given, "vhost", "destination.", default="/"),
            None if routing_key is None else _short(given, "routing_key", "destination."),
            _flag(given, "mandatory", "destination.", default=True),
        )


Target = ExchangeTarget  # a union, once there are others
_TARGETS = {"exchange": ExchangeTarget.of}


@dataclass(frozen=True, slots=True)
class RouteDefinition:
    name: str
    topic: str
    target: Target
    on_failure: OnFailure = OnFailure.DEAD_LETTER
    paused: bool = False

    @property
    def group_id(self) -> str:
        """The group whose offsets are the route's position."""
        return GROUP_PREFIX + self.name

    @property
    def dead_letter_topic(self) -> str:
        return self.name + DEAD_LETTERS

    def as_paused(self, paused: bool) -> RouteDefinition:
        return replace(self, paused=paused)

    def json(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "destination": self.target.json(),
            "on_failure": str(self.on_failure),
            "paused": self.paused,
        }

    def row(self) -> bytes:
        return json.dumps(self.json()).encode()

    @classmethod
    def of(cls, name: str, given: Json) -> RouteDefinition:
        """Raises InvalidRoute."""
        check_route_name(name)
        _check_members(given, _MEMBERS, "")
        destination = given.get("destination")
        if not isinstance(destination, Mapping):
            raise InvalidRoute("destination must be an object, such as {'type': 'exchange', 'exchange': 'orders'}")
        kind = destination.get("type")
        if not isinstance(kind, str) or kind not in _TARGETS:
            raise InvalidRoute(f"destination.type must be one of: {', '.join(_TARGETS)}")
        target = _TARGETS[kind](destination)
        on_failure = given.get("on_failure", OnFailure.DEAD_LETTER)
        if on_failure not in list(OnFailure):
            raise InvalidRoute(f"on_failure must be one of: {', '.join(OnFailure)}")
        definition = cls(
            name,
            _topic(given, name),
            target,
            OnFailure(str(on_failure)),
            _flag(given, "paused", "", default=False),
        )
        if definition.topic == definition.dead_letter_topic:
            raise InvalidRoute("a route can't read its own dead letters: give it another name")
        return definition


def check_route_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME or name in (".", ".."):
        raise InvalidRoute(f"the name of a route has 1 to {MAX_NAME} letters, digits, '.', '_' or '-'")


def _topic(given: Json, name: str) -> str:
    topic = given.get("topic")
    if not isinstance(topic, str):
        raise InvalidRoute("topic must be the name of a topic")
    try:
        check_name(topic)
    except InvalidName as error:
        raise InvalidRoute(str(error)) from None
    if topic.startswith(HIDDEN_PREFIX):
        raise InvalidRoute(f"topics whose names begin with '{HIDDEN_PREFIX}' are the server's own")
    return topic


def _check_members(given: Json, known: frozenset[str] | set[str], where: str) -> None:
    unknown = [str(name) for name in given if name not in known]
    if unknown:
        raise InvalidRoute(f"{where}{unknown[0][:100]} is not known; there are: {', '.join(sorted(known))}")


def _short(given: Json, member: str, where: str, default: str | None = None) -> str:
    value = given.get(member, default)
    if not isinstance(value, str):
        raise InvalidRoute(f"{where}{member} must be a text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRoute(f"{where}{member} must be a text that can be written in UTF-8") from None
    if size > MAX_SHORT_STRING:
        raise InvalidRoute(f"{where}{member} has more than {MAX_SHORT_STRING} bytes")
    return value


def _flag(given: Json, member: str, where: str, *, default: bool) -> bool:
    value = given.get(member, default)
    if not isinstance(value, bool):
        raise InvalidRoute(f"{where}{member} must be true or false")
    return value
