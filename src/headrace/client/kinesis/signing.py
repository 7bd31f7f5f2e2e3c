"""AWS's signature version 4, for a POST to `/` without a query.

    canonical request = method, path, query, the signed headers, their names, SHA-256 of the body
    string to sign    = AWS4-HMAC-SHA256, time, scope, SHA-256 of the canonical request
    scope             = date/region/kinesis/aws4_request

The key is the secret hashed with each part of the scope in turn. A server that verifies nothing still reads the scope: the
region, and whose access key it is.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

_ALGORITHM = "AWS4-HMAC-SHA256"
_SERVICE = "kinesis"


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def signed_headers(
    credentials: Credentials, region: str, host: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> dict[str, str]:
    """The given headers with those of the signature; `host` is what the request will say in its Host header, `now` is UTC."""
    at = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{at[:8]}/{region}/{_SERVICE}/aws4_request"
    sent = {**headers, "X-Amz-Date": at}
    if credentials.session_token is not None:
        sent["X-Amz-Security-Token"] = credentials.session_token
    canonical = {"host": host, **{name.lower(): " ".join(value.split()) for name, value in sent.items()}}
    names = ";".join(sorted(canonical))
    lines = "".join(f"{name}:{canonical[name]}\n" for name in sorted(canonical))
    request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    to_sign = f"{_ALGORITHM}\n{at}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = hmac.new(_key(credentials.secret_key, scope), to_sign.encode(), "sha256").hexdigest()
    sent["Authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    return key
