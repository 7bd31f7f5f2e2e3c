"""A binding: from an exchange to a queue or another exchange, with a key and arguments."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import field
from typing import Generic, TypeVar
from urllib.parse import quote_plus
from zlib import crc32

from headrace.broker.exchanges.exchange import NO_ARGUMENTS, Exchange
from headrace.broker.exchanges.matcher import Node
from headrace.dataclass import dataclass
from headrace.record.amqp.tables import encode_table

D = TypeVar("D", bound=Node)  # the queues


@dataclass(frozen=True, slots=True, eq=False)
class Binding(Generic[D]):
    """The router keeps one object for each binding, so they too are compared by identity."""

    source: Exchange
    destination: Exchange | D
    routing_key: str
    arguments: Mapping[str, object] = field(default_factory=lambda: NO_ARGUMENTS)

    @property
    def destination_kind(self) -> str:
        """As the management API calls it."""
        return "exchange" if isinstance(self.destination, Exchange) else "queue"

    @property
    def properties_key(self) -> str:
        """Names this binding among those between the same two ends, in URLs of the management API."""
        return properties_key(self.routing_key, self.arguments)


def properties_key(routing_key: str, arguments: Mapping[str, object]) -> str:
    """The routing key, `~` and a hash of the arguments; without arguments the key alone, and `~` if that is empty too."""
    key = _quoted(routing_key)
    if arguments:
        digest = crc32(arguments_key(arguments)).to_bytes(4, "big")
        return f"{key}~{urlsafe_b64encode(digest).rstrip(b'=').decode()}"
    return key or "~"


def arguments_key(arguments: Mapping[str, object]) -> bytes:
    """The same bytes for arguments that are the same, types included, in whatever order they were given."""
    return encode_table({name: arguments[name] for name in sorted(arguments)}) if arguments else b""


def _quoted(text: str) -> str:
    return quote_plus(text, errors="surrogateescape").replace("~", "%7E")
