"""Sockets that send to a group, and sockets that are members of one; IPv4 and IPv6.

An interface is named by its name (`eth0`) or, for IPv4, by an address that it has. Unless one is named it is loopback, and
nothing leaves the machine. With a `sender` a socket is a member for what that address sends alone (source-specific multicast,
RFC 4607): the kernel drops the rest.

Several sockets of a machine may be members of one group at the same port. A socket gets what is sent to its own group and to no
other at that port: it is bound to the group's address where the system allows it, and `IP_MULTICAST_ALL` is off.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import sys
from dataclasses import dataclass

RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024
SEND_BUFFER_BYTES = 1024 * 1024
FULL = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})  # of a send: not now

# Of Linux; the socket module does not have them.
_IP_MULTICAST_ALL = 49
_IPV6_MULTICAST_ALL = 29
_IP_ADD_SOURCE_MEMBERSHIP = 39
_MCAST_JOIN_SOURCE_GROUP = 46
_SOCKADDR_STORAGE = 128


@dataclass(frozen=True, slots=True)
class Group:
    """Where a feed is. Raises ValueError for what is no group."""

    address: str
    port: int
    interface: str | None = None  # loopback

    def __post_init__(self) -> None:
        try:
            multicast = ipaddress.ip_address(self.address).is_multicast
        except ValueError:
            multicast = False
        if not multicast:
            raise ValueError(f"{self.address!r} is no multicast address, such as 239.255.0.1 or ff15::7")
        if not 1 <= self.port <= 65_535:
            raise ValueError(f"{self.port} is no port")

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    @property
    def interface_address(self) -> str:
        """Of IPv4: an address of the interface, if it is named by that, or 0.0.0.0."""
        name = self.interface if self.interface is not None else "127.0.0.1"
        return name if _is_ipv4(name) else "0.0.0.0"

    @property
    def interface_index(self) -> int:
        """0 if the interface is named by an address. Raises OSError if there is no such interface."""
        name = self.interface
        if self.family == socket.AF_INET and (name is None or _is_ipv4(name)):
            return 0
        if name is None or name == "::1":
            name = _loopback_name()
        try:
            return socket.if_nametoindex(name)
        except OSError:
            raise OSError(errno.ENODEV, f"there is no interface {name!r}") from None

    @property
    def leaves_the_machine(self) -> bool:
        """Whether an interface is named that is not loopback."""
        name = self.interface
        return name is not None and name not in (_loopback_name(), "::1") and not name.startswith("127.")

    @property
    def target(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """What a socket sends to."""
        return (
            (self.address, self.port) if self.family == socket.AF_INET else (self.address, self.port, 0, self.interface_index)
        )


def sending_socket(group: Group, *, ttl: int = 1, loopback: bool = True) -> socket.socket:
    """Blocking. Raises OSError."""
    made = socket.socket(group.family, socket.SOCK_DGRAM)
    try:
        if group.family == socket.AF_INET:
            interface = _ipv4_interface(group)
            by_index = len(interface) > 4
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, bytes(4) + interface if by_index else interface)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(loopback))
        else:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, group.interface_index)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, int(loopback))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        made.connect(group.target)  # the address is looked at once, not with each datagram
    except BaseException:
        made.close()
        raise
    return made


def receiving_socket(group: Group, *, sender: str | None = None, buffer_bytes: int = RECEIVE_BUFFER_BYTES) -> socket.socket:
    """Non-blocking, a member of the group. The kernel may give it a smaller buffer (`net.core.rmem_max`). Raises OSError."""
    made = socket.socket(group.family, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        made.bind(group.target if sys.platform != "win32" else ("", group.port))
        if group.family == socket.AF_INET:
            _join_ipv4(made, group, sender)
        else:
            _join_ipv6(made, group, sender)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def _join_ipv4(made: socket.socket, group: Group, sender: str | None) -> None:
    address = socket.inet_aton(group.address)
    if sender is None:
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, address + _ipv4_interface(group))
    elif group.interface_index:
        _join_source(made, socket.IPPROTO_IP, group, sender)
    else:
        request = address + socket.inet_aton(group.interface_address) + socket.inet_aton(sender)
        made.setsockopt(socket.IPPROTO_IP, _IP_ADD_SOURCE_MEMBERSHIP, request)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)


def _join_ipv6(made: socket.socket, group: Group, sender: str | None) -> None:
    if sender is None:
        request = socket.inet_pton(socket.AF_INET6, group.address) + struct.pack("@I", group.interface_index)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
    else:
        _join_source(made, socket.IPPROTO_IPV6, group, sender)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL, 0)


def _join_source(made: socket.socket, level: int, group: Group, sender: str) -> None:
    """By the protocol-independent call of RFC 3678: struct group_source_req, whose addresses are aligned to 8 bytes."""
    request = struct.pack("@I4x", group.interface_index) + _storage(group.address) + _storage(sender)
    made.setsockopt(level, _MCAST_JOIN_SOURCE_GROUP, request)


def _storage(address: str) -> bytes:
    """A sockaddr_storage; of the port nobody takes notice."""
    if ":" in address:
        packed = struct.pack("@HHI", socket.AF_INET6, 0, 0) + socket.inet_pton(socket.AF_INET6, address)
    else:
        packed = struct.pack("@HH", socket.AF_INET, 0) + socket.inet_aton(address)
    return packed.ljust(_SOCKADDR_STORAGE, b"\0")


def _ipv4_interface(group: Group) -> bytes:
    """An address of the interface; or, where it is named otherwise, the end of a struct ip_mreqn with its number."""
    index = group.interface_index
    return socket.inet_aton(group.interface_address) + (struct.pack("@i", index) if index else b"")


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _loopback_name() -> str:
    return "lo" if sys.platform == "linux" else "lo0"
