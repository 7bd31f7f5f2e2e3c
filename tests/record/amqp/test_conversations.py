"""Any sequence of frames, cut anywhere and damaged anyhow: a simple reader sees the same, and so does the other twin."""

from __future__ import annotations

import random
import struct
from types import ModuleType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.record.amqp.wire import (
    HEARTBEAT,
    PERSISTENT,
    PLAIN,
    TRANSIENT,
    Reader,
    ack,
    bodies,
    frame,
    header,
    message_id,
    method,
    publish,
)

from headrace.record.amqp.events import FrameError

Twins = tuple[ModuleType, ModuleType]
Event = tuple[Any, ...]

short_texts = st.sampled_from([b"", b"a", b"key", b"x" * 255])
plain = st.sampled_from([PLAIN, PERSISTENT, TRANSIENT, b"\x80\x00\x01a", b"\xd0\x00\x01a\x00\x02", b"\x10\x40\x02" + bytes(8)])
well_formed = (
    plain
    | st.builds(message_id, st.binary(max_size=3), st.sampled_from([PLAIN, PERSISTENT, TRANSIENT]))
    | st.sampled_from([b"\x18\x00\x02\x05", b"\x30\x00\x00\x00\x00\x00\x02", b"\x11\x80\x02\x0215\x01m"])
)
properties = well_formed | well_formed | st.binary(max_size=8)
channels = st.integers(1, 3)


@st.composite
def contents(draw: st.DrawFn) -> list[bytes]:
    """The frames of one message, perhaps several times."""
    channel, size = draw(channels), draw(st.integers(0, 80))
    frames = [
        method(channel, draw(short_texts), draw(short_texts), draw(st.integers(0, 3))),
        header(channel, size, draw(properties)),
        *bodies(channel, draw(st.binary(min_size=size, max_size=size)), draw(st.integers(5, 50))),
    ]
    return frames * draw(st.sampled_from([1, 1, 2, 70]))


others = st.one_of(
    st.just([HEARTBEAT]),
    st.builds(lambda channel, payload: [frame(1, channel, payload)], st.integers(0, 3), st.binary(max_size=6)),
    st.builds(
        lambda channel, first, count, bits: [ack(channel, first + number, bits) for number in range(count)],
        channels,
        st.integers(0, 2**64 - 10),
        st.integers(1, 4),
        st.sampled_from([0, 0, 0, 1, 2]),
    ),
)


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """What a client may send: frames of a channel in order, those of several channels one after the other or mixed."""
    pieces = draw(st.lists(contents() | others, max_size=8))
    if not draw(st.booleans()):
        return b"".join(frame for piece in pieces for frame in piece)
    lanes: dict[int, list[bytes]] = {}
    for piece in pieces:
        lanes.setdefault(struct.unpack_from(">H", piece[0], 1)[0], []).extend(piece)
    mixed = []
    choose = random.Random(draw(st.integers(0, 2**32)))
    while lanes:
        channel = choose.choice(sorted(lanes))
        taken = choose.randint(1, 5)
        mixed += lanes[channel][:taken]
        lanes[channel] = lanes[channel][taken:]
        if not lanes[channel]:
            del lanes[channel]
    return b"".join(mixed)


@given(conversations(), st.integers(0, 2**32), st.sampled_from([1, 13, 200, 5000]))
@settings(max_examples=150, deadline=None)
def test_any_conversation_cut_anywhere_gives_what_a_simple_reader_sees(
    twin: ModuleType, data: bytes, seed: int, largest: int
) -> None:
    simple = Reader()
    assert simple.frames(data) == b""
    ours = Reader()
    choose = random.Random(seed)
    buffer = bytearray()
    position = 0
    while position < len(data):
        size = choose.randint(1, largest) if len(data) - position < 2000 or largest > 100 else 400
        buffer += data[position : position + size]
        position += size
        out: list[Event] = []
        del buffer[: twin.scan(buffer, 0, 0, out)]
        ours.events(out)
    ours.frames(bytes(buffer))  # a message that has begun
    assert ours.seen == simple.seen


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(conversations()))
    for _ in range(draw(st.integers(0, 4))):
        position = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["set", "set", "length", "cut", "insert"]))
        if kind == "set" and position < len(data):
            data[position] = draw(st.integers(0, 255))
        elif kind == "length":
            data[position : position + 4] = bytes.fromhex(
                draw(st.sampled_from(["7fffffff", "ffffffff", "80000000", "00000000"]))
            )
        elif kind == "cut":
            del data[position : position + draw(st.integers(1, 8))]
        else:
            data[position:position] = draw(st.binary(min_size=1, max_size=8))
    return bytes(data)


def outcome(twin: ModuleType, data: bytes, frame_max: int) -> tuple[list[Event], int | str]:
    out: list[Event] = []
    try:
        return out, twin.scan(data, 0, frame_max, out)
    except FrameError as error:
        return out, f"{error.code} {error.text}"


@given(mutated() | st.binary(max_size=200), st.sampled_from([0, 30, 60, 4096]))
@settings(max_examples=300, deadline=None)
def test_both_twins_find_the_same_in_any_bytes(twins: Twins, data: bytes, frame_max: int) -> None:
    ours, theirs = (outcome(module, data, frame_max) for module in twins)
    assert ours == theirs


def test_changed_bytes_of_long_runs_are_found_alike(twins: Twins) -> None:
    choose = random.Random(5)
    whole = b"".join(publish(1, b"x" * 30, message_id(b"%04d" % number)) for number in range(100))
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(choose.randint(1, 3)):
            data[choose.randrange(len(data))] = choose.choice([0, 1, 2, 3, 0x3C, 0xCE, 0xFF, choose.randrange(256)])
        cut = bytes(data[: len(data) - choose.randint(0, 50)])
        ours, theirs = (outcome(module, cut, 4096) for module in twins)
        assert ours == theirs
