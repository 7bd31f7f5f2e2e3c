"""What a route is: what it reads, which of that and in what form, where it delivers, and what becomes of what can't be.

A definition is a JSON object, as people send it and as a row of the table `__headrace_routes` keeps it:

    {"source": {"type": "topic", "topic": "orders"},
     "filter": "value.amount > 100", "transform": {"value": "value.customer"},
     "destination": {"type": "exchange", "vhost": "/", "exchange": "shop", "routing_key": null, "mandatory": true},
     "on_failure": "dead-letter", "paused": false}

`"topic": "orders"` is the short form of a source that is a topic. One end of a route is always a topic. A member that is not
known is refused, so that a misspelt one is not taken for its default. What a filter or transform says is looked at when the
route is put (`shaping`), not when it is read back: a row that was stored can always be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum

from headrace.broker.routes.ends.end import End, Json
from headrace.broker.routes.ends.exchange import ExchangeTarget
from headrace.broker.routes.ends.multicast import FeedSource, FeedTarget
from headrace.broker.routes.ends.parsing import check_members, flag, member_object, one_of, text
from headrace.broker.routes.ends.receiving import WebhookSource
from headrace.broker.routes.ends.topic import TopicSource, TopicTarget
from headrace.broker.routes.ends.webhook import WebhookTarget
from headrace.broker.routes.ends.zeromq import ZeroMqSource, ZeroMqTarget
from headrace.broker.routes.errors import InvalidRoute
from headrace.dataclass import dataclass

GROUP_PREFIX = "headrace.route."
DEAD_LETTERS = ".dead-letters"
MAX_NAME = 200  # the name of its dead-letter topic must be one that a topic may have
ATTEMPTS = ".attempts"
MAX_EXPRESSION_BYTES = 4096
MAX_REASON = 500

_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_MEMBERS = frozenset({"source", "topic", "filter", "transform", "destination", "on_failure", "paused", "disabled"})
_SOURCES: dict[str, Callable[[Json], End]] = {
    TopicSource.kind: TopicSource.of,
    WebhookSource.kind: WebhookSource.of,
    ZeroMqSource.kind: ZeroMqSource.of,
    FeedSource.kind: FeedSource.of,
}
_TARGETS: dict[str, Callable[[Json], End]] = {
    ExchangeTarget.kind: ExchangeTarget.of,
    TopicTarget.kind: TopicTarget.of,
    WebhookTarget.kind: WebhookTarget.of,
    ZeroMqTarget.kind: ZeroMqTarget.of,
    FeedTarget.kind: FeedTarget.of,
}


class OnFailure(StrEnum):
    """What becomes of a record that can't be delivered, now or later."""

    DEAD_LETTER = "dead-letter"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Transform:
    """CEL expressions for the parts of a record that become others; what has none stays as it is."""

    value: str | None = None
    key: str | None = None
    headers: str | None = None

    def json(self) -> dict[str, object]:
        given = {"value": self.value, "key": self.key, "headers": self.headers}
        return {part: expression for part, expression in given.items() if expression is not None}

    @classmethod
    def of(cls, given: Json) -> Transform | None:
        """None if there is nothing to do."""
        check_members(given, {"value", "key", "headers"}, "transform.")
        parts = {part: _expression(given, part, "transform.") for part in ("value", "key", "headers")}
        return cls(**parts) if any(part is not None for part in parts.values()) else None


@dataclass(frozen=True, slots=True)
class RouteDefinition:
    name: str
    source: End
    target: End
    on_failure: OnFailure = OnFailure.DEAD_LETTER
    paused: bool = False
    filter: str | None = None
    transform: Transform | None = None
    disabled: str | None = None  # why, where the server paused it by itself

    @property
    def inbound(self) -> bool:
        """Whether it brings events from outside into a topic."""
        return not isinstance(self.source, TopicSource)

    @property
    def topic(self) -> str:
        """The topic that it reads; of one that comes from outside, the topic that it fills."""
        if isinstance(self.source, TopicSource):
            return self.source.topic
        assert isinstance(self.target, TopicTarget)
        return self.target.topic

    @property
    def group_id(self) -> str:
        """The group whose offsets are the route's position."""
        return GROUP_PREFIX + self.name

    @property
    def dead_letter_topic(self) -> str:
        return self.name + DEAD_LETTERS

    def as_paused(self, paused: bool) -> RouteDefinition:
        return replace(self, paused=paused, disabled=None)

    def as_disabled(self, reason: str) -> RouteDefinition:
        """Paused, and not by a person."""
        return replace(self, paused=True, disabled=reason[:MAX_REASON])

    def completed(self, before: RouteDefinition | None) -> RouteDefinition:
        """As it is stored: with what its ends make up for themselves, or keep of those whose place they take."""
        source, target = (None, None) if before is None else (before.source, before.target)
        return replace(self, source=_completed(self.source, source), target=_completed(self.target, target))

    def json(self) -> dict[str, object]:
        """As it is stored."""
        return self._json(self.source.json(), self.target.json())

    def shown(self) -> dict[str, object]:
        """As people may see it."""
        return self._json(self.source.shown(), self.target.shown())

    def _json(self, source: dict[str, object], target: dict[str, object]) -> dict[str, object]:
        return {
            "source": source,
            "filter": self.filter,
            "transform": None if self.transform is None else self.transform.json(),
            "destination": target,
            "on_failure": str(self.on_failure),
            "paused": self.paused,
            **({} if self.disabled is None else {"disabled": self.disabled}),
        }

    def row(self) -> bytes:
        return json.dumps(self.json()).encode()

    @classmethod
    def of(cls, name: str, given: Json) -> RouteDefinition:
        """Raises InvalidRoute."""
        check_route_name(name)
        check_members(given, _MEMBERS, "")
        target = _end(given, "destination", _TARGETS, "{'type': 'exchange', 'exchange': 'orders'}")
        definition = cls(
            name,
            _source(given),
            target,
            OnFailure(one_of(given, "on_failure", "", list(OnFailure), OnFailure.DEAD_LETTER)),
            flag(given, "paused", "", default=False),
            _expression(given, "filter", ""),
            None if given.get("transform") is None else Transform.of(member_object(given, "transform", "")),
            text(given, "disabled", "", max_bytes=4 * MAX_REASON) if given.get("disabled") and given.get("paused") else None,
        )
        if definition.inbound and not isinstance(definition.target, TopicTarget):
            raise InvalidRoute("one end of a route must be a topic: source.type or destination.type")
        if definition.topic == definition.dead_letter_topic:
            raise InvalidRoute("a route can't read its own dead letters: give it another name")
        if definition.topic == name + ATTEMPTS and definition.target.kind == WebhookTarget.kind:
            raise InvalidRoute("a route can't read its own attempts: give it another name")
        if isinstance(definition.target, TopicTarget) and definition.target.topic == definition.dead_letter_topic:
            raise InvalidRoute("a route can't deliver to its own dead letters: give it another name")
        return definition


def check_route_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME or name in (".", ".."):
        raise InvalidRoute(f"the name of a route has 1 to {MAX_NAME} letters, digits, '.', '_' or '-'")


def _source(given: Json) -> End:
    topic = given.get("topic")
    if given.get("source") is None:
        if not isinstance(topic, str):
            raise InvalidRoute(
                "topic must be the name of a topic; or give a source, such as {'type': 'topic', 'topic': 'orders'}"
            )
        return TopicSource.of({"topic": topic})
    source = _end(given, "source", _SOURCES, "{'type': 'topic', 'topic': 'orders'}")
    if topic is not None and source != TopicSource(str(topic)):
        raise InvalidRoute("topic and source say different things: leave one of them out")
    return source


def _end(given: Json, member: str, kinds: Mapping[str, Callable[[Json], End]], example: str) -> End:
    value = given.get(member)
    if not isinstance(value, Mapping):
        raise InvalidRoute(f"{member} must be an object, such as {example}")
    return kinds[one_of(value, "type", f"{member}.", kinds)](value)


def _expression(given: Json, member: str, where: str) -> str | None:
    if given.get(member) is None:
        return None
    return text(given, member, where, max_bytes=MAX_EXPRESSION_BYTES)


def _completed(end: End, before: End | None) -> End:
    complete = getattr(end, "completed", None)
    found: End = end if complete is None else complete(before)
    return found
