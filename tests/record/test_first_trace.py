"""The trace of the first record of a batch, from its bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record import Compression, Event, encode_batch
from headrace.record.first_trace import MAX_HEADERS, first_context
from headrace.record.tracing import Context

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = Context("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1)
TRACE = (("traceparent", PARENT), ("tracestate", b"a=1"))


@pytest.mark.parametrize(
    ("key", "value"), [(None, None), (b"", b""), (b"k", b"v" * 100), (b"k" * 300, b"v" * 70_000), (b"traceparent", PARENT)]
)
def test_it_is_found_whatever_stands_before_it(key: bytes | None, value: bytes | None) -> None:
    batch = encode_batch([Event(key, value, (("other", None), *TRACE)), Event(b"x", b"y")], now_ms=1)
    assert first_context(memoryview(batch)) == CONTEXT._replace(state=b"a=1")


@pytest.mark.parametrize(
    "first",
    [
        Event(b"k", b"v"),
        Event(b"traceparent", PARENT),
        Event(b"k", b"v", (("traceparent", b"nonsense"),)),
        Event(b"k", b"v", (("traceparent", None), ("tracestate", b"a=1"))),
        Event(b"k", b"v", (*((f"h{number}", b"") for number in range(MAX_HEADERS)), *TRACE)),
    ],
)
def test_there_is_none_in_others_and_that_of_later_records_does_not_count(first: Event) -> None:
    assert first_context(encode_batch([first, Event(b"x", b"y", TRACE)], now_ms=1)) is None


def test_a_compressed_batch_is_not_looked_into() -> None:
    assert first_context(encode_batch([Event(b"k", b"v", TRACE)], now_ms=1, compression=Compression.GZIP)) is None


@given(st.binary(max_size=200), st.integers(0, 200), st.binary(max_size=20))
def test_no_bytes_break_it(junk: bytes, at: int, more: bytes) -> None:
    batch = bytearray(encode_batch([Event(b"k", b"v", TRACE)], now_ms=1))
    batch[at : at + len(more)] = more
    first_context(batch)
    first_context(bytes(61) + junk)
