"""What can be said about a feed: in the query of its URL, or by keywords to `connect`, `publisher` and `subscriber`.

    both         feed, interface, secret
    publisher    ttl, loopback, mtu, linger_us, bytes_per_s, heartbeat_ms
    subscriber   sender, recover, topic, start, window, reorder_ms, give_up_s, buffer_bytes, stop_at_end, on_gap

A name that is not known is refused, so that a misspelt one is not taken for its default.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from headrace.multicast.feed.counts import Gap
from headrace.multicast.feed.datagrams import LARGEST
from headrace.multicast.feed.packing import DEFAULT_MTU, LEAST_MTU
from headrace.multicast.feed.reception import DEFAULT_REORDER_S, DEFAULT_WINDOW
from headrace.multicast.feed.sockets import RECEIVE_BUFFER_BYTES

MAX_FEED_NAME = 249
LEAST_SECRET = 8


@dataclass(frozen=True, slots=True)
class Options:
    feed: str = ""
    interface: str | None = None  # loopback
    secret: str | None = field(default=None, repr=False)
    ttl: int = 1
    loopback: bool = True
    mtu: int = DEFAULT_MTU
    linger_us: int = 0
    bytes_per_s: int = 0  # 0: as fast as they come
    heartbeat_ms: int = 1000
    sender: str | None = None
    recover: str | None = None
    topic: str | None = None
    start: str | int = "latest"
    window: int = DEFAULT_WINDOW
    reorder_ms: float = DEFAULT_REORDER_S * 1000
    give_up_s: float = 30.0
    buffer_bytes: int = RECEIVE_BUFFER_BYTES
    stop_at_end: bool = False
    on_gap: Callable[[Gap], None] | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Raises ValueError."""
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise ValueError(f"a feed has no option {name!r}; there are: {', '.join(known)}")
        read = {name: _READ[name](name, value) for name, value in given.items() if value is not None}
        return cls(**read)

    @property
    def key(self) -> bytes | None:
        """What datagrams are authenticated with."""
        return None if self.secret is None else self.secret.encode()


def feed_name(name: str) -> str:
    """Raises ValueError for what can't be one."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError("the name of a feed must be a text that can be written in UTF-8") from None
    if size > MAX_FEED_NAME:
        raise ValueError(f"the name of a feed has at most {MAX_FEED_NAME} bytes")
    return name


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text")
    return value


def _feed(name: str, value: Any) -> str:
    return feed_name(_text(name, value))


def _secret(name: str, value: Any) -> str:
    if len(_text(name, value)) < LEAST_SECRET:
        raise ValueError(f"{name} must have at least {LEAST_SECRET} characters")
    return str(value)


def _sender(name: str, value: Any) -> str:
    try:
        address = ipaddress.ip_address(_text(name, value))
    except ValueError:
        raise ValueError(f"{name} must be an address, such as 10.0.0.7") from None
    return str(address)


def _flag(name: str, value: Any) -> bool:
    known = {True: True, False: False, "true": True, "false": False, "1": True, "0": False}
    if not isinstance(value, bool | str) or value not in known:
        raise ValueError(f"{name} must be true or false")
    return known[value]


def _number(least: float, most: float) -> Callable[[str, Any], float]:
    def read(name: str, value: Any) -> float:
        try:
            found = float(value)
        except (TypeError, ValueError):
            found = least - 1
        if isinstance(value, bool) or not least <= found <= most:
            raise ValueError(f"{name} must be a number from {least:g} to {most:g}")
        return found

    return read


def _whole(least: int, most: int) -> Callable[[str, Any], int]:
    def read(name: str, value: Any) -> int:
        try:
            found = int(value)
        except (TypeError, ValueError):
            found = least - 1
        if isinstance(value, bool | float) or not least <= found <= most:
            raise ValueError(f"{name} must be a whole number from {least} to {most}")
        return found

    return read


def _start(name: str, value: Any) -> str | int:
    if value in ("latest", "earliest"):
        return str(value)
    try:
        offset = int(value)
    except (TypeError, ValueError):
        offset = -1
    if isinstance(value, bool | float) or offset < 0:
        raise ValueError(f"{name} must be latest, earliest or an offset")
    return offset


def _on_gap(name: str, value: Any) -> Callable[[Gap], None]:
    if not callable(value):
        raise ValueError(f"{name} must be a function")
    function: Callable[[Gap], None] = value
    return function


_READ: dict[str, Callable[[str, Any], Any]] = {
    "feed": _feed,
    "interface": _text,
    "secret": _secret,
    "ttl": _whole(0, 255),
    "loopback": _flag,
    "mtu": _whole(LEAST_MTU, LARGEST),
    "linger_us": _whole(0, 1_000_000),
    "bytes_per_s": _whole(0, 10**12),
    "heartbeat_ms": _whole(20, 60_000),
    "sender": _sender,
    "recover": _text,
    "topic": _text,
    "start": _start,
    "window": _whole(1, 65_536),
    "reorder_ms": _number(0, 10_000),
    "give_up_s": _number(0, 86_400),
    "buffer_bytes": _whole(4096, 1 << 30),
    "stop_at_end": _flag,
    "on_gap": _on_gap,
}
