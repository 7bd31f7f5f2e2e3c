"""Which Host and which Origin are let in (`web.visitors`): 421 for a Host that is not known, 403 for an Origin. Names are
listed in `headrace.http.hosts`, origins in `headrace.http.origins`; pages of those may also read the answers: they get CORS
headers, and their preflights are answered.

What a page embeds without CORS (an image, a script) has no Origin; browsers mark it with `Sec-Fetch-Site`, and unless somebody
follows a link (`navigate`) it is refused when it comes from another site. Calls to `/v1/receive` come from other people's
servers, and prove who sent them with a signature: their Origin does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.http.problems import Problem
from headrace.web.visitors import NotLetIn, Visitors, Wrong

if TYPE_CHECKING:
    from headrace.broker.settings import Settings

HOSTS, ORIGINS = "headrace.http.hosts", "headrace.http.origins"
ANY_ORIGIN = "/v1/receive/"
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
EXPOSED = "Location, ETag, Retry-After, Allow, Link"
PREFLIGHT_S = 600

Headers = list[tuple[bytes, bytes]]


class Gate:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._visitors = Visitors()
        self.knows = self._visitors.knows
        """Whether a host was found good before. Without an Origin or what else pages send, such a request is let in."""
        settings.subscribe(self._read)
        self._read()

    def _read(self) -> None:
        self._visitors.allow(self._settings.get_list(HOSTS), self._settings.get_list(ORIGINS))

    def admit(self, scope: Mapping[str, Any]) -> bytes:
        """Raises Problem. Returns the listed foreign origin that the request comes from, or nothing."""
        host = origin = site = mode = b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site":
                site = value
            elif name == b"sec-fetch-mode":
                mode = value
        try:
            self._visitors.check_host(host)
            if (not origin and not site) or scope["path"].startswith(ANY_ORIGIN):
                return b""
            if origin:
                return self._visitors.check_origin(origin, host)
        except NotLetIn as stranger:
            raise _refusal(stranger) from None
        if site in (b"cross-site", b"same-site") and not (mode == b"navigate" and scope.get("method") == "GET"):
            raise Problem(403, "origin_not_allowed", "pages of another site may not embed this")
        return b""


def _refusal(stranger: NotLetIn) -> Problem:
    shown = stranger.shown
    if stranger.wrong is Wrong.NO_HOST:
        return Problem(400, "bad_host", "the request has no Host, or one that is none")
    if stranger.wrong is Wrong.HOST:
        return Problem(421, "host_not_allowed", f"Host '{shown}' is not known here; {HOSTS} lists the names that are")
    return Problem(403, "origin_not_allowed", f"Origin '{shown}' is not allowed here; {ORIGINS} lists those that are")


def is_preflight(scope: Mapping[str, Any]) -> bool:
    return scope["method"] == "OPTIONS" and any(name == b"access-control-request-method" for name, _ in scope["headers"])


def preflight_headers(request: Iterable[tuple[bytes, bytes]]) -> Headers:
    """What a browser wants to know, beside `cors_headers`, before it lets a page send what is no simple request."""
    found = [(b"access-control-allow-methods", METHODS.encode()), (b"access-control-max-age", str(PREFLIGHT_S).encode())]
    for name, value in request:
        if name == b"access-control-request-headers":
            found.append((b"access-control-allow-headers", value))
        elif name == b"access-control-request-private-network" and value == b"true":
            found.append((b"access-control-allow-private-network", b"true"))
    return found


def cors_headers(origin: bytes) -> Headers:
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-expose-headers", EXPOSED.encode()),
        (b"vary", b"Origin"),
    ]
