"""Who asks: Basic credentials of a request against the users of the broker, for every resource that wants to know.

`/v1` also serves those who bring no credentials, as long as they are on this machine and `guest` still has the password that
everybody knows: then they could have logged in anyway, and a first `curl` works. Change that password, or delete the user, and
everybody has to log in. That a web page can't use it is seen to by `v1/shell`; and what a proxy on this machine passes on comes
from elsewhere.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headrace.broker.audit import Actor, act
from headrace.broker.vhosts.users import DEFAULT_USER, User, is_loopback
from headrace.http.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from headrace.broker import Broker
    from headrace.broker.vhosts.users import Users

CHALLENGE = {"www-authenticate": 'Basic realm="Headrace", charset="UTF-8"'}

_DEFAULT_PASSWORD = "guest"
BY_PROXIES = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"via")
_THIS_MACHINE = ("127.0.0.1", "::1")


class UnreadableCredentials(Exception):
    """Basic, but not what Basic is."""


def user_of(users: Users, authorization: str, client: Any) -> User | None:
    """The user whom the header `Authorization` names, with the right password and from where they may come. `client` is host
    and port. Raises UnreadableCredentials."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, separator, password = b64decode(credentials.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise UnreadableCredentials from None
    return users.authenticate(name, password, loopback=_is_near(client)) if separator else None


def v1_user(broker: Broker, request: HTTPConnection) -> User:
    """Who sends this request to /v1. Raises Problem: 400 or 401."""
    return scope_user(broker, request.scope)


def scope_user(broker: Broker, scope: Mapping[str, Any]) -> User:
    """The same for those who have no request, only what it is made of."""
    passed_on = False
    for name, value in scope["headers"]:
        if name == b"authorization":
            return _remembered(broker, scope, named_user(broker, value, scope.get("client")))
        passed_on = passed_on or name in BY_PROXIES
    user = None if passed_on else unnamed_user(broker, scope.get("client"))
    if user is None:
        raise Problem(401, "not_authorized", "log in with the name and password of a user (Basic)", CHALLENGE)
    return _remembered(broker, scope, user)


def _remembered(broker: Broker, scope: Mapping[str, Any], user: User) -> User:
    """By the connection, for whoever asks who is connected; and what the request does is done on their behalf."""
    exchange = scope.get("headrace.exchange")
    act(broker.audit, Actor(user.name, "http", peer_of(scope), client_of(scope)))
    if exchange is not None:
        exchange.known_as(user.name)
    return user


def peer_of(scope: Mapping[str, Any]) -> str:
    client = scope.get("client")
    return "{}:{}".format(*client) if client else ""


def client_of(scope: Mapping[str, Any]) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"user-agent"), "")


def unnamed_user(broker: Broker, client: Any) -> User | None:
    """Who somebody is that brings no credentials, and whose request no proxy has passed on."""
    user = broker.vhosts.users.get(DEFAULT_USER)
    if user is None or not _is_near(client) or not _everybody_knows(user.password_hash, user.hashing_algorithm):
        return None
    return user


@lru_cache(16)
def _everybody_knows(password_hash: str, hashing_algorithm: str) -> bool:
    return User(DEFAULT_USER, password_hash, hashing_algorithm).has_password(_DEFAULT_PASSWORD)


def named_user(broker: Broker, authorization: bytes, client: Any) -> User:
    """Who somebody is that brings credentials. Raises Problem: 400 or 401."""
    try:
        user = user_of(broker.vhosts.users, authorization.decode("latin-1"), client)
    except UnreadableCredentials:
        raise Problem(400, "bad_credentials", "the credentials can't be read") from None
    if user is None:
        raise Problem(401, "not_authorized", "login failed", CHALLENGE)
    return user


def _is_near(client: Any) -> bool:
    return not client or client[0] in _THIS_MACHINE or is_loopback(client[0])
