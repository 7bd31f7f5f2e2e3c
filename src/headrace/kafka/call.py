"""What an API handler knows about the request it answers, beside the request itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker import Broker


@dataclass(slots=True)
class Call:
    broker: Broker
    version: int
    client_id: str | None
    client_host: str  # as Kafka shows it: "/127.0.0.1"
    host: str  # what this connection's listener advertises
    port: int
