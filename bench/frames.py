"""Whole requests, built beforehand, for loadgen to replay and for the few that Python sends itself.

Produce is version 9 and Fetch version 12: flexible versions that still name topics instead of ids.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.kafka.codec.framing import frame
from headrace.kafka.codec.headers import RequestHeader, decode_response_header, encode_request_header
from headrace.kafka.codec.schema import Request, decode, encode
from headrace.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.kafka.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from headrace.record.batch import encode_batch
from headrace.record.event import Event

PRODUCE_VERSION = 9
FETCH_VERSION = 12
RECORD_BYTES = 100


@dataclass(frozen=True, slots=True)
class Batch:
    data: bytes
    records: int


@dataclass(frozen=True, slots=True)
class ProduceFrame:
    data: bytes
    partitions: int
    records: int  # in all of its partitions


@dataclass(frozen=True, slots=True)
class FetchFrame:
    data: bytes
    offset_at: int  # where the fetch offset stands


def batch(records: int, record_bytes: int = RECORD_BYTES) -> Batch:
    """Records with values that do not compress, the same ones every time."""
    return _batch_of_sizes([record_bytes] * records)


def batch_of(total_bytes: int, record_bytes: int = RECORD_BYTES) -> Batch:
    """A batch of `total_bytes` or a few bytes less: records of `record_bytes`, the last one longer."""
    empty = len(batch(1, 0).data)
    each = (len(batch(100, record_bytes).data) - empty) / 100
    sizes = [record_bytes] * max(1, int((total_bytes - empty) / (each + 1)))
    made = _batch_of_sizes(sizes)
    while len(made.data) < total_bytes - 3:
        sizes[-1] += total_bytes - 3 - len(made.data)
        longer = _batch_of_sizes(sizes)
        if len(longer.data) > total_bytes:
            break
        made = longer
    return made


def produce(topic: str, records: Batch, *, partitions: Sequence[int] = (0,), acks: int = 1) -> ProduceFrame:
    """One request that brings the same batch to each of the partitions."""
    parts = [PartitionProduceData(index=index, records=records.data) for index in partitions]
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=parts)])
    return ProduceFrame(framed(request, PRODUCE_VERSION), len(parts), len(parts) * records.records)


def fetch(topic: str, *, partition: int = 0, max_bytes: int) -> FetchFrame:
    """A fetch outside any session. It waits half a second at the end of the log, as clients do."""
    low, high = (_fetch_data(topic, partition, max_bytes, offset) for offset in (0, (1 << 64) - 1))
    first = next(at for at in range(len(low)) if low[at] != high[at])
    return FetchFrame(low, first)


def _fetch_data(topic: str, partition: int, max_bytes: int, offset: int) -> bytes:
    signed = offset - (1 << 64) if offset >> 63 else offset
    wanted = FetchPartition(partition=partition, fetch_offset=signed, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    return framed(request, FETCH_VERSION)


def _batch_of_sizes(sizes: Sequence[int]) -> Batch:
    noise = random.Random(1)
    events = [Event(value=noise.randbytes(size)) for size in sizes]
    return Batch(bytes(encode_batch(events, now_ms=int(time.time() * 1000))), len(events))


def framed(request: Request, version: int) -> bytes:
    header = RequestHeader(request.api_key, version, 0, "bench")
    return bytes(frame(encode_request_header(header, flexible=True), encode(request, version)))


# --- for the few requests that are sent from Python ---


def exchange(host: str, port: int, request: bytes, *, timeout_s: float = 5) -> bytes:
    """Sends one request on a connection of its own and returns the answer without its length. Raises OSError."""
    with socket.create_connection((host, port), timeout_s) as link:
        link.sendall(request)
        with link.makefile("rb") as stream:
            length = int.from_bytes(_read(stream.read(4), 4), "big")
            return _read(stream.read(length), length)


def _read(data: bytes, wanted: int) -> bytes:
    if len(data) < wanted:
        raise ConnectionError("closed before the answer")
    return data


def is_acknowledged(answer: bytes) -> bool:
    """Whether every partition of a produce answer is free of errors."""
    _, start = decode_response_header(answer, flexible=True)
    said = decode(ProduceResponse, PRODUCE_VERSION, answer, start)
    return all(part.error_code == 0 for topic in said.responses for part in topic.partition_responses)
