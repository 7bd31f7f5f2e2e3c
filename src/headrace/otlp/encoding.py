"""Spans as OTLP has them in JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): an
ExportTraceServiceRequest in which ids are hexadecimal, 64-bit numbers are texts and enumerations are numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headrace import __version__
from headrace.broker.spans import Attribute, Span

_SCOPE = {"name": "headrace", "version": __version__}
_ERROR = 2
# SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK, and SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK: parents came in a request or a record
_REMOTE_KNOWN, _REMOTE = 0x100, 0x200

_encode = msgspec.json.Encoder().encode


def encode_some(spans: Sequence[Span]) -> bytes:
    """A part of a request; each span takes some microseconds."""
    return b",".join([_encode(_span(span)) for span in spans])


def request_of(parts: Sequence[bytes], resource: Mapping[str, Attribute]) -> bytes:
    """Without parts: one that asks whether somebody is there."""
    if not parts:
        return b'{"resourceSpans":[]}'
    told = _encode({"attributes": _attributes(resource)})
    scope = b'{"scope":%b,"spans":[%b]}' % (_encode(_SCOPE), b",".join(parts))
    return b'{"resourceSpans":[{"resource":%b,"scopeSpans":[%b]}]}' % (told, scope)


def _span(span: Span) -> dict[str, object]:
    context = span.context
    told: dict[str, object] = {"traceId": context.trace_id, "spanId": context.span_id}
    flags = context.flags | _REMOTE_KNOWN
    if context.state:
        told["traceState"] = context.state.decode("ascii")
    if span.parent_id:
        told["parentSpanId"] = span.parent_id
        flags |= _REMOTE
    attributes = span.attributes
    if span.error is not None:
        attributes = {**attributes, "error.type": span.error}
    told |= {
        "flags": flags,
        "name": _text(span.name),
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(attributes),
    }
    if span.error is not None:
        told["status"] = {"code": _ERROR, "message": _text(span.message)}
    return told


def _attributes(attributes: Mapping[str, Attribute]) -> list[dict[str, object]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Attribute) -> dict[str, object]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": _text(value)}


def _text(text: str) -> str:
    """Names may hold what is no UTF-8."""
    return text.encode("utf-8", "replace").decode()
