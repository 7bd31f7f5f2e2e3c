"""Scanning: whatever a client sends and however it is cut, the same messages, acks and frames come out, in order."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest
from tests.record.amqp.wire import (
    HEARTBEAT,
    PERSISTENT,
    PLAIN,
    TRANSIENT,
    ack,
    arguments,
    bodies,
    frame,
    header,
    message_id,
    messages_of,
    method,
    publish,
    text,
)

from headrace.record.amqp.events import ACK, FRAME, PUBLISH, RUN_BYTES, RUN_MESSAGES, WAIT_BYTES, FrameError

Twins = tuple[ModuleType, ModuleType]
Event = tuple[Any, ...]


def scanned(twin: ModuleType, data: bytes, frame_max: int = 131_072) -> list[Event]:
    """The events of data that leaves nothing over."""
    out: list[Event] = []
    assert twin.scan(data, 0, frame_max, out) == len(data)
    return out


def refused(twin: ModuleType, data: bytes, frame_max: int = 131_072) -> tuple[list[Event], FrameError]:
    out: list[Event] = []
    with pytest.raises(FrameError) as error:
        twin.scan(data, 0, frame_max, out)
    return out, error.value


def test_a_publish_becomes_a_run_of_one(twin: ModuleType) -> None:
    (event,) = scanned(twin, publish(3, b"hello", exchange=b"logs", key=b"a.b", bits=1))
    assert event[:4] == (PUBLISH, 3, arguments(b"logs", b"a.b", 1), PERSISTENT)
    assert event[5:] == (1, 5)
    assert messages_of(event) == [(PERSISTENT, b"hello")]


def test_messages_alike_in_treatment_become_one_run(twin: ModuleType) -> None:
    properties = [PERSISTENT, message_id(b"a"), message_id(b"another"), message_id(b"b"), message_id(b"c"), PERSISTENT]
    sent = [(content, b"x" * (size % 7)) for size, content in enumerate(properties * 30)]
    (event,) = scanned(twin, b"".join(publish(1, body, content) for content, body in sent))
    assert messages_of(event) == sent


@pytest.mark.parametrize(
    "other",
    [
        publish(2, b"x"),
        publish(1, b"x", exchange=b"e"),
        publish(1, b"x", key=b"r"),
        publish(1, b"x", bits=1),
        publish(1, b"x", TRANSIENT),
        publish(1, b"x", PLAIN),
        publish(1, b"x", b"\x18\x00\x02\x05"),  # priority
        publish(1, b"x", b"\x30\x00\x00\x00\x00\x00\x02"),  # headers
        publish(1, b"x", b"\x12\x00\x02\x01r"),  # reply-to
        publish(1, b"x", b"\x11\x00\x02\x011"),  # expiration
        publish(1, b"x", b"\x10\x10\x02\x01u"),  # user-id
    ],
)
def test_what_needs_other_treatment_begins_a_run_of_its_own(twin: ModuleType, other: bytes) -> None:
    same = publish(1, b"x")
    events = scanned(twin, same + other + other + same)
    assert [event[5] for event in events] == [1, 2, 1]


def test_decisive_properties_must_be_the_very_same(twin: ModuleType) -> None:
    data = b"".join(publish(1, b"x", b"\x18\x80\x02\x05" + text(name)) for name in (b"a", b"a", b"b"))
    assert [event[5] for event in scanned(twin, data)] == [2, 1]


def test_delivery_mode_is_read_after_texts(twin: ModuleType) -> None:
    def typed(content_type: bytes, mode: int) -> bytes:
        return publish(1, b"x", b"\xd0\x00" + text(content_type) + text(b"") + bytes([mode]))

    data = typed(b"a", 2) + typed(b"bc", 2) + typed(b"\x02\x02", 1) + typed(b"", 1) + typed(b"x", 2)
    assert [event[5] for event in scanned(twin, data)] == [2, 2, 1]


def test_a_run_ends_at_its_limits(twin: ModuleType) -> None:
    data = publish(1, b"") * (RUN_MESSAGES + 5)
    assert [event[5] for event in scanned(twin, data)] == [RUN_MESSAGES, 5]
    data = publish(1, b"x" * 9_000) * 250 + publish(1, b"y" * 2_000_000) + publish(1, b"x")
    events = scanned(twin, data)
    assert [len(event[4]) <= RUN_BYTES for event in events] == [True] * (len(events) - 2) + [False, True]
    assert sum(event[5] for event in events) == 252
    for event in events[:2]:
        assert len(event[4]) > RUN_BYTES - 9_100
    assert messages_of(events[-2]) == [(PERSISTENT, b"y" * 2_000_000)]


def test_the_offset_delta_grows_with_the_index(twin: ModuleType) -> None:
    sent = [(PERSISTENT, b"x" * (size % 3)) for size in range(200)]
    (event,) = scanned(twin, b"".join(publish(1, body) for _, body in sent))
    assert messages_of(event) == sent
    (event,) = scanned(twin, publish(1, b"same") * 4000)
    assert messages_of(event) == [(PERSISTENT, b"same")] * 4000
    for before in range(60, 68):  # a new length right where the deltas become longer
        (event,) = scanned(twin, publish(1, b"other") * before + publish(1, b"same") * 10)
        assert messages_of(event) == [(PERSISTENT, b"other")] * before + [(PERSISTENT, b"same")] * 10


def test_a_body_in_many_frames_is_one_body(twin: ModuleType) -> None:
    body = bytes(range(256)) * 40
    (event,) = scanned(twin, publish(1, body, most=100) + publish(1, body, most=7) + publish(1, body))
    assert messages_of(event) == [(PERSISTENT, body)] * 3
    empty_frames = method(1) + header(1, 2) + frame(3, 1, b"") + frame(3, 1, b"a") + frame(3, 1, b"") + frame(3, 1, b"b")
    assert messages_of(scanned(twin, empty_frames)[0]) == [(PERSISTENT, b"ab")]


def test_acks_that_count_on_become_a_range(twin: ModuleType) -> None:
    data = b"".join(ack(1, tag) for tag in (5, 6, 7, 9, 10, 10, 3))
    assert scanned(twin, data) == [
        (ACK, 1, 5, 7, False),
        (ACK, 1, 9, 10, False),
        (ACK, 1, 10, 10, False),
        (ACK, 1, 3, 3, False),
    ]


def test_a_multiple_ack_stands_alone(twin: ModuleType) -> None:
    data = ack(1, 1) + ack(1, 2, 1) + ack(1, 3) + ack(1, 4, 2) + ack(1, 5, 3) + ack(1, 6, 1)
    assert scanned(twin, data) == [
        (ACK, 1, 1, 1, False),
        (ACK, 1, 2, 2, True),
        (ACK, 1, 3, 4, False),
        (ACK, 1, 5, 5, True),
        (ACK, 1, 6, 6, True),
    ]


def test_acks_of_different_channels_and_past_the_last_tag_stay_apart(twin: ModuleType) -> None:
    data = ack(1, 1) + ack(2, 2) + ack(1, 3) + ack(1, 2**64 - 1) + ack(1, 0) + HEARTBEAT + ack(1, 1)
    assert scanned(twin, data) == [
        (ACK, 1, 1, 1, False),
        (ACK, 2, 2, 2, False),
        (ACK, 1, 3, 3, False),
        (ACK, 1, 2**64 - 1, 2**64 - 1, False),
        (ACK, 1, 0, 0, False),
        (FRAME, 8, 0, b""),
        (ACK, 1, 1, 1, False),
    ]


@pytest.mark.parametrize(
    "foreign",
    [
        method(0) + header(0, 0),
        ack(0, 1),
        frame(1, 1, b"\x00\x3c\x00\x50" + b"\x00" * 8),
        frame(1, 1, b""),
        frame(1, 1, b"\x00\x3c"),
        frame(1, 1, b"\x00\x3c\x00\x28"),
        frame(1, 1, b"\x00\x3c\x00\x28\x00\x00\x05abc\x00\x00") + header(1, 0),
        frame(1, 1, b"\x00\x3c\x00\x28" + arguments() + b"\x00") + header(1, 0),
        method(1) + header(1, 0, class_id=50),
        method(1) + header(1, 0, weight=1),
        method(1) + header(1, 0, properties=b""),
        method(1) + header(1, 0, properties=b"\x00\x01"),
        method(1) + header(1, 0, properties=b"\x10\x00"),
        method(1) + header(1, 0, properties=b"\x10\x00\x02\x02"),
        method(1) + header(1, 0, properties=b"\x10\x00\x03"),
        method(1) + header(1, 0, properties=b"\x80\x00\x05abcd"),
        method(1) + header(1, 0, properties=b"\x00\x40" + b"\x00" * 7),
        method(1) + header(2, 0),
        method(1) + HEARTBEAT,
        method(1) + method(2),
        method(1) + header(1, 3) + frame(3, 1, b"four"),
        method(1) + header(1, 3) + frame(3, 2, b"abc"),
        method(1) + header(1, 3) + frame(3, 1, b"ab") + HEARTBEAT + frame(3, 1, b"c"),
        method(1) + header(1, 2**64 - 1) + frame(3, 1, b"ab"),
        frame(3, 1, b"stray"),
        header(1, 0),
        frame(77, 1, b"unknown"),
    ],
)
def test_what_is_no_whole_message_is_handed_out_frame_by_frame(twin: ModuleType, foreign: bytes) -> None:
    before = publish(1, b"x") * 2
    events = scanned(twin, before + foreign + frame(1, 1, b"\x00\x14\x00\x28"))
    assert events[0][5] == 2
    frames, rest = [], foreign
    while rest:
        kind, channel, size = struct.unpack_from(">BHI", rest)
        frames.append((FRAME, kind, channel, rest[7 : 7 + size]))
        rest = rest[8 + size :]
    assert events[1:] == [*frames, (FRAME, 1, 1, b"\x00\x14\x00\x28")]


def test_a_message_waits_for_its_end(twin: ModuleType) -> None:
    whole = publish(1, b"x" * 50, most=20)
    for cut in range(len(whole)):
        out: list[Event] = []
        data = publish(1, b"first") + whole[:cut]
        assert twin.scan(data, 0, 0, out) == len(data) - cut
        assert [event[5] for event in out] == [1]


def test_a_long_message_is_handed_out_frame_by_frame(twin: ModuleType) -> None:
    body = b"x" * WAIT_BYTES
    start = method(1) + header(1, len(body))
    out: list[Event] = []
    assert twin.scan(start + frame(3, 1, body[:100]) + b"\x03", 0, 0, out) == len(start) + 108
    assert [event[1] for event in out] == [1, 2, 3]
    many = bodies(1, body[: WAIT_BYTES - 1], 1000)  # shorter, but with what is around the body more than may wait
    start = method(1) + header(1, WAIT_BYTES - 1)
    out = []
    data = start + b"".join(many[:-1])
    assert twin.scan(data, 0, 0, out) == len(data)
    assert [event[1] for event in out] == [1, 2] + [3] * (len(many) - 1)


def test_a_body_in_crumbs_does_not_wait(twin: ModuleType) -> None:
    start = method(1) + header(1, 1000)
    for crumbs, events in ((64, 0), (65, 67)):
        out: list[Event] = []
        data = start + frame(3, 1, b"x") * crumbs
        assert twin.scan(data, 0, 0, out) == (len(data) if events else 0)
        assert len(out) == events


def test_a_frame_larger_than_agreed_is_refused_by_its_header(twin: ModuleType) -> None:
    ours = publish(1, b"x")
    out, error = refused(twin, ours + struct.pack(">BHI", 1, 0, 4097), 4096)
    assert len(out) == 1
    assert (error.code, error.text) == (501, "type 1, all octets = <<>>: {frame_too_large,4097,4088}")
    assert twin.scan(struct.pack(">BHI", 1, 0, 4096), 0, 4096, []) == 0  # eight bytes too long are forgiven
    assert twin.scan(struct.pack(">BHI", 1, 0, 2**32 - 1), 0, 0, []) == 0
    out, _ = refused(twin, publish(1, b"x" * 5000, most=4000) + publish(1, b"x" * 5000), 4096)
    assert [event[:2] for event in out] == [(PUBLISH, 1), (FRAME, 1), (FRAME, 2)]
    # Also inside a content: what came before is handed out, then it ends.
    out, _ = refused(twin, method(1) + header(1, 9000) + struct.pack(">BHI", 3, 1, 5000), 4096)
    assert [event[:2] for event in out] == [(FRAME, 1), (FRAME, 2)]


def test_a_frame_without_its_end_is_refused(twin: ModuleType) -> None:
    out, error = refused(twin, publish(1, b"x") + frame(1, 1, bytes(20))[:-1] + b"\x07")
    assert len(out) == 1
    octets = ",".join("0" * 16)
    assert error.text == f"type 1, first 16 octets = <<{octets}>>: {{invalid_frame_end_marker,7}}"
    _, error = refused(twin, frame(65, 1, b"GET /")[:-1] + b"\x00")
    assert error.text == 'type 65, all octets = <<"GET /">>: {invalid_frame_end_marker,0}'
    bad = bytearray(publish(1, b"x") * 3)
    bad[-1] = 0
    out, _ = refused(twin, bytes(bad))
    assert [event[0] for event in out] == [PUBLISH, FRAME, FRAME]
    assert out[0][5] == 2


def test_any_buffer_is_scanned_from_any_start(twin: ModuleType) -> None:
    data = b"junk" + publish(1, b"x") + ack(1, 1)
    for kind in (bytes, bytearray, memoryview):
        out: list[Event] = []
        assert twin.scan(kind(data), 4, 0, out) == len(data)
        assert [event[0] for event in out] == [PUBLISH, ACK]
        assert all(type(part) is bytes for part in out[0][2:5])
    for start in (-1, len(data) + 1):
        with pytest.raises(ValueError, match="outside"):
            twin.scan(data, start, 0, [])
    assert twin.scan(data, len(data), 0, []) == len(data)
