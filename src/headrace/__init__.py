"""Headrace: Kafka, RabbitMQ and Kinesis clients on one log, in one Python process.

    from headrace import Event, connect

A name is imported from its module when it is first used: whoever imports `headrace` waits for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.client.connect import connect as connect
    from headrace.client.received import Received as Received
    from headrace.record.event import Event as Event

__version__ = "0.1.0"

__all__ = ["Event", "Received", "__version__", "connect"]

_HOME = {
    "Event": "headrace.record.event",
    "Received": "headrace.client.received",
    "connect": "headrace.client.connect",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
