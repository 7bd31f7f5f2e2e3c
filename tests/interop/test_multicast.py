"""Feeds read and written with plain sockets, by what docs/multicast-format.md says and by nothing else.

Nothing of Headrace's own codec is used on the plain side: only the struct and socket modules, and a checksum.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.multicast.network import free_url, group_of
from tests.multicast.serving import ask, from_feed, make_topic, produce, to_feed

import headrace
from headrace import Event
from headrace.testing import HeadraceServer, wait_until

HEADER = struct.Struct(">3sBIBBHIIIQqqq")


class Head(NamedTuple):
    magic: bytes
    version: int
    checksum: int
    kind: int
    flags: int
    count: int
    span: int
    feed: int
    partition: int
    session: int
    previous: int
    first: int
    timestamp: int


def crc32c(data: bytes) -> int:
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F6_3B78 if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of 7 bits in each byte, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def some_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def events(
    head: Head, payload: bytes
) -> Iterator[tuple[int, int, bytes | None, bytes | None, list[tuple[bytes | None, bytes | None]]]]:
    at = 0
    for _ in range(head.count):
        length, at = varint(payload, at)
        end = at + length
        when, at = varint(payload, at + 1)
        number, at = varint(payload, at)
        key, at = some_bytes(payload, at)
        value, at = some_bytes(payload, at)
        count, at = varint(payload, at)
        headers = []
        for _ in range(count):
            name, at = some_bytes(payload, at)
            content, at = some_bytes(payload, at)
            headers.append((name, content))
        assert at == end
        yield head.first + number, head.timestamp + when, key, value, headers
    assert at == len(payload)


def written(number: int) -> bytes:
    """A zigzag number."""
    value = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def datagram(
    first: int, values: list[bytes], *, feed: bytes, session: int, flags: int = 0, secret: bytes | None = None
) -> bytes:
    records = b""
    for number, value in enumerate(values):
        body = b"\0" + written(0) + written(number) + written(-1) + written(len(value)) + value + written(0)
        records += written(len(body)) + body
    rest = struct.pack(
        ">BBHIIIQqqq", 0, flags | (2 if secret else 0), len(values), len(values), crc32c(feed), 0, session, first, first, 5
    )
    rest += records
    if secret is not None:
        rest += hmac.new(secret, rest, hashlib.sha256).digest()[:16]
    return b"HRF\x01" + struct.pack(">I", crc32c(rest)) + rest


def member(url: str) -> socket.socket:
    group = group_of(url)
    plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    plain.bind((group.address, group.port))
    request = socket.inet_aton(group.address) + socket.inet_aton("127.0.0.1")
    plain.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    plain.settimeout(20)
    return plain


def sender() -> socket.socket:
    plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    plain.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    return plain


def test_a_plain_socket_reads_a_topic_and_fetches_a_gap_with_any_kafka_client(headrace_shared_server: HeadraceServer) -> None:
    topic, url = "plain-out", free_url("plain-out")
    make_topic(headrace_shared_server, topic)
    sent = [Event(b"k%d" % n, b"v%d" % n, (("h", b"1"), ("n", None)), 1_700_000_000_000 + n) for n in range(500)]
    with member(url) as plain:
        to_feed(headrace_shared_server, topic, url, topic)
        produce(headrace_shared_server, topic, sent)
        found: dict[int, tuple[int, bytes | None, bytes | None]] = {}
        gaps: list[tuple[int, int]] = []
        expected, datagrams = 0, 0
        while expected < 500:
            data = plain.recv(65_536)
            head, payload = Head(*HEADER.unpack_from(data)), data[HEADER.size :]
            assert (head.magic, head.version, head.feed) == (b"HRF", 1, crc32c(topic.encode()))
            assert crc32c(data[8:]) == head.checksum
            assert head.flags & 1  # a topic is behind it
            if head.kind == 1:
                assert payload == topic.encode()
                continue
            datagrams += 1
            if datagrams == 3:
                continue  # as if it had been lost
            if head.previous > expected:
                gaps.append((expected, head.previous))
            for sequence, when, key, value, headers in events(head, payload):
                assert headers == [(b"h", b"1"), (b"n", None)]
                found[sequence] = (when, key, value)
            expected = head.first + head.span
    (gap,) = gaps
    consumer = Consumer({"bootstrap.servers": headrace_shared_server.kafka, "group.id": "plain"})
    consumer.assign([TopicPartition(topic, 0, gap[0])])
    for offset in range(*gap):
        message = consumer.poll(20)
        assert message is not None
        assert message.offset() == offset
        found[offset] = (message.timestamp()[1], message.key(), message.value())
    consumer.close()
    assert [found[n] for n in range(500)] == [(event.timestamp_ms, event.key, event.value) for event in sent]


def test_what_a_plain_socket_sends_is_a_feed(headrace_shared_server: HeadraceServer) -> None:
    url, topic = free_url("plain"), "plain-in"
    group = group_of(url)
    make_topic(headrace_shared_server, topic)
    from_feed(headrace_shared_server, url, topic, topic)
    wait_until(lambda: ask(headrace_shared_server, "GET", f"/v1/routes/{topic}")["state"] == "running", what="the route")
    with headrace.connect(url) as channel, sender() as plain:
        subscriber = channel.subscriber()
        for first in (0, 3, 9, 6):
            values = [b"%d" % number for number in range(first, first + 3)]
            plain.sendto(datagram(first, values, feed=b"plain", session=77), (group.address, group.port))
        received = [subscriber.receive(20) for _ in range(12)]
    assert [one and (one.offset, one.event.text(), one.event.timestamp_ms) for one in received] == [
        (number, str(number), 5) for number in range(12)
    ]
    consumer = Consumer({"bootstrap.servers": headrace_shared_server.kafka, "group.id": "plain-in"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = [consumer.poll(20) for _ in range(12)]
    consumer.close()
    assert [message and message.value() for message in messages] == [b"%d" % number for number in range(12)]


@pytest.mark.parametrize("secret", [None, b"known to both"])
def test_a_tag_is_made_and_checked_with_the_standard_library(secret: bytes | None) -> None:
    url = free_url("tagged")
    group = group_of(url)
    with headrace.connect(url, secret=secret and secret.decode()) as channel, sender() as plain, member(url) as listening:
        subscriber = channel.subscriber()
        plain.sendto(datagram(0, [b"one"], feed=b"tagged", session=1, secret=secret), (group.address, group.port))
        received = subscriber.receive(20)
        assert received is not None
        assert received.event.value == b"one"
        listening.recv(2000)
        channel.publisher().send(Event.of("two"))
        data = listening.recv(2000)
        while HEADER.unpack_from(data)[3] == 1:
            data = listening.recv(2000)
        if secret is not None:
            assert data[-16:] == hmac.new(secret, data[8:-16], hashlib.sha256).digest()[:16]
