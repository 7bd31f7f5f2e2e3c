"""A ZeroMQ socket as an end of a route, either way.

    topic → socket   {"type": "zmq", "address": "tcp://127.0.0.1:5556", "bind": true, "socket": "pub",
                      "envelope": "{topic}", "content": "event", "slow_subscribers": "drop",
                      "high_water_mark": 1000, "curve": {...}}
    socket → topic   {"type": "zmq", "address": "tcp://127.0.0.1:5557", "bind": true, "socket": "pull",
                      "prefixes": ["prices."], "envelope": "header",
                      "high_water_mark": 1000, "max_message_bytes": 1048576, "curve": {...}}
    curve            {"public_key": "…", "secret_key": "…", "server_key": "…", "allowed": ["…"]}, keys as 40 characters of Z85

With a `server_key` this end is CURVE's client and that is the public key of the other end; without one it is CURVE's server,
and `allowed` are the public keys that may come in, all if there are none. Which end binds has nothing to do with it.

An address that other machines can reach is bound only with CURVE and with keys that are allowed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from headrace.broker.routes.ends.end import End, Json
from headrace.broker.routes.ends.parsing import check_members, flag, integer, one_of, text, texts
from headrace.broker.routes.errors import InvalidRoute
from headrace.dataclass import dataclass

HIGH_WATER_MARK = 1000  # ZeroMQ's own
LARGEST_HIGH_WATER_MARK = 1_000_000
MAX_MESSAGE_BYTES = 1024 * 1024
LARGEST_MESSAGE_BYTES = 256 * 1024 * 1024
MAX_PREFIXES = 100
MAX_KEYS = 1000
MAX_IPC_PATH_BYTES = 100  # a Unix socket's name has 107 at most

ENVELOPE = "{topic}"
_COMMON = frozenset({"type", "address", "bind", "socket", "envelope", "high_water_mark", "curve"})
_PLACES = re.compile(r"\{[^}]*\}|[{}]")
_Z85 = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
_HOST_NAME = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class Curve:
    """Keys of CURVE. Without a pair of its own a client takes a new one each time it starts."""

    public_key: str | None = None
    secret_key: str | None = None
    server_key: str | None = None
    allowed: tuple[str, ...] = ()

    @property
    def is_server(self) -> bool:
        return self.server_key is None

    def json(self) -> dict[str, object]:
        return {
            "public_key": self.public_key,
            "secret_key": self.secret_key,
            "server_key": self.server_key,
            "allowed": list(self.allowed),
        }

    def shown(self) -> dict[str, object]:
        return {name: value for name, value in self.json().items() if name != "secret_key"}

    @classmethod
    def of(cls, given: object, where: str) -> Curve | None:
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise InvalidRoute(f"{where}curve must be an object with keys, such as {{'server_key': …}}")
        where += "curve."
        check_members(given, {"public_key", "secret_key", "server_key", "allowed"}, where)
        curve = cls(
            _key(given, "public_key", where),
            _key(given, "secret_key", where),
            _key(given, "server_key", where),
            tuple(_checked_key(key, "allowed", where) for key in texts(given, "allowed", where, max_count=MAX_KEYS)),
        )
        if curve.is_server and curve.public_key is None:
            raise InvalidRoute(
                f"{where}server_key must be given, the public key of the other end; or {where}public_key and "
                f"{where}secret_key, if this end is the server of CURVE"
            )
        if curve.secret_key is not None and curve.public_key is None:
            raise InvalidRoute(f"{where}secret_key needs its {where}public_key")
        if curve.allowed and not curve.is_server:
            raise InvalidRoute(f"{where}allowed is for the server of CURVE, and {where}server_key says that this end is not")
        return curve

    def completed(self, before: Curve | None, where: str) -> Curve:
        """A definition that was shown has no secret: whoever sends it back means the one that is there."""
        if self.public_key is None or self.secret_key is not None:
            return self
        if before is None or before.public_key != self.public_key or before.secret_key is None:
            raise InvalidRoute(f"{where}curve.secret_key must be given with {where}curve.public_key")
        return replace(self, secret_key=before.secret_key)


@dataclass(frozen=True, slots=True)
class ZeroMqTarget:
    """A socket that sends what a topic holds. `envelope` is the first frame, in which {topic} and {key} stand for these;
    `content` is what follows: `event` all of it, `value` the value alone; `bare` the value without an envelope. A pub socket
    drops for subscribers that are too slow, or waits for them, and then all others wait as well."""

    address: str
    bind: bool = True
    socket: str = "pub"
    envelope: str = ENVELOPE
    content: str = "event"
    slow_subscribers: str = "drop"
    high_water_mark: int = HIGH_WATER_MARK
    curve: Curve | None = None

    kind: ClassVar[str] = "zmq"

    def json(self) -> dict[str, object]:
        given: dict[str, object] = {
            "type": self.kind,
            "address": self.address,
            "bind": self.bind,
            "socket": self.socket,
            "envelope": self.envelope,
            "content": self.content,
            "high_water_mark": self.high_water_mark,
            "curve": None if self.curve is None else self.curve.json(),
        }
        if self.socket == "pub":
            given["slow_subscribers"] = self.slow_subscribers
        return given

    def shown(self) -> dict[str, object]:
        return {**self.json(), "curve": None if self.curve is None else self.curve.shown()}

    @property
    def label(self) -> str:
        return f"{self.socket} {self.address}"

    def completed(self, before: End | None) -> ZeroMqTarget:
        if self.curve is None:
            return self
        known = before.curve if isinstance(before, ZeroMqTarget) else None
        return replace(self, curve=self.curve.completed(known, "destination."))

    @classmethod
    def of(cls, given: Json) -> ZeroMqTarget:
        where = "destination."
        check_members(given, _COMMON | {"content", "slow_subscribers"}, where)
        kind = one_of(given, "socket", where, ("pub", "push"), default="pub")
        if kind == "push" and "slow_subscribers" in given:
            raise InvalidRoute(f"{where}slow_subscribers is for a pub socket: a push socket always waits")
        bind = flag(given, "bind", where, default=True)
        curve = Curve.of(given.get("curve"), where)
        envelope = text(given, "envelope", where, default=ENVELOPE)
        for place in _PLACES.findall(envelope):
            if place not in ("{topic}", "{key}"):
                raise InvalidRoute(f"{where}envelope is a text in which only {{topic}} and {{key}} stand for something else")
        return cls(
            _address(given, where, bind=bind, curve=curve),
            bind,
            kind,
            envelope,
            one_of(given, "content", where, ("event", "value", "bare"), default="event"),
            one_of(given, "slow_subscribers", where, ("drop", "wait"), default="drop"),
            _high_water_mark(given, where),
            curve,
        )


@dataclass(frozen=True, slots=True)
class ZeroMqSource:
    """A socket whose messages fill a topic. `envelope` says what becomes of the first of several frames: the header
    `zmq.topic`, the key (of an event that has none), or nothing (`drop`)."""

    address: str
    bind: bool = True
    socket: str = "pull"
    prefixes: tuple[str, ...] = ("",)
    envelope: str = "header"
    high_water_mark: int = HIGH_WATER_MARK
    max_message_bytes: int = MAX_MESSAGE_BYTES
    curve: Curve | None = None

    kind: ClassVar[str] = "zmq"

    def json(self) -> dict[str, object]:
        given: dict[str, object] = {
            "type": self.kind,
            "address": self.address,
            "bind": self.bind,
            "socket": self.socket,
            "envelope": self.envelope,
            "high_water_mark": self.high_water_mark,
            "max_message_bytes": self.max_message_bytes,
            "curve": None if self.curve is None else self.curve.json(),
        }
        if self.socket == "sub":
            given["prefixes"] = list(self.prefixes)
        return given

    def shown(self) -> dict[str, object]:
        return {**self.json(), "curve": None if self.curve is None else self.curve.shown()}

    @property
    def label(self) -> str:
        return f"{self.socket} {self.address}"

    def completed(self, before: End | None) -> ZeroMqSource:
        if self.curve is None:
            return self
        known = before.curve if isinstance(before, ZeroMqSource) else None
        return replace(self, curve=self.curve.completed(known, "source."))

    @classmethod
    def of(cls, given: Json) -> ZeroMqSource:
        where = "source."
        check_members(given, _COMMON | {"prefixes", "max_message_bytes"}, where)
        kind = one_of(given, "socket", where, ("pull", "sub"), default="sub" if "prefixes" in given else "pull")
        if kind == "pull" and "prefixes" in given:
            raise InvalidRoute(f"{where}prefixes are for a sub socket: a pull socket takes all that comes")
        bind = flag(given, "bind", where, default=kind == "pull")
        curve = Curve.of(given.get("curve"), where)
        return cls(
            _address(given, where, bind=bind, curve=curve),
            bind,
            kind,
            texts(given, "prefixes", where, max_count=MAX_PREFIXES) or ("",),
            one_of(given, "envelope", where, ("header", "key", "drop"), default="header"),
            _high_water_mark(given, where),
            integer(given, "max_message_bytes", where, MAX_MESSAGE_BYTES, least=1, most=LARGEST_MESSAGE_BYTES),
            curve,
        )


def _high_water_mark(given: Json, where: str) -> int:
    return integer(given, "high_water_mark", where, HIGH_WATER_MARK, least=1, most=LARGEST_HIGH_WATER_MARK)


def _key(given: Json, member: str, where: str) -> str | None:
    return None if given.get(member) is None else _checked_key(text(given, member, where), member, where)


def _checked_key(key: str, member: str, where: str) -> str:
    if not _Z85.fullmatch(key):  # never shown: it may be somebody's secret
        raise InvalidRoute(f"{where}{member} must be a key of CURVE: 40 characters of Z85, as `headrace zmq keygen` makes them")
    return key


# --- addresses


def _address(given: Json, where: str, *, bind: bool, curve: Curve | None) -> str:
    address = text(given, "address", where)
    transport, colon, rest = address.partition("://")
    if transport == "tcp" and colon:
        return _tcp(rest, where, bind=bind, curve=curve)
    if transport == "ipc" and colon:
        return _ipc(rest, where)
    raise InvalidRoute(f"{where}address must be like tcp://127.0.0.1:5556 or ipc:///run/headrace/prices")


def _tcp(rest: str, where: str, *, bind: bool, curve: Curve | None) -> str:
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise InvalidRoute(f"{where}address must end with a port from 1 to 65535, such as tcp://127.0.0.1:5556")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    found: ipaddress.IPv4Address | ipaddress.IPv6Address | None
    try:
        found = ipaddress.ip_address(bare)
    except ValueError:
        found = None
    if found is not None and (found.version == 6) != bracketed:
        raise InvalidRoute(f"{where}address: an IPv6 address, and only that, stands in brackets")
    if bare == "localhost":
        found = ipaddress.ip_address("127.0.0.1")
        host = str(found)
    if not bind:
        if found is None and not _HOST_NAME.fullmatch(host):
            raise InvalidRoute(f"{where}address must name a host to connect to, such as tcp://127.0.0.1:5556")
        return f"tcp://{host}:{int(port)}"
    if host == "*":
        found, host = ipaddress.ip_address("0.0.0.0"), "0.0.0.0"
    if found is None:
        raise InvalidRoute(f"{where}address: to bind takes an IP address, such as 127.0.0.1, or * for all of this machine")
    if not found.is_loopback and (curve is None or not curve.is_server or not curve.allowed):
        raise InvalidRoute(
            f"{where}address: {host} can be reached from other machines; to bind there takes {where}curve with the keys that "
            f"are allowed. Bind to 127.0.0.1 otherwise"
        )
    return f"tcp://{host}:{int(port)}"


def _ipc(path: str, where: str) -> str:
    if not path.startswith("/") or "\0" in path or len(path.encode()) > MAX_IPC_PATH_BYTES:
        raise InvalidRoute(
            f"{where}address: ipc takes an absolute path of {MAX_IPC_PATH_BYTES} bytes at most, such as ipc:///run/headrace/prices"
        )
    return f"ipc://{path}"
