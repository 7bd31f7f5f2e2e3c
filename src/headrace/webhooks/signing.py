"""Signatures of Standard Webhooks, version 1, symmetric: HMAC-SHA256 over `id.timestamp.body`.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable


def signature_of(key: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp_s, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def signatures_of(keys: Iterable[bytes], message_id: str, timestamp_s: int, body: bytes) -> str:
    """As the header `webhook-signature` has them: one for each secret, so that a receiver may know any of them."""
    return " ".join(signature_of(key, message_id, timestamp_s, body) for key in keys)
