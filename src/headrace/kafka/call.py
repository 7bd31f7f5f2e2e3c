"""What an API handler knows about the request it answers, beside the request itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.kafka.throttle import Ticket


@dataclass(slots=True)
class Call:
    broker: Broker
    version: int
    client_id: str | None
    client_host: str  # as Kafka shows it: "/127.0.0.1"
    host: str  # what this connection's listener advertises
    port: int
    ticket: Ticket | None = None  # what this client may use; None while there are no quotas
    on_close: list[Callable[[], None]] | None = None  # called when the connection is lost
    client_port: int = 0
    software: tuple[str, str] = ("", "")  # name and version, as the client gave them (KIP-511)

    @property
    def client(self) -> dict[str, str]:
        """What the client says about itself, and where it comes from, under the names that telemetry matches (KIP-714)."""
        return {
            "client_id": self.client_id or "",
            "client_software_name": self.software[0],
            "client_software_version": self.software[1],
            "client_source_address": self.client_host.removeprefix("/"),
            "client_source_port": str(self.client_port),
        }
