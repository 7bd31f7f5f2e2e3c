"""Produce, versions 3 to 13: the hot way in. Written by hand: parsed in place, no object for a record or a field.

Behaviour: one batch for each partition, checked, stamped and appended; `acks=0` is not answered (an error closes the
connection, as the only way to tell), `acks=1` after the write, `acks=all` when every partition written to is as durable as
its topic promises. A request that names an unknown topic still writes the others. More than one node's worth of
`min.insync.replicas` is refused for `acks=all`, as Apache Kafka does.

Versions: 3 transactional ids and batches v2 (KIP-98) · 5 log start offset · 7 zstd (KIP-110) · 8 error texts (KIP-467) ·
9 flexible (KIP-482) · 10 leader hints (KIP-951; one node has none to give) · 11, 12 transactions (KIP-890) ·
13 topic ids (KIP-516).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of
from headrace.log.errors import LogError
from headrace.log.port import Durability
from headrace.record.twin import encode_produce_response, parse_produce

if TYPE_CHECKING:
    from headrace.kafka.connection import KafkaConnection

Answer = tuple[int, int, int, int, int, str | None]  # partition, error, base offset, append time, start offset, text

_OK = 0
_ZSTD = 4
_TOPIC_IDS_SINCE = 13
_ZSTD_SINCE = 7


def handle(connection: KafkaConnection, view: memoryview, start: int, end: int, version: int, correlation: int) -> None:
    log = connection.broker.log
    _, acks, _, topics = parse_produce(view, start, end, version)
    waits = False
    failed = False
    answers: list[tuple[str | bytes, list[Answer]]] = []
    for name, partitions in topics:
        known = log.topic_by_id(UUID(bytes=name)) if isinstance(name, bytes) else log.topics().get(name)
        results: list[Answer] = []
        for index, first, last in partitions:
            error, text = _OK, None
            if known is None:
                error = ErrorCode.UNKNOWN_TOPIC_ID if version >= _TOPIC_IDS_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif not 0 <= index < len(known.partitions):
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif acks not in (-1, 0, 1):
                error = ErrorCode.INVALID_REQUIRED_ACKS
            elif known.internal:
                error = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif first < 0:
                error = ErrorCode.INVALID_RECORD
            elif version < _ZSTD_SINCE and last - first > 22 and view[first + 22] & 7 == _ZSTD:
                error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            if error:
                failed = True
                results.append((index, error, -1, -1, -1, text))
                continue
            assert known is not None
            partition = known.partitions[index]
            if acks == -1 and partition.copies_wanted > 1:
                failed = True
                results.append((index, ErrorCode.NOT_ENOUGH_REPLICAS, -1, -1, -1, None))
                continue
            try:
                base = partition.append(view[first:last])
            except LogError as refused:
                failed = True
                results.append((index, code_of(refused), -1, -1, partition.start_offset, str(refused)))
                continue
            if partition.durability is Durability.FSYNC:
                waits = True
            results.append((index, _OK, base, partition.append_time_ms, partition.start_offset, None))
        answers.append((name, results))
    if acks == 0:
        if failed:
            connection.refuse("a produce with acks=0 failed")
    elif acks == -1 and waits:
        slot = connection.take_slot()

        def synced(error: Exception | None) -> None:
            if error is not None:
                _fail_all(answers, error)
            connection.respond((encode_produce_response(version, correlation, answers, 0),), slot)

        log.after_sync(synced)
    else:
        connection.respond((encode_produce_response(version, correlation, answers, 0),))


def _fail_all(answers: list[tuple[str | bytes, list[Answer]]], error: Exception) -> None:
    """The disk did not keep what was written: nothing of this request is acknowledged."""
    for _, results in answers:
        for number, answer in enumerate(results):
            if answer[1] == _OK:
                results[number] = (answer[0], ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(error))
