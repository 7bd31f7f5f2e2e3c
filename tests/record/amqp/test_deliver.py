"""Delivering: the records of a run become the frames of its messages; and the batches between the two."""

from __future__ import annotations

import random
import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.record.amqp.wire import PERSISTENT, PLAIN, message_id, publish, text

from headrace.record import check_batch, check_records, decode_batch, encode_batch, encode_records
from headrace.record.amqp import pure
from headrace.record.event import Event

Twins = tuple[ModuleType, ModuleType]
Sent = list[tuple[bytes, bytes]]  # properties, body

FIRST = 61


def batch_of(twin: ModuleType, sent: Sent, exchange: bytes = b"e", key: bytes = b"k") -> bytes:
    """One batch of these messages, which must make one run."""
    out: list[Any] = []
    data = b"".join(publish(1, body, properties, 10_000_000, exchange=exchange, key=key) for properties, body in sent)
    assert twin.scan(data, 0, 0, out) == len(data)
    ((_, _, _, _, records, count, _),) = out
    return bytes(twin.run_batch(records, count, 1_234_567))


def foreign_batch(*records: tuple[Any, ...]) -> bytes:
    """A batch that someone else wrote."""
    return bytes(pure.run_batch(encode_records(records), len(records), 0))


def deliveries(frames: bytes, frame_max: int) -> list[tuple[Any, ...]]:
    """(channel, consumer tag, delivery tag, redelivered, exchange, key, properties, body) of each message."""
    found: list[list[Any]] = []
    left = 0
    while frames:
        kind, channel, size = struct.unpack_from(">BHI", frames)
        payload, frames = frames[7 : 7 + size], frames[7 + size :]
        assert frames[:1] == b"\xce"
        frames = frames[1:]
        if kind == 1:
            assert left == 0
            assert payload[:4] == b"\x00\x3c\x00\x3c"
            tag_end = 5 + payload[4]
            number, again = struct.unpack_from(">QB", payload, tag_end)
            exchange_end = tag_end + 10 + payload[tag_end + 9]
            key_end = exchange_end + 1 + payload[exchange_end]
            assert key_end == len(payload)
            texts = payload[tag_end + 10 : exchange_end], payload[exchange_end + 1 :]
            found.append([channel, payload[5:tag_end], number, again, *texts])
        elif kind == 2:
            class_id, weight, left = struct.unpack_from(">HHQ", payload)
            assert (class_id, weight) == (60, 0)
            found[-1] += [payload[12:], b""]
        else:
            assert kind == 3
            assert not frame_max or len(payload) + 8 <= frame_max
            assert payload
            assert len(payload) == left or len(payload) + 8 == frame_max
            left -= len(payload)
            found[-1][-1] += payload
        assert found[-1][0] == channel
    assert left == 0
    return [tuple(message) for message in found]


def test_a_run_is_delivered_as_it_came(twin: ModuleType) -> None:
    sent = [(PERSISTENT, b"x" * 10), (PERSISTENT, b"y" * 10), (message_id(b"m"), b""), (PERSISTENT, b"z" * 300)]
    batch = batch_of(twin, sent, b"exchange", b"the.key")
    frames, after, body_bytes = twin.deliver(batch, FIRST, 4, b"ctag", 7, True, 3, 4096)
    assert after == len(batch)
    assert body_bytes == 320
    assert type(frames) is bytes
    assert deliveries(frames, 4096) == [
        (3, b"ctag", 7 + number, 1, b"exchange", b"the.key", *message) for number, message in enumerate(sent)
    ]


def test_a_part_of_a_batch_is_delivered_from_any_record_on(twin: ModuleType) -> None:
    sent = [(message_id(b"%03d" % number), b"%d" % number) for number in range(300)]
    batch = batch_of(twin, sent)
    position = tag = 0
    position = FIRST
    for count in (1, 0, 62, 1, 1, 100, 135):
        frames, after, _ = twin.deliver(batch, position, count, b"", tag, False, 1, 0)
        assert after == twin.skip(batch, position, count)
        assert [message[-2:] for message in deliveries(frames, 0)] == sent[tag : tag + count]
        assert [message[2] for message in deliveries(frames, 0)] == list(range(tag, tag + count))
        position, tag = after, tag + count
    assert position == len(batch)
    for call in (lambda: twin.deliver(batch, position, 1, b"", 1, False, 1, 0), lambda: twin.skip(batch, position, 1)):
        with pytest.raises(ValueError, match="malformed"):
            call()


@pytest.mark.parametrize("frame_max", [9, 10, 24, 50, 108, 109, 4096, 0])
def test_bodies_are_split_at_the_frame_max(twin: ModuleType, frame_max: int) -> None:
    sent = [(PERSISTENT, bytes(range(size))) for size in (100, 100, 101, 0, 42, 43, 1, 200)]
    frames, _, body_bytes = twin.deliver(batch_of(twin, sent), FIRST, len(sent), b"c", 1, False, 9, frame_max)
    assert [message[-2:] for message in deliveries(frames, frame_max)] == sent
    assert body_bytes == sum(len(body) for _, body in sent)


def test_a_long_body_in_few_frames(twin: ModuleType) -> None:
    body = random.Random(1).randbytes(3_000_000)
    for frame_max in (131_072, 0):
        frames, _, _ = twin.deliver(batch_of(twin, [(PLAIN, body)]), FIRST, 1, b"c" * 255, 2**64 - 1, False, 65535, frame_max)
        assert deliveries(frames, frame_max)[0][1:3] == (b"c" * 255, 2**64 - 1)
        assert deliveries(frames, frame_max)[0][-1] == body


def test_longest_texts(twin: ModuleType) -> None:
    batch = batch_of(twin, [(PLAIN, b"")] * 2, b"e" * 255, b"k" * 255)
    frames, _, _ = twin.deliver(batch, FIRST, 2, b"", 1, False, 1, 4096)
    assert [message[4:6] for message in deliveries(frames, 4096)] == [(b"e" * 255, b"k" * 255)] * 2


def test_any_buffer_is_delivered_from(twin: ModuleType) -> None:
    batch = batch_of(twin, [(PLAIN, b"a"), (PLAIN, b"b")])
    whole = twin.deliver(batch, FIRST, 2, b"c", 1, False, 1, 0)
    for kind in (bytearray, memoryview):
        assert twin.deliver(kind(batch), FIRST, 2, b"c", 1, False, 1, 0) == whole
        assert twin.skip(kind(batch), FIRST, 2) == len(batch)


EXCHANGE = ("amqp.exchange", b"e")
PROPERTIES = ("amqp.properties", PLAIN)


def test_records_of_others_are_delivered_if_they_have_the_headers(twin: ModuleType) -> None:
    batch = foreign_batch(
        (0, 5, None, None, (PROPERTIES, EXCHANGE)),
        (7, -(2**40), b"k", b"v", (("more", None), EXCHANGE, ("amqp.exchange", b"last"), PROPERTIES)),
        (2**31 - 1, 0, b"k", b"v", (("amqp.exchange", None), PROPERTIES)),
    )
    frames, after, _ = twin.deliver(batch, FIRST, 3, b"c", 1, False, 1, 0)
    assert after == len(batch)
    assert [message[4:] for message in deliveries(frames, 0)] == [
        (b"e", b"", PLAIN, b""),
        (b"last", b"k", PLAIN, b"v"),
        (b"", b"k", PLAIN, b"v"),
    ]


@pytest.mark.parametrize(
    "record",
    [
        (0, 0, b"k", b"v", ()),
        (0, 0, b"k", b"v", (EXCHANGE,)),
        (0, 0, b"k", b"v", (PROPERTIES,)),
        (0, 0, b"k" * 256, b"v", (EXCHANGE, PROPERTIES)),
        (0, 0, b"k", b"v", (("amqp.exchange", b"e" * 256), PROPERTIES)),
    ],
)
def test_records_that_are_no_messages_are_refused(twin: ModuleType, record: tuple[Any, ...]) -> None:
    good = (0, 0, b"k", b"v", (EXCHANGE, PROPERTIES))
    batch = foreign_batch(good, record)
    with pytest.raises(ValueError, match="not the record of a message"):
        twin.deliver(batch, FIRST, 2, b"c", 1, False, 1, 0)
    assert twin.skip(batch, FIRST, 2) == len(batch)


def test_a_compressed_batch_is_refused(twin: ModuleType) -> None:
    batch = bytearray(batch_of(twin, [(PLAIN, b"x")]))
    for attributes in (1, 4, 0x20):
        batch[22] = attributes
        with pytest.raises(ValueError, match="not a batch of messages"):
            twin.deliver(batch, FIRST, 1, b"c", 1, False, 1, 0)


@pytest.mark.parametrize(
    ("position", "count", "tag", "number", "channel", "frame_max"),
    [
        (60, 1, b"c", 1, 1, 0),
        (-1, 1, b"c", 1, 1, 0),
        (10_000, 1, b"c", 1, 1, 0),
        (FIRST, -1, b"c", 1, 1, 0),
        (FIRST, 3, b"c", 1, 1, 0),
        (FIRST, 2**62, b"c", 1, 1, 0),
        (FIRST, 1, b"c" * 256, 1, 1, 0),
        (FIRST, 1, b"c", -1, 1, 0),
        (FIRST, 2, b"c", 2**64 - 1, 1, 0),
        (FIRST, 1, b"c", 2**64, 1, 0),
        (FIRST, 1, b"c", 1, -1, 0),
        (FIRST, 1, b"c", 1, 65536, 0),
        (FIRST, 1, b"c", 1, 1, 8),
        (FIRST, 1, b"c", 1, 1, 1),
        (FIRST, 1, b"c", 1, 1, -5),
        (FIRST, 1, b"c", 1, 1, 2**32),
    ],
)
def test_impossible_arguments_are_refused(
    twin: ModuleType, position: int, count: int, tag: bytes, number: int, channel: int, frame_max: int
) -> None:
    batch = batch_of(twin, [(PLAIN, b"a"), (PLAIN, b"b")])
    with pytest.raises(ValueError):  # noqa: PT011  which words is another test's business
        twin.deliver(batch, position, count, tag, number, False, channel, frame_max)


# Batches ---------------------------------------------------------------------------------------------------------------


def test_a_run_becomes_a_batch_that_any_reader_accepts(twin: ModuleType) -> None:
    batch = batch_of(twin, [(PERSISTENT, b"a"), (PERSISTENT, b"bc")])
    assert check_batch(batch, 0, len(batch)) == (0, 1, 1_234_567, 1_234_567, -1, -1, -1, 2)
    check_records(batch, 2)
    assert [(record.offset, record.key, record.value) for record in decode_batch(batch)] == [(0, b"k", b"a"), (1, b"k", b"bc")]
    made = twin.run_batch(b"", 1, -1)
    assert type(made) is bytearray
    assert twin.split_batches(made) == [(0, 1, -1, bytes(made))]
    for count, time in ((0, 1), (2**31, 1), (1, 2**63)):
        with pytest.raises(ValueError):  # noqa: PT011
            twin.run_batch(b"", count, time)


def test_what_a_log_gives_back_is_split_into_batches(twin: ModuleType) -> None:
    batches = [batch_of(twin, [(PLAIN, b"x")] * count) for count in (1, 3, 2)]
    batches[1] = struct.pack(">q", 100) + batches[1][8:]
    parts = [(0, 1, 1_234_567, batches[0]), (100, 3, 1_234_567, batches[1]), (0, 2, 1_234_567, batches[2])]
    for kind in (bytes, bytearray, memoryview):
        assert twin.split_batches(kind(b"".join(batches))) == parts
        assert twin.split_batches(kind(batches[1])) == parts[1:2]
    assert all(type(part[3]) is bytes for part in twin.split_batches(bytearray(batches[0])))
    assert twin.split_batches(batches[0] + batches[1][:-1]) == parts[:1]
    assert twin.split_batches(b"") == []
    for damage in (16, 8):
        bad = bytearray(batches[0])
        bad[damage] = 0xFF
        with pytest.raises(ValueError, match="no batch"):
            twin.split_batches(bad)


def test_a_batch_stamped_by_the_log_has_its_time(twin: ModuleType) -> None:
    batch = bytearray(encode_batch([Event(b"k", b"v", (), 5), Event(b"k", b"v", (), 9)]))
    assert twin.split_batches(batch)[0][2] == 5
    batch[22] |= 0x08
    assert twin.split_batches(batch)[0][2] == 9


def test_a_batch_spans_its_offsets(twin: ModuleType) -> None:
    batch = bytearray(batch_of(twin, [(PLAIN, b"x")] * 3))
    assert twin.batch_span(batch) == 3
    struct.pack_into(">i", batch, 23, 2**31 - 1)
    assert twin.batch_span(batch) == 2**31
    with pytest.raises(ValueError, match="no batch"):
        twin.batch_span(batch[:60])


# One against the other -------------------------------------------------------------------------------------------------

own_headers = st.tuples(
    st.sampled_from([EXCHANGE, ("amqp.exchange", b"")]), st.sampled_from([PROPERTIES, ("amqp.properties", message_id(b"x"))])
)
headers = own_headers | st.lists(st.sampled_from([EXCHANGE, PROPERTIES, ("other", b"x"), ("", None)]), max_size=4).map(tuple)
records = st.lists(
    st.tuples(
        st.integers(-5, 200),
        st.just(0) | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.binary(max_size=3),
        st.none() | st.binary(max_size=3) | st.binary(min_size=70, max_size=80),
        own_headers | headers,
    ),
    max_size=5,
)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    one = draw(records)
    many = one * draw(st.sampled_from([1, 1, 3]))
    data = bytearray(bytes(22) + bytes(39) + encode_records(many))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(FIRST, len(data)))
        kind = draw(st.sampled_from(["set", "set", "cut", "insert"]))
        if kind == "set" and position < len(data):
            data[position] = draw(st.integers(0, 255))
        elif kind == "cut":
            del data[position : position + draw(st.integers(1, 4))]
        else:
            data[position:position] = draw(st.binary(min_size=1, max_size=11))
    return bytes(data), len(many)


def outcome(module: ModuleType, name: str, *args: Any) -> Any:
    try:
        return getattr(module, name)(*args)
    except ValueError:  # which one of several faults is named first may differ
        return ValueError


@given(damaged(), st.integers(-1, 2), st.sampled_from([0, 9, 40, 4096]))
@settings(max_examples=300, deadline=None)
def test_both_twins_make_the_same_of_any_records(twins: Twins, made: tuple[bytes, int], more: int, frame_max: int) -> None:
    data, count = made
    for name, args in (
        ("deliver", (data, FIRST, count + more, b"tag", 3, True, 2, frame_max)),
        ("skip", (data, FIRST, count + more)),
        ("split_batches", (data,)),
        ("split_batches", (data[FIRST:],)),
    ):
        ours, theirs = (outcome(module, name, *args) for module in twins)
        assert ours == theirs


def test_changed_bytes_of_long_runs_are_read_alike(twins: Twins) -> None:
    choose = random.Random(6)
    whole = batch_of(twins[0], [(message_id(b"%04d" % number), b"x" * 30) for number in range(100)], text(b"e"), b"k" * 80)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(choose.randint(1, 3)):
            data[choose.randrange(FIRST, len(data))] = choose.choice([0, 1, 2, 4, 0x80, 0xFF, choose.randrange(256)])
        cut = bytes(data[: len(data) - choose.choice([0, 0, choose.randint(0, 200)])])
        args = (cut, FIRST, choose.choice([20, 100]), b"tag", 1, False, 1, choose.choice([0, 20, 4096]))
        ours, theirs = (outcome(module, "deliver", *args) for module in twins)
        assert ours == theirs
