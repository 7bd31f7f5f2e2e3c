"""Which addresses are nobody's business: what an address is, so that a policy can say whether it may be connected to.

An address is `PUBLIC`, `PRIVATE` (it leads inside: the operator may allow it) or `NEVER`: link-local addresses and those where
clouds serve credentials to whoever asks, which nobody may allow.

IPv4 addresses inside IPv6 ones are taken out and judged themselves, since that is where the packet goes in the end: mapped
ones (`::ffff:a.b.c.d`), which are then connected to as IPv4, and those of NAT64 (`64:ff9b::/96`), which an IPv6-only network
needs to reach anybody. The other forms (IPv4-compatible, 6to4, Teredo, ISATAP, the local NAT64 prefix) are `PRIVATE` whatever
is in them, and `NEVER` when that is.

`ipaddress.is_global` follows IANA's registries, as of the Python that runs; the lists here do not depend on that.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache

from headrace.webhooks.outbound.url import Address

_NETWORK = ipaddress.ip_network


class Kind(Enum):
    PUBLIC = "public"
    PRIVATE = "private"
    NEVER = "never"


_NEVER = tuple(
    _NETWORK(text)
    for text in (
        "169.254.0.0/16",  # link-local: the metadata services of nearly all clouds, of ECS and of EKS
        "fe80::/10",
        "fd00:ec2::/32",  # AWS: metadata, time, DNS, pod identity
        "fd20:ce::/32",  # Google Cloud
        "fd00:42::/32",  # Scaleway
        "100.100.100.200/32",  # Alibaba Cloud
        "168.63.129.16/32",  # Azure's platform service; a public address
        "192.0.0.192/32",  # Oracle Cloud
    )
)
_PRIVATE = tuple(
    _NETWORK(text)
    for text in (
        "0.0.0.0/8",  # this network; 0.0.0.0 is this machine on Linux
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by carriers (RFC 6598); clouds put services there
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "::/96",  # unspecified, loopback, IPv4-compatible
        "::ffff:0:0:0/96",  # IPv4-translated (SIIT)
        "64:ff9b:1::/48",  # NAT64 of a local prefix
        "100::/64",  # discard
        "100:0:0:1::/64",
        "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID, …
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fc00::/7",  # unique local
        "fec0::/10",  # site-local, deprecated
        "ff00::/8",  # multicast
    )
)
_NEVER_OF = {version: tuple(one for one in _NEVER if one.version == version) for version in (4, 6)}
_PRIVATE_OF = {version: tuple(one for one in _PRIVATE if one.version == version) for version in (4, 6)}
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = (ipaddress.IPv6Network("::/96"), ipaddress.IPv6Network("::ffff:0:0:0/96"))
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_ISATAP = (0x00005EFE, 0x02005EFE)


def plain(address: Address) -> Address:
    """An IPv4 address that came as an IPv6 one, as IPv4: so it is judged and so it is connected to."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


@lru_cache(4096)
def kind_of(address: Address) -> Kind:
    address = plain(address)
    inside = list(_embedded(address))
    if any(_in(one, _NEVER_OF) for one in (address, *inside)):
        return Kind.NEVER
    if isinstance(address, ipaddress.IPv6Address) and address in _NAT64:
        return kind_of(inside[0])
    if inside or not address.is_global or _in(address, _PRIVATE_OF):
        return Kind.PRIVATE
    return Kind.PUBLIC


def _in(address: Address, networks: dict[int, tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]]) -> bool:
    return any(address in network for network in networks[address.version])


def _embedded(address: Address) -> Iterator[Address]:
    """The IPv4 addresses that a packet to it may end at."""
    if not isinstance(address, ipaddress.IPv6Address):
        return
    number = int(address)
    low = ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if address in _NAT64 or any(address in network for network in _COMPATIBLE):
        yield low
    elif address in _LOCAL_NAT64:  # RFC 6052: where it stands depends on a prefix length that only the network knows
        yield low
        yield ipaddress.IPv4Address((number >> 64 & 0xFFFF) << 16 | (number >> 40 & 0xFFFF))  # a /48's
        yield ipaddress.IPv4Address((number >> 64 & 0xFF) << 24 | (number >> 32 & 0xFFFFFF))  # a /56's
        yield ipaddress.IPv4Address(number >> 24 & 0xFFFFFFFF)  # a /64's
    elif (number >> 32 & 0xFFFFFFFF) in _ISATAP:
        yield low
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
