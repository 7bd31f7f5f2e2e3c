"""URLs of endpoints, read strictly: what two readers could understand in two ways is refused.

Only `http` and `https`; no user and password, no fragment, nothing that is not printable ASCII outside the host. A host is a
name, which goes through IDNA (UTS 46) when it is not ASCII, an IPv4 address as four decimal numbers, or an IPv6 address in
brackets. Whatever else a C library takes for an address (`2130706433`, `0x7f.1`, `017700000001`, `127.1`) is refused, by the
rule that the URL standard has for it: a host whose last label is a number is an IPv4 address or nothing.

Bounds: `MAX_URL` characters, 253 in a host, 63 in a label.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field

MAX_URL = 2048
MAX_HOST = 253
DEFAULT_PORTS = {"http": 80, "https": 443}

# Where something else than HTTP listens, which a request could be made to speak to: https://fetch.spec.whatwg.org/#port-blocking
BLOCKED_PORTS = frozenset(
    (0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
     111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
     540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
     6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080)
)  # fmt: skip

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?")
_TARGET = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?\[\]|]|%[0-9A-Fa-f]{2})*")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_FOUR_NUMBERS = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class InvalidUrl(ValueError):
    """The text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Url:
    """`host` is in lower case, without brackets and without a dot at its end; `address` is what it says when it is no name."""

    scheme: str
    host: str
    port: int
    target: bytes = field(default=b"/")
    address: Address | None = None

    @property
    def authority(self) -> str:
        """As the header `Host` has it."""
        host = f"[{self.host}]" if isinstance(self.address, ipaddress.IPv6Address) else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target.decode('ascii')}"


def check_url(text: str) -> Url:
    """Raises InvalidUrl, a ValueError."""
    if len(text) > MAX_URL:
        raise InvalidUrl(f"a URL has at most {MAX_URL} characters")
    if any(character <= " " or character in "\\\x7f" or "\x80" <= character <= "\xa0" for character in text):
        raise InvalidUrl("a URL has no spaces, no backslashes and no control characters")
    if "#" in text:
        raise InvalidUrl("a URL that is called has no fragment ('#…')")
    match = _URL.fullmatch(text)
    if match is None:
        raise InvalidUrl("it must look like https://host/path")
    scheme = match["scheme"].lower()
    if scheme not in DEFAULT_PORTS:
        raise InvalidUrl(f"the scheme must be https or http, not {scheme[:20]!r}")
    if "@" in match["authority"]:
        raise InvalidUrl("a URL holds no user and no password: they would be in every log")
    target = (match["path"] or "/") + (match["query"] or "")
    if not _TARGET.fullmatch(target):
        raise InvalidUrl("path and query must be percent-encoded ASCII")
    host, port = _split_port(match["authority"], DEFAULT_PORTS[scheme])
    name, address = read_host(host)
    return Url(scheme, name, port, target.encode("ascii"), address)


def read_host(text: str) -> tuple[str, Address | None]:
    """A host as it stands in a URL, an IPv6 address in brackets: how we write it, and the address if it is one. Raises
    InvalidUrl."""
    if text.startswith("["):
        return _ipv6(text)
    name = _ascii(text).removesuffix(".")
    if not name or len(name) > MAX_HOST:
        raise InvalidUrl(f"a host has 1 to {MAX_HOST} characters")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(name)
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise InvalidUrl(f"{text[:100]!r} is not the name of a host")
    return name, None


def _split_port(authority: str, default: int) -> tuple[str, int]:
    host, colon, digits = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        return authority, default
    if not digits.isascii() or not digits.isdigit() or len(digits) > 5 or not 1 <= int(digits) <= 65535:
        raise InvalidUrl("a port is a number from 1 to 65535")
    return host, int(digits)


def _ascii(text: str) -> str:
    if text.isascii():
        return text.lower()
    import idna  # few need it, and it is large

    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        raise InvalidUrl(f"{text[:100]!r} is not the name of a host") from None


def _ipv4(name: str) -> tuple[str, Address]:
    if _FOUR_NUMBERS.fullmatch(name):
        try:
            return name, ipaddress.IPv4Address(name)
        except ValueError:
            pass
    raise InvalidUrl("an IPv4 address is written as four decimal numbers from 0 to 255")


def _ipv6(text: str) -> tuple[str, Address]:
    if "%" in text:
        raise InvalidUrl("an IPv6 address in a URL has no zone")
    try:
        address = ipaddress.IPv6Address(text[1:-1] if text.endswith("]") else "")
    except ValueError:
        raise InvalidUrl("an IPv6 address stands in brackets, as in https://[2001:db8::1]/") from None
    return str(address), address
