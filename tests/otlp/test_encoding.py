"""Spans as OTLP has them in JSON."""

from __future__ import annotations

import json

from headrace import __version__
from headrace.broker.spans import Kind, Span
from headrace.otlp.encoding import encode_some, request_of
from headrace.record.tracing import Context

TRACE_ID, SPAN_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7", "b7ad6b7169203331"


def test_a_batch_without_spans_asks_only_whether_somebody_is_there() -> None:
    assert json.loads(request_of([], {"service.name": "x"})) == {"resourceSpans": []}


def test_a_span_has_hexadecimal_ids_and_numbers_of_64_bits_as_texts() -> None:
    attributes = {"text": "é", "count": 2**40, "flag": True, "share": 0.5}
    span = Span("publish orders", Kind.SERVER, Context(TRACE_ID, SPAN_ID, 1, b"a=1"), PARENT_ID, 10**18, attributes)
    span.end_ns = 10**18 + 5
    told = json.loads(request_of([encode_some([span])], {"service.name": "headrace"}))
    (resource,) = told["resourceSpans"]
    assert resource["resource"] == {"attributes": [{"key": "service.name", "value": {"stringValue": "headrace"}}]}
    (scope,) = resource["scopeSpans"]
    assert scope["scope"] == {"name": "headrace", "version": __version__}
    assert scope["spans"] == [
        {
            "traceId": TRACE_ID,
            "spanId": SPAN_ID,
            "parentSpanId": PARENT_ID,
            "traceState": "a=1",
            "flags": 0x301,
            "name": "publish orders",
            "kind": 2,
            "startTimeUnixNano": "1000000000000000000",
            "endTimeUnixNano": "1000000000000000005",
            "attributes": [
                {"key": "text", "value": {"stringValue": "é"}},
                {"key": "count", "value": {"intValue": "1099511627776"}},
                {"key": "flag", "value": {"boolValue": True}},
                {"key": "share", "value": {"doubleValue": 0.5}},
            ],
        }
    ]


def test_a_span_that_failed_and_one_that_begins_a_trace() -> None:
    span = Span("x", Kind.CLIENT, Context(TRACE_ID, SPAN_ID, 1), "", 1, {})
    span.error, span.message = "503", "HTTP 503 \udcff"
    (told,) = json.loads(b"[%b]" % encode_some([span]))
    assert told["status"] == {"code": 2, "message": "HTTP 503 ?"}
    assert told["attributes"] == [{"key": "error.type", "value": {"stringValue": "503"}}]
    assert told["flags"] == 0x101
    assert "parentSpanId" not in told
    assert "traceState" not in told


def test_parts_of_a_batch_are_one_request() -> None:
    spans = [Span(f"{number}", Kind.CLIENT, Context(TRACE_ID, SPAN_ID, 1), "", 1, {}) for number in range(3)]
    told = json.loads(request_of([encode_some(spans[:2]), encode_some(spans[2:])], {}))
    assert [span["name"] for span in told["resourceSpans"][0]["scopeSpans"][0]["spans"]] == ["0", "1", "2"]
