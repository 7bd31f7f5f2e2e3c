"""Which Host and which Origin are let in: what keeps web pages of others from using this server through a browser.

The same two rules as for HTTP, with the same settings. Host must be an IP address, localhost (or a name below it) or listed in
`headrace.http.hosts`, for a page that lets its own name point to this machine comes with that name. Origin, which browsers send
with every request that changes something, must be the address that was asked or be listed in `headrace.http.origins`; pages of
those that are listed get the CORS headers that AWS sends. Programs that are no browsers don't notice.

Bound: `MAX_REMEMBERED` hosts that were found good.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headrace.kinesis.errors import ACCESS_DENIED, KinesisError

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.web.exchange import Exchange

HOSTS, ORIGINS = "headrace.http.hosts", "headrace.http.origins"
MAX_REMEMBERED = 256
PREFLIGHT_S = b"172800"

Headers = list[tuple[bytes, bytes]]


class Gate:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._good: set[bytes] = set()
        self._hosts: frozenset[str] = frozenset()
        self._origins: frozenset[str] = frozenset()
        settings.subscribe(self._read)
        self._read()

    def _read(self) -> None:
        self._good.clear()
        self._hosts = frozenset(name.lower().rstrip(".") for name in self._settings.get_list(HOSTS))
        self._origins = frozenset(origin.lower().rstrip("/") for origin in self._settings.get_list(ORIGINS))

    def admit(self, host: bytes, origin: bytes | None) -> bytes:
        """Raises KinesisError. Returns the listed foreign origin that the request comes from, or nothing."""
        if host not in self._good:
            self._check_host(host)
        return self._check_origin(origin, host) if origin else b""

    def _check_host(self, host: bytes) -> None:
        name = _name_of(host)
        if name is None:
            raise KinesisError(ACCESS_DENIED, "The request has no Host, or one that is none.", 400)
        if not (_is_address(name) or name == "localhost" or name.endswith(".localhost") or name in self._hosts):
            raise KinesisError(ACCESS_DENIED, f"Host '{name}' is not known here; {HOSTS} lists the names that are.", 403)
        if len(self._good) < MAX_REMEMBERED:
            self._good.add(host)

    def _check_origin(self, origin: bytes, host: bytes) -> bytes:
        text = origin.decode("latin-1").lower()
        scheme, separator, netloc = text.partition("://")
        if separator and scheme in ("http", "https") and netloc == host.decode("latin-1").lower():
            return b""
        if text in self._origins:
            return origin
        shown = f"Origin '{text[:200]}' is not allowed here; {ORIGINS} lists those that are."
        raise KinesisError(ACCESS_DENIED, shown, 403)


def preflight_headers(exchange: Exchange, origin: bytes) -> Headers:
    """What a browser wants to know before it lets a page send what is no simple request."""
    found = [(b"access-control-max-age", PREFLIGHT_S)]
    if origin:
        found += [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
    for asked, allowed in (
        (b"access-control-request-headers", b"access-control-allow-headers"),
        (b"access-control-request-method", b"access-control-allow-methods"),
        (b"access-control-request-private-network", b"access-control-allow-private-network"),
    ):
        value = exchange.header(asked)
        if value is not None:
            found.append((allowed, value))
    return found


def _name_of(host: bytes) -> str | None:
    try:
        return (urlsplit("//" + host.decode("ascii")).hostname or "").rstrip(".") or None
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
