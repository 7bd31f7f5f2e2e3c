"""The markers that end a transaction."""

from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatch

from headrace.record.batch import Record, check_batch, decode_batch
from headrace.record.control import ControlType, EndTransactionMarker, control_type, encode_marker, read_marker
from headrace.record.errors import CorruptBatch


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_read_back(commit: bool) -> None:
    marker = EndTransactionMarker(commit, coordinator_epoch=17)
    batch = encode_marker(marker, producer_id=4_000, producer_epoch=3, now_ms=1_700_000_000_000, base_offset=50)
    header = check_batch(batch)
    assert header.control
    assert header.transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (4_000, 3, -1, 1)
    (record,) = decode_batch(batch)
    assert read_marker(record) == marker
    assert control_type(record) is (ControlType.COMMIT if commit else ControlType.ABORT)
    assert (record.key, record.value) == (bytes([0, 0, 0, commit]), bytes([0, 0, 0, 0, 0, 17]))


@pytest.mark.parametrize("commit", [True, False])
def test_kafka_python_sees_the_same(commit: bool) -> None:
    batch = encode_marker(EndTransactionMarker(commit, 1), producer_id=1, producer_epoch=0, now_ms=5)
    theirs = DefaultRecordBatch(bytes(batch))
    assert theirs.is_control_batch
    (record,) = list(theirs)
    assert (record.commit, record.abort) == (commit, not commit)


def test_kinds_from_the_future_are_passed_over() -> None:
    assert read_marker(Record(0, 0, b"\0\0\0\2", b"anything")) is None
    assert control_type(Record(0, 0, b"\0\1\0\1more", None)) is ControlType.COMMIT


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\0", b"\xff\xff\0\0\0\0"),
    ],
)
def test_malformed_markers_are_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        read_marker(Record(0, 0, key, value))
