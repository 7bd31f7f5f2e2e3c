"""Who asks, and of which region: read from the credential scope of a signature, in its header or in the query.

    Authorization: AWS4-HMAC-SHA256 Credential=AKID/20261116/eu-west-1/kinesis/aws4_request, SignedHeaders=…, Signature=…
    /?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20261116%2Feu-west-1%2Fkinesis%2Faws4_request&…

Without credentials configured (`kinesis.credentials`) nothing is verified and nothing need be there: what can be read is taken,
and otherwise `kinesis.region` and `kinesis.account` hold. An access key id of twelve digits is taken for an account, so that a
test can have as many accounts as it likes. With credentials, `signature` verifies, and the account is the credential's.

Bound: `MAX_REMEMBERED` scopes that were read before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from headrace.kinesis.errors import KinesisError
from headrace.kinesis.signature import Credential, Verifier

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.web.exchange import Exchange

CREDENTIALS, ACCOUNT, REGION = "kinesis.credentials", "kinesis.account", "kinesis.region"
MAX_REMEMBERED = 1024
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_ACCOUNT = re.compile(r"\d{12}", re.ASCII)


class Identity(NamedTuple):
    account: str
    region: str


class Identities:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[bytes, Identity] = {}
        self._verifier: Verifier | None = None
        self._default = Identity("", "")
        settings.subscribe(self._read)
        self._read()

    def _read(self) -> None:
        self._known.clear()
        account = self._settings.get_str(ACCOUNT)
        self._default = Identity(account, self._settings.get_str(REGION))
        given = self._settings.get_optional_str(CREDENTIALS) or ""
        credentials = [parse_credential(text.strip(), account) for text in given.split(",") if text.strip()]
        self._verifier = Verifier(credentials) if credentials else None

    def of(self, exchange: Exchange, authorization: bytes | None, body: bytes, service: str = "kinesis") -> Identity:
        """`authorization` is the header. Raises KinesisError, with credentials configured and a signature that is not good."""
        if self._verifier is not None:
            credential, region = self._verifier.verify(exchange, body, service)
            return Identity(credential.account, region)
        if authorization is not None:
            scope = authorization.partition(b"Credential=")[2].partition(b",")[0]
        elif b"X-Amz-Credential=" in exchange.target:
            query = exchange.target.partition(b"?")[2].decode("latin-1")
            scope = dict(parse_qsl(query)).get("X-Amz-Credential", "").encode("latin-1", "replace")
        else:
            return self._default
        known = self._known.get(scope)
        return known if known is not None else self._read_scope(scope)

    def _read_scope(self, scope: bytes) -> Identity:
        parts = scope.strip().decode("latin-1").split("/")
        if len(parts) < 3:
            return self._default
        key, region = "/".join(parts[:-4]) if len(parts) >= 5 else parts[0], parts[-3] if len(parts) >= 5 else parts[2]
        identity = Identity(
            key if _ACCOUNT.fullmatch(key) else self._default.account,
            region if _REGION.fullmatch(region) else self._default.region,
        )
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[scope] = identity
        return identity


def parse_credential(text: str, account: str) -> Credential:
    """`AKID:SECRET` or `AKID:SECRET:ACCOUNT`. Raises KinesisError for another form."""
    key, _, rest = text.partition(":")
    secret, _, own = rest.partition(":")
    if not key or not secret or (own and not _ACCOUNT.fullmatch(own)):
        raise KinesisError("InvalidConfiguration", f"{CREDENTIALS} takes AKID:SECRET or AKID:SECRET:ACCOUNT")
    return Credential(key, secret, own or (key if _ACCOUNT.fullmatch(key) else account))
