"""Which Host and which Origin are let in (`web.visitors`), by the settings that HTTP has too: `headrace.http.hosts` and
`headrace.http.origins`. Pages of origins that are listed get the CORS headers that AWS sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.kinesis.errors import ACCESS_DENIED, KinesisError
from headrace.web.visitors import NotLetIn, Visitors, Wrong

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.web.exchange import Exchange

HOSTS, ORIGINS = "headrace.http.hosts", "headrace.http.origins"
PREFLIGHT_S = b"172800"

Headers = list[tuple[bytes, bytes]]


class Gate:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._visitors = Visitors()
        settings.subscribe(self._read)
        self._read()

    def _read(self) -> None:
        self._visitors.allow(self._settings.get_list(HOSTS), self._settings.get_list(ORIGINS))

    def admit(self, host: bytes, origin: bytes | None) -> bytes:
        """Raises KinesisError. Returns the listed foreign origin that the request comes from, or nothing."""
        try:
            self._visitors.check_host(host)
            return self._visitors.check_origin(origin, host) if origin else b""
        except NotLetIn as stranger:
            raise _refusal(stranger) from None


def _refusal(stranger: NotLetIn) -> KinesisError:
    if stranger.wrong is Wrong.NO_HOST:
        return KinesisError(ACCESS_DENIED, "The request has no Host, or one that is none.", 400)
    if stranger.wrong is Wrong.HOST:
        return KinesisError(ACCESS_DENIED, f"Host '{stranger.shown}' is not known here; {HOSTS} lists the names that are.", 403)
    return KinesisError(ACCESS_DENIED, f"Origin '{stranger.shown}' is not allowed here; {ORIGINS} lists those that are.", 403)


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
