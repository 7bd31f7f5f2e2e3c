"""Secrets that webhooks are signed with, in the form of Standard Webhooks: `whsec_` and 24 to 64 bytes as base64.

While a secret is being replaced there are several: all of them sign, and each but the newest ends at a time of its own.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping

from headrace.broker.routes.ends.end import Json
from headrace.broker.routes.ends.parsing import check_members, integer, text
from headrace.broker.routes.errors import InvalidRoute
from headrace.dataclass import dataclass

PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64
MAX_SECRETS = 5
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Secret:
    """`until_ms` is when it ends; None for one that does not."""

    secret: str
    until_ms: int | None = None

    @property
    def key(self) -> bytes:
        return secret_bytes(self.secret)

    def is_valid(self, now_ms: int) -> bool:
        return self.until_ms is None or now_ms < self.until_ms

    def json(self) -> object:
        return self.secret if self.until_ms is None else {"secret": self.secret, "until_ms": self.until_ms}

    @classmethod
    def new(cls) -> Secret:
        return cls(PREFIX + base64.b64encode(secrets.token_bytes(32)).decode())

    @classmethod
    def of(cls, given: object, where: str) -> Secret:
        """A text, or an object with the time at which it ends. Raises InvalidRoute."""
        if isinstance(given, str):
            found = cls(given)
        elif isinstance(given, Mapping):
            check_members(given, {"secret", "until_ms"}, f"{where}.")
            until = given.get("until_ms")
            found = cls(
                text(given, "secret", f"{where}."),
                None if until is None else integer(given, "until_ms", f"{where}.", 0, least=0, most=_LARGEST),
            )
        else:
            raise InvalidRoute(f"{where} must be a text such as '{PREFIX}…'")
        try:
            secret_bytes(found.secret)
        except ValueError as error:
            raise InvalidRoute(f"{where}: {error}") from None
        return found

    def __repr__(self) -> str:  # it must not end up in a log
        return f"Secret(…, {self.until_ms})"


def secrets_of(given: Json, member: str, where: str) -> tuple[Secret, ...]:
    """None unless given. Raises InvalidRoute."""
    value = given.get(member) or ()
    if not isinstance(value, list | tuple) or len(value) > MAX_SECRETS:
        raise InvalidRoute(f"{where}{member} must be a list of at most {MAX_SECRETS} secrets")
    found = tuple(Secret.of(one, f"{where}{member}") for one in value)
    if found and all(one.until_ms is not None for one in found):
        raise InvalidRoute(f"{where}{member}: one of them must not end")
    return found


def secret_bytes(text: str) -> bytes:
    """Raises ValueError, whose text never holds the secret."""
    encoded = text.removeprefix(PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a secret is '{PREFIX}' and base64") from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(f"a secret has {LEAST_BYTES} to {MOST_BYTES} bytes, as base64 behind '{PREFIX}'")
    return key
