"""Who sent a request: the signatures that are in use, each a function from headers and body to what was verified, or None.

Every comparison takes the same time whatever is compared. Why something is not verified is told to nobody.

    standard   HMAC-SHA256 over `id.timestamp.body`, base64, several behind `v1,`
               https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    github     HMAC-SHA256 over the body, hexadecimal behind `sha256=`; the id of a delivery is not signed
               https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    stripe     HMAC-SHA256 over `timestamp.body`, hexadecimal, several behind `v1=`; the id stands in the body
               https://docs.stripe.com/webhooks#verify-manually
    slack      HMAC-SHA256 over `v0:timestamp:body`, hexadecimal behind `v0=`; the id stands in the body
               https://docs.slack.dev/authentication/verifying-requests-from-slack

Bounds: `MAX_SIGNATURES` are looked at in one request; an id has `MAX_ID` characters at most.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.broker.routes.ends.receiving import WebhookSource
from headrace.broker.routes.ends.secrets import secret_bytes

MAX_SIGNATURES = 16
MAX_ID = 256

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Verified:
    """`id` is what the sender calls the event, `timestamp` the signed time in seconds, as far as there are such."""

    id: str | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Scheme:
    """`needs` has names of headers, one of each group of which must be there."""

    needs: Sequence[Sequence[str]]
    verify: Callable[[Headers, bytes, int], Verified | None]

    def is_complete(self, headers: Headers) -> bool:
        return all(any(name in headers for name in names) for names in self.needs)


def scheme_of(source: WebhookSource) -> Scheme:
    return _SCHEMES[source.scheme](source)


def _standard(source: WebhookSource) -> Scheme:
    keys = _Keys(source, secret_bytes)

    def verify(headers: Headers, body: bytes, now_ms: int) -> Verified | None:
        prefix = "webhook-" if "webhook-signature" in headers else "svix-"
        identity = headers.get(prefix + "id", "")
        time_s = _time(headers.get(prefix + "timestamp", ""), source, now_ms)
        if time_s is None or not _is_id(identity):
            return None
        signed = b"%b.%d.%b" % (identity.encode(), time_s, body)
        given = []
        for one in headers.get(prefix + "signature", "").split(" ")[:MAX_SIGNATURES]:
            version, _, encoded = one.partition(",")
            if version == "v1":
                given.append(_decoded(encoded, "base64"))
        return Verified(identity, time_s) if keys.match(given, signed, now_ms) else None

    return Scheme((("webhook-id", "svix-id"), ("webhook-signature", "svix-signature")), verify)


def _github(source: WebhookSource) -> Scheme:
    keys = _Keys(source)

    def verify(headers: Headers, body: bytes, now_ms: int) -> Verified | None:
        algorithm, _, encoded = headers.get("x-hub-signature-256", "").partition("=")
        if algorithm != "sha256" or not keys.match([_decoded(encoded, "hex")], body, now_ms):
            return None
        identity = headers.get("x-github-delivery", "")
        return Verified(identity if _is_id(identity) else None)

    return Scheme((("x-hub-signature-256",),), verify)


def _stripe(source: WebhookSource) -> Scheme:
    keys = _Keys(source)

    def verify(headers: Headers, body: bytes, now_ms: int) -> Verified | None:
        parts = [part.strip().partition("=")[::2] for part in headers.get("stripe-signature", "").split(",")[:MAX_SIGNATURES]]
        times = [value for name, value in parts if name == "t"]
        time_s = _time(times[0], source, now_ms) if len(times) == 1 else None
        if time_s is None:
            return None
        given = [_decoded(value, "hex") for name, value in parts if name == "v1"]
        if not keys.match(given, b"%d.%b" % (time_s, body), now_ms):
            return None
        return Verified(_id_in(body, "id"), time_s)

    return Scheme((("stripe-signature",),), verify)


def _slack(source: WebhookSource) -> Scheme:
    keys = _Keys(source)

    def verify(headers: Headers, body: bytes, now_ms: int) -> Verified | None:
        time_s = _time(headers.get("x-slack-request-timestamp", ""), source, now_ms)
        version, _, encoded = headers.get("x-slack-signature", "").partition("=")
        if time_s is None or version != "v0":
            return None
        if not keys.match([_decoded(encoded, "hex")], b"v0:%d:%b" % (time_s, body), now_ms):
            return None
        return Verified(_id_in(body, "event_id"), time_s)

    return Scheme((("x-slack-signature",), ("x-slack-request-timestamp",)), verify)


def _hmac(source: WebhookSource) -> Scheme:
    keys = _Keys(source, algorithm=source.algorithm)
    assert source.header is not None
    header = source.header

    def verify(headers: Headers, body: bytes, now_ms: int) -> Verified | None:
        given = headers.get(header, "")
        if not given.startswith(source.prefix):
            return None
        if not keys.match([_decoded(given.removeprefix(source.prefix), source.encoding)], body, now_ms):
            return None
        return Verified(_named_id(headers, source))

    return Scheme(((header,),), verify)


def _token(source: WebhookSource) -> Scheme:
    assert source.header is not None
    header = source.header

    def verify(headers: Headers, body: bytes, now_ms: int) -> Verified | None:
        given = headers.get(header, "").encode("utf-8", "surrogatepass")
        known = [(source.prefix + one.secret).encode() for one in source.secrets if one.is_valid(now_ms)]
        # all are compared, and as digests, so that neither which of them nor how long it is can be told from the time it takes
        found = [hmac.compare_digest(_digest(given), _digest(one)) for one in known]
        return Verified(_named_id(headers, source)) if any(found) else None

    return Scheme(((header,),), verify)


def _none(source: WebhookSource) -> Scheme:
    return Scheme((), lambda headers, body, now_ms: Verified(_named_id(headers, source)))


_SCHEMES: dict[str, Callable[[WebhookSource], Scheme]] = {
    "standard": _standard,
    "github": _github,
    "stripe": _stripe,
    "slack": _slack,
    "hmac": _hmac,
    "token": _token,
    "none": _none,
}


class _Keys:
    """The secrets of a route as keys of an HMAC; those that have ended are not used."""

    def __init__(
        self, source: WebhookSource, key_of: Callable[[str], bytes] = str.encode, *, algorithm: str = "sha256"
    ) -> None:
        self._keys = [(key_of(one.secret), one) for one in source.secrets]
        self._algorithm = algorithm

    def match(self, given: Iterable[bytes], signed: bytes, now_ms: int) -> bool:
        signatures = list(given)
        found = False
        for key, secret in self._keys:
            if secret.is_valid(now_ms):
                wanted = hmac.digest(key, signed, self._algorithm)
                for signature in signatures:
                    found |= hmac.compare_digest(wanted, signature)
        return found


def _decoded(text: str, encoding: str) -> bytes:
    """Nothing if it can't be read."""
    try:
        if encoding == "hex":
            return bytes.fromhex(text) if text.isalnum() else b""
        if encoding == "base64url":
            text = text.replace("-", "+").replace("_", "/")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _time(text: str, source: WebhookSource, now_ms: int) -> int | None:
    """Seconds since 1970, if they are near enough to now."""
    if not text.isascii() or not text.isdigit() or len(text) > 12 or (text[0] == "0" and len(text) > 1):
        return None
    time_s = int(text)
    return time_s if abs(time_s * 1000 - now_ms) <= source.tolerance_s * 1000 else None


def _is_id(text: str) -> bool:
    return 0 < len(text) <= MAX_ID and text.isascii() and text.isprintable()


def _named_id(headers: Headers, source: WebhookSource) -> str | None:
    identity = headers.get(source.id_header, "") if source.id_header is not None else ""
    return identity if _is_id(identity) else None


def _id_in(body: bytes, member: str) -> str | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    identity = value.get(member) if isinstance(value, dict) else None
    return identity if isinstance(identity, str) and _is_id(identity) else None


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
