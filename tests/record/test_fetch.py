"""Fetch in every version, against kio's reading of Kafka's schemas."""

from __future__ import annotations

import uuid
from types import ModuleType
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import Records

from headrace.record.errors import MalformedRequest

VERSIONS = range(4, 19)
ID = uuid.UUID("11111111-2222-3333-4444-555566667777")

PARTITIONS = [(0, 4, 2**40, 3, -1, 1_048_576), (2**31 - 1, -1, -1, -1, 7, 0)]
FORGOTTEN = [("gone", [1, 2, 3]), ("nothing", [])]


def request(oracle: Any, version: int, *, follower: bool = False) -> bytes:
    """`follower` fills the fields that only a replica uses."""
    schema = oracle.schema("fetch", version, "request")
    extra: dict[str, Any] = {}
    extra_partition: dict[str, Any] = {}
    if follower:
        extra = {"replica_id": 5, "cluster_id": "cluster"}
        extra_partition = {"replica_directory_id": ID, "high_watermark": 77}
        if version >= 15:
            extra["replica_state"] = schema.ReplicaState(replica_id=5, replica_epoch=9)
    topics = tuple(
        oracle.build(
            schema.FetchTopic,
            topic=name,
            topic_id=ID,
            partitions=tuple(
                oracle.build(
                    schema.FetchPartition,
                    partition=index,
                    current_leader_epoch=leader_epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=last_epoch,
                    log_start_offset=log_start,
                    partition_max_bytes=max_bytes,
                    **extra_partition,
                )
                for index, leader_epoch, offset, last_epoch, log_start, max_bytes in partitions
            ),
        )
        for name, partitions in (("one", PARTITIONS), ("zwölf", []))
    )
    forgotten: tuple[Any, ...] = ()
    if version >= 7:
        forgotten = tuple(
            oracle.build(schema.ForgottenTopic, topic=name, topic_id=ID, partitions=tuple(indexes))
            for name, indexes in FORGOTTEN
        )
    return oracle.body(
        oracle.build(
            schema.FetchRequest,
            max_wait=oracle.ms(500),
            min_bytes=1,
            max_bytes=52_428_800,
            isolation_level=1,
            session_id=1234,
            session_epoch=56,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id="räck",
            **extra,
        )
    )


def expected(version: int) -> tuple[Any, ...]:
    named = (lambda name: ID.bytes) if version >= 13 else (lambda name: name)
    partitions = [
        (
            index,
            leader_epoch if version >= 9 else -1,
            offset,
            last_epoch if version >= 12 else -1,
            log_start if version >= 5 else -1,
            max_bytes,
        )
        for index, leader_epoch, offset, last_epoch, log_start, max_bytes in PARTITIONS
    ]
    session = (1234, 56) if version >= 7 else (0, -1)
    forgotten = [(named(name), indexes) for name, indexes in FORGOTTEN] if version >= 7 else []
    return (500, 1, 52_428_800, 1, *session, [(named("one"), partitions), (named("zwölf"), [])], forgotten)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("follower", [False, True])
def test_every_version_of_the_request_is_read(twin: ModuleType, oracle: Any, version: int, follower: bool) -> None:
    body = request(oracle, version, follower=follower)
    framed = b"header" + body + b"trailer"
    for buf in (framed, bytearray(framed), memoryview(framed)):
        assert twin.parse_fetch(buf, 6, 6 + len(body), version) == expected(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_of_the_request_is_malformed(twin: ModuleType, oracle: Any, version: int) -> None:
    body = request(oracle, version)
    for cut in range(len(body)):
        with pytest.raises(MalformedRequest):
            twin.parse_fetch(body, 0, cut, version)


@pytest.mark.parametrize("version", [-1, 0, 3, 19, 99])
def test_versions_that_do_not_exist_are_refused(twin: ModuleType, version: int) -> None:
    with pytest.raises(MalformedRequest):
        twin.parse_fetch(bytes(100), 0, 100, version)
    with pytest.raises(ValueError, match="version"):
        twin.encode_fetch_response(version, 1, 0, 0, 0, [])


SMALL, LARGE = b"s" * 300, bytearray(b"l" * 4_000)
FETCHED: list[Any] = [
    (0, 0, 100, 90, 5, None, LARGE),
    (1, 0, 100, 90, 5, [], SMALL),
    (2, 0, 2**62, 2**62, 0, [(7, 50), (2**40, 60)], memoryview(LARGE)),
    (3, 1, -1, -1, -1, None, b""),
    (4, 3, -1, -1, -1, None, None),
    (5, 0, 100, 90, 5, None, LARGE),
]


def response(oracle: Any, version: int, partitions: list[Any], error: int = 0) -> Any:
    schema = oracle.schema("fetch", version, "response")
    return oracle.build(
        schema.FetchResponse,
        throttle_time=oracle.ms(3),
        error_code=ErrorCode(error),
        session_id=4321,
        responses=tuple(
            oracle.build(
                schema.FetchableTopicResponse,
                topic=name,
                topic_id=ID,
                partitions=tuple(
                    oracle.build(
                        schema.PartitionData,
                        partition_index=index,
                        error_code=ErrorCode(code),
                        high_watermark=high_watermark,
                        last_stable_offset=stable,
                        log_start_offset=log_start,
                        aborted_transactions=None
                        if aborted is None
                        else tuple(
                            schema.AbortedTransaction(producer_id=producer_id, first_offset=first)
                            for producer_id, first in aborted
                        ),
                        records=None if records is None else Records(bytes(records)),
                    )
                    for index, code, high_watermark, stable, log_start, aborted, records in partitions
                ),
            )
            for name in ("one", "zwölf")
        ),
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "partitions", [FETCHED, FETCHED[:1], FETCHED[1:2], [], FETCHED * 30], ids=["all", "large", "small", "none", "many"]
)
def test_every_version_of_the_response_has_kios_bytes(
    twin: ModuleType, oracle: Any, version: int, partitions: list[Any]
) -> None:
    topics = [(ID.bytes if version >= 13 else name, partitions) for name in ("one", "zwölf")]
    pieces = twin.encode_fetch_response(version, 77, 0, 4321, 3, topics)
    assert b"".join(pieces) == oracle.response(response(oracle, version, partitions), 77)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_of_the_session_answers_with_no_topics(twin: ModuleType, oracle: Any, version: int) -> None:
    schema = oracle.schema("fetch", version, "response")
    message = oracle.build(
        schema.FetchResponse, throttle_time=oracle.ms(0), error_code=ErrorCode(70), session_id=0, responses=()
    )
    assert b"".join(twin.encode_fetch_response(version, 5, 70, 0, 0, [])) == oracle.response(message, 5)


@pytest.mark.parametrize("version", VERSIONS)
def test_large_records_are_passed_through_uncopied(twin: ModuleType, version: int) -> None:
    topic = ID.bytes if version >= 13 else "one"
    pieces = twin.encode_fetch_response(version, 1, 0, 0, 0, [(topic, FETCHED)])
    assert sum(piece is LARGE for piece in pieces) == 2
    assert any(piece is FETCHED[2][6] for piece in pieces)
    small = twin.encode_fetch_response(version, 1, 0, 0, 0, [(topic, FETCHED[1:2])])
    assert len(small) == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("which", range(len(FETCHED)))
def test_a_partition_header_is_what_stands_before_the_records(twin: ModuleType, version: int, which: int) -> None:
    *fields, records = FETCHED[which]
    length = -1 if records is None else len(records)
    header = twin.fetch_partition_header(version, *fields, length)
    tail = b"" if version < 12 else b"\0\0\0"
    whole = b"".join(twin.encode_fetch_response(version, 1, 0, 0, 0, [(ID.bytes if version >= 13 else "t", [FETCHED[which]])]))
    assert whole.endswith(header + bytes(records or b"") + tail)
