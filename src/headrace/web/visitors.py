"""Which Host and which Origin are let in: what keeps web pages of others from using this server through a browser.

A browser on this machine reaches the server as well as any program does, so a page from anywhere could read and change things.
Two rules stop that, and programs that are no browsers don't notice:

Host     must be an IP address, localhost (or a name below it), or listed. A page that lets its own name point to this machine
         (DNS rebinding) comes with that name.
Origin   if there is one, must be the address that was asked (same origin) or be listed.

What is answered to those that are not let in is a matter of the front end, which turns `NotLetIn` into its own words.

Bound: `MAX_REMEMBERED` hosts that were found good.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from ipaddress import ip_address
from urllib.parse import urlsplit

MAX_REMEMBERED = 256


class Wrong(Enum):
    NO_HOST = auto()
    HOST = auto()
    ORIGIN = auto()


class NotLetIn(Exception):
    """`shown` is the host or the origin, short enough to be told."""

    def __init__(self, wrong: Wrong, shown: str = "") -> None:
        super().__init__(f"{wrong.name}: {shown}")
        self.wrong = wrong
        self.shown = shown


class Visitors:
    def __init__(self) -> None:
        self._good: set[bytes] = set()
        self._hosts: frozenset[str] = frozenset()
        self._origins: frozenset[str] = frozenset()

    def allow(self, hosts: Iterable[str], origins: Iterable[str]) -> None:
        """These names and these foreign pages, instead of those before."""
        self._good.clear()
        self._hosts = frozenset(name.lower().rstrip(".") for name in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def knows(self, host: bytes) -> bool:
        """Whether it was found good before."""
        return host in self._good

    def check_host(self, host: bytes) -> None:
        """Raises NotLetIn."""
        if host in self._good:
            return
        name = _name_of(host)
        if name is None:
            raise NotLetIn(Wrong.NO_HOST)
        if not (_is_address(name) or name == "localhost" or name.endswith(".localhost") or name in self._hosts):
            raise NotLetIn(Wrong.HOST, name)
        if len(self._good) < MAX_REMEMBERED:
            self._good.add(host)

    def check_origin(self, origin: bytes, host: bytes) -> bytes:
        """The listed foreign origin that a request comes from, or nothing. Raises NotLetIn."""
        text = origin.decode("latin-1").lower()
        scheme, separator, netloc = text.partition("://")
        if separator and scheme in ("http", "https") and netloc == host.decode("latin-1").lower():
            return b""
        if text in self._origins:
            return origin
        raise NotLetIn(Wrong.ORIGIN, text[:200])


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
