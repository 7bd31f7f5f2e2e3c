"""The server as a whole, as a table of operations: how it is, who is connected, what it keeps and says, how it is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.http.v1 import connections, overview, server_logs, settings, storage, support
from headrace.http.v1.operations import Operation

if TYPE_CHECKING:
    from headrace.broker import Broker


def operations(broker: Broker) -> tuple[Operation, ...]:
    whole, kept = overview.Overview(broker), storage.Storage(broker)
    return (
        *overview.operations(whole),
        *connections.OPERATIONS,
        *storage.operations(kept),
        *server_logs.OPERATIONS,
        *settings.OPERATIONS,
        *support.operations(broker, whole, kept),
    )


PATHS = ("/v1/overview", *connections.PATHS, *storage.PATHS, *server_logs.PATHS, *settings.PATHS, *support.PATHS)
