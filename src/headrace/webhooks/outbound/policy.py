"""Who may be connected to: public addresses, and what the operator allows.

The operator's list is the setting `headrace.webhooks.allow`, given when the server starts and not changeable over the network.
An entry is

    name              every address that this name leads to; `*.name` for all names below it
    address or CIDR   these addresses, whatever name leads to them

each with `:port` behind it to open that port alone (an IPv6 address or network stands in brackets then). What is on nobody's
list to allow stays closed: `Kind.NEVER`, and the names of metadata services.

A route has a list of its own, `destination.allow`. It can't open what the operator has not: an address that is not public must
be allowed by both. An empty list of a route means that it uses all that the operator allows.

A name is refused as a whole when one of its addresses may not be connected to. To try the others would be safe too, but it
would be chance, or the owner of the name, that decides what happens next; and an honest name has no such address. `localhost`
alone is what it is by definition, `127.0.0.1` and `::1`, of which those are used that are allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.webhooks.outbound.addresses import Kind, kind_of, plain
from headrace.webhooks.outbound.errors import Refused
from headrace.webhooks.outbound.url import BLOCKED_PORTS, Address, InvalidUrl, Url, read_host

LOOPBACK: tuple[Address, ...] = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
METADATA_NAMES = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "metadata.platformequinix.com",
        "instance-data",
        "instance-data.ec2.internal",
    }
)
MAX_ENTRIES = 1000

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class _Entry:
    """A name (with a dot before it: all names below) or a network; all ports, or one."""

    name: str | None
    network: Network | None
    port: int | None

    def allows(self, host: str, address: Address, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return address.version == self.network.version and address in self.network
        assert self.name is not None
        return host == self.name or (self.name.startswith(".") and host.endswith(self.name))


@dataclass(frozen=True, slots=True)
class AllowList:
    """What may be connected to although it is not public."""

    entries: tuple[_Entry, ...] = field(default=())

    @classmethod
    def of(cls, texts: Sequence[str]) -> AllowList:
        """Raises ValueError with what is wrong."""
        if len(texts) > MAX_ENTRIES:
            raise ValueError(f"at most {MAX_ENTRIES} names and networks can be allowed")
        return cls(tuple(_entry(text.strip()) for text in texts if text.strip()))

    def allows(self, host: str, address: Address, port: int) -> bool:
        return any(entry.allows(host, address, port) for entry in self.entries)

    def names_port(self, host: str, address: Address, port: int) -> bool:
        return any(entry.port is not None and entry.allows(host, address, port) for entry in self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries)


NOTHING = AllowList()


@dataclass(frozen=True, slots=True)
class Policy:
    operator: AllowList = NOTHING

    def check(self, url: Url, addresses: Sequence[Address], route: AllowList = NOTHING) -> list[Address]:
        """Those to connect to, in the same order, each once. Raises Refused, also when just one of them is not allowed."""
        found: list[Address] = []
        refused: Refused | None = None
        for address in dict.fromkeys(map(plain, addresses)):
            why = self._objection(url, address, route)
            if why is None:
                found.append(address)
            elif refused is None:
                refused = Refused(why)
        if refused is not None and not (found and is_localhost(url.host)):
            raise refused
        if not found:
            raise Refused(f"{url.host} has no address")
        return found

    def _objection(self, url: Url, address: Address, route: AllowList) -> str | None:
        what = str(address) if url.address is not None else f"{url.host} leads to {address}, which"
        kind = kind_of(address)
        if kind is Kind.NEVER:
            return f"{what} is link-local or a metadata service, which no webhook is sent to"
        if kind is Kind.PRIVATE:
            if not self.operator.allows(url.host, address, url.port):
                return f"{what} is not a public address, and the setting headrace.webhooks.allow does not name it"
            if route and not route.allows(url.host, address, url.port):
                return f"{what} is not a public address, and the route's own list 'allow' does not name it"
        if url.port in BLOCKED_PORTS and not self.operator.names_port(url.host, address, url.port):
            return f"port {url.port} is that of another protocol"
        return None


def check_never(url: Url) -> None:
    """What can be said before anybody is asked where a name leads, and whatever is allowed. Raises Refused."""
    if url.host in METADATA_NAMES or (url.address is not None and kind_of(url.address) is Kind.NEVER):
        raise Refused(f"{url.host} is link-local or a metadata service, which no webhook is sent to")


def is_localhost(host: str) -> bool:
    """RFC 6761, section 6.3: these names are never looked up."""
    return host == "localhost" or host.endswith(".localhost")


def _entry(text: str) -> _Entry:
    target, port = _port_of(text)
    if target.startswith("*."):
        name, address = _host(target[2:], text)
        if address is not None:
            raise ValueError(f"{text!r} is neither a name nor an address nor a network")
        return _Entry("." + name, None, port)
    bare = target[1:-1] if target.startswith("[") and target.endswith("]") else target
    if "/" in bare or ":" in bare:
        try:
            return _Entry(None, ipaddress.ip_network(bare), port)
        except ValueError as error:
            raise ValueError(f"{text!r} is neither a name nor an address nor a network: {error}") from None
    name, address = _host(target, text)
    return _Entry(name, None, port) if address is None else _Entry(None, ipaddress.ip_network(address), port)


def _port_of(text: str) -> tuple[str, int | None]:
    head, colon, digits = text.rpartition(":")
    if not colon or (":" in head and not head.endswith("]")) or not (digits.isascii() and digits.isdigit()):
        return text, None
    if len(digits) > 5 or not 1 <= int(digits) <= 65535:
        raise ValueError(f"{text!r}: a port is a number from 1 to 65535")
    return head, int(digits)


def _host(host: str, text: str) -> tuple[str, Address | None]:
    try:
        return read_host(host)
    except InvalidUrl as error:
        raise ValueError(f"{text!r} is neither a name nor an address nor a network: {error}") from None
