"""Messages as records and records as messages: there and back again, for everything there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.record import Event, decode_batch
from headrace.record.amqp import mapping
from headrace.record.amqp.mapping import event_to_message, message_to_event
from headrace.record.amqp.message import Message, encode_run
from headrace.record.amqp.properties import Properties, decode_properties, encode_properties
from headrace.record.amqp.tables import (
    Decimal,
    Float32,
    Int8,
    Int16,
    Int32,
    LongString,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
)

ARRIVED_MS = 1_700_000_000_123


def numbers(kind: type[int], bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, high).map(kind)


utf8 = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.one_of(
    utf8.filter(lambda text: len(text.encode()) <= 255),
    st.sampled_from(sorted(mapping.OWN_NAMES)),
    st.sampled_from(
        ["amqp.exchange", "amqp.types", "amqp.foo", "amqp.header.amqp.x", "amqp.header.x", "x" * 255, "x-stream-offset"]
    ),
    st.binary(max_size=6).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    numbers(Int8, 8, signed=True),
    numbers(UInt8, 8, signed=False),
    numbers(Int16, 16, signed=True),
    numbers(UInt16, 16, signed=False),
    numbers(Int32, 32, signed=True),
    numbers(UInt32, 32, signed=False),
    numbers(int, 64, signed=True),
    numbers(Timestamp, 64, signed=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(Float32),
    st.builds(Decimal, st.integers(0, 255), st.integers(0, 0xFFFF_FFFF)),
    utf8,
    st.binary(max_size=12),
    st.binary(max_size=6).map(lambda raw: LongString(raw + b"\xff")),
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
short = st.one_of(
    utf8.filter(lambda text: len(text.encode()) <= 255),
    st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)
properties = st.builds(
    Properties,
    content_type=st.none() | short,
    content_encoding=st.none() | short,
    headers=st.none() | st.dictionaries(names, values, max_size=4),
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | short,
    reply_to=st.none() | short,
    expiration=st.none() | short,
    message_id=st.none() | short,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=st.none() | short,
    user_id=st.none() | short,
    app_id=st.none() | short,
    cluster_id=st.none() | short,
)
messages = st.builds(Message, short, short, properties.map(encode_properties), st.binary(max_size=20))

kafka_names = st.one_of(names, st.sampled_from(["", "n" * 300, *mapping._PROPERTY_NAMES]))
contents = (
    st.none() | st.binary(max_size=12) | utf8.map(str.encode) | st.sampled_from([b"2", b"{}", b'{"a":"l"}', b"300", b"12"])
)
records = st.builds(
    Event,
    key=st.none() | st.binary(max_size=12) | utf8.map(str.encode) | st.just(b"k" * 256),
    value=st.none() | st.binary(max_size=12),
    headers=st.lists(st.tuples(kafka_names, contents), max_size=5).map(tuple),
    timestamp_ms=st.integers(-1, 2**62) | st.none(),
)


@settings(max_examples=200, deadline=None)
@given(messages)
def test_a_message_that_was_stored_in_a_topic_is_the_same_message_again(message: Message) -> None:
    event = message_to_event(message, ARRIVED_MS)
    assert event_to_message(event) == message


@settings(max_examples=200, deadline=None)
@given(messages, st.binary(min_size=1, max_size=8))
def test_a_message_is_the_same_again_whatever_key_its_record_got(message: Message, key: bytes) -> None:
    event = message_to_event(message, ARRIVED_MS, key)
    assert event.key == key
    assert event_to_message(event) == message


@settings(max_examples=200, deadline=None)
@given(records)
def test_a_record_that_went_by_amqp_is_the_same_record_again(record: Event) -> None:
    message = event_to_message(record)
    decode_properties(message.properties)  # what AMQP clients must be able to read
    again = message_to_event(
        message, record.timestamp_ms, record.key if mapping._is_message(record, 4) and keyed(record) else None
    )
    assert again == record


@settings(max_examples=150, deadline=None)
@given(messages | records, st.integers(1, 3), st.booleans())
def test_images_of_images_come_back_as_well(start: Message | Event, layers: int, other_first: bool) -> None:
    """Somebody stores by hand what the mapping would have made, and what it would have made of that."""
    thing: Message | Event = start
    for _ in range(layers):
        thing = mapping._as_record(thing, ARRIVED_MS, None) if isinstance(thing, Message) else mapping._as_message(thing)
    if isinstance(thing, Message):
        assert event_to_message(message_to_event(thing, ARRIVED_MS)) == thing
    elif not keyed(thing):
        assert message_to_event(event_to_message(thing), ARRIVED_MS) == thing


@settings(max_examples=120, deadline=None)
@given(records | st.builds(message_to_event, messages, st.just(ARRIVED_MS)))
def test_records_with_headers_that_were_seen_before_become_the_same_messages(record: Event) -> None:
    for key in (record.key, b"other", b"\xff", None):
        seen = Event(key, record.value or b"", record.headers, record.timestamp_ms)
        assert event_to_message(seen) == mapping._looked_into(seen)


def keyed(record: Event) -> bool:
    return record.header(mapping.ROUTING_KEY) is not None


def test_a_kafka_client_can_read_what_an_amqp_client_published() -> None:
    raw = encode_properties(
        Properties(
            content_type="application/json",
            headers={
                "trace": "abc",
                "attempt": Int32(3),
                "share": 0.25,
                "small": Float32(0.1),
                "price": Decimal(2, 1250),
                "ok": True,
                "blob": b"\xff\x00",
                "nothing": None,
                "nested": {"a": [1, "b"]},
                "amqp.mine": "x",
            },
            delivery_mode=2,
            timestamp=1_600_000_000,
            message_id="m-1",
        )
    )
    event = message_to_event(Message("orders", "order.new", raw, b"{}"), ARRIVED_MS)
    assert (event.key, event.value, event.timestamp_ms) == (b"order.new", b"{}", ARRIVED_MS)
    assert dict(event.headers) == {
        "amqp.exchange": b"orders",
        "amqp.content-type": b"application/json",
        "amqp.delivery-mode": b"2",
        "amqp.message-id": b"m-1",
        "amqp.timestamp": b"1600000000",
        "amqp.types": b'{"attempt":"I","share":"d","small":"f","price":"D","ok":"t","nested":"F"}',
        "trace": b"abc",
        "attempt": b"3",
        "share": b"0.25",
        "small": b"0.1",
        "price": b"12.50",
        "ok": b"true",
        "blob": b"\xff\x00",
        "nothing": None,
        "nested": b'{"a":[1,"b"]}',
        "amqp.header.amqp.mine": b"x",
    }


def test_an_amqp_client_can_read_what_a_kafka_client_produced() -> None:
    record = Event(b"key", b"value", (("trace", b"abc"), ("raw", b"\xff"), ("none", None)), ARRIVED_MS)
    message = event_to_message(record)
    assert (message.exchange, message.routing_key, message.body) == ("", "key", b"value")
    assert decode_properties(message.properties) == Properties(
        headers={"trace": "abc", "raw": b"\xff", "none": None, "timestamp_in_ms": ARRIVED_MS},
        delivery_mode=2,
        timestamp=ARRIVED_MS // 1000,
    )


def test_what_amqp_has_no_place_for_is_kept_in_headers() -> None:
    record = Event(b"\xff", None, (("a", b"1"), ("a", b"2")), ARRIVED_MS)
    message = event_to_message(record)
    assert (message.routing_key, message.body) == ("", b"")
    assert decode_properties(message.properties).headers == {
        "a": "2",
        "timestamp_in_ms": ARRIVED_MS,
        "x-opt-partition-key": b"\xff",
        "x-opt-kafka-tombstone": True,
        "x-opt-kafka-headers": ["a", "1", "a", "2"],
    }


def test_an_empty_routing_key_is_no_key_so_that_a_fanout_fills_all_partitions() -> None:
    event = message_to_event(Message("fanout", "", b"\0\0", b""), ARRIVED_MS)
    assert (event.key, event.value) == (None, b"")


def test_properties_of_a_record_that_somebody_changed_still_count() -> None:
    """A stream processor added a header and put its own in front."""
    stored = message_to_event(
        Message("e", "k", encode_properties(Properties(content_type="text/plain", headers={"n": Int8(1)})), b""), 1
    )
    changed = Event(stored.key, b"new", (("added", b"yes"), *stored.headers), 5)
    message = event_to_message(changed)
    found = decode_properties(message.properties)
    assert (message.exchange, message.routing_key, message.body) == ("e", "k", b"new")
    assert found.content_type == "text/plain"
    assert found.headers is not None
    assert (found.headers["added"], found.headers["n"], type(found.headers["n"])) == ("yes", 1, Int8)


@pytest.mark.parametrize(
    ("content", "hint", "value"),
    [
        (b"seven", "l", "seven"),
        (b"7", "l:AAAA", 7),
        (b"7", "F:bAAAAAAAAAAJ", "7"),
        (b"9", "?", "9"),
        (b"nan", "d", "nan"),
        (b"1" * 5000, "l", "1" * 5000),
        (b"[" * 100_000, "A", "[" * 100_000),
        (b"[NaN]", "A", "[NaN]"),
        (b"300", "b", "300"),
        (b"0." + b"1" * 300, "D", "0." + "1" * 300),
        (b'{"a":"\\ud800"}', "F", '{"a":"\\ud800"}'),
    ],
)
def test_a_hint_that_does_not_fit_is_passed_over(content: bytes, hint: str, value: object) -> None:
    event = Event(b"k", b"", (("amqp.exchange", b""), ("amqp.types", b'{"h":"%s"}' % hint.encode()), ("h", content)), 1)
    headers = decode_properties(event_to_message(event).properties).headers
    assert headers is not None
    assert headers["h"] == value


def test_hostile_properties_of_a_record_do_not_reach_amqp() -> None:
    event = Event(
        b"k",
        b"",
        (
            ("amqp.priority", b"256"),
            ("amqp.delivery-mode", b"-1"),
            ("amqp.timestamp", b"9" * 40),
            ("amqp.content-type", b"x" * 256),
            ("amqp.exchange", b"x" * 256),
            ("amqp.types", b"[" * 50_000),
        ),
        1,
    )
    message = event_to_message(event)
    found = decode_properties(message.properties)
    assert (found.priority, found.delivery_mode, found.timestamp, found.content_type, message.exchange) == (
        None,
        2,
        0,
        None,
        "",
    )
    assert message_to_event(message, 1) == event


def test_a_run_becomes_a_batch_for_a_topic() -> None:
    messages = [Message("e", "k", encode_properties(Properties(message_id=str(n))), b"%d" % n) for n in range(3)]
    batch = mapping.topic_batch(mapping.run_to_records(encode_run(messages), 3, ARRIVED_MS), ARRIVED_MS)
    records = decode_batch(batch)
    assert [event_to_message(record) for record in records] == messages
    assert {record.timestamp_ms for record in records} == {ARRIVED_MS}


def test_the_published_table_names_every_header() -> None:
    page = (Path(__file__).parents[3] / "docs" / "mapping.md").read_text()
    for name in (*mapping._PROPERTY_NAMES, *mapping._OWN_HEADERS, *mapping.OWN_NAMES, mapping.ESCAPED):
        assert f"`{name}" in page, name
