"""Batches as kafka-python and aiokafka read and write them: every header field and every record, both ways."""

from __future__ import annotations

from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest

from headrace.record import twin
from headrace.record.batch import TimestampType, check_batch, decode_batch, encode_batch
from headrace.record.compression import Compression
from headrace.record.event import Event

NOW = 1_700_000_000_000
EVENTS = [
    Event(b"key", b"value", (("trace", b"abc"), ("empty", b""), ("null", None)), NOW),
    Event(None, None, (), NOW + 70_000),
    Event(b"", b"", (), NOW - 1),
    *(Event(b"k%d" % i, b"some value " * i, (("näme", b"x"),), NOW + i) for i in range(400)),
]
# kafka-python has gzip from the standard library only; the others need libraries that are not installed for tests.
READERS = [
    pytest.param(kafka_python_records, Compression.NONE, id="kafka-python-none"),
    pytest.param(kafka_python_records, Compression.GZIP, id="kafka-python-gzip"),
    *(pytest.param(aiokafka_records, c, id=f"aiokafka-{c.name.lower()}") for c in Compression),
]


def plain(record: Any) -> tuple[Any, ...]:
    headers = tuple((name, None if content is None else bytes(content)) for name, content in record.headers)
    key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
    return record.offset, record.timestamp, key, value, headers


@pytest.mark.parametrize(("reader", "compression"), READERS)
def test_ours_is_read_by(reader: Any, compression: Compression) -> None:
    batch = encode_batch(EVENTS, base_offset=1_000, compression=compression, producer_id=9, producer_epoch=1, base_sequence=44)
    read = reader.DefaultRecordBatch(bytes(batch))
    assert read.validate_crc()
    assert (read.base_offset, read.last_offset_delta, read.producer_id, read.producer_epoch, read.base_sequence) == (
        1_000, len(EVENTS) - 1, 9, 1, 44,
    )  # fmt: skip
    assert (read.first_timestamp, read.max_timestamp) == (NOW, NOW + 70_000)
    assert [plain(record) for record in read] == [
        (1_000 + i, e.timestamp_ms, e.key, e.value, e.headers) for i, e in enumerate(EVENTS)
    ]


@pytest.mark.parametrize(("reader", "compression"), READERS)
def test_append_time_is_read_by(reader: Any, compression: Compression) -> None:
    batch = encode_batch(EVENTS, compression=compression, timestamp_type=TimestampType.LOG_APPEND_TIME, now_ms=NOW + 5_000_000)
    records = list(reader.DefaultRecordBatch(bytes(batch)))
    assert {record.timestamp for record in records} == {NOW + 5_000_000}
    assert {record.timestamp_type for record in records} == {1}


@pytest.mark.parametrize(("writer", "compression"), READERS)
def test_theirs_is_read_by_us(writer: Any, compression: Compression) -> None:
    builder = writer.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(compression),
        is_transactional=True,
        producer_id=123,
        producer_epoch=4,
        base_sequence=5,
        batch_size=10_000_000,
    )
    for i, e in enumerate(EVENTS):
        builder.append(i, timestamp=e.timestamp_ms, key=e.key, value=e.value, headers=list(e.headers))
    batch = bytes(builder.build())
    assert twin.check_batch(batch, 0, len(batch))[4:] == (123, 4, 5, len(EVENTS))
    header = check_batch(batch)
    assert header.transactional
    assert header.compression == compression
    assert [record.event for record in decode_batch(batch)] == EVENTS
