"""One implementation against the other: whatever the bytes, both give the same value or the same error, and only errors
that are ours."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.record import pure
from headrace.record.batch import encode_batch
from headrace.record.compression import Compression
from headrace.record.errors import BatchError, MalformedRequest
from headrace.record.event import Event

Twins = tuple[ModuleType, ModuleType]

STRINGS = (None, "", "topic", "zwölf")


def outcome(module: ModuleType, name: str, *args: Any) -> Any:
    """What a call gives: its value, or its error's type and words."""
    try:
        return getattr(module, name)(*args)
    except (BatchError, MalformedRequest) as error:
        return type(error), str(error)


def same(twins: Twins, name: str, *args: Any) -> None:
    ours, theirs = (outcome(module, name, *args) for module in twins)
    assert ours == theirs


@st.composite
def mutated(draw: st.DrawFn, original: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were right before some were changed, removed or put in."""
    data = bytearray(draw(original))
    for _ in range(draw(st.integers(0, 4))):
        pos = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["set", "set", "length", "cut", "insert"]))
        if kind == "set" and pos < len(data):
            data[pos] = draw(st.integers(0, 255))
        elif kind == "length":
            data[pos : pos + 4] = draw(st.sampled_from(["7fffffff", "ffffffff", "80000000", "00000000", "0fffffff"])
                                       .map(bytes.fromhex))  # fmt: skip
        elif kind == "cut":
            del data[pos : pos + draw(st.integers(1, 8))]
        else:
            data[pos:pos] = draw(st.binary(min_size=1, max_size=8))
    return bytes(data)


contents = st.none() | st.binary(max_size=20)
events = st.builds(
    Event,
    contents,
    contents,
    st.lists(st.tuples(st.text(max_size=4), contents), max_size=2).map(tuple),
    st.integers(-1, 2**45),
)
batch_bytes = st.builds(
    lambda made, offset: bytes(encode_batch(made, base_offset=offset)),
    st.lists(events, min_size=1, max_size=4),
    st.integers(0, 2**63 - 10),
)
logs = st.lists(batch_bytes, max_size=3).map(b"".join)
raw_records = st.lists(
    st.tuples(
        st.integers(-5, 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        contents,
        contents,
        st.lists(st.tuples(st.text(max_size=4), contents), max_size=2).map(tuple),
    ),
    max_size=4,
)


@given(mutated(batch_bytes) | st.binary(max_size=120), st.integers(-2, 3), st.integers(-3, 2), st.booleans())
@settings(max_examples=150)
def test_check_batch(twins: Twins, data: bytes, start: int, short: int, seal: bool) -> None:
    if seal and len(data) > 21:
        data = data[:17] + pure.crc32c(data[21:]).to_bytes(4, "big") + data[21:]
        same(twins, "check_batch", data, 0, len(data))
    same(twins, "check_batch", data, 0, len(data))
    same(twins, "check_batch", data, start, len(data) + short)


@given(mutated(logs) | st.binary(max_size=200), st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 20), st.booleans())
@settings(max_examples=150)
def test_the_walks(twins: Twins, data: bytes, offset: int, gaps: bool) -> None:
    same(twins, "find_offset", data, offset)
    same(twins, "whole_batches", data)
    same(twins, "scan_batches", data, 0, offset, gaps)
    same(twins, "scan_batches", data, 0, -1, gaps)


@given(mutated(batch_bytes), st.integers(-2, 5), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_the_stamps(twins: Twins, data: bytes, start: int, number: int, epoch: int) -> None:
    for name, args in (("stamp_batch", (start, number, epoch)), ("stamp_append_time", (start, len(data), number))):
        results = []
        for module in twins:
            stamped = bytearray(data)
            results.append((outcome(module, name, stamped, *args), stamped))
        assert results[0] == results[1]


@given(
    mutated(raw_records.map(pure.encode_records)) | st.binary(max_size=60),
    st.integers(-1, 6),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
)
@settings(max_examples=150)
def test_decode_records(twins: Twins, payload: bytes, count: int, base_offset: int, base_timestamp: int) -> None:
    same(twins, "decode_records", payload, count, base_offset, base_timestamp)


class Body:
    """Writes request bodies as the schemas have them, version by version."""

    def __init__(self, draw: st.DrawFn, flexible: bool) -> None:
        self.draw = draw
        self.flexible = flexible
        self.data = bytearray()

    def number(self, size: int) -> None:
        self.data += self.draw(st.binary(min_size=size, max_size=size))

    def length(self, value: int, size: int) -> None:
        self.data += bytes([value + 1]) if self.flexible else value.to_bytes(size, "big", signed=True)

    def string(self, nullable: bool = False) -> None:
        text = self.draw(st.sampled_from(STRINGS if nullable else STRINGS[1:]))
        content = (text or "").encode()
        self.length(-1 if text is None else len(content), 2)
        self.data += content

    def topic(self, by_id: bool) -> None:
        if by_id:
            self.number(16)
        else:
            self.string()

    def array(self) -> range:
        count = self.draw(st.integers(0, 2))
        self.length(count, 4)
        return range(count)

    def tags(self) -> None:
        if self.flexible:
            count = self.draw(st.sampled_from([0, 0, 0, 1, 2]))
            self.data.append(count)
            for tag in range(count):
                content = self.draw(st.binary(max_size=3))
                self.data += bytes([tag, len(content)]) + content


@st.composite
def produce_bodies(draw: st.DrawFn, version: int) -> bytes:
    body = Body(draw, version >= 9)
    body.string(nullable=True)
    body.number(6)
    for _ in body.array():
        body.topic(version >= 13)
        for _ in body.array():
            body.number(4)
            records = draw(contents)
            body.length(-1 if records is None else len(records), 4)
            body.data += records or b""
            body.tags()
        body.tags()
    body.tags()
    return bytes(body.data)


@st.composite
def fetch_bodies(draw: st.DrawFn, version: int) -> bytes:
    body = Body(draw, version >= 12)
    body.number((4 if version <= 14 else 0) + 13 + (8 if version >= 7 else 0))
    for _ in body.array():
        body.topic(version >= 13)
        for _ in body.array():
            size = 16 + (4 if version >= 9 else 0) + (4 if version >= 12 else 0) + (8 if version >= 5 else 0)
            body.number(size)
            body.tags()
        body.tags()
    if version >= 7:
        for _ in body.array():
            body.topic(version >= 13)
            for _ in body.array():
                body.number(4)
            body.tags()
    if version >= 11:
        body.string()
    body.tags()
    return bytes(body.data)


produce_requests = st.integers(3, 13).flatmap(lambda v: st.tuples(st.just(v), produce_bodies(v)))
fetch_requests = st.integers(4, 18).flatmap(lambda v: st.tuples(st.just(v), fetch_bodies(v)))


@given(produce_requests)
def test_well_formed_produce_requests_are_taken(twins: Twins, request_: tuple[int, bytes]) -> None:
    version, body = request_
    for module in twins:
        assert len(module.parse_produce(body, 0, len(body), version)) == 4
    same(twins, "parse_produce", body, 0, len(body), version)


@given(fetch_requests)
def test_well_formed_fetch_requests_are_taken(twins: Twins, request_: tuple[int, bytes]) -> None:
    version, body = request_
    for module in twins:
        assert len(module.parse_fetch(body, 0, len(body), version)) == 8
    same(twins, "parse_fetch", body, 0, len(body), version)


@given(
    st.integers(2, 14).flatmap(lambda v: st.tuples(st.just(v), mutated(produce_bodies(v)) | st.binary(max_size=80))),
    st.integers(-1, 3),
    st.integers(-3, 1),
)
@settings(max_examples=150)
def test_parse_produce(twins: Twins, request_: tuple[int, bytes], start: int, short: int) -> None:
    version, body = request_
    same(twins, "parse_produce", body, 0, len(body), version)
    same(twins, "parse_produce", body, start, len(body) + short, version)


@st.composite
def sole_batches(draw: st.DrawFn) -> bytes:
    """Produce requests with one batch for one partition, or nearly so."""
    version = draw(st.integers(2, 14))
    compression = draw(st.sampled_from(Compression))
    records = bytearray(encode_batch(draw(st.lists(events, min_size=1, max_size=3)), compression=compression))
    for _ in range(draw(st.integers(0, 2))):
        records[draw(st.integers(8, 60))] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        records[17:21] = pure.crc32c(records[21:]).to_bytes(4, "big")
    flexible = version >= 9
    client = draw(st.sampled_from([b"\xff\xff", b"\0\0", b"\0\3app"]))
    head = draw(st.sampled_from([0, 0, 0, 1])).to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7" + client
    body = Body(draw, flexible)
    body.data += head + b"\0" * flexible
    body.data += draw(st.sampled_from([b"\0" if flexible else b"\xff\xff", b"\2x" if flexible else b"\xff\xfe"]))
    body.number(6)
    body.length(1, 4)
    body.topic(version >= 13)
    body.length(1, 4)
    body.number(4)
    body.length(len(records), 4)
    body.data += records
    for _ in range(3):
        body.tags() if draw(st.integers(0, 9)) == 0 else body.data.extend(b"\0" * flexible)
    return bytes(body.data)


@given(sole_batches() | mutated(sole_batches()), st.integers(-1, 3), st.integers(-3, 1))
@settings(max_examples=300)
def test_parse_sole_batch(twins: Twins, request_: bytes, start: int, short: int) -> None:
    same(twins, "parse_sole_batch", request_, 0, len(request_))
    same(twins, "parse_sole_batch", b"..." + request_ + b"...", 3, 3 + len(request_))
    same(twins, "parse_sole_batch", request_, start, len(request_) + short)


@given(st.integers(3, 13), st.text(max_size=9), st.lists(st.integers(0, 2**63 - 1), min_size=3, max_size=3))
def test_encode_sole_answer(twins: Twins, version: int, name: str, numbers: list[int]) -> None:
    topic = name.encode().ljust(16)[:16] if version >= 13 else name
    same(twins, "encode_sole_answer", version, 7, topic, 3, *numbers)


@given(
    st.integers(3, 19).flatmap(lambda v: st.tuples(st.just(v), mutated(fetch_bodies(v)) | st.binary(max_size=120))),
    st.integers(-1, 3),
    st.integers(-3, 1),
)
@settings(max_examples=150)
def test_parse_fetch(twins: Twins, request_: tuple[int, bytes], start: int, short: int) -> None:
    version, body = request_
    same(twins, "parse_fetch", body, 0, len(body), version)
    same(twins, "parse_fetch", body, start, len(body) + short, version)
