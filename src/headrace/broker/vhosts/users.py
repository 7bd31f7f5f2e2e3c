"""Users: who may log in, and what each may do in which virtual host.

Passwords are kept as RabbitMQ keeps them, four bytes of salt and a hash over salt and password, so that definitions can be
taken from there and back. A user without a hash can't log in with a password. Permissions are three regular expressions for
each virtual host: what may be configured, written and read. An empty one allows nothing. Limits (`max-connections`,
`max-channels`) are for the front ends to keep.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from ipaddress import ip_address
from typing import Any

from headrace.broker.exchanges.values import printed
from headrace.broker.queues.errors import access_refused, not_allowed
from headrace.broker.vhosts.names import exchange_text, queue_text, stripped
from headrace.dataclass import dataclass

DEFAULT_USER = "guest"
MAX_USERS = 10_000
MAX_PATTERN = 1024

SHA256, MD5 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_md5"
HASHES: Mapping[str, str] = {
    SHA256: "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    MD5: "md5",
}

MAX_CONNECTIONS, MAX_CHANNELS = "max-connections", "max-channels"
USER_LIMITS = (MAX_CONNECTIONS, MAX_CHANNELS)

_SALT_BYTES = 4
_EVERYTHING = ".*"


@dataclass(frozen=True, slots=True)
class Permissions:
    """Regular expressions, found anywhere in the name of the exchange or queue."""

    configure: str = _EVERYTHING
    write: str = _EVERYTHING
    read: str = _EVERYTHING

    def allows(self, what: str, name: str) -> bool:
        pattern: str = getattr(self, what)
        if pattern in (_EVERYTHING, ""):
            return bool(pattern)
        return re.search(pattern, name) is not None


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """For the routing keys of one topic exchange."""

    exchange: str
    write: str = _EVERYTHING
    read: str = _EVERYTHING


@dataclass(frozen=True, slots=True)
class User:
    name: str
    password_hash: str = ""
    hashing_algorithm: str = SHA256
    tags: tuple[str, ...] = ()
    permissions: Mapping[str, Permissions] = field(default_factory=dict)  # by virtual host
    topic_permissions: Mapping[str, tuple[TopicPermissions, ...]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)

    def limit(self, kind: str) -> int | None:
        """None, or as RabbitMQ writes that, a negative number: as many as they like."""
        limit = self.limits.get(kind, -1)
        return limit if limit >= 0 else None

    def has_password(self, password: str) -> bool:
        try:
            stored = b64decode(self.password_hash)
        except Base64Error:
            return False
        given = _hash(self.hashing_algorithm, stored[:_SALT_BYTES], password)
        return len(stored) > _SALT_BYTES and hmac.compare_digest(stored[_SALT_BYTES:], given)

    def without_vhost(self, vhost: str) -> User:
        return replace(
            self,
            permissions={name: kept for name, kept in self.permissions.items() if name != vhost},
            topic_permissions={name: kept for name, kept in self.topic_permissions.items() if name != vhost},
        )


def user_row(user: User) -> dict[str, object]:
    """As the definitions table keeps it."""
    return {
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "permissions": {vhost: [each.configure, each.write, each.read] for vhost, each in user.permissions.items()},
        "topic_permissions": {
            vhost: [[each.exchange, each.write, each.read] for each in topics]
            for vhost, topics in user.topic_permissions.items()
        },
        "limits": dict(user.limits),
    }


def stored_user(name: str, row: Mapping[str, Any]) -> User:
    return User(
        name,
        row["password_hash"],
        row["hashing_algorithm"],
        tuple(row["tags"]),
        {vhost: Permissions(*patterns) for vhost, patterns in row["permissions"].items()},
        {vhost: tuple(TopicPermissions(*each) for each in topics) for vhost, topics in row["topic_permissions"].items()},
        row.get("limits", {}),  # rows of before there were limits have none
    )


def hashed(password: str, salt: bytes, algorithm: str = SHA256) -> str:
    return b64encode(salt + _hash(algorithm, salt, password)).decode()


def _hash(algorithm: str, salt: bytes, password: str) -> bytes:
    return hashlib.new(HASHES[algorithm], salt + password.encode("utf-8", "surrogateescape")).digest()


class Users:
    """All users of the broker. `loopback_only` are those who may not come from another machine."""

    def __init__(self, random_bytes: Callable[[int], bytes], loopback_only: tuple[str, ...] = (DEFAULT_USER,)) -> None:
        self._random_bytes = random_bytes
        self._users: dict[str, User] = {}
        self.loopback_only = frozenset(loopback_only)
        self.attempts: Counter[tuple[str, bool]] = Counter()  # to log in, by protocol, and whether it went well

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    @property
    def full(self) -> bool:
        return len(self._users) >= MAX_USERS

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def put(self, user: User) -> None:
        self._users[user.name] = user

    def remove(self, name: str) -> None:
        del self._users[name]

    def hashed(self, password: str) -> str:
        return hashed(password, self._random_bytes(_SALT_BYTES))

    def authenticate(self, name: str, password: str, *, loopback: bool = True, protocol: str = "http") -> User | None:
        """None: wrong name or password, or from where that user may not come."""
        user = self._authenticated(name, password, loopback=loopback)
        self.attempts[protocol, user is not None] += 1
        return user

    def _authenticated(self, name: str, password: str, *, loopback: bool) -> User | None:
        user = self._users.get(name)
        if user is None or not password or not user.has_password(password):
            return None
        return user if loopback or name not in self.loopback_only else None


def is_loopback(host: str) -> bool:
    """Whether a peer is on this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def checked_user_limits(limits: Mapping[str, object]) -> dict[str, int]:
    """Raises ValueError, with RabbitMQ's words."""
    checked: dict[str, int] = {}
    for kind, limit in limits.items():
        if kind not in USER_LIMITS:
            raise ValueError(f"Unrecognised terms [{{{printed(kind)},{printed(limit)}}}] in user-limits")
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise ValueError(f"{kind} should be a number, actually was {printed(limit)}")
        checked[kind] = limit
    return checked


def check_vhost_access(user: User, vhost: str) -> None:
    if vhost not in user.permissions:
        raise not_allowed(f"access to vhost '{vhost}' refused for user '{user.name}'")


def check_queue_access(user: User, what: str, queue: str, vhost: str) -> None:
    """`what` is "configure", "write" or "read". Names count without the line ends that they lose."""
    queue = stripped(queue)
    if not _allowed(user, what, queue, vhost):
        raise access_refused(f"{what} access to {queue_text(queue, vhost)} refused for user '{user.name}'")


def check_exchange_access(user: User, what: str, exchange: str, vhost: str) -> None:
    name = stripped(exchange) or "amq.default"  # the name under which permissions know the default exchange
    if not _allowed(user, what, name, vhost):
        raise access_refused(f"{what} access to {exchange_text(name, vhost)} refused for user '{user.name}'")


def check_dead_letter_access(user: User, queue: str, arguments: Mapping[str, object], vhost: str) -> None:
    """A new queue may only send its dead letters where its user could have sent them."""
    exchange = arguments.get("x-dead-letter-exchange")
    if isinstance(exchange, str):
        check_queue_access(user, "read", queue, vhost)
        check_exchange_access(user, "write", exchange, vhost)


def check_alternate_access(user: User, exchange: str, arguments: Mapping[str, object], vhost: str) -> None:
    """And a new exchange what it can't route."""
    alternate = arguments.get("alternate-exchange")
    if isinstance(alternate, str):
        check_exchange_access(user, "read", exchange, vhost)
        check_exchange_access(user, "write", alternate, vhost)


def check_topic_access(user: User, what: str, exchange: str, routing_key: str, vhost: str) -> None:
    """Of a topic exchange, beside the access to the exchange itself. `{username}` and `{vhost}` in a pattern stand for them."""
    for topic in user.topic_permissions.get(vhost, ()):
        if topic.exchange != exchange:
            continue
        pattern: str = getattr(topic, what)
        for name, value in (("{username}", user.name), ("{vhost}", vhost)):
            pattern = pattern.replace(name, re.escape(value))
        if not pattern or re.search(pattern, routing_key) is None:
            text = f"{what} access to topic '{routing_key}' in exchange topic '{exchange}' in vhost '{vhost}'"
            raise access_refused(f"{text} refused for user '{user.name}'")


def _allowed(user: User, what: str, name: str, vhost: str) -> bool:
    permissions = user.permissions.get(vhost)
    return permissions is not None and permissions.allows(what, name)
