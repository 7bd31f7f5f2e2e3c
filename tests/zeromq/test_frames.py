"""The form of messages: nothing is lost of an event, and nothing that is no event gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record import Event, Record
from headrace.zeromq.wire.frames import BadMessage, decode_message, encode_message, encode_meta

LARGEST = (1 << 63) - 1

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=30)), max_size=5).map(tuple)
events = st.builds(
    Event,
    key=st.none() | st.binary(max_size=30),
    value=st.none() | st.binary(max_size=100),
    headers=headers,
    timestamp_ms=st.none() | st.integers(0, LARGEST),
)


@given(st.binary(max_size=20), events)
def test_an_event_comes_back_whole(topic: bytes, event: Event) -> None:
    message = decode_message(encode_message(topic, event))
    assert message.topic == topic
    assert message.event == event
    assert (message.partition, message.offset) == (None, None)


@given(events, st.integers(0, (1 << 32) - 1), st.integers(0, LARGEST))
def test_a_record_brings_its_place(event: Event, partition: int, offset: int) -> None:
    record = Record(offset, event.timestamp_ms or 0, event.key, event.value, event.headers)
    message = decode_message([b"t", record.value or b"", encode_meta(record, partition, record.offset)])
    assert message.event == record.event
    assert (message.partition, message.offset) == (partition, offset)


def test_one_frame_is_a_value_and_two_are_topic_and_value() -> None:
    assert decode_message([b"v"]).event == Event(value=b"v")
    assert decode_message([b"v"]).topic is None
    assert decode_message([b"t", b""]).event == Event(value=b"")
    assert decode_message([b"t", b""]).topic == b"t"


def test_the_third_frame_is_what_the_document_says() -> None:
    event = Event(b"k", b"v", (("a", b"1"),), 5)
    assert encode_meta(event) == b"HR\x01\x00" + bytes([22, 0, 10, 0, 2]) + b"k" + bytes([1, 2, 2]) + b"a" + bytes([2]) + b"1"
    assert encode_meta(Event(None, None), 3, 7) == (
        b"HR\x01\x07" + b"\x00\x00\x00\x03" + b"\x00\x00\x00\x00\x00\x00\x00\x07" + bytes([12, 0, 0, 0, 1, 1, 0])
    )


META = encode_meta(Event(b"k", b"v"))


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([], "0"),
        ([b"t", b"v", META, b""], "1 to 3 frames, not 4"),
        ([b"t", b"v", b""], "not Headrace's"),
        ([b"t", b"v", b"HR\x02\x00"], "not Headrace's"),
        ([b"t", b"v", b"HR\x01"], "cut off"),
        ([b"t", b"v", b"HR\x01\x04\x00"], "cut off"),
        ([b"t", b"v", b"HR\x01\x08" + META[4:]], "flags"),
        ([b"t", b"v", META[:-1]], "no record"),
        ([b"t", b"v", META + b"\x00"], "no record"),
        ([b"t", b"v", b"HR\x01\x01" + META[4:]], "without a value"),
        ([b"t", b"v", b"HR\x01\x00" + bytes([14, 0, 0, 0, 1, 2]) + b"x" + b"\x00"], "has a value"),
        ([b"t", b"v", b"HR\x01\x00" + bytes([12, 0, 1, 0, 1, 1, 0])], "before 1970"),
    ],
)
def test_frames_that_are_no_event_are_refused(frames: list[bytes], why: str) -> None:
    with pytest.raises(BadMessage, match=why):
        decode_message(frames)


@given(st.lists(st.binary(max_size=60), max_size=5), st.binary(max_size=40))
def test_any_bytes_are_an_event_or_refused(frames: list[bytes], rest: bytes) -> None:
    for tried in (frames, [b"", b"", b"HR\x01" + rest], [b"", b"", META[: len(rest)] + rest]):
        try:
            message = decode_message(tried)
        except BadMessage:
            continue
        assert decode_message(encode_message(message.topic or b"", message.event)).event == message.event


def test_a_time_before_1970_can_not_be_sent() -> None:
    with pytest.raises(ValueError, match="1970"):
        encode_message(b"", Event(timestamp_ms=-1))
