"""The server as a whole, as a table of operations: how it is, who is connected, what it keeps and says, how it is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.http.v1 import connections, overview, server_logs, settings, storage
from headrace.http.v1.operations import Operation

if TYPE_CHECKING:
    from headrace.broker import Broker


def operations(broker: Broker) -> tuple[Operation, ...]:
    return (
        *overview.operations(broker),
        *connections.OPERATIONS,
        *storage.operations(broker),
        *server_logs.OPERATIONS,
        *settings.OPERATIONS,
    )


PATHS = ("/v1/overview", *connections.PATHS, *storage.PATHS, *server_logs.PATHS, *settings.PATHS)
