"""A URL that events are sent to. (A receive URL that they come in by is in `receiving`.)"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import ClassVar

from headrace.broker.routes.ends.end import End, Json
from headrace.broker.routes.ends.parsing import check_members, integer, member_object, number, one_of, text, texts
from headrace.broker.routes.ends.secrets import MAX_SECRETS, Secret, secrets_of
from headrace.broker.routes.errors import InvalidRoute, RouteConflict
from headrace.dataclass import dataclass

MAX_URL = 2000
MAX_HEADERS = 32
MAX_HEADER_BYTES = 4096
DAY_S = 86_400.0
ORDERS = ("none", "key", "partition")
CONTENTS = ("value", "event")

_URL = re.compile(r"https?://[^\s/?#@\\]+([/?][^\s#\\]*)?", re.ASCII | re.IGNORECASE)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_FIELD = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?|")
# Those that say how a request is sent, and those that we promise something with.
_OURS = frozenset(
    ("host", "content-length", "content-type", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade",
     "expect", "proxy-authorization", "proxy-connection")
)  # fmt: skip
_OUR_PREFIXES = ("webhook-", "headrace-")
_MEMBERS = frozenset(
    ("type", "url", "secrets", "timeout_s", "max_attempts", "retry_for_s", "first_pause_s", "longest_pause_s",
     "disable_after_s", "concurrency", "rate_per_s", "order", "headers", "allow", "content")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Each event is sent to the URL, signed as Standard Webhooks say.

    A definition without secrets keeps those that the route has, or gets a new one; so does one with a header whose value is
    null. That way what is shown, which leaves them out, can be sent back."""

    url: str
    secrets: tuple[Secret, ...] = ()
    timeout_s: float = 20.0
    max_attempts: int = 10
    retry_for_s: float = 7 * DAY_S
    first_pause_s: float | None = None  # None: the schedule of the specification
    longest_pause_s: float = DAY_S
    disable_after_s: float = 5 * DAY_S  # that it fails on end; 0: never
    concurrency: int = 8
    rate_per_s: float | None = None
    order: str = "none"
    headers: tuple[tuple[str, str | None], ...] = field(default=(), repr=False)
    allow: tuple[str, ...] = ()
    content: str = "value"

    kind: ClassVar[str] = "webhook"

    def json(self) -> dict[str, object]:
        return {**self._json(), "secrets": [one.json() for one in self.secrets], "headers": dict(self.headers)}

    def shown(self) -> dict[str, object]:
        return {**self._json(), "headers": {name: None for name, _ in self.headers}}

    def _json(self) -> dict[str, object]:
        return {
            "type": self.kind,
            "url": self.url,
            "timeout_s": self.timeout_s,
            "max_attempts": self.max_attempts,
            "retry_for_s": self.retry_for_s,
            "first_pause_s": self.first_pause_s,
            "longest_pause_s": self.longest_pause_s,
            "disable_after_s": self.disable_after_s,
            "concurrency": self.concurrency,
            "rate_per_s": self.rate_per_s,
            "order": self.order,
            "allow": list(self.allow),
            "content": self.content,
        }

    @property
    def label(self) -> str:
        return self.url.partition("?")[0]  # a query may hold what is nobody's business

    @classmethod
    def of(cls, given: Json) -> WebhookTarget:
        where = "destination."
        check_members(given, _MEMBERS, where)
        return cls(
            _url(given, where),
            secrets_of(given, "secrets", where),
            number(given, "timeout_s", where, 20.0, least=0.1, most=120.0),
            integer(given, "max_attempts", where, 10, least=1, most=100),
            number(given, "retry_for_s", where, 7 * DAY_S, least=0, most=30 * DAY_S),
            _optional(given, "first_pause_s", where, least=0.01, most=DAY_S),
            number(given, "longest_pause_s", where, DAY_S, least=0.01, most=7 * DAY_S),
            number(given, "disable_after_s", where, 5 * DAY_S, least=0, most=365 * DAY_S),
            integer(given, "concurrency", where, 8, least=1, most=100),
            _optional(given, "rate_per_s", where, least=0.001, most=10_000.0),
            one_of(given, "order", where, ORDERS, "none"),
            _headers(member_object(given, "headers", where), f"{where}headers."),
            texts(given, "allow", where),
            one_of(given, "content", where, CONTENTS, "value"),
        )

    def completed(self, before: End | None) -> WebhookTarget:
        """With the secrets and headers of the one whose place it takes, where it has none of its own."""
        there = before if isinstance(before, WebhookTarget) else None
        known = dict(there.headers) if there is not None else {}
        headers = []
        for name, value in self.headers:
            kept = known.get(name) if value is None else value
            if kept is None:
                raise InvalidRoute(f"destination.headers.{name} must be a text: there is none to keep")
            headers.append((name, kept))
        secrets = self.secrets or (there.secrets if there is not None else ()) or (Secret.new(),)
        return replace(self, secrets=secrets, headers=tuple(headers))

    def rotated(self, secret: Secret, old_until_ms: int, now_ms: int) -> WebhookTarget:
        """With a new secret in front; those before it end then, or when they would have. Those that have ended go. Raises
        RouteConflict while there are as many as there may be: none of them may end sooner than was said."""
        old = [
            replace(one, until_ms=old_until_ms if one.until_ms is None else min(one.until_ms, old_until_ms))
            for one in self.secrets
            if one.secret != secret.secret
        ]
        secrets = (secret, *(one for one in old if one.is_valid(now_ms)))
        if len(secrets) > MAX_SECRETS:
            raise RouteConflict(f"{MAX_SECRETS} secrets are valid already, and no more than that")
        return replace(self, secrets=secrets)


def _url(given: Json, where: str) -> str:
    url = text(given, "url", where, max_bytes=MAX_URL)
    if not _URL.fullmatch(url):
        raise InvalidRoute(f"{where}url must look like https://host/path, without user, password, spaces and fragment")
    return url


def _optional(given: Json, member: str, where: str, *, least: float, most: float) -> float | None:
    return None if given.get(member) is None else number(given, member, where, 0, least=least, most=most)


def _headers(given: Mapping[str, object], where: str) -> tuple[tuple[str, str | None], ...]:
    if len(given) > MAX_HEADERS:
        raise InvalidRoute(f"{where[:-1]}: {MAX_HEADERS} at most")
    found: dict[str, str | None] = {}
    for name, value in given.items():
        lower = name.lower()
        if not _TOKEN.fullmatch(name):
            raise InvalidRoute(f"{where}{name[:100]!r} is not a name that a header may have")
        if lower in _OURS or lower.startswith(_OUR_PREFIXES):
            raise InvalidRoute(f"{where}{name} is set by the server")
        if lower in found:
            raise InvalidRoute(f"{where}{name} is there twice")
        if value is not None and (not isinstance(value, str) or not _FIELD.fullmatch(value) or len(value) > MAX_HEADER_BYTES):
            raise InvalidRoute(f"{where}{name} must be a text of printable ASCII, {MAX_HEADER_BYTES} bytes at most")
        found[lower] = value
    return tuple(found.items())
