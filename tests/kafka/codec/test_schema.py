"""The declarative schema: versions, defaults, nulls and tagged fields, checked against bytes written by hand."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.codec.fields import (
    INT32,
    NO_UUID,
    STRING,
    UUID16,
    array,
    blob,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uint16,
    uint32,
    uuid,
)
from headrace.kafka.codec.schema import Message, Request, Struct, decode, decode_from, encode, encode_into
from headrace.kafka.codec.wire import Buffer, MalformedMessage, UnencodableMessage, UnsupportedVersion


class Member(Struct):
    name: str = string()
    rack: str | None = string(since=1, nullable=2, default=None)


class Sample(Request, api_key=77, versions=(0, 4), flexible=3):
    small: int = int8()
    count: int = int32(default=-1)
    title: str = string()
    members: list[Member] = array(Member)
    flag: bool = boolean(since=1)
    legacy: int = int16(until=1)
    numbers: list[int] | None = array(INT32, since=2, nullable=True)
    owner: Member | None = nested(Member, since=2, nullable=True, default=None)
    epoch: int = int64(since=3, default=-1, tag=0)
    leader: Member = nested(Member, since=4, tag=2)


class Everything(Message, versions=(0, 1), flexible=1):
    a: int = int8()
    b: int = int16()
    c: int = int32()
    d: int = int64()
    e: int = uint16()
    f: int = uint32()
    g: float = float64()
    h: bool = boolean()
    i: UUID = uuid()
    j: str | None = string(nullable=True)
    k: bytes | None = blob(nullable=True)
    m: Buffer | None = records(nullable=True)
    n: list[int] = array(INT32)
    o: list[str] | None = array(STRING, nullable=True)
    p: list[UUID] = array(UUID16)


def test_a_version_before_compact_lengths() -> None:
    sample = Sample(small=1, count=2, title="ab", members=[Member(name="c")], legacy=5)
    assert encode(sample, 0) == bytes.fromhex("01 00000002 0002 6162 00000001 0001 63 0005")


def test_a_flexible_version() -> None:
    sample = Sample(small=1, count=2, title="ab", members=[Member(name="c", rack="r")], flag=True, numbers=[7], epoch=9)
    expected = "01 00000002 03 6162 02 02 63 02 72 00 01 02 00000007 ff 01 00 08 0000000000000009"
    assert encode(sample, 3) == bytes.fromhex(expected)
    assert decode(Sample, 3, encode(sample, 3)) == sample


def test_fields_of_other_versions_are_dropped_and_read_as_defaults() -> None:
    sample = Sample(flag=True, legacy=5, numbers=[1], epoch=3)
    assert decode(Sample, 0, encode(sample, 0)) == Sample(legacy=5)
    assert decode(Sample, 1, encode(sample, 1)) == Sample(flag=True, legacy=5)
    assert decode(Sample, 2, encode(sample, 2)) == Sample(flag=True, numbers=[1])


def test_null_is_written_and_read_where_the_version_allows_it() -> None:
    sample = Sample(members=[Member(rack=None)], numbers=None, owner=None)
    for version in (2, 3, 4):
        assert decode(Sample, version, encode(sample, version)) == sample


def test_null_where_the_version_does_not_allow_it_is_refused() -> None:
    with pytest.raises(UnencodableMessage, match="Sample v1"):
        encode(Sample(members=[Member(rack=None)]), 1)
    wire = encode(Sample(members=[Member(name="", rack="")]), 1)
    rack_length = 1 + 4 + 2 + 4 + 2  # behind small, count, title, the number of members and the first one's name
    wire[rack_length : rack_length + 2] = b"\xff\xff"
    with pytest.raises(MalformedMessage, match=r"Member\.rack must not be null"):
        decode(Sample, 1, wire)


def test_a_nullable_struct_has_a_byte_before_it() -> None:
    sample = Sample(owner=Member(name="o", rack="r"))
    assert decode(Sample, 2, encode(sample, 2)) == sample
    assert encode(sample, 2).endswith(bytes.fromhex("01 0001 6f 0001 72"))


def test_a_tagged_field_with_its_default_is_not_written() -> None:
    assert encode(Sample(), 4)[-1] == 0
    assert encode(Sample(epoch=0), 4)[-11:] == bytes.fromhex("01 00 08 0000000000000000")


def test_a_tagged_struct() -> None:
    sample = Sample(leader=Member(name="x"))
    assert encode(sample, 4).endswith(bytes.fromhex("01 02 04 02 78 00 00"))
    assert decode(Sample, 4, encode(sample, 4)) == sample


def test_unknown_tagged_fields_are_passed_over() -> None:
    plain = encode(Sample(title="t", epoch=5), 3)
    known = bytes.fromhex("01 00 08 0000000000000005")
    assert plain.endswith(known)
    with_more = plain[: -len(known)] + bytes.fromhex("03 00 08 0000000000000005 05 02 abcd ac02 01 ff")
    assert decode(Sample, 3, with_more) == Sample(title="t", epoch=5)


def test_a_tagged_field_of_another_size_than_it_claims_is_refused() -> None:
    wire = encode(Sample(epoch=5), 3)
    assert wire[-9] == 8
    wire[-9] = 9
    with pytest.raises(MalformedMessage, match="size"):
        decode(Sample, 3, wire + b"\x00")


def test_bytes_behind_the_message_are_ignored() -> None:
    wire = encode(Sample(title="t"), 4)
    assert decode_from(Sample, 4, wire + b"garbage") == (Sample(title="t"), len(wire))


def test_a_message_is_found_in_the_middle_of_a_buffer() -> None:
    wire = bytearray(b"header")
    encode_into(wire, Sample(title="t"), 2)
    assert decode(Sample, 2, wire, len(b"header")) == Sample(title="t")


def test_text_that_is_not_utf_8_is_read_as_kafka_reads_it() -> None:
    wire = encode(Sample(title="??"), 0)
    assert decode(Sample, 0, wire.replace(b"??", b"a\xff")).title == "a\ufffd"


def test_every_negative_length_is_null() -> None:
    wire = encode(Everything(j=None, k=None), 0)
    null_string, null_bytes = b"\xff\xff", b"\xff\xff\xff\xff"
    wire = wire.replace(null_string + null_bytes, b"\x80\x00" + b"\x80\x00\x00\x00", 1)
    found = decode(Everything, 0, wire)
    assert (found.j, found.k) == (None, None)


def test_a_compact_string_may_not_be_longer_than_any_other() -> None:
    with pytest.raises(UnencodableMessage, match="32768"):
        encode(Sample(title="x" * 32768), 3)
    with pytest.raises(UnencodableMessage):
        encode(Sample(title="x" * 32768), 0)
    wire = bytes.fromhex("01 00000002 818002") + b"x" * 32768 + b"\x01\x00\x00\x00\x00"
    with pytest.raises(MalformedMessage, match="32768"):
        decode(Sample, 3, wire)


@pytest.mark.parametrize("version", [0, 3])
def test_numbers_out_of_range_are_refused(version: int) -> None:
    with pytest.raises(UnencodableMessage):
        encode(Sample(small=128), version)


def test_versions_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UnsupportedVersion):
        encode(Sample(), 5)
    with pytest.raises(UnsupportedVersion):
        decode(Sample, -1, b"")


def test_a_new_object_has_the_declared_defaults_and_lists_of_its_own() -> None:
    one, other = Sample(), Sample()
    assert (one.count, one.title, one.numbers, one.owner) == (-1, "", [], None)
    one.members.append(Member())
    assert other.members == []
    assert one.leader is not other.leader
    assert Everything().i == NO_UUID


def test_objects_compare_by_value_and_type_and_show_their_fields() -> None:
    assert Member(name="a") == Member(name="a") != Member(name="b")
    assert Member(name="a") != "a"
    assert repr(Member(name="a", rack="r")) == "Member(name='a', rack='r')"


def test_objects_have_no_room_for_a_misspelt_field() -> None:
    with pytest.raises(AttributeError):
        Member().nmae = "a"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Member(nmae="a")  # type: ignore[call-arg]


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(
    message=st.builds(
        Everything,
        a=ints(8),
        b=ints(16),
        c=ints(32),
        d=ints(64),
        e=st.integers(0, 0xFFFF),
        f=st.integers(0, 0xFFFFFFFF),
        g=st.floats(allow_nan=False),
        h=st.booleans(),
        i=st.uuids(),
        j=st.none() | text,
        k=st.none() | st.binary(max_size=300),
        m=st.none() | st.binary(max_size=300),
        n=st.lists(ints(32), max_size=200),
        o=st.none() | st.lists(text, max_size=10),
        p=st.lists(st.uuids(), max_size=10),
    ),
    version=st.sampled_from([0, 1]),
)
def test_every_kind_of_field_survives_the_way_to_the_wire_and_back(message: Everything, version: int) -> None:
    wire = encode(message, version)
    assert decode_from(Everything, version, bytes(wire)) == (message, len(wire))
    assert decode(Everything, version, memoryview(wire)) == message


@given(length=st.integers(0, 400), version=st.sampled_from([0, 1]))
def test_arrays_of_every_length_around_the_limits_of_a_varint(length: int, version: int) -> None:
    message = Everything(n=list(range(length)), j="", k=b"", m=b"", o=[])
    assert decode(Everything, version, encode(message, version)) == message
