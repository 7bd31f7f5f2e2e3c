"""Who asks: Basic credentials of a request against the users of the broker, for every resource that wants to know."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Any

from headrace.broker.vhosts.users import is_loopback

if TYPE_CHECKING:
    from headrace.broker.vhosts.users import User, Users


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
    loopback = not client or is_loopback(client[0])
    return users.authenticate(name, password, loopback=loopback) if separator else None
