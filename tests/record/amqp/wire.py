"""Frames for the tests: how to build them, and a reader that is too simple to be wrong.

`Reader` follows a connection frame by frame, as the specification tells it, and writes down what happened: messages, acks
and other frames in the order in which they were complete. What a scanner found is written down in the same words.
"""

from __future__ import annotations

import struct
from typing import Any

from headrace.record import decode_records
from headrace.record.amqp.events import ACK, FRAME, PUBLISH

PLAIN = b"\x00\x00"
PERSISTENT = b"\x10\x00\x02"
TRANSIENT = b"\x10\x00\x01"


def frame(frame_type: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", frame_type, channel, len(payload)) + payload + b"\xce"


def text(content: bytes) -> bytes:
    return bytes([len(content)]) + content


def arguments(exchange: bytes = b"", key: bytes = b"q", bits: int = 0) -> bytes:
    return b"\x00\x00" + text(exchange) + text(key) + bytes([bits])


def method(channel: int, exchange: bytes = b"", key: bytes = b"q", bits: int = 0) -> bytes:
    return frame(1, channel, b"\x00\x3c\x00\x28" + arguments(exchange, key, bits))


def header(channel: int, size: int, properties: bytes = PERSISTENT, class_id: int = 60, weight: int = 0) -> bytes:
    return frame(2, channel, struct.pack(">HHQ", class_id, weight, size) + properties)


def bodies(channel: int, body: bytes, most: int = 100_000) -> list[bytes]:
    return [frame(3, channel, body[at : at + most]) for at in range(0, len(body), most)]


def publish(channel: int, body: bytes, properties: bytes = PERSISTENT, most: int = 100_000, **routing: Any) -> bytes:
    return b"".join((method(channel, **routing), header(channel, len(body), properties), *bodies(channel, body, most)))


def ack(channel: int, tag: int, bits: int = 0) -> bytes:
    return frame(1, channel, b"\x00\x3c\x00\x50" + struct.pack(">QB", tag, bits))


def message_id(name: bytes, properties: bytes = PERSISTENT) -> bytes:
    """The properties with a message id behind them."""
    flags = struct.unpack_from(">H", properties)[0] | 1 << 7
    return struct.pack(">H", flags) + properties[2:] + text(name)


HEARTBEAT = frame(8, 0, b"")


class Reader:
    """What a connection has seen, as a list in `seen`."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self._contents: dict[int, list[Any]] = {}  # by channel: arguments, properties, size, body

    def frames(self, data: bytes) -> bytes:
        """Reads whole frames; returns the rest."""
        while len(data) >= 7:
            frame_type, channel, size = struct.unpack_from(">BHI", data)
            if len(data) < size + 8:
                break
            assert data[7 + size] == 0xCE
            self.frame(frame_type, channel, data[7 : 7 + size])
            data = data[8 + size :]
        return data

    def frame(self, frame_type: int, channel: int, payload: bytes) -> None:
        content = self._contents.get(channel)
        if frame_type == 1 and channel and payload[:4] == b"\x00\x3c\x00\x28" and well_formed(payload[4:]):
            self._contents[channel] = [payload[4:], None, 0, b""]
        elif frame_type == 1 and channel and payload[:4] == b"\x00\x3c\x00\x50" and len(payload) == 13:
            tag, bits = struct.unpack_from(">QB", payload, 4)
            self.seen.append(("ack", channel, tag, bits & 1))
        elif frame_type == 2 and content and content[1] is None and payload[:4] == b"\x00\x3c\x00\x00" and len(payload) >= 14:
            content[1:3] = payload[12:], struct.unpack_from(">Q", payload, 4)[0]
            self._finish(channel)
        elif frame_type == 3 and content and content[1] is not None and len(content[3]) + len(payload) <= content[2]:
            content[3] += payload
            self._finish(channel)
        else:
            self.seen.append(("frame", frame_type, channel, payload))

    def _finish(self, channel: int) -> None:
        method_arguments, properties, size, body = self._contents[channel]
        if len(body) == size:
            del self._contents[channel]
            self.seen.append(("message", channel, method_arguments, properties, body))

    def events(self, events: list[tuple[Any, ...]]) -> None:
        """What a scanner found."""
        for event in events:
            if event[0] == FRAME:
                self.frame(*event[1:])
            elif event[0] == ACK:
                _, channel, first, last, multiple = event
                assert not multiple or first == last
                self.seen += [("ack", channel, tag, int(multiple)) for tag in range(first, last + 1)]
            else:
                self._contents.pop(event[1], None)
                self.seen += [("message", event[1], event[2], *message) for message in messages_of(event)]


def well_formed(method_arguments: bytes) -> bool:
    """Whether these are the arguments of a basic.publish."""
    try:
        key_at = 3 + method_arguments[2]
        return len(method_arguments) == key_at + 1 + method_arguments[key_at] + 1
    except IndexError:
        return False


def messages_of(event: tuple[Any, ...]) -> list[tuple[bytes, bytes]]:
    """Properties and body of each message of a run; also that the run is what a run has to be."""
    kind, _, method_arguments, first_properties, records, count, body_bytes = event
    assert kind == PUBLISH
    exchange_end = 3 + method_arguments[2]
    exchange, key = method_arguments[3:exchange_end], method_arguments[exchange_end + 1 : -1]
    messages = []
    for number, (delta, time, record_key, value, headers) in enumerate(decode_records(records, count)):
        assert (delta, time, record_key) == (number, 0, key)
        assert [name for name, _ in headers] == ["amqp.exchange", "amqp.properties"]
        assert headers[0][1] == exchange
        assert value is not None
        assert headers[1][1] is not None
        messages.append((headers[1][1], value))
    assert messages[0][0] == first_properties
    assert sum(len(body) for _, body in messages) == body_bytes
    assert len({treatment(properties) for properties, _ in messages}) == 1
    return messages


def treatment(properties: bytes) -> bytes | bool:
    """What the messages of a run have in common."""
    flags = struct.unpack_from(">H", properties)[0]
    if flags & 0b0010_1011_0001_0000:
        return properties
    position = 2
    for bit in (15, 14):
        if flags & 1 << bit:
            position += 1 + properties[position]
    return bool(flags & 1 << 12) and properties[position] == 2
