from __future__ import annotations

import pytest

from bench import frames
from headrace.kafka.codec.headers import decode_request_header, encode_response_header, skip_header_tags
from headrace.kafka.codec.schema import decode, encode
from headrace.kafka.messages.fetch import FetchRequest
from headrace.kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headrace.record.batch import decode_batch


def body_of(data: bytes) -> tuple[int, int, bytes]:
    """API key, version and body of a request with its length in front."""
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    header, position = decode_request_header(data, 4)
    return header.api_key, header.api_version, data[skip_header_tags(data, position) :]


def test_a_produce_frame_brings_the_batch_to_each_partition() -> None:
    batch = frames.batch(3, 50)
    made = frames.produce("orders", batch, partitions=[4, 7], acks=-1)
    key, version, body = body_of(made.data)
    request = decode(ProduceRequest, version, body)
    assert (key, request.acks, made.partitions, made.records) == (0, -1, 2, 6)
    [topic] = request.topic_data
    assert [(part.index, bytes(part.records or b"")) for part in topic.partition_data] == [(4, batch.data), (7, batch.data)]


def test_a_batch_has_the_records_it_says() -> None:
    batch = frames.batch(5, 100)
    assert [len(record.value or b"") for record in decode_batch(batch.data)] == [100] * 5


@pytest.mark.parametrize("total", [500, 16_384, 65_536, 1 << 20])
def test_a_batch_of_a_given_size_is_never_larger_and_hardly_smaller(total: int) -> None:
    batch = frames.batch_of(total)
    assert total - 8 <= len(batch.data) <= total
    assert len(decode_batch(batch.data)) == batch.records


def test_the_fetch_offset_stands_where_the_frame_says() -> None:
    made = frames.fetch("orders", partition=3, max_bytes=4096)
    patched = bytearray(made.data)
    patched[made.offset_at : made.offset_at + 8] = (123_456_789_012).to_bytes(8, "big")
    key, version, body = body_of(bytes(patched))
    [topic] = decode(FetchRequest, version, body).topics
    [part] = topic.partitions
    assert (key, part.partition, part.fetch_offset, part.partition_max_bytes) == (1, 3, 123_456_789_012, 4096)


@pytest.mark.parametrize(("code", "acknowledged"), [(0, True), (3, False)])
def test_only_an_answer_without_errors_is_an_acknowledgement(code: int, acknowledged: bool) -> None:
    parts = [PartitionProduceResponse(index=0, error_code=code)]
    answer = ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=parts)])
    data = encode_response_header(0, flexible=True) + encode(answer, frames.PRODUCE_VERSION)
    assert frames.is_acknowledged(bytes(data)) is acknowledged
