"""`headrace.connect(url)`: from the scheme of a URL to who speaks it.

    zmq+tcp://127.0.0.1:5556   ZeroMQ between programs, no server       `headrace.client.zeromq`
    zmq+ipc:///run/prices      the same on one machine
    udp://239.1.2.3:5000       a feed over UDP multicast                `headrace.client.multicast`

What speaks a scheme is imported when it is first asked for, so that nobody pays for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_SPEAKERS = {
    "zmq+tcp": "headrace.client.zeromq",
    "zmq+ipc": "headrace.client.zeromq",
    "udp": "headrace.client.multicast",
}
# Those that people will try, and what to use until then.
_LATER = {
    "kafka": "any Kafka client works, or headrace.client.kafka",
    "amqp": "any client of RabbitMQ works",
    "amqps": "any client of RabbitMQ works",
    "http": "any HTTP client works",
    "https": "any HTTP client works",
    "kinesis": "it is to come",
    "tcp": "for ZeroMQ write zmq+tcp://",
    "ipc": "for ZeroMQ write zmq+ipc://",
    "zmq": "write zmq+tcp:// or zmq+ipc://",
}


class UnknownScheme(ValueError):
    """`connect` has nobody for this URL; the text lists what there is."""


def connect(url: str, **options: Any) -> Any:
    """A channel for this URL: `channel.publisher()` sends events, `channel.subscriber()` gives them. Closed by `close()` or at
    the end of a `with` block. Raises UnknownScheme, or ValueError for a URL or options that make no sense.

    Its type depends on the scheme; where a type checker shall know it, call the `connect` of the module above."""
    scheme, colon, _ = url.partition("://")
    speaker = _SPEAKERS.get(scheme.lower()) if colon else None
    if speaker is None:
        raise UnknownScheme(_unknown(url, scheme.lower() if colon else ""))
    return import_module(speaker).connect(url, **options)


def _unknown(url: str, scheme: str) -> str:
    there_are = ", ".join(f"{name}://" for name in _SPEAKERS)
    if not scheme:
        return f"{url[:100]!r} is no URL; it begins with one of: {there_are}"
    hint = f" ({_LATER[scheme]})" if scheme in _LATER else ""
    return f"headrace.connect does not speak {scheme[:40]}://{hint}; there are: {there_are}"
