"""The receive URL of a route: what is posted to `/v1/receive/<route>`, and how it is known who sent it.

    standard   Standard Webhooks, version 1: `webhook-id`, `webhook-timestamp`, `webhook-signature` (or `svix-…`)
    github     `X-Hub-Signature-256`
    stripe     `Stripe-Signature`
    slack      `X-Slack-Signature` and `X-Slack-Request-Timestamp`
    hmac       a header that has an HMAC of the body: `header`, `algorithm`, `encoding`, `prefix`
    token      a header that has the secret itself: `header`, `prefix`
    none       nobody is asked

What works there is `headrace.webhooks.incoming`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import field, replace
from typing import ClassVar

from headrace.broker.routes.ends.end import End, Json
from headrace.broker.routes.ends.parsing import check_members, integer, number, one_of, text, texts
from headrace.broker.routes.ends.secrets import MAX_SECRETS, Secret, secret_bytes
from headrace.broker.routes.errors import InvalidRoute, RouteConflict
from headrace.dataclass import dataclass

SCHEMES = ("standard", "github", "stripe", "slack", "hmac", "token", "none")
ALGORITHMS = ("sha256", "sha512", "sha384", "sha1")
ENCODINGS = ("hex", "base64", "base64url")
LEAST_SECRET, MOST_SECRET = 16, 512
MAX_KEPT_HEADERS = 32
DAY_S = 86_400.0

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,100}")
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_WITHOUT_ID = ("hmac", "token", "none")  # unless `id_header` names one
_MADE_HERE = ("standard", "github", "hmac", "token")  # the other side takes a secret that we chose; others choose it themselves
_SECRET_HEADERS = frozenset(
    ("authorization", "cookie", "proxy-authorization", "webhook-signature", "svix-signature", "x-hub-signature",
     "x-hub-signature-256", "stripe-signature", "x-slack-signature", "x-gitlab-token")
)  # fmt: skip
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """What both sides know. `until_ms` is when it ends; None for one that does not."""

    secret: str = field(repr=False)
    until_ms: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        return self.until_ms is None or now_ms < self.until_ms

    def json(self) -> object:
        return self.secret if self.until_ms is None else {"secret": self.secret, "until_ms": self.until_ms}


@dataclass(frozen=True, slots=True)
class WebhookSource:
    """A definition without secrets keeps those that the route has, or gets a new one, where the scheme is such that we may
    choose it. So what is shown, which leaves them out, can be sent back."""

    scheme: str = "standard"
    secrets: tuple[SharedSecret, ...] = ()
    tolerance_s: float = 300.0  # how far a signed time may be from ours
    header: str | None = None
    algorithm: str = "sha256"
    encoding: str = "hex"
    prefix: str = field(default="", repr=False)
    id_header: str | None = None
    remember_s: float = DAY_S  # for which an id is known again
    key_header: str | None = None
    headers: tuple[str, ...] = ()  # those of a request that an event keeps
    max_bytes: int = 1024 * 1024

    kind: ClassVar[str] = "webhook"

    def json(self) -> dict[str, object]:
        return {**self.shown(), "secrets": [one.json() for one in self.secrets]}

    def shown(self) -> dict[str, object]:
        members: dict[str, object] = {"type": self.kind, "scheme": self.scheme}
        if self.scheme in ("standard", "stripe", "slack"):
            members["tolerance_s"] = self.tolerance_s
        if self.scheme in ("hmac", "token"):
            members |= {"header": self.header, "prefix": self.prefix}
        if self.scheme == "hmac":
            members |= {"algorithm": self.algorithm, "encoding": self.encoding}
        if self.scheme in _WITHOUT_ID:
            members["id_header"] = self.id_header
        return {
            **members,
            "remember_s": self.remember_s,
            "key_header": self.key_header,
            "headers": list(self.headers),
            "max_bytes": self.max_bytes,
        }

    @property
    def label(self) -> str:
        return f"webhooks ({self.scheme})"

    @classmethod
    def of(cls, given: Json) -> WebhookSource:
        where = "source."
        scheme = one_of(given, "scheme", where, SCHEMES)  # there is no default: nobody shall believe that something is checked
        known = {"type", "scheme", "remember_s", "key_header", "headers", "max_bytes"}
        known |= {"secrets"} if scheme != "none" else set()
        known |= {"tolerance_s"} if scheme in ("standard", "stripe", "slack") else set()
        known |= {"header", "prefix"} if scheme in ("hmac", "token") else set()
        known |= {"algorithm", "encoding"} if scheme == "hmac" else set()
        known |= {"id_header"} if scheme in _WITHOUT_ID else set()
        # what is stored has the empty list, also where there is nothing to know
        check_members({name: value for name, value in given.items() if name != "secrets" or value}, known, where)
        kept = texts(given, "headers", where, max_count=MAX_KEPT_HEADERS)
        source = cls(
            scheme,
            _secrets(given, scheme, f"{where}secrets"),
            number(given, "tolerance_s", where, 300.0, least=1, most=DAY_S),
            _header(given, "header", where),
            one_of(given, "algorithm", where, ALGORITHMS, "sha256"),
            one_of(given, "encoding", where, ENCODINGS, "hex"),
            text(given, "prefix", where, ""),
            _header(given, "id_header", where),
            number(given, "remember_s", where, DAY_S, least=0, most=7 * DAY_S),
            _header(given, "key_header", where),
            tuple(dict.fromkeys(_name(name, f"{where}headers") for name in kept)),
            integer(given, "max_bytes", where, 1024 * 1024, least=1, most=16 * 1024 * 1024),
        )
        if scheme in ("hmac", "token") and source.header is None:
            raise InvalidRoute(f"{where}header must be the name of the header with the {_what(scheme)}")
        if not _PRINTABLE.fullmatch(source.prefix):
            raise InvalidRoute(f"{where}prefix must be printable ASCII")
        hidden = (_SECRET_HEADERS | {source.header}).intersection((*source.headers, source.key_header, source.id_header))
        if hidden - {None}:
            raise InvalidRoute(f"{where}headers: {sorted(map(str, hidden - {None}))[0]} is a secret, and no part of an event")
        return source

    def completed(self, before: End | None) -> WebhookSource:
        """With the secrets of the one whose place it takes, where it has none of its own. Raises InvalidRoute."""
        if self.secrets or self.scheme == "none":
            return self
        if isinstance(before, WebhookSource) and before.scheme == self.scheme and before.secrets:
            return replace(self, secrets=before.secrets)
        return replace(self, secrets=(self._new_secret(),))

    def rotated(self, secret: str | None, old_until_ms: int, now_ms: int) -> WebhookSource:
        """With a new secret in front, made up unless given; those before it end then, or when they would have. Raises
        InvalidRoute and RouteConflict."""
        if self.scheme == "none":
            raise RouteConflict("there is no secret: nothing is verified")
        new = self._new_secret() if secret is None else _secret(secret, self.scheme, "secret")
        old = [
            replace(one, until_ms=old_until_ms if one.until_ms is None else min(one.until_ms, old_until_ms))
            for one in self.secrets
            if one.secret != new.secret
        ]
        all_of_them = (new, *(one for one in old if one.is_valid(now_ms)))
        if len(all_of_them) > MAX_SECRETS:
            raise RouteConflict(f"{MAX_SECRETS} secrets are valid already, and no more than that")
        return replace(self, secrets=all_of_them)

    def _new_secret(self) -> SharedSecret:
        if self.scheme not in _MADE_HERE:
            raise InvalidRoute(f"source.secrets must have the secret that {self.scheme} gave you")
        return SharedSecret(Secret.new().secret if self.scheme == "standard" else secrets.token_urlsafe(32))


def _what(scheme: str) -> str:
    return "signature" if scheme == "hmac" else "token"


def _secrets(given: Json, scheme: str, where: str) -> tuple[SharedSecret, ...]:
    value = given.get("secrets") or ()
    if not isinstance(value, list | tuple) or len(value) > MAX_SECRETS:
        raise InvalidRoute(f"{where} must be a list of at most {MAX_SECRETS} secrets")
    return tuple(_secret(one, scheme, where) for one in value)


def _secret(given: object, scheme: str, where: str) -> SharedSecret:
    """A text, or an object with the time at which it ends."""
    until: int | None = None
    if isinstance(given, Mapping):
        check_members(given, {"secret", "until_ms"}, f"{where}.")
        if given.get("until_ms") is not None:
            until = integer(given, "until_ms", f"{where}.", 0, least=0, most=_LARGEST)
        given = given.get("secret")
    if not isinstance(given, str):
        raise InvalidRoute(f"{where} must be texts")
    if scheme == "standard":
        try:
            secret_bytes(given)
        except ValueError as error:
            raise InvalidRoute(f"{where}: {error}") from None
    elif not given.isascii() or not given.isprintable() or not LEAST_SECRET <= len(given) <= MOST_SECRET:
        raise InvalidRoute(f"{where}: a secret has {LEAST_SECRET} to {MOST_SECRET} characters of printable ASCII")
    return SharedSecret(given, until)


def _header(given: Json, member: str, where: str) -> str | None:
    if given.get(member) is None:
        return None
    return _name(text(given, member, where), where + member)


def _name(name: str, where: str) -> str:
    lower = name.lower()
    if not _TOKEN.fullmatch(lower):
        raise InvalidRoute(f"{where}: {name[:100]!r} is not a name that a header may have")
    return lower
