"""Requests that are well formed and mean nothing: every supported API, in every version, with values that no client sends.
The answer may be any error; what must not happen is an exception nobody thought of, which the server logs with a traceback."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from headrace.kafka.api import SUPPORTED
from headrace.kafka.codec.fields import Array, Bytes, Field, Fixed, Kind, Nested, String
from headrace.kafka.codec.headers import RequestHeader, encode_request_header
from headrace.kafka.codec.schema import Struct, encode, is_flexible
from headrace.kafka.messages import MESSAGES, request_class
from headrace.testing import HeadraceServer

SAMPLES, SOAK_SAMPLES = 60, 2000  # requests for each version of each API
SEED = 20240607  # every ordinary run sends the same; --soak and --seed send others
TOPIC = "hostile-requests"
WORDS = [TOPIC, "", "group", "x" * 300, "..", "a/b", "no such topic", "0", "range", "consumer", "ünï\x00", "__consumer_offsets"]
IDS = [UUID(int=0), UUID(int=1)]
NUMBERS = [0, 1, -1, 2, 3, -2, 7, 100, 30_000]


@pytest.fixture(scope="module")
def server(headrace_settings: dict[str, object]) -> Iterator[HeadraceServer]:
    with HeadraceServer(settings=headrace_settings) as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def topic(server: HeadraceServer) -> None:
    """Something for the requests to find."""
    producer = Producer({"bootstrap.servers": server.kafka})
    for n in range(20):
        producer.produce(TOPIC, str(n), partition=0)
    assert producer.flush(20) == 0
    admin = AdminClient({"bootstrap.servers": server.kafka})
    described = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(20)
    high, low = described.topic_id.get_most_significant_bits(), described.topic_id.get_least_significant_bits()
    IDS.append(UUID(bytes=struct.pack(">qq", high, low)))


def value_of(kind: Kind, noise: random.Random, version: int, depth: int) -> Any:
    match kind:
        case Fixed(code="?"):
            return noise.random() < 0.5
        case Fixed(code="16s"):
            return noise.choice([*IDS, UUID(int=noise.getrandbits(128))])
        case Fixed(code="d"):
            return noise.choice([0.0, 1.5, -1.0, float("inf"), float("nan")])
        case Fixed(code=code, size=size):
            signed = code.islower()
            top = 2 ** (8 * size - signed) - 1
            bottom = -top - 1 if signed else 0
            return min(top, max(bottom, noise.choice([*NUMBERS, top, bottom])))
        case String():
            return noise.choice(WORDS)
        case Bytes():
            return noise.randbytes(noise.choice([0, 1, 10, 100]))
        case Nested(of=of):
            return message_of(of, noise, version, depth)
        case Array(item=item):
            count = noise.choice([0, 1, 1, 2, 3]) if depth < 4 else 0
            return [value_of(item, noise, version, depth + 1) for _ in range(count)]
    raise TypeError(kind)


def message_of(cls: type[Struct], noise: random.Random, version: int, depth: int = 0) -> Any:
    values: dict[str, Any] = {}
    for name, field in cls.__fields__:
        assert isinstance(field, Field)
        if not field.since <= version <= field.until:
            continue
        if field.nullable_since <= version and noise.random() < 0.2:
            values[name] = None
        elif noise.random() < 0.9:
            values[name] = value_of(field.kind, noise, version, depth)
    return cls(**values)


@pytest.mark.parametrize("key", SUPPORTED, ids=lambda key: MESSAGES[key].name)
def test_no_request_breaks_the_server(key, server, request):
    soak = request.config.getoption("--soak")
    seed = request.config.getoption("--seed") or (random.SystemRandom().randrange(2**32) if soak else SEED)
    noise = random.Random(f"{seed} {key}")
    cls = request_class(key)
    before = server.log_text().count("Traceback")
    links = []
    for version in range(SUPPORTED[key][0], SUPPORTED[key][1] + 1):
        host, port = server.kafka.rsplit(":", 1)
        link = socket.create_connection((host, int(port)), 20)
        links.append(link)
        for number in range(SOAK_SAMPLES if soak else SAMPLES):
            head = encode_request_header(RequestHeader(key, version, number, "hostile"), flexible=is_flexible(cls, version))
            body = bytes(head) + bytes(encode(message_of(cls, noise, version), version))
            try:
                link.sendall(struct.pack(">i", len(body)) + body)
            except ConnectionError:
                link = socket.create_connection((host, int(port)), 20)
                links.append(link)
    for link in links:
        link.settimeout(0.05)  # some of these wait for more than a test can: a group's members, more data
        try:
            while link.recv(65536):
                pass
        except (TimeoutError, ConnectionError):
            pass
        link.close()
    assert server.running
    assert server.log_text().count("Traceback") == before, f"--seed {seed}\n{server.log_text()[-3000:]}"


def test_it_still_serves_afterwards(server):
    producer = Producer({"bootstrap.servers": server.kafka, "acks": "all"})
    producer.produce("afterwards", b"fine")
    assert producer.flush(20) == 0
