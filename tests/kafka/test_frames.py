"""Requests that arrive in pieces, over a real socket: however TCP cuts them, each is handled once."""

import socket
import time

import pytest

from headrace.kafka.codec.headers import RequestHeader, decode_response_header, encode_request_header
from headrace.kafka.codec.schema import decode, encode_into
from headrace.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.kafka.messages.metadata import MetadataRequest, MetadataResponse
from headrace.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.record.batch import encode_batch
from headrace.record.event import Event


def framed(request, version, correlation=1):
    body = encode_request_header(
        RequestHeader(request.api_key, version, correlation, "test"), flexible=version >= (request.flexible or 1000)
    )
    encode_into(body, request, version)
    return len(body).to_bytes(4, "big") + bytes(body)


def answer(link, response_class, version, flexible):
    def exactly(size):
        data = b""
        while len(data) < size:
            more = link.recv(size - len(data))
            assert more, "the server closed the connection"
            data += more
        return data

    body = exactly(int.from_bytes(exactly(4), "big"))
    _, position = decode_response_header(body, flexible=flexible)
    return decode(response_class, version, body, position)


@pytest.fixture
def link(headrace_shared_server):
    host, port = headrace_shared_server.kafka.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection


def produce_of(topic, size):
    batch = encode_batch([Event(None, b"v" * size, timestamp_ms=int(time.time() * 1000))])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
    return framed(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 9)


@pytest.mark.parametrize("cuts", [[150_000], [1, 3], [4], [5, 64 * 1024], [64 * 1024, 128 * 1024, 256 * 1024], [299_999]])
def test_a_large_produce_is_taken_however_it_is_cut(link, cuts, request):
    topic = f"frames-{abs(hash(request.node.name))}"
    link.sendall(framed(CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)]), 5))
    link.recv(65536)
    frame = produce_of(topic, 300_000)
    start = 0
    for end in [*cuts, len(frame)]:
        link.sendall(frame[start:end])
        start = end
        # another connection's answer proves that the server has been around its loop with what it has
        ask_on_another_connection(link)
    response = answer(link, ProduceResponse, 9, flexible=True)
    assert response.responses[0].partition_responses[0].error_code == 0


def ask_on_another_connection(link):
    with socket.create_connection(link.getpeername(), timeout=20) as other:
        other.sendall(framed(MetadataRequest(topics=[]), 9))
        answer(other, MetadataResponse, 9, flexible=True)


def test_many_requests_in_one_piece_are_answered_in_order(link):
    link.sendall(b"".join(framed(MetadataRequest(topics=[]), 9, correlation) for correlation in range(300)))
    data = b""
    seen = []
    while len(seen) < 300:
        more = link.recv(65536)
        assert more
        data += more
        while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
            size = int.from_bytes(data[:4], "big")
            seen.append(int.from_bytes(data[4:8], "big"))
            data = data[4 + size :]
    assert seen == list(range(300))
