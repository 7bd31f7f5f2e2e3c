"""The short way comes to what the long way comes to, compiled or not."""

import dataclasses
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.received import Received
from headrace.multicast.feed import short_way
from headrace.multicast.feed.counts import Counts
from headrace.multicast.feed.datagrams import BadDatagram, decode, encode
from headrace.multicast.feed.ordering import Stream
from headrace.record import Event, encode_records

try:
    from headrace import _multicast
except ImportError:  # it was not built
    WAYS: list[ModuleType] = [short_way]
else:
    WAYS = [short_way, _multicast]

FEED, PARTITION, SESSION = 7, 2, 2**64 - 1
ROOM = 1344
content = st.none() | st.binary(max_size=200)
times = st.integers(-(2**63), 2**63 - 1)
places = st.integers(0, 2**63 - 2)


def stream_at(expected: int) -> Stream:
    stream = Stream("prices", PARTITION, 16, 0.02, Counts(), expected)
    stream.session = SESSION
    return stream


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__.rpartition(".")[2])
def way(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


@given(key=content, value=content, when=times, place=places, flags=st.sampled_from([0, 1]))
@settings(max_examples=200)
def test_a_datagram_of_one_event_has_the_bytes_that_the_format_says(key, value, when, place, flags) -> None:
    record = bytes(encode_records(((0, 0, key, value, ()),)))
    expected = encode(0, flags, 1, 1, FEED, PARTITION, SESSION, place, place, when, record)
    for way in WAYS:
        assert way.datagram_of_one(flags, FEED, PARTITION, SESSION, place, place, when, key, value, ROOM) == expected


@given(key=content, value=content, when=times, place=places, data=st.data())
@settings(max_examples=300)
def test_a_datagram_is_taken_by_the_short_way_only_if_the_long_way_takes_it_too(key, value, when, place, data) -> None:
    sent = bytearray(short_way.datagram_of_one(0, FEED, PARTITION, SESSION, place, place, when, key, value, ROOM) or b"")
    if data.draw(st.booleans(), "damaged"):
        at = data.draw(st.integers(0, len(sent) - 1), "at")
        sent[at] ^= data.draw(st.integers(1, 255), "by")
    del sent[data.draw(st.integers(0, len(sent)) | st.just(len(sent)), "cut") :]
    taken = [way.expected_event(memoryview(sent), {(FEED, PARTITION): stream_at(place)}) for way in WAYS]
    records = [None if one is None else one[1] for one in taken]
    assert records == records[:1] * len(WAYS)
    try:
        known = decode(memoryview(sent)).records()
    except BadDatagram:
        known = []
    assert [one for one in records if one is not None] in ([], known * len(WAYS))
    if known == [(place, when, key, value, ())]:
        assert records[0] == known[0]


def resealed(body: bytes) -> memoryview:
    from headrace.record import crc32c

    return memoryview(b"HRF\x01" + crc32c(body).to_bytes(4, "big") + body)


@given(rest=st.binary(max_size=40), when=times)
@settings(max_examples=300)
def test_records_that_make_no_sense_are_left_to_the_long_way(rest, when) -> None:
    whole = short_way.datagram_of_one(0, FEED, PARTITION, SESSION, 5, 5, when, None, b"", ROOM)
    assert whole is not None
    forged = resealed(whole[8:56] + rest)
    taken = [way.expected_event(forged, {(FEED, PARTITION): stream_at(5)}) for way in WAYS]
    assert len({repr(one and one[1]) for one in taken}) == 1


@pytest.mark.parametrize(
    ("expected", "session", "sent_session"),
    [(4, SESSION, SESSION), (6, SESSION, SESSION), (5, 1, SESSION), (5, None, SESSION), (None, SESSION, SESSION)],
)
def test_what_the_stream_does_not_expect_is_left_to_the_long_way(way, expected, session, sent_session) -> None:
    stream = stream_at(5)
    stream.expected, stream.session = expected, session
    sent = way.datagram_of_one(0, FEED, PARTITION, sent_session, 5, 5, 0, None, b"x", ROOM)
    assert way.expected_event(memoryview(sent), {(FEED, PARTITION): stream}) is None


def test_a_datagram_of_no_known_stream_is_left_to_the_long_way(way) -> None:
    sent = way.datagram_of_one(0, FEED, PARTITION, SESSION, 5, 5, 0, None, b"x", ROOM)
    assert way.expected_event(memoryview(sent), {}) is None


def test_an_event_that_does_not_fit_makes_no_datagram(way) -> None:
    assert way.datagram_of_one(0, FEED, PARTITION, SESSION, 5, 5, 0, b"k", bytes(100), 109) is None
    assert way.datagram_of_one(0, FEED, PARTITION, SESSION, 5, 5, 0, b"k", bytes(100), 110) is not None


def test_a_value_is_made_of_all_its_fields_and_stays_as_it_is(way) -> None:
    made = way.make(Received, way.make(Event, b"k", b"v", (("h", None),), 7), "prices", 3, None)
    assert made == Received(Event(b"k", b"v", (("h", None),), 7), "prices", 3, None)
    assert hash(made) == hash(Received(Event(b"k", b"v", (("h", None),), 7), "prices", 3, None))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.offset = 4
    with pytest.raises(TypeError):
        way.make(Event, b"k", b"v")
