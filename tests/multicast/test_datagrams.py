"""Datagrams to bytes and back: what the document says, byte for byte, and nothing else is taken."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.multicast.feed.datagrams import (
    DAMAGED,
    FORGED,
    HEADER_SIZE,
    LARGEST,
    MALFORMED,
    STRANGE,
    BadDatagram,
    Flags,
    Kind,
    decode,
    encode,
    feed_number,
)
from headrace.multicast.feed.packing import LEAST_MTU, Packer, TooLarge
from headrace.record import crc32c, encode_records

contents = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.text(max_size=8), contents), max_size=3).map(tuple)
times = st.integers(0, 2**45)
SECRET = b"a shared secret"

# Two events, ("k", "one", a header "h" = "v", at 1,700,000,000,000 ms) and (no key, no value, 5 ms later), as sequences 7 and 9
# of partition 2 of feed "prices", behind an event that ended at 5, in session 0x0102030405060708.
GOLDEN = bytes.fromhex(
    "48524601"  # magic, version
    "dba492b6"  # checksum
    "00 00 0002 00000003"  # events, no flags, two of them, sequences 7 to 9
    "ebde2278 00000002"  # feed, partition
    "0102030405060708"  # session
    "0000000000000005 0000000000000007"  # previous, first
    "0000018bcfe56800"  # timestamp
    "1c 00 00 00 02 6b 06 6f6e65 02 02 68 02 76"
    "0c 00 0a 04 01 01 00"
)


def golden() -> bytes:
    packer = Packer(feed_number("prices"), 2, 0x0102030405060708, start=5)
    assert packer.add(7, 1_700_000_000_000, b"k", b"one", (("h", b"v"),)) is None
    assert packer.add(9, 1_700_000_000_005, None, None, ()) is None
    datagram = packer.flush()
    assert datagram is not None
    return datagram


def sealed(datagram: bytes | bytearray) -> memoryview:
    """With the checksum made right again."""
    return memoryview(bytes(datagram[:4]) + crc32c(bytes(datagram[8:])).to_bytes(4, "big") + bytes(datagram[8:]))


def changed(datagram: bytes, position: int, content: bytes) -> memoryview:
    return sealed(datagram[:position] + content + datagram[position + len(content) :])


def reason(data: bytes | memoryview, secret: bytes | None = None) -> str:
    with pytest.raises(BadDatagram) as caught:
        decode(memoryview(data), secret).records()
    return caught.value.reason


def test_a_datagram_has_the_bytes_that_the_document_shows() -> None:
    assert golden() == GOLDEN
    found = decode(memoryview(GOLDEN))
    assert (found.kind, found.flags, found.event_count, found.span) == (Kind.EVENTS, 0, 2, 3)
    assert (found.feed, found.partition, found.session) == (feed_number("prices"), 2, 0x0102030405060708)
    assert (found.previous, found.first, found.next, found.timestamp_ms) == (5, 7, 10, 1_700_000_000_000)
    assert found.records() == [
        (7, 1_700_000_000_000, b"k", b"one", (("h", b"v"),)),
        (9, 1_700_000_000_005, None, None, ()),
    ]


def test_a_heartbeat_of_a_topic_names_it() -> None:
    packer = Packer(feed_number("prices"), 0, 1, start=12, topic="prices")
    found = decode(memoryview(packer.heartbeat(99)))
    assert (found.kind, found.previous, found.first, found.next, found.timestamp_ms) == (Kind.HEARTBEAT, 12, 12, 12, 99)
    assert found.logged
    assert not found.ends
    assert found.topic() == "prices"
    assert decode(memoryview(packer.heartbeat(99, end=True))).ends


def test_a_heartbeat_without_a_topic_has_no_payload() -> None:
    heartbeat = Packer(feed_number("prices"), 0, 1).heartbeat(0)
    assert len(heartbeat) == HEADER_SIZE
    assert decode(memoryview(heartbeat)).topic() is None


def test_the_number_of_a_feed_is_the_checksum_of_its_name() -> None:
    assert feed_number("prices") == 0xEBDE2278
    assert feed_number("") == 0


@given(
    st.lists(st.tuples(st.integers(1, 5), times, contents, contents, headers), min_size=1, max_size=40),
    st.integers(0, 2**60),
    st.integers(LEAST_MTU, 3000),
    st.none() | st.just(SECRET),
)
def test_what_was_packed_is_unpacked_in_full_datagrams(
    made: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    start: int,
    mtu: int,
    secret: bytes | None,
) -> None:
    packer = Packer(3, 1, 77, start=start, mtu=mtu, secret=secret)
    sequence, events, datagrams = start, [], []
    for step, when, key, value, own in made:
        sequence += step
        event = (sequence, when, key, value, own)
        try:
            full = packer.add(*event)
        except TooLarge:
            continue
        events.append(event)
        if full is not None:
            datagrams.append(full)
    last = packer.flush()
    datagrams += [last] if last is not None else []
    assert packer.flush() is None
    found, previous = [], start
    for position, datagram in enumerate(datagrams):
        assert len(datagram) <= mtu
        one = decode(memoryview(datagram), secret)
        assert one.previous == previous
        records = one.records()
        previous = one.next
        found += records
        if position + 1 < len(datagrams):  # the next one's first event found no room in it, wherever it stands there
            following = decode(memoryview(datagrams[position + 1]), secret).records()[0]
            own = (following[0] - one.first, following[1] - one.timestamp_ms, *following[2:])
            assert len(datagram) + len(encode_records([own])) > mtu
    assert found == events
    assert packer.previous == previous


@given(times, contents, contents, headers, st.none() | st.just(SECRET))
def test_one_event_alone_is_the_same_datagram(
    when: int, key: bytes | None, value: bytes | None, own: tuple[tuple[str, bytes | None], ...], secret: bytes | None
) -> None:
    gathering, alone = (Packer(3, 1, 77, start=5, mtu=1400, topic="prices", secret=secret) for _ in range(2))
    assert gathering.add(9, when, key, value, own) is None
    assert alone.alone(9, when, key, value, own) == gathering.flush()
    assert alone.previous == gathering.previous == 10
    with pytest.raises(TooLarge):
        alone.alone(10, when, key, b"x" * 1400, own)
    assert alone.previous == 10


def test_an_event_that_fits_no_datagram_is_refused_and_changes_nothing() -> None:
    packer = Packer(1, 0, 1, mtu=LEAST_MTU)
    assert packer.add(0, 0, None, b"fits", ()) is None
    with pytest.raises(TooLarge, match="an event of 309 bytes does not fit into a datagram, which has room for 200"):
        packer.add(1, 0, None, b"x" * 300, ())
    assert packer.add(1, 0, None, b"fits, too", ()) is None
    datagram = packer.flush()
    assert datagram is not None
    assert [record[3] for record in decode(memoryview(datagram)).records()] == [b"fits", b"fits, too"]


@pytest.mark.parametrize("mtu", [0, LEAST_MTU - 1, LARGEST + 1])
def test_a_datagram_can_have_no_such_size(mtu: int) -> None:
    with pytest.raises(ValueError, match="a datagram has 256 to 65507 bytes"):
        Packer(1, 0, 1, mtu=mtu)


def test_sequences_that_are_far_apart_go_into_datagrams_of_their_own() -> None:
    packer = Packer(1, 0, 1)
    assert packer.add(0, 0, None, b"", ()) is None
    first = packer.add(2**31, 0, None, b"", ())
    assert first is not None
    second = packer.flush()
    assert second is not None
    assert (decode(memoryview(second)).previous, decode(memoryview(second)).first) == (1, 2**31)


def test_a_tag_is_half_an_hmac_of_all_but_magic_and_checksum() -> None:
    datagram = encode(1, 0, 0, 0, 5, 0, 1, 3, 3, 0, b"", SECRET)
    expected = hmac.new(SECRET, datagram[8:-16], hashlib.sha256).digest()[:16]
    assert datagram[-16:] == expected
    assert decode(memoryview(datagram), SECRET).flags == Flags.AUTHENTICATED
    assert decode(memoryview(datagram)).payload == b""  # who has no secret can't tell, and may read it


@given(st.integers(0, len(GOLDEN) - 1), st.integers(0, 7))
def test_a_bit_that_fell_over_is_noticed(position: int, bit: int) -> None:
    damaged = bytearray(GOLDEN)
    damaged[position] ^= 1 << bit
    assert reason(damaged) == (STRANGE if position < 4 else DAMAGED)


@given(st.integers(8, HEADER_SIZE + 15), st.integers(0, 7))
def test_what_was_changed_on_purpose_is_forged(position: int, bit: int) -> None:
    datagram = bytearray(encode(0, 0, 1, 1, 5, 0, 1, 3, 3, 0, encode_records([(0, 0, b"k", b"v", ())]), SECRET))
    datagram[position] ^= 1 << bit
    assert reason(sealed(datagram), SECRET) in (FORGED, MALFORMED)


def test_a_tag_of_another_secret_and_none_at_all_are_forged() -> None:
    assert reason(encode(1, 0, 0, 0, 5, 0, 1, 3, 3, 0, b"", b"another one"), SECRET) == FORGED
    assert reason(encode(1, 0, 0, 0, 5, 0, 1, 3, 3, 0, b""), SECRET) == FORGED


@pytest.mark.parametrize(
    ("position", "content", "why"),
    [
        (8, b"\x02", "a kind that there is not"),
        (8, b"\x01", "a heartbeat with events"),
        (9, b"\x08", "a flag that there is not"),
        (10, b"\x00\x00", "no event"),
        (10, b"\x00\x03", "more events than there are"),
        (12, b"\x00\x00\x00\x04", "a span that the events do not fill"),
        (12, b"\x00\x00\x00\x02", "events beyond the span"),
        (12, b"\xff\xff\xff\xff", "a span beyond what there can be"),
        (32, b"\x00\x00\x00\x00\x00\x00\x00\x08", "a beginning before the end of the one before"),
        (32, b"\xff", "a sequence below 0"),
        (40, b"\x7f\xff\xff\xff\xff\xff\xff\xff", "sequences beyond what there can be"),
        (56, b"\x1d", "a record longer than it is"),
        (59, b"\x02", "a first event that is not the first"),
        (74, b"\x00", "sequences that do not grow"),
    ],
)
def test_nonsense_is_refused(position: int, content: bytes, why: str) -> None:
    assert reason(changed(GOLDEN, position, content)) == MALFORMED, why


@pytest.mark.parametrize(
    "fields",
    [
        (1, 0, 1, 0, 5, 0, 1, 3, 3, 0),
        (1, 0, 0, 1, 5, 0, 1, 3, 3, 0),
        (1, 0, 0, 0, 5, 0, 1, 3, 4, 0),
    ],
)
def test_a_heartbeat_accounts_for_nothing(fields: tuple[int, ...]) -> None:
    assert reason(encode(*fields, b"")) == MALFORMED  # type: ignore[arg-type]


def test_the_name_of_a_topic_is_text() -> None:
    with pytest.raises(BadDatagram):
        decode(memoryview(encode(1, 1, 0, 0, 5, 0, 1, 3, 3, 0, b"\xff"))).topic()


def test_a_tag_that_would_be_in_the_header_is_malformed() -> None:
    assert reason(sealed(bytearray(encode(1, 2, 0, 0, 5, 0, 1, 3, 3, 0, b"short")))) == MALFORMED


@given(st.binary(max_size=200))
def test_whatever_comes_is_refused_with_a_word(data: bytes) -> None:
    for attempt in (data, b"HRF\x01" + data, sealed(b"HRF\x01\0\0\0\0" + data)):
        with pytest.raises(BadDatagram):
            decode(memoryview(attempt), SECRET)
        try:
            decode(memoryview(attempt)).records()
        except BadDatagram:
            continue
