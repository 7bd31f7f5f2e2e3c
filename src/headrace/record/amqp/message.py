"""One message as one record, the form in which the broker keeps what AMQP clients publish.

    key      the routing key
    value    the body
    headers  amqp.exchange: the exchange it was published to; amqp.properties: its properties as they came

A run is the records section of a batch: records numbered from zero, without times of their own. The hot path writes and
reads runs in `twin`; this is for those who look at messages one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headrace.record import twin
from headrace.record.errors import CorruptBatch
from headrace.record.varint import read_varint, read_varlong

EXCHANGE = b"amqp.exchange"
PROPERTIES = b"amqp.properties"

_EXCHANGE_NAME = EXCHANGE.decode()
_PROPERTIES_NAME = PROPERTIES.decode()


class Message(NamedTuple):
    exchange: str
    routing_key: str
    properties: bytes  # raw, see `properties`
    body: bytes


def encode_run(messages: Iterable[Message]) -> bytes:
    """The records section of these messages."""
    return twin.encode_records(
        (
            number,
            0,
            message.routing_key.encode("utf-8", "surrogateescape"),
            message.body,
            (
                (_EXCHANGE_NAME, message.exchange.encode("utf-8", "surrogateescape")),
                (_PROPERTIES_NAME, message.properties),
            ),
        )
        for number, message in enumerate(messages)
    )


def read_message(data: bytes | bytearray | memoryview, position: int) -> tuple[Message, int]:
    """The message in the record at `position`, and the position of the next record. A record that is no message of
    ours has what is there: no key is the routing key "", no headers are the default exchange and no properties."""
    try:
        length, pos = read_varint(data, position)
        end = pos + length
        if length < 0 or end > len(data):
            raise CorruptBatch("malformed record")
        _, pos = read_varlong(data, pos + 1)
        _, pos = read_varint(data, pos)
        key, pos = _read_bytes(data, pos, end)
        body, pos = _read_bytes(data, pos, end)
        count, pos = read_varint(data, pos)
        if count < 0 or count > end - pos:
            raise CorruptBatch("malformed record")
        exchange, properties = b"", b"\0\0"
        for _ in range(count):
            name, pos = _read_bytes(data, pos, end)
            value, pos = _read_bytes(data, pos, end)
            if name == EXCHANGE:
                exchange = value
            elif name == PROPERTIES:
                properties = value
    except (IndexError, ValueError):
        raise CorruptBatch("malformed record") from None
    if pos != end:
        raise CorruptBatch("malformed record")
    return Message(exchange.decode("utf-8", "surrogateescape"), key.decode("utf-8", "surrogateescape"), properties, body), end


def read_messages(data: bytes | bytearray | memoryview, position: int, count: int) -> list[Message]:
    """The next `count` messages from `position` on."""
    messages = []
    for _ in range(count):
        message, position = read_message(data, position)
        messages.append(message)
    return messages


def _read_bytes(data: bytes | bytearray | memoryview, pos: int, end: int) -> tuple[bytes, int]:
    length, pos = read_varint(data, pos)
    if length < 0:
        return b"", pos
    if length > end - pos:
        raise CorruptBatch("malformed record")
    return bytes(data[pos : pos + length]), pos + length
