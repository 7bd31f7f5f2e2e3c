"""Frames: what is made of methods and contents, and the words of an error."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.amqp.frames import (
    FRAME_MIN_SIZE,
    HARD_ERRORS,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    PROTOCOL_HEADERS,
    REPLY_NAMES,
    SOFT_ERRORS,
    ContentHeader,
    FrameType,
    ack_frame,
    body_frames,
    content_frames,
    content_header,
    frame,
    method_frame,
    reply_text,
)
from headrace.amqp.methods import BasicAck, ConnectionCloseOk, decode


def parse(data: bytes) -> list[tuple[int, int, bytes]]:
    frames = []
    while data:
        kind, channel, size = struct.unpack_from(">BHI", data)
        assert data[7 + size] == 0xCE
        frames.append((kind, channel, data[7 : 7 + size]))
        data = data[8 + size :]
    return frames


def test_a_method_frame_by_hand() -> None:
    assert method_frame(0, ConnectionCloseOk()) == bytes.fromhex("01 0000 00000004 000a0033 ce")
    assert method_frame(5, BasicAck(1, True)) == bytes.fromhex("01 0005 0000000d 003c0050 0000000000000001 01 ce")
    assert decode(parse(method_frame(5, BasicAck(1, True)))[0][2]) == BasicAck(1, True)


@given(st.integers(1, 0xFFFF), st.integers(0, (1 << 64) - 1), st.booleans())
def test_the_short_way_to_an_ack_is_the_same_frame(channel: int, tag: int, multiple: bool) -> None:
    assert ack_frame(channel, tag, multiple) == method_frame(channel, BasicAck(tag, multiple))


def test_a_heartbeat_by_hand() -> None:
    assert bytes.fromhex("08 0000 00000000 ce") == HEARTBEAT_FRAME == frame(FrameType.HEARTBEAT, 0, b"")


def test_an_empty_body_has_no_body_frame() -> None:
    assert content_frames(1, b"\0\0", b"", 0) == bytes.fromhex("02 0001 0000000e 003c 0000 0000000000000000 0000 ce")


@given(st.binary(max_size=20_000), st.sampled_from([0, FRAME_MIN_SIZE, FRAME_MIN_SIZE + 1, 131_072]), st.integers(1, 65535))
def test_a_body_is_cut_at_the_frame_max_and_whole_again(body: bytes, frame_max: int, channel: int) -> None:
    header, *rest = parse(content_frames(channel, b"\x10\0\2", body, frame_max))
    assert header[:2] == (FrameType.HEADER, channel)
    assert content_header(header[2]) == ContentHeader(60, 0, len(body), b"\x10\0\2")
    assert b"".join(payload for _, _, payload in rest) == body
    assert all((kind, number) == (FrameType.BODY, channel) for kind, number, _ in rest)
    assert all(payload for _, _, payload in rest)
    if frame_max:
        assert all(len(payload) + 8 <= frame_max for _, _, payload in rest)
        assert len(rest) == -(-len(body) // (frame_max - 8))
    assert parse(body_frames(channel, body, frame_max)) == rest


def test_a_body_that_just_fits_is_one_frame() -> None:
    size = FRAME_MIN_SIZE - 8
    assert len(parse(content_frames(1, b"\0\0", b"x" * size, FRAME_MIN_SIZE))) == 2
    assert len(parse(content_frames(1, b"\0\0", b"x" * (size + 1), FRAME_MIN_SIZE))) == 3


def test_a_content_header_that_is_cut_short_is_none() -> None:
    assert content_header(b"\0\x3c\0\0\0\0\0\0\0\0\0") is None
    assert content_header(b"\0\x3c\0\0\0\0\0\0\0\0\0\5") == ContentHeader(60, 0, 5, b"")


def test_every_error_closes_a_channel_or_a_connection() -> None:
    assert set(REPLY_NAMES) == SOFT_ERRORS | HARD_ERRORS | {200}
    assert not SOFT_ERRORS & HARD_ERRORS
    assert {320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541} == HARD_ERRORS


def test_the_names_and_codes_are_those_of_pika() -> None:
    spec = pytest.importorskip("pika.spec")
    for code, name in REPLY_NAMES.items():
        assert getattr(spec, name, 200 if code == 200 else None) == code


def test_a_reply_text_has_the_name_in_front() -> None:
    assert reply_text(404, "no queue 'x' in vhost '/'") == "NOT_FOUND - no queue 'x' in vhost '/'"
    assert reply_text(541, "") == "INTERNAL_ERROR"


@given(st.text(max_size=300) | st.just("é" * 300))
def test_a_reply_text_fits_a_short_string(text: str) -> None:
    reply = reply_text(406, text).encode()
    assert len(reply) <= 255
    whole = f"PRECONDITION_FAILED - {text}".encode("utf-8", "replace")
    if len(whole) > 255:
        assert reply.endswith(b"...")
        assert whole.startswith(reply[:-3])


def test_the_protocol_header_of_0_9_counts_as_ours() -> None:
    assert PROTOCOL_HEADER in PROTOCOL_HEADERS
    assert b"AMQP\1\1\0\x09" in PROTOCOL_HEADERS
    assert b"AMQP\0\1\0\0" not in PROTOCOL_HEADERS
