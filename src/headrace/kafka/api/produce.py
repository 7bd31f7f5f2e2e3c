"""Produce, versions 3 to 13: the hot way in. Written by hand: parsed in place, no object for a record or a field. Nearly every
request is one batch for one partition and takes the short way, `handle_sole`; it is answered as `handle` would have done.

Behaviour: one batch for each partition, checked, stamped and appended; `acks=0` is not answered (an error closes the
connection, as the only way to tell), `acks=1` after the write, `acks=all` when every partition written to is as durable as
its topic promises. A request that names an unknown topic still writes the others. `min.insync.replicas` above the number of
replicas there are counts as that number, one, as in Apache Kafka. Batches of a transaction must be admitted by its coordinator
first (`kafka.transactional_produce`).

Versions: 3 transactional ids and batches v2 (KIP-98) · 5 log start offset · 7 zstd (KIP-110) · 8 error texts (KIP-467) ·
9 flexible (KIP-482) · 10 leader hints (KIP-951; one node has none to give) · 11 TRANSACTION_ABORTABLE · 12 transactions V2
(KIP-890) · 13 topic ids (KIP-516).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of
from headrace.kafka.transactional_produce import ATTRIBUTES_AT, TRANSACTIONAL, refusals
from headrace.log.errors import LogError, RecordsRefused
from headrace.log.port import Durability, Partition, Topic
from headrace.record.twin import encode_produce_response, encode_sole_answer, parse_produce

if TYPE_CHECKING:
    from headrace.broker.spans import Span
    from headrace.kafka.connection import KafkaConnection
    from headrace.record.pure.produce import ProducedPartition, SoleBatch

MAX_FAULTS = 1000  # told of one batch; of the records behind them a client says that they were in a batch that was refused

_FSYNC = Durability.FSYNC
_ZSTD = 4
_TOPIC_IDS_SINCE = 13
_ZSTD_SINCE = 7
_RECORD_COUNT, _RECORD_COUNT_AT = Struct(">i"), 57  # in a batch
_HEAD_BYTES = 61


def handle_sole(connection: KafkaConnection, view: memoryview, sole: SoleBatch) -> bool:
    """The short way of nearly every request: one sound batch for one partition is written and answered. False, and nothing is
    done, when it is to be refused: then `handle` says why."""
    version, correlation, acks, name, index, first, last, checked = sole
    log = connection.broker.log
    topic = log.topics().get(name) if isinstance(name, str) else log.topic_by_id(UUID(bytes=name))
    if topic is None or topic.internal or not 0 <= index < len(topic.partitions) or not -1 <= acks <= 1:
        return False
    partition = topic.partitions[index]
    spans = connection.broker.spans
    span = None if spans is None else spans.begin_batch("kafka", partition.topic, index, view[first:last], checked[7])
    try:
        base = partition.append_checked(view[first:last], checked, waits=acks == -1)
    except LogError as refused:
        if span is not None:
            _end_span(connection, span, type(refused).__name__)
        if acks == 0:
            connection.refuse("a produce with acks=0 failed")
        else:
            failed = _failed(partition, refused)
            connection.respond((encode_produce_response(version, correlation, [(name, [failed])], 0),))
        return True
    traffic = connection.listener.traffic
    traffic.bytes_in[partition.topic] += last - first
    traffic.records_in += checked[7]
    if acks == 0:
        if span is not None:
            _end_span(connection, span)
        return True
    answer = encode_sole_answer(version, correlation, name, index, base, partition.append_time_ms, partition.start_offset)
    if acks == 1 or partition.durability is not _FSYNC:
        connection.respond((answer,))
        if span is not None:
            _end_span(connection, span)
        return True
    slot = connection.take_slot()
    connection.listener.attention.watch_disk()

    def synced(error: Exception | None) -> None:
        if span is not None:
            _end_span(connection, span, None if error is None else type(error).__name__)
        if error is None:
            connection.respond((answer,), slot)
        else:
            failed = (index, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(error), ())
            connection.respond((encode_produce_response(version, correlation, [(name, [failed])], 0),), slot)

    log.after_sync(synced)
    return True


def _end_span(connection: KafkaConnection, span: Span, error: str | None = None) -> None:
    spans = connection.broker.spans
    assert spans is not None
    spans.end(span, error)


def handle(connection: KafkaConnection, view: memoryview, start: int, end: int, version: int, correlation: int) -> None:
    log = connection.broker.log
    transactional_id, acks, _, topics = parse_produce(view, start, end, version)
    outside = refusals(connection.broker, transactional_id, version, topics, view) if transactional_id is not None else None
    traffic = connection.listener.traffic
    came = traffic.bytes_in
    waits = failed = False
    spans = connection.broker.spans
    span: Span | None = None
    answers: list[tuple[str | bytes, list[ProducedPartition]]] = []
    for name, partitions in topics:
        topic = log.topics().get(name) if isinstance(name, str) else log.topic_by_id(UUID(bytes=name))
        results: list[ProducedPartition] = []
        answers.append((name, results))
        for index, first, last in partitions:
            error = _refusal(topic, index, acks, version, view, first, last)
            if outside is None:
                if not error and last - first > ATTRIBUTES_AT and view[first + ATTRIBUTES_AT] & TRANSACTIONAL:
                    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            elif outside and not error:
                error = outside.get((name, index), 0)
            if error or topic is None:
                failed = True
                results.append((index, error, -1, -1, -1, None, ()))
                continue
            partition = topic.partitions[index]
            if spans is not None and len(answers) == 1 and not results:
                records = _RECORD_COUNT.unpack_from(view, first + _RECORD_COUNT_AT)[0] if last - first >= _HEAD_BYTES else 0
                span = spans.begin_batch("kafka", partition.topic, index, view[first:last], records)
            try:
                base = partition.append(view[first:last], waits=acks == -1)
            except LogError as refused:
                failed = True
                results.append(_failed(partition, refused))
                continue
            came[partition.topic] += last - first
            traffic.records_in += _RECORD_COUNT.unpack_from(view, first + _RECORD_COUNT_AT)[0]
            if partition.durability is _FSYNC:
                waits = True
            results.append((index, 0, base, partition.append_time_ms, partition.start_offset, None, ()))
    throttle_ms = connection.throttle.ticket.produced(acks) if connection.throttle is not None else 0
    if span is not None and not (acks == -1 and waits):
        _end_span(connection, span, "refused" if failed else None)
    if acks == 1 or (acks == -1 and not waits):
        connection.respond((encode_produce_response(version, correlation, answers, throttle_ms),))
    elif acks == 0:
        if failed:
            connection.refuse("a produce with acks=0 failed")
    elif acks == -1:
        slot = connection.take_slot()

        def synced(error: Exception | None) -> None:
            if span is not None:
                _end_span(connection, span, type(error).__name__ if error is not None else "refused" if failed else None)
            if error is not None:
                _fail_all(answers, error)
            connection.respond((encode_produce_response(version, correlation, answers, throttle_ms),), slot)

        log.after_sync(synced)
    else:
        connection.respond((encode_produce_response(version, correlation, answers, throttle_ms),))


def _refusal(topic: Topic | None, index: int, acks: int, version: int, view: memoryview, first: int, last: int) -> int:
    """Why a batch is not even looked at, or 0."""
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID if version >= _TOPIC_IDS_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not -1 <= acks <= 1:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if topic.internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if first < 0:
        return ErrorCode.INVALID_RECORD
    if version < _ZSTD_SINCE and last - first > ATTRIBUTES_AT and view[first + ATTRIBUTES_AT] & 7 == _ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return 0


def _failed(partition: Partition, refused: LogError) -> ProducedPartition:
    faults = refused.faults if isinstance(refused, RecordsRefused) else ()
    return (partition.index, code_of(refused), -1, -1, partition.start_offset, str(refused), faults[:MAX_FAULTS])


def _fail_all(answers: list[tuple[str | bytes, list[ProducedPartition]]], error: Exception) -> None:
    """The disk did not keep what was written: nothing of this request is acknowledged."""
    for _, results in answers:
        for number, answer in enumerate(results):
            if answer[1] == 0:
                results[number] = (answer[0], ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(error), ())
