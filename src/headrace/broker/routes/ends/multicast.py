"""A feed of UDP datagrams, as what a route sends to and as what it reads from.

Datagrams stay on this machine unless an interface is named: without one they go over loopback. A secret is never shown; where a
definition is put back as it was shown, with `HIDDEN` in the secret's place, the secret that was there stays.
"""

from __future__ import annotations

from dataclasses import field, replace
from ipaddress import ip_address
from typing import ClassVar

from headrace.broker.routes.ends.end import End, Json
from headrace.broker.routes.ends.parsing import check_members, flag, integer, number, text
from headrace.broker.routes.errors import InvalidRoute
from headrace.dataclass import dataclass

LEAST_MTU, DEFAULT_MTU, MOST_MTU = 256, 1400, 65_507  # bytes of a datagram, without the headers of UDP and IP
DEFAULT_HEARTBEAT_MS = 1000
DEFAULT_REORDER_MS = 20
DEFAULT_WINDOW = 1024  # datagrams
MOST_WINDOW = 65_536
MAX_FEED_NAME = 249
LEAST_SECRET = 8
HIDDEN = "********"


@dataclass(frozen=True, slots=True)
class FeedTarget:
    """Each partition is a stream of its own in the feed, whose sequence numbers are the offsets. `feed` is the name of the
    topic unless it is given; `bytes_per_s` is a bound where it is not 0."""

    group: str
    port: int
    feed: str | None = None
    interface: str | None = None
    ttl: int = 1
    loopback: bool = True
    mtu: int = DEFAULT_MTU
    bytes_per_s: int = 0
    heartbeat_ms: int = DEFAULT_HEARTBEAT_MS
    secret: str | None = field(default=None, repr=False)

    kind: ClassVar[str] = "udp"

    def json(self) -> dict[str, object]:
        return {
            "type": self.kind,
            "group": self.group,
            "port": self.port,
            "feed": self.feed,
            "interface": self.interface,
            "ttl": self.ttl,
            "loopback": self.loopback,
            "mtu": self.mtu,
            "bytes_per_s": self.bytes_per_s,
            "heartbeat_ms": self.heartbeat_ms,
            "secret": self.secret,
        }

    def shown(self) -> dict[str, object]:
        return {**self.json(), "secret": None if self.secret is None else HIDDEN}

    @property
    def label(self) -> str:
        return _label(self.group, self.port, self.feed)

    def completed(self, before: End | None) -> FeedTarget:
        return replace(self, secret=_kept_secret(self.secret, before, "destination."))

    @classmethod
    def of(cls, given: Json) -> FeedTarget:
        where = "destination."
        members = {
            "type",
            "group",
            "port",
            "feed",
            "interface",
            "ttl",
            "loopback",
            "mtu",
            "bytes_per_s",
            "heartbeat_ms",
            "secret",
        }
        check_members(given, members, where)
        return cls(
            _group(given, where),
            integer(given, "port", where, 0, least=1, most=65_535),
            _feed(given, where),
            _optional_text(given, "interface", where),
            integer(given, "ttl", where, 1, least=0, most=255),
            flag(given, "loopback", where, default=True),
            integer(given, "mtu", where, DEFAULT_MTU, least=LEAST_MTU, most=MOST_MTU),
            integer(given, "bytes_per_s", where, 0, least=0, most=10**12),
            integer(given, "heartbeat_ms", where, DEFAULT_HEARTBEAT_MS, least=20, most=60_000),
            _secret(given, where),
        )


@dataclass(frozen=True, slots=True)
class FeedSource:
    """A datagram that is missing is waited for `reorder_ms`, or until `window` datagrams behind it are here. `sender` is the
    only address that is listened to, where it is given. `feed` is the name of the topic unless it is given."""

    group: str
    port: int
    feed: str | None = None
    interface: str | None = None
    sender: str | None = None
    reorder_ms: float = DEFAULT_REORDER_MS
    window: int = DEFAULT_WINDOW
    secret: str | None = field(default=None, repr=False)

    kind: ClassVar[str] = "udp"

    def json(self) -> dict[str, object]:
        return {
            "type": self.kind,
            "group": self.group,
            "port": self.port,
            "feed": self.feed,
            "interface": self.interface,
            "sender": self.sender,
            "reorder_ms": self.reorder_ms,
            "window": self.window,
            "secret": self.secret,
        }

    def shown(self) -> dict[str, object]:
        return {**self.json(), "secret": None if self.secret is None else HIDDEN}

    @property
    def label(self) -> str:
        return _label(self.group, self.port, self.feed)

    def completed(self, before: End | None) -> FeedSource:
        return replace(self, secret=_kept_secret(self.secret, before, "source."))

    @classmethod
    def of(cls, given: Json) -> FeedSource:
        where = "source."
        members = {"type", "group", "port", "feed", "interface", "sender", "reorder_ms", "window", "secret"}
        check_members(given, members, where)
        group = _group(given, where)
        return cls(
            group,
            integer(given, "port", where, 0, least=1, most=65_535),
            _feed(given, where),
            _optional_text(given, "interface", where),
            _sender(given, group, where),
            number(given, "reorder_ms", where, DEFAULT_REORDER_MS, least=0, most=10_000),
            integer(given, "window", where, DEFAULT_WINDOW, least=1, most=MOST_WINDOW),
            _secret(given, where),
        )


def _group(given: Json, where: str) -> str:
    group = text(given, "group", where)
    try:
        multicast = ip_address(group).is_multicast
    except ValueError:
        multicast = False
    if not multicast or "%" in group:
        raise InvalidRoute(f"{where}group must be a multicast address, such as 239.255.0.1 or ff15::7")
    return group


def _sender(given: Json, group: str, where: str) -> str | None:
    sender = _optional_text(given, "sender", where)
    if sender is None:
        return None
    try:
        address = ip_address(sender)
    except ValueError:
        address = None
    if address is None or address.is_multicast or "%" in sender or address.version != ip_address(group).version:
        raise InvalidRoute(f"{where}sender must be an address of one machine, of the same kind as the group's")
    return sender


def _feed(given: Json, where: str) -> str | None:
    feed = _optional_text(given, "feed", where)
    if feed is not None and len(feed.encode()) > MAX_FEED_NAME:
        raise InvalidRoute(f"{where}feed has more than {MAX_FEED_NAME} bytes")
    return feed


def _secret(given: Json, where: str) -> str | None:
    secret = _optional_text(given, "secret", where)
    if secret is not None and len(secret) < LEAST_SECRET:
        raise InvalidRoute(f"{where}secret has fewer than {LEAST_SECRET} characters")
    return secret


def _kept_secret(secret: str | None, before: End | None, where: str) -> str | None:
    if secret != HIDDEN:
        return secret
    if not isinstance(before, FeedTarget | FeedSource) or before.secret is None:
        raise InvalidRoute(f"{where}secret: there is none yet that could stay as it is")
    return before.secret


def _optional_text(given: Json, member: str, where: str) -> str | None:
    return None if given.get(member) is None else text(given, member, where)


def _label(group: str, port: int, feed: str | None) -> str:
    address = f"[{group}]:{port}" if ":" in group else f"{group}:{port}"
    return f"udp://{address}" if feed is None else f"udp://{address} feed {feed}"
