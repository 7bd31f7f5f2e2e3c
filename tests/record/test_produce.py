"""Produce in every version, against kio's reading of Kafka's schemas."""

from __future__ import annotations

import datetime
import uuid
from types import ModuleType
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import Records

from headrace.record.errors import MalformedRequest

VERSIONS = range(3, 14)
ID = uuid.UUID("11111111-2222-3333-4444-555566667777")


def request(oracle: Any, version: int, transactional_id: str | None, topics: list[Any], acks: int = -1) -> bytes:
    schema = oracle.schema("produce", version, "request")
    return oracle.body(
        oracle.build(
            schema.ProduceRequest,
            transactional_id=transactional_id,
            acks=acks,
            timeout=oracle.ms(30_000),
            topic_data=tuple(
                oracle.build(
                    schema.TopicProduceData,
                    name=name,
                    topic_id=ID,
                    partition_data=tuple(
                        oracle.build(
                            schema.PartitionProduceData,
                            index=index,
                            records=None if records is None else Records(records),
                        )
                        for index, records in partitions
                    ),
                )
                for name, partitions in topics
            ),
        )
    )


TOPICS: list[Any] = [
    ("one", [(0, b"records of zero"), (2**31 - 1, b"")]),
    ("zwölf", []),
    ("t" * 300, [(7, None), (-1, b"x" * 5_000)]),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "", "tränsaction"])
def test_every_version_of_the_request_is_read(
    twin: ModuleType, oracle: Any, version: int, transactional_id: str | None
) -> None:
    body = request(oracle, version, transactional_id, TOPICS)
    framed = b"header" + body + b"trailer"
    for buf in (framed, bytearray(framed), memoryview(framed)):
        parsed_id, acks, timeout_ms, topics = twin.parse_produce(buf, 6, 6 + len(body), version)
        assert (parsed_id, acks, timeout_ms) == (transactional_id, -1, 30_000)
        assert [
            (name, [(index, None if start == -1 else bytes(buf[start:end])) for index, start, end in partitions])
            for name, partitions in topics
        ] == [(ID.bytes if version >= 13 else name, partitions) for name, partitions in TOPICS]
        assert topics[2][1][0] == (7, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_of_the_request_is_malformed(twin: ModuleType, oracle: Any, version: int) -> None:
    body = request(oracle, version, "id", [("one", [(0, b"records")])])
    for cut in range(len(body)):
        with pytest.raises(MalformedRequest):
            twin.parse_produce(body, 0, cut, version)
        with pytest.raises(MalformedRequest):
            twin.parse_produce(body[:cut], 0, cut, version)


@pytest.mark.parametrize("version", [-1, 0, 2, 14, 99])
def test_versions_that_do_not_exist_are_refused(twin: ModuleType, version: int) -> None:
    with pytest.raises(MalformedRequest):
        twin.parse_produce(bytes(100), 0, 100, version)
    with pytest.raises(ValueError, match="version"):
        twin.encode_produce_response(version, 1, [], 0)


@pytest.mark.parametrize("tags", ["0100" + "00", "02" + "0003616263" + "ffffffff0f00"])
def test_unknown_tagged_fields_are_passed_over(twin: ModuleType, oracle: Any, tags: str) -> None:
    body = request(oracle, 9, None, [])
    assert body[-1] == 0
    extended = body[:-1] + bytes.fromhex(tags)
    assert twin.parse_produce(extended, 0, len(extended), 9) == twin.parse_produce(body, 0, len(body), 9)


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (3, "ffff" + "ffff" + "00000000" + "7fffffff"),  # two billion topics
        (3, "ffff" + "ffff" + "00000000" + "ffffffff"),  # no array of topics
        (3, "ffff" + "ffff" + "00000000" + "00000001" + "ffff" + "00000000"),  # a topic without a name
        (3, "7fff" + "00" * 20),  # a transactional id longer than the request
        (3, "0002" + "c328" + "ffff" + "00000000" + "00000000"),  # not UTF-8
        (9, "00" + "ffff" + "00000000" + "ffffffff0f" + "00"),  # four billion topics
        (9, "00" + "ffff" + "00000000" + "8080808080" + "00"),  # a varint that goes on
        (9, "00" + "ffff" + "00000000" + "01" + "ffffffff0f"),  # four billion tagged fields
        (9, "00" + "ffff" + "00000000" + "01" + "0100ffffffff07"),  # one of two gigabytes
    ],
)
def test_lengths_that_lie_are_malformed(twin: ModuleType, version: int, body: str) -> None:
    data = bytes.fromhex(body)
    with pytest.raises(MalformedRequest):
        twin.parse_produce(data, 0, len(data), version)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, 11), (6, 5)])
def test_a_range_outside_the_buffer_is_malformed(twin: ModuleType, start: int, end: int) -> None:
    with pytest.raises(MalformedRequest):
        twin.parse_produce(bytes(10), start, end, 9)
    with pytest.raises(MalformedRequest):
        twin.parse_fetch(bytes(10), start, end, 9)


RESULTS: list[Any] = [
    (0, 0, 12_345_678_901, -1, 5, None, ()),
    (2**31 - 1, 2, -1, 1_700_000_000_123, -1, "one of the récords is corrupt", ()),
    (3, 87, -1, -1, 0, "", [(0, "no key"), (2**31 - 1, "no kéy either")]),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("results", [RESULTS, RESULTS[:1], [], RESULTS * 40], ids=["three", "one", "none", "many"])
def test_every_version_of_the_response_has_kios_bytes(twin: ModuleType, oracle: Any, version: int, results: list[Any]) -> None:
    schema = oracle.schema("produce", version, "response")
    message = oracle.build(
        schema.ProduceResponse,
        throttle_time=oracle.ms(17),
        responses=tuple(
            oracle.build(
                schema.TopicProduceResponse,
                name=name,
                topic_id=ID,
                partition_responses=tuple(
                    oracle.build(
                        schema.PartitionProduceResponse,
                        index=index,
                        error_code=ErrorCode(error),
                        base_offset=base_offset,
                        log_append_time=moment(append_time),
                        log_start_offset=log_start,
                        record_errors=tuple(
                            oracle.build(schema.BatchIndexAndErrorMessage, batch_index=place, batch_index_error_message=fault)
                            for place, fault in faults
                        )
                        if version >= 8
                        else (),
                        error_message=text,
                    )
                    for index, error, base_offset, append_time, log_start, text, faults in results
                ),
            )
            for name in ("one", "zwölf")
        ),
    )
    topics = [(ID.bytes if version >= 13 else name, results) for name in ("one", "zwölf")]
    assert twin.encode_produce_response(version, 99, topics, 17) == oracle.response(message, 99)


def moment(ms: int) -> datetime.datetime | None:
    if ms == -1:
        return None
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=ms)


def test_a_topic_is_named_as_the_version_demands(twin: ModuleType) -> None:
    for version, topic in ((13, "name"), (13, b"short"), (9, ID.bytes), (12, 5)):
        with pytest.raises(ValueError, match="names topics"):
            twin.encode_produce_response(version, 1, [(topic, [])], 0)
    with pytest.raises(ValueError, match="too long"):
        twin.encode_produce_response(9, 1, [("t" * 32_768, [])], 0)
