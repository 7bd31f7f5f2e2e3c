"""Server addresses as people write them: `host:port`, several with commas, IPv6 in brackets, port 9092 when left out."""

from __future__ import annotations

from typing import NamedTuple

from headrace.client.kafka.errors import ClientError

DEFAULT_PORT = 9092


class BadAddress(ClientError):
    pass


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> list[Address]:
    addresses = [_parse(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise BadAddress("no server address given: use HOST:PORT")
    return addresses


def _parse(text: str) -> Address:
    text = text.removeprefix("kafka://").removeprefix("PLAINTEXT://")
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise BadAddress(f"{text!r} is not an address: use [IPV6]:PORT")
        port = rest[1:]
    elif text.count(":") > 1:
        raise BadAddress(f"{text!r} is not an address: put an IPv6 host in brackets, as in [::1]:9092")
    else:
        host, _, port = text.partition(":")
    if not host:
        raise BadAddress(f"{text!r} is not an address: the host is missing")
    if not port:
        return Address(host, DEFAULT_PORT)
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise BadAddress(f"{text!r} is not an address: the port is a number from 1 to 65535")
    return Address(host, int(port))
