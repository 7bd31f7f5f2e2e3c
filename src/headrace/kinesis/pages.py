"""Pages of long lists, and the tokens that lead from one to the next.

A token says what was listed, where the next page begins, with which bounds, and when it was given; it is signed, so nobody can
make one up. It holds for `EXPIRES_S`, as AWS's do, and not beyond the life of the server that gave it.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headrace.kinesis.errors import EXPIRED_NEXT_TOKEN, KinesisError, invalid_argument

if TYPE_CHECKING:
    from headrace.kinesis.service import Call

T = TypeVar("T")
EXPIRES_S = 300
_MAC_BYTES = 16


def page_of(items: Sequence[T], limit: int) -> tuple[Sequence[T], bool]:
    """The first of them, and whether there are more."""
    return (items, False) if len(items) <= limit else (items[:limit], True)


def next_token(call: Call, **place: Any) -> str:
    now_s = call.broker.clock.now_ms() // 1000
    said = msgspec.json.encode([call.name, call.account, call.region, now_s, place])
    return b64encode(_mac(call, said) + said).decode()


def read_token(call: Call, token: str) -> dict[str, Any]:
    """What `next_token` put in. Raises KinesisError."""
    try:
        data = b64decode(token.encode("ascii"), validate=True)
        said = data[_MAC_BYTES:]
        good = hmac.compare_digest(_mac(call, said), data[:_MAC_BYTES])
        name, account, region, given_s, place = msgspec.json.decode(said) if good else ("", "", "", 0, {})
    except (UnicodeEncodeError, NotBase64, msgspec.DecodeError, ValueError):
        good, name = False, ""
    if not good or (name, account, region) != (call.name, call.account, call.region):
        raise invalid_argument("NextToken is invalid.")
    age_s = call.broker.clock.now_ms() // 1000 - given_s
    if age_s > EXPIRES_S:
        raise KinesisError(
            EXPIRED_NEXT_TOKEN,
            f"NextToken expired. The token was created {age_s} seconds ago, while tokens expire after {EXPIRES_S} seconds.",
        )
    found: dict[str, Any] = place
    return found


def _mac(call: Call, said: bytes) -> bytes:
    return hmac.new(call.service.token_key, said, sha256).digest()[:_MAC_BYTES]
