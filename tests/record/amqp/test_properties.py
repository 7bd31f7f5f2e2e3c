"""The properties of a message: all of them, one of them, one changed, and bytes that are none."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record.amqp import properties as module
from headrace.record.amqp.properties import (
    CONTENT_TYPE,
    EXPIRATION,
    HEADERS,
    NO_PROPERTIES,
    TIMESTAMP,
    MalformedProperties,
    Properties,
    check_properties,
    decode_properties,
    encode_properties,
    has_headers,
    headers,
    is_persistent,
    property_flags,
    with_headers,
    without_field,
)

strings = st.none() | st.text(max_size=60)
octets = st.none() | st.integers(0, 255)
tables = st.dictionaries(st.text(max_size=10), st.integers(-5, 5) | st.text(max_size=10), max_size=4)
all_properties = st.builds(
    Properties,
    **{
        field.name: {
            "headers": st.none() | tables,
            "delivery_mode": octets,
            "priority": octets,
            "timestamp": st.none() | st.integers(0, 2**64 - 1),
        }.get(field.name, strings)
        for field in fields(Properties)
    },
)
NAMES = [field.name for field in fields(Properties)]
FLAGS = [getattr(module, name.upper()) for name in NAMES]
SINGLE_READERS = ["delivery_mode", "priority", "correlation_id", "reply_to", "expiration", "user_id"]


def test_the_flags_are_the_fourteen_highest_bits_in_order() -> None:
    assert [1 << bit for bit in range(15, 1, -1)] == FLAGS


@given(all_properties)
def test_what_is_written_is_read_again(properties: Properties) -> None:
    raw = encode_properties(properties)
    check_properties(raw)
    assert decode_properties(raw) == properties
    assert encode_properties(decode_properties(raw)) == raw
    assert property_flags(raw) == sum(
        flag for flag, name in zip(FLAGS, NAMES, strict=True) if getattr(properties, name) is not None
    )


@given(all_properties)
def test_single_fields_are_read_without_the_others(properties: Properties) -> None:
    raw = encode_properties(properties)
    for name in SINGLE_READERS:
        assert getattr(module, name)(raw) == getattr(properties, name), name
    assert is_persistent(raw) == (properties.delivery_mode == 2)
    assert has_headers(raw) == (properties.headers is not None)
    assert headers(raw) == (properties.headers or {})


@given(all_properties, st.none() | tables)
def test_new_headers_leave_everything_else_as_it_was(properties: Properties, table: dict[str, object] | None) -> None:
    raw = with_headers(encode_properties(properties), table)
    assert raw == encode_properties(replace(properties, headers=table))


@given(all_properties, st.sampled_from(NAMES))
def test_a_field_taken_away_leaves_everything_else_as_it_was(properties: Properties, name: str) -> None:
    raw = without_field(encode_properties(properties), getattr(module, name.upper()))
    assert raw == encode_properties(replace(properties, **{name: None}))


def test_no_properties_are_two_zeros() -> None:
    assert encode_properties(Properties()) == NO_PROPERTIES
    assert decode_properties(NO_PROPERTIES) == Properties()


def test_bytes_by_hand() -> None:
    raw = bytes.fromhex("b0c0") + b"\x0atext/plain" + b"\0\0\0\4\1at\1" + b"\2" + b"\2id" + b"\0\0\0\0\0\0\0\x09"
    assert decode_properties(raw) == Properties(
        "text/plain", headers={"a": True}, delivery_mode=2, message_id="id", timestamp=9
    )


def test_the_two_lowest_bits_are_ignored_as_in_rabbitmq() -> None:
    assert decode_properties(b"\0\3") == Properties()
    assert decode_properties(b"\x10\1\2") == Properties(delivery_mode=2)
    assert with_headers(b"\x10\3\2", None) == b"\x10\0\2"


def test_strings_that_are_not_utf8_survive() -> None:
    raw = b"\x80\0\2\xff\xfe"
    assert encode_properties(decode_properties(raw)) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0",
        b"\0\0x",  # left over
        b"\0\1\0\0",  # a second word of flags, which RabbitMQ does not know
        b"\x80\0",
        b"\x80\0\5ab",
        b"\x10\0",
        b"\x00\x40\0\0\0",
        b"\x20\0\0\0\0",
        b"\x20\0\0\0\0\5\1at\1",
        b"\x20\0\0\0\0\3\1aZ",
    ],
)
def test_malformed_properties_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedProperties):
        decode_properties(raw)
    with pytest.raises(MalformedProperties):
        check_properties(raw)


@given(st.binary(max_size=60))
def test_any_bytes_are_properties_or_malformed_for_every_reader(raw: bytes) -> None:
    try:
        properties = decode_properties(raw)
    except MalformedProperties:
        with pytest.raises(MalformedProperties):
            check_properties(raw)
        for name in SINGLE_READERS:
            try:
                getattr(module, name)(raw)
            except MalformedProperties:
                pass
        for flag in (CONTENT_TYPE, EXPIRATION, TIMESTAMP, HEADERS):
            try:
                without_field(raw, flag)
            except MalformedProperties:
                pass
    else:
        check_properties(raw)
        assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize("properties", [Properties("x" * 256), Properties(priority=256), Properties(timestamp=-1)])
def test_a_value_that_does_not_fit_is_not_written(properties: Properties) -> None:
    with pytest.raises(ValueError, match=r"range|format|argument|int"):
        encode_properties(properties)


def test_pika_and_pamqp_write_the_same_bytes() -> None:
    pika_spec = pytest.importorskip("pika.spec")
    pamqp_commands = pytest.importorskip("pamqp.commands")
    values = {
        "content_type": "text/plain",
        "headers": {"a": "b"},
        "delivery_mode": 2,
        "priority": 5,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "1000",
        "message_id": "m",
        "type": "t",
        "user_id": "guest",
        "app_id": "app",
    }
    raw = encode_properties(Properties(**values))  # type: ignore[arg-type]
    assert b"".join(pika_spec.BasicProperties(**values).encode()) == raw
    values["message_type"] = values.pop("type")
    assert pamqp_commands.Basic.Properties(**values).marshal() == raw
