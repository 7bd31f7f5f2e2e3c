"""W3C trace context (https://www.w3.org/TR/trace-context/) between the headers of HTTP requests and those of records.

A record carries it in two headers of its own, `traceparent` and `tracestate`, as OpenTelemetry's instrumentation of Kafka and
AMQP clients writes them. What is not as the standard says is left out, as the standard says: a wrong `traceparent` with its
`tracestate`, a wrong or too long `tracestate` alone. Nothing is made up: what came without a trace stays without.

A `Context` is what the two say: which span of which trace, and whether the trace is sampled. Who makes a span of its own
(`broker.spans`) hands on the context of that in place of the one that came.

Bound: `MAX_STATE_BYTES` and `MAX_STATES` of a `tracestate`, `MAX_PARENT_BYTES` of a `traceparent` of a later version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Header = tuple[str, bytes | None]
Field = tuple[bytes, bytes]

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
PARENT_FIELD, STATE_FIELD = b"traceparent", b"tracestate"
MAX_PARENT_BYTES = 256
MAX_STATE_BYTES = 512
MAX_STATES = 32
SAMPLED = 0x01
KNOWN_FLAGS = 0x03  # sampled, and a trace id that is random (Level 2); others must be zero in version 00

# version, trace id, parent id and flags; a version that we do not know may have more behind a dash (section 3.2.2)
_PARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[\x21-\x7e]*)?")
_STATE = re.compile(
    rb"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
    rb"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)


class Context(NamedTuple):
    """A span, as others are told of it. `state` is a sound `tracestate`, or empty."""

    trace_id: str  # 32 hexadecimal digits
    span_id: str  # 16
    flags: int
    state: bytes = b""

    @property
    def sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    @property
    def traceparent(self) -> bytes:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags & KNOWN_FLAGS:02x}".encode()

    @property
    def headers(self) -> tuple[Header, ...]:
        """Of a record."""
        parent = (TRACEPARENT, self.traceparent)
        return (parent, (TRACESTATE, self.state)) if self.state else (parent,)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Of a request."""
        parent = (PARENT_FIELD, self.traceparent)
        return (parent, (STATE_FIELD, self.state)) if self.state else (parent,)


def is_traceparent(value: bytes) -> bool:
    if len(value) > MAX_PARENT_BYTES:
        return False
    found = _PARENT.fullmatch(value)
    return found is not None and (found[2] is None or found[1] != b"00")


def is_tracestate(value: bytes) -> bool:
    if len(value) > MAX_STATE_BYTES:
        return False
    members = [member.strip(b" \t") for member in value.split(b",")]
    kept = [member for member in members if member]  # empty ones are allowed
    names = {member.partition(b"=")[0] for member in kept}
    return 0 < len(kept) <= MAX_STATES and len(names) == len(kept) and all(_STATE.fullmatch(member) for member in kept)


def trace_in_request(fields: Iterable[Field]) -> tuple[Header, ...]:
    """The headers of a record for what came with a request; none if it has no trace. Names are in lower case."""
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, value in fields:
        if name == PARENT_FIELD:
            parents.append(value.strip(b" \t"))
        elif name == STATE_FIELD:
            states.append(value.strip(b" \t"))
    if len(parents) != 1 or not is_traceparent(parents[0]):
        return ()
    state = b",".join(states)  # it may come in several fields (section 3.3.1)
    return ((TRACEPARENT, parents[0]), (TRACESTATE, state)) if is_tracestate(state) else ((TRACEPARENT, parents[0]),)


def with_trace(headers: Sequence[Header], trace: tuple[Header, ...]) -> tuple[Header, ...]:
    """What an event says of its own trace goes before what its request says."""
    if any(name == TRACEPARENT for name, _ in headers):
        return tuple(headers)
    return (*(header for header in headers if header[0] != TRACESTATE), *trace)


def trace_fields(headers: Iterable[Header]) -> tuple[Field, ...]:
    """The headers of a request or an answer for a record: the last ones of their names, as OpenTelemetry reads them."""
    parent = state = None
    for name, value in headers:
        if name == TRACEPARENT:
            parent = value
        elif name == TRACESTATE:
            state = value
    if parent is None or not is_traceparent(parent):
        return ()
    if state is None or not is_tracestate(state):
        return ((PARENT_FIELD, parent),)
    return ((PARENT_FIELD, parent), (STATE_FIELD, state))


def context_in(headers: Iterable[Header]) -> Context | None:
    """What a record says of its trace; None where that is nothing, or not as the standard says."""
    fields = trace_fields(headers)
    return context_of(fields[0][1], fields[1][1] if len(fields) > 1 else b"") if fields else None


def context_of(parent: bytes, state: bytes = b"") -> Context:
    """Of a `traceparent` and a `tracestate` that are sound."""
    return Context(parent[3:35].decode("ascii"), parent[36:52].decode("ascii"), int(parent[53:55], 16), state)


def in_context(headers: Sequence[Header], context: Context) -> tuple[Header, ...]:
    """These headers with another trace than they had."""
    return (*(header for header in headers if header[0] not in (TRACEPARENT, TRACESTATE)), *context.headers)
