"""Puts within a trace: records of Kinesis have no headers, so theirs is that of the request, as over HTTP.

A request with a `traceparent` is rare, and pays for what it asks: its batches are written once more, with the headers in them.
A batch that would get too long for the topic with them stays without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.record import decode_batch, encode_records
from headrace.record.batch import wrap_records
from headrace.record.tracing import context_in, trace_in_request

if TYPE_CHECKING:
    from headrace.broker.spans import Attribute
    from headrace.broker.streams.stream import Stream
    from headrace.kinesis.service import RawCall
    from headrace.record.event import Header

SYSTEM = "aws.kinesis"


def trace_of(call: RawCall, stream: Stream, records: int) -> tuple[Header, ...]:
    """Headers for its records: the trace that it came with, or the span that it has here, where somebody collects those."""
    trace = trace_in_request(call.exchange.headers)
    spans = call.broker.spans
    if spans is None:
        return trace
    told: dict[str, Attribute] = {"messaging.batch.message_count": records, "rpc.method": call.name}
    call.span = spans.begin_publish(context_in(trace), SYSTEM, stream.name, told)
    return trace if call.span is None else call.span.context.headers


def with_trace(batch: bytearray, trace: tuple[Header, ...], now_ms: int, most: int) -> bytearray:
    records = decode_batch(batch, check_crc=False)
    payload = encode_records(
        (delta, 0, record.key, record.value, (*record.headers, *trace)) for delta, record in enumerate(records)
    )
    traced = wrap_records(payload, len(records), now_ms, now_ms)
    return traced if len(traced) <= most else batch
