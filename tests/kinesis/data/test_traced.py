"""Batches of Kinesis's puts with the trace of their request in them."""

from __future__ import annotations

from headrace.kinesis.data.traced import with_trace
from headrace.record import Event, decode_batch, encode_batch

TRACE = (("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("tracestate", b"a=1"))
NOW_MS = 1_700_000_000_000


def test_each_record_has_it_behind_its_own_headers() -> None:
    own = (("kinesis.explicit-hash-key", b"7"),)
    batch = encode_batch([Event(b"a", b"1", own), Event(None, b"2")], now_ms=NOW_MS)
    records = decode_batch(with_trace(batch, TRACE, NOW_MS, 1_000_000))
    assert [(one.key, one.value, one.headers, one.timestamp_ms) for one in records] == [
        (b"a", b"1", own + TRACE, NOW_MS),
        (None, b"2", TRACE, NOW_MS),
    ]


def test_a_batch_that_would_get_too_long_stays_as_it_is() -> None:
    batch = encode_batch([Event(b"a", b"1")], now_ms=NOW_MS)
    traced = with_trace(batch, TRACE, NOW_MS, 1_000_000)
    assert with_trace(batch, TRACE, NOW_MS, len(traced)) == traced
    assert with_trace(batch, TRACE, NOW_MS, len(traced) - 1) is batch
