"""Signature Version 4: is this request signed by somebody who has the secret? Both forms, in the Authorization header and in
the query of a presigned request.

The canonical request is made as AWS's reference has it: method, path, sorted query, signed headers with their whitespace
folded, and the hash of the payload (`UNSIGNED-PAYLOAD` is taken as it stands; payloads signed in chunks are for S3 alone). A
path is normalised and encoded twice, as everywhere but in S3, which changes nothing here where the path is `/`.

The moment of a signature may be `SKEW_S` away from this machine's clock; a presigned request holds for as long as it says, a
week at most. Session tokens are refused, for there are no temporary credentials here.

The errors and their texts are AWS's. Signing keys are derived once for a day and a region (`MAX_KEYS` are remembered).
Comparisons take the same time whatever differs.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from calendar import timegm
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from headrace.dataclass import dataclass
from headrace.kinesis.errors import KinesisError

if TYPE_CHECKING:
    from headrace.web.exchange import Exchange

ALGORITHM = "AWS4-HMAC-SHA256"
TERMINATOR = "aws4_request"
SKEW_S = 300
PRESIGNED_MOST_S = 604_800
MAX_KEYS = 256
MAX_SIGNED_HEADERS = 64
UNSIGNED = "UNSIGNED-PAYLOAD"
_MOMENT = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_SPACES = re.compile(r"\s+")
_SEPARATORS = re.compile(r"[, ]+")
_QUERY_PARTS = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date")


@dataclass(frozen=True, slots=True)
class Credential:
    key_id: str
    secret: str
    account: str

    def __repr__(self) -> str:  # the secret is nobody's business
        return f"<Credential {self.key_id} of {self.account}>"


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a request says about its signature."""

    scope: list[str]  # key id, date, region, service, terminator
    signed_headers: list[str]
    signature: str
    moment: str
    in_query: bool
    expires_s: int | None = None


class Verifier:
    def __init__(self, credentials: Iterable[Credential], now: Callable[[], float] = time.time) -> None:
        self._credentials = {credential.key_id: credential for credential in credentials}
        self._now = now
        self._keys: dict[tuple[str, str, str, str], bytes] = {}

    def verify(self, exchange: Exchange, body: bytes, service: str) -> tuple[Credential, str]:
        """The credential that signed it, and the region it was signed for. Raises KinesisError."""
        path, _, query = exchange.target.decode("latin-1").partition("?")
        pairs = _query_pairs(query)
        claim = _claim_of(exchange, pairs)
        key_id, date, region, scoped_to, terminator = claim.scope
        credential = self._credentials.get(key_id)
        if credential is None or any(name.lower() == "x-amz-security-token" for name, _ in pairs):
            raise _unrecognized()
        if exchange.header(b"x-amz-security-token") is not None:
            raise _unrecognized()
        if scoped_to != service:
            raise _invalid(f"Credential should be scoped to correct service: '{service}'. ")
        if terminator != TERMINATOR:
            raise _invalid(f"Credential should be scoped with a valid terminator: '{TERMINATOR}', not '{terminator}'. ")
        if not claim.moment.startswith(date):
            raise _invalid(
                f"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
                f"'{date}' != '{claim.moment[:8]}', from '{claim.moment}'. "
            )
        self._check_moment(claim)
        canonical = _canonical_request(exchange, path, pairs, claim, body)
        to_sign = "\n".join(
            (ALGORITHM, claim.moment, "/".join(claim.scope[1:]), hashlib.sha256(canonical.encode()).hexdigest())
        )
        key = self._signing_key(credential, date, region, service)
        expected = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected.encode(), claim.signature.encode("utf-8", "replace")):
            raise _invalid(
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "
                "Key and signing method. Consult the service documentation for details."
            )
        return credential, region

    def _check_moment(self, claim: _Claim) -> None:
        signed_at = _seconds(claim.moment)
        if signed_at is None:
            raise _incomplete(
                f"Date must be in ISO-8601 'basic format'. Got '{claim.moment}'. See http://en.wikipedia.org/wiki/ISO_8601"
            )
        now = self._now()
        if signed_at > now + SKEW_S:
            raise _invalid(
                f"Signature not yet current: {claim.moment} is still later than {_text(now + SKEW_S)} ({_text(now)} + 5 min.)"
            )
        last = signed_at + (SKEW_S if claim.expires_s is None else claim.expires_s)
        if now > last:
            raise _invalid(
                f"Signature expired: {claim.moment} is now earlier than {_text(now - SKEW_S)} ({_text(now)} - 5 min.)"
            )

    def _signing_key(self, credential: Credential, date: str, region: str, service: str) -> bytes:
        name = (credential.key_id, date, region, service)
        key = self._keys.get(name)
        if key is None:
            key = ("AWS4" + credential.secret).encode()
            for part in (date, region, service, TERMINATOR):
                key = hmac.new(key, part.encode(), hashlib.sha256).digest()
            if len(self._keys) >= MAX_KEYS:
                self._keys.clear()
            self._keys[name] = key
        return key


# --- what the request says


def _claim_of(exchange: Exchange, pairs: list[tuple[str, str]]) -> _Claim:
    header = exchange.header(b"authorization")
    query = dict(pairs)
    if "X-Amz-Algorithm" in query:
        if header is not None:
            raise _invalid("Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.")
        return _claim_in_query(query)
    if header is None:
        raise KinesisError("MissingAuthenticationTokenException", "Missing Authentication Token")
    return _claim_in_header(exchange, header.decode("latin-1"))


def _claim_in_header(exchange: Exchange, header: str) -> _Claim:
    algorithm, *rest = [part for part in _SEPARATORS.split(header) if part] or [""]
    parts: dict[str, str] = {}
    for part in rest:
        name, _, value = part.partition("=")
        parts[name] = value
    missing = "".join(
        f"Authorization header requires '{name}' parameter. "
        for name in ("Credential", "Signature", "SignedHeaders")
        if not parts.get(name)
    )
    moment = exchange.header(b"x-amz-date") or b""
    if not moment and exchange.header(b"date") is None:
        missing += "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
    if missing:
        raise _incomplete(f"{missing}Authorization={header[:2000]}")
    if algorithm != ALGORITHM:
        raise _incomplete(f"Unsupported AWS 'algorithm': '{algorithm[:100]}'")
    when = moment.decode("latin-1") or _from_http_date((exchange.header(b"date") or b"").decode("latin-1"))
    return _Claim(_scope(parts["Credential"]), _signed_headers(parts["SignedHeaders"]), parts["Signature"], when, False)


def _claim_in_query(query: dict[str, str]) -> _Claim:
    missing = "".join(f"AWS query-string parameters must include '{name}'. " for name in _QUERY_PARTS if not query.get(name))
    if missing:
        raise _incomplete(f"{missing}Re-examine the query-string parameters.")
    if query["X-Amz-Algorithm"] != ALGORITHM:
        raise _incomplete(f"Unsupported AWS 'algorithm': '{query['X-Amz-Algorithm'][:100]}'")
    expires_s = None
    if "X-Amz-Expires" in query:
        text = query["X-Amz-Expires"]
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > PRESIGNED_MOST_S:
            raise _incomplete("X-Amz-Expires must be less than a week in seconds that is 604800")
        expires_s = int(text)
    return _Claim(
        _scope(query["X-Amz-Credential"]),
        _signed_headers(query["X-Amz-SignedHeaders"]),
        query["X-Amz-Signature"],
        query["X-Amz-Date"],
        True,
        expires_s,
    )


def _scope(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) != 5 or not all(parts):
        raise _incomplete(
            f"Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '{text[:500]}'"
        )
    return parts


def _signed_headers(text: str) -> list[str]:
    names = text.lower().split(";")
    if "host" not in names:
        raise _invalid("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
    if len(names) > MAX_SIGNED_HEADERS or names != sorted(set(names)):
        raise _incomplete("'SignedHeaders' must be sorted and name each header once.")
    return names


def _query_pairs(query: str) -> list[tuple[str, str]]:
    found = []
    for part in query.split("&"):
        if part:
            name, _, value = part.partition("=")
            found.append((_unquoted(name), _unquoted(value)))
    return found


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "replace")  # what is no UTF-8 was signed by nobody


def _seconds(moment: str) -> int | None:
    if not _MOMENT.fullmatch(moment):
        return None
    try:
        return timegm(time.strptime(moment, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        return None


def _text(seconds: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))


def _from_http_date(text: str) -> str:
    try:
        return time.strftime("%Y%m%dT%H%M%SZ", time.strptime(text, "%a, %d %b %Y %H:%M:%S GMT"))
    except ValueError:
        return text[:100]


# --- the canonical request


def _canonical_request(exchange: Exchange, path: str, pairs: list[tuple[str, str]], claim: _Claim, body: bytes) -> str:
    quoted = sorted((_quoted(name), _quoted(value)) for name, value in pairs if name != "X-Amz-Signature")
    values: dict[str, list[str]] = {}
    for header, value in exchange.headers:
        values.setdefault(header.decode("latin-1"), []).append(_SPACES.sub(" ", value.decode("latin-1")).strip())
    headers = []
    if "x-amz-target" in values and "x-amz-target" not in claim.signed_headers:  # it says what is to be done
        raise _invalid("'x-amz-target' must be a 'SignedHeader' in the AWS Authorization.")
    for name in claim.signed_headers:
        if name not in values:
            raise _invalid(f"The header '{name[:100]}' is signed and is not there.")
        headers.append(f"{name}:{','.join(values[name])}\n")
    payload = exchange.header(b"x-amz-content-sha256")
    if payload == UNSIGNED.encode():
        digest = UNSIGNED
    else:
        digest = hashlib.sha256(body).hexdigest()
    return "\n".join(
        (
            exchange.method.decode("latin-1"),
            quote(path, safe="/-_.~") or "/",
            "&".join(f"{name}={value}" for name, value in quoted),
            "".join(headers),
            ";".join(claim.signed_headers),
            digest,
        )
    )


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


# --- AWS's words


def _invalid(message: str) -> KinesisError:
    return KinesisError("InvalidSignatureException", message)


def _incomplete(message: str) -> KinesisError:
    return KinesisError("IncompleteSignatureException", message)


def _unrecognized() -> KinesisError:
    return KinesisError("UnrecognizedClientException", "The security token included in the request is invalid.")
