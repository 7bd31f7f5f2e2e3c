"""W3C trace context: what is one, and what becomes of it between requests and records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record.tracing import (
    Context,
    context_in,
    in_context,
    is_traceparent,
    is_tracestate,
    trace_fields,
    trace_in_request,
    with_trace,
)

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MANY = b",".join(b"a%d=1" % number for number in range(33))
STATE = b"congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"


@pytest.mark.parametrize(
    "value",
    [PARENT, PARENT[:-2] + b"00", b"01" + PARENT[2:], b"cc" + PARENT[2:] + b"-what-the-future-brings"],
)
def test_this_is_a_traceparent(value: bytes) -> None:
    assert is_traceparent(value)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        PARENT.upper(),
        PARENT + b"-more",  # version 00 has four parts
        PARENT + b"0",
        PARENT + b"\n",
        b"ff" + PARENT[2:],
        b"00-" + b"0" * 32 + PARENT[35:],
        PARENT[:36] + b"0" * 16 + PARENT[52:],
        PARENT[:-1],
        PARENT.replace(b"-", b"_"),
        b"cc" + PARENT[2:] + b".more",
        b"cc" + PARENT[2:] + b"-" + b"x" * 300,
    ],
)
def test_this_is_none(value: bytes) -> None:
    assert not is_traceparent(value)


@pytest.mark.parametrize("value", [STATE, b"a=1, b=2", b"a=1,,b=2", b"0tenant@vendor=x y", b"a=!~"])
def test_this_is_a_tracestate(value: bytes) -> None:
    assert is_tracestate(value)


@pytest.mark.parametrize(
    "value",
    [b"", b",", b"a", b"a=", b"A=1", b"a=1,a=2", b"a=\x01", b"a=x=y", b"a=1\r\nx: y", b"a=" + b"x" * 511, MANY],
)
def test_this_is_no_tracestate(value: bytes) -> None:
    assert not is_tracestate(value)


def test_a_trace_goes_from_a_request_to_a_record_and_back() -> None:
    fields = ((b"host", b"x"), (b"traceparent", PARENT), (b"tracestate", STATE))
    kept = trace_in_request(fields)
    assert kept == (("traceparent", PARENT), ("tracestate", STATE))
    assert trace_fields((("other", None), *kept)) == fields[1:]


def test_a_tracestate_in_several_fields_is_one() -> None:
    fields = ((b"traceparent", PARENT), (b"tracestate", b"a=1"), (b"tracestate", b"b=2"))
    assert trace_in_request(fields)[1] == ("tracestate", b"a=1,b=2")


def test_what_is_wrong_is_left_out_and_a_state_without_a_parent_too() -> None:
    assert trace_in_request([(b"traceparent", b"nonsense"), (b"tracestate", STATE)]) == ()
    assert trace_in_request([(b"traceparent", PARENT), (b"traceparent", PARENT)]) == ()
    assert trace_in_request([(b"tracestate", STATE)]) == ()
    assert trace_in_request([(b"traceparent", PARENT), (b"tracestate", b"nonsense")]) == (("traceparent", PARENT),)
    assert trace_fields([("traceparent", None), ("tracestate", STATE)]) == ()
    assert trace_fields([("traceparent", PARENT), ("tracestate", b"a=1\r\nset-cookie: b")]) == ((b"traceparent", PARENT),)


def test_an_event_keeps_its_own_trace() -> None:
    request = (("traceparent", PARENT), ("tracestate", STATE))
    own = (("a", b"1"), ("traceparent", b"its own"))
    assert with_trace(own, request) == own
    assert with_trace((("a", b"1"), ("tracestate", b"stray=1")), request) == (("a", b"1"), *request)


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_no_bytes_of_a_record_break_the_head_of_a_request(parent: bytes, state: bytes) -> None:
    for _, value in trace_fields([("traceparent", parent), ("tracestate", state)]):
        assert all(0x20 <= byte <= 0x7E or byte == 0x09 for byte in value)


def test_a_context_says_what_the_headers_said() -> None:
    context = context_in((("other", b"x"), ("traceparent", PARENT), ("tracestate", STATE)))
    assert context == Context("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, STATE)
    assert context.sampled
    assert context.headers == (("traceparent", PARENT), ("tracestate", STATE))
    assert context.fields == ((b"traceparent", PARENT), (b"tracestate", STATE))
    assert context_in((("traceparent", b"nonsense"),)) is None


def test_of_a_later_version_what_is_known_is_handed_on() -> None:
    context = context_in((("traceparent", b"cc" + PARENT[2:-2] + b"ff-more"),))
    assert context is not None
    assert context.traceparent == PARENT[:-2] + b"03"


def test_another_trace_takes_the_place_of_the_one_that_was() -> None:
    other = Context("1" * 32, "2" * 16, 1)
    headers = (("traceparent", PARENT), ("a", b"1"), ("tracestate", STATE))
    assert in_context(headers, other) == (("a", b"1"), ("traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"))
