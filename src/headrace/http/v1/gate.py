"""Which Host and which Origin are let in: what keeps web pages of others from using this server through a browser.

A browser on this machine reaches the server as well as any program does, so a page from anywhere could publish, read and
delete. Two rules stop that, and programs that are no browsers don't notice:

Host     must be an IP address, localhost (or a name below it), or listed in `headrace.http.hosts`. A page that lets its own
         name point to this machine (DNS rebinding) comes with that name. 421.
Origin   if there is one, must be the address that was asked (same origin) or be listed in `headrace.http.origins`. Those
         that are listed may also read the answers: they get CORS headers, and their preflights are answered. 403.

What a page embeds without CORS (an image, a script) has no Origin; browsers mark it with `Sec-Fetch-Site`, and unless somebody
follows a link (`navigate`) it is refused when it comes from another site. Calls to `/v1/receive` come from other people's
servers, and prove who sent them with a signature: their Origin does not matter.

Bound: `MAX_REMEMBERED` hosts that were found good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headrace.http.problems import Problem

if TYPE_CHECKING:
    from headrace.broker.settings import Settings

HOSTS, ORIGINS = "headrace.http.hosts", "headrace.http.origins"
MAX_REMEMBERED = 256
ANY_ORIGIN = "/v1/receive/"
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
EXPOSED = "Location, ETag, Retry-After, Allow, Link"
PREFLIGHT_S = 600

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
        if host not in self._good:
            self._check_host(host)
        if (not origin and not site) or scope["path"].startswith(ANY_ORIGIN):
            return b""
        if origin:
            return self._check_origin(origin, host)
        if site in (b"cross-site", b"same-site") and not (mode == b"navigate" and scope.get("method") == "GET"):
            raise Problem(403, "origin_not_allowed", "pages of another site may not embed this")
        return b""

    def knows(self, host: bytes) -> bool:
        """Whether it was found good before. Without an Origin or what else pages send, such a request is let in."""
        return host in self._good

    def _check_host(self, host: bytes) -> None:
        name = _name_of(host)
        if name is None:
            raise Problem(400, "bad_host", "the request has no Host, or one that is none")
        if not (_is_address(name) or name == "localhost" or name.endswith(".localhost") or name in self._hosts):
            raise Problem(421, "host_not_allowed", f"Host '{name}' is not known here; {HOSTS} lists the names that are")
        if len(self._good) < MAX_REMEMBERED:
            self._good.add(host)

    def _check_origin(self, origin: bytes, host: bytes) -> bytes:
        text = origin.decode("latin-1").lower()
        scheme, separator, netloc = text.partition("://")
        if separator and scheme in ("http", "https") and netloc == host.decode("latin-1").lower():
            return b""
        if text in self._origins:
            return origin
        raise Problem(403, "origin_not_allowed", f"Origin '{text[:200]}' is not allowed here; {ORIGINS} lists those that are")


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
