"""Quotas as librdkafka meets them: it is told to pause, and what it gets through is no more than the quota allows."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.kafka.codec.headers import RequestHeader, decode_response_header, encode_request_header
from headrace.kafka.codec.schema import Request, decode, encode_into
from headrace.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from headrace.kafka.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.headrace(quota_window_num=2)]  # only a second's worth at once

RATE = 100_000
RECORDS = 300


def ask(bootstrap: str, request: Request, response: type[Any]) -> Any:
    """By a request of our own: confluent-kafka has no call for quotas."""
    host, port = bootstrap.rsplit(":", 1)
    body = encode_request_header(RequestHeader(request.api_key, 1, 1, "quotas"), flexible=True)
    encode_into(body, request, 1)
    with socket.create_connection((host, int(port)), timeout=20) as link, link.makefile("rb") as answers:
        link.sendall(len(body).to_bytes(4, "big") + bytes(body))
        answer = answers.read(int.from_bytes(answers.read(4), "big"))
    _, position = decode_response_header(answer, flexible=True)
    return decode(response, 1, answer, position)


def set_quota(bootstrap: str, client_id: str, **values: float) -> None:
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[OpData(key=key, value=value) for key, value in values.items()],
    )
    (result,) = ask(bootstrap, AlterClientQuotasRequest(entries=[entry]), AlterClientQuotasResponse).entries
    assert result.error_code == 0, result.error_message


def test_a_quota_is_there_after_kill_9(headrace_server: HeadraceServer) -> None:
    set_quota(headrace_server.kafka, "slow", producer_byte_rate=RATE, request_percentage=12.5)
    headrace_server.crash()
    headrace_server.restart()
    (found,) = ask(headrace_server.kafka, DescribeClientQuotasRequest(), DescribeClientQuotasResponse).entries
    assert {value.key: value.value for value in found.values} == {"producer_byte_rate": RATE, "request_percentage": 12.5}


def test_a_producer_is_told_to_pause_and_held_to_its_rate(headrace_server: HeadraceServer) -> None:
    bootstrap, client_id = headrace_server.kafka, "slow"
    set_quota(bootstrap, client_id, producer_byte_rate=RATE)
    pauses: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "batch.size": 20_000,
            "linger.ms": 0,
            "throttle_cb": lambda event: pauses.append(event.throttle_time),
        }
    )
    began = time.monotonic()
    for _ in range(RECORDS):
        producer.produce("t", b"x" * 1000, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert max(pauses) > 0
    # two windows, each of which may be full at once, and the batch that was above
    assert RATE * (time.monotonic() - began + 2) + 20_000 >= RECORDS * 1000


def test_a_consumer_is_told_to_pause_and_reads_everything(headrace_server: HeadraceServer) -> None:
    bootstrap, client_id = headrace_server.kafka, "slow"
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 20_000})
    for number in range(RECORDS):
        producer.produce("t", str(number).encode() + b"x" * 1000, partition=0)
    assert producer.flush(60) == 0
    set_quota(bootstrap, client_id, consumer_byte_rate=RATE)
    pauses: list[float] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "group.id": "g",
        "fetch.message.max.bytes": 50_000,
        "queued.max.messages.kbytes": 100,
        "throttle_cb": lambda event: pauses.append(event.throttle_time),
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("t", 0, 0)])
    read: list[bytes] = []

    def next_one() -> bool:
        record = consumer.poll(0.1)
        if record is not None and record.error() is None:
            read.append(record.value())
        return len(read) == RECORDS

    wait_until(next_one, timeout_s=60, what="all records")
    consumer.close()
    assert [int(value.rstrip(b"x")) for value in read] == list(range(RECORDS))
    assert max(pauses) > 0
