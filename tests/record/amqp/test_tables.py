"""Field tables: every type there and back, the bytes RabbitMQ itself wrote, and bytes that are no table."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record.amqp.tables import (
    MAX_DEPTH,
    Decimal,
    Float32,
    Int8,
    Int16,
    Int32,
    LongString,
    MalformedTable,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    decode_table,
    encode_table,
)

# Headers that were published with every type, as RabbitMQ 3.10 wrote them anew when it dead-lettered the message.
FROM_RABBITMQ = bytes.fromhex(
    "00000175"
    "014141000000127401566c000000000000000053000000017a014242ff01444402000001000146460000000401747400014949fffffffe"
    "014c6cffffffffffffffff0153530000000268ff0253325300000002c3a9015454ffffffffffffffff015656016262ff"
    "016464bfb999999999999a0166663fc00000016969fffffffe016c6cffffffffffffffff017373fffe01747401017575fffe"
    "017878000000020001"
    "07782d6465617468410000006c460000006705636f756e746c000000000000000106726561736f6e530000000872656a6563746564"
    "05717565756553000000037372630474696d6554000000006afa771b0865786368616e67655300000000"
    "0c726f7574696e672d6b65797341000000085300000003737263"
    "16782d66697273742d64656174682d65786368616e67655300000000"
    "13782d66697273742d64656174682d71756575655300000003737263"
    "14782d66697273742d64656174682d726561736f6e530000000872656a6563746564"
)


def ranged(kind: type[int], low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high).map(kind)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    ranged(Int8, -(2**7), 2**7 - 1),
    ranged(UInt8, 0, 2**8 - 1),
    ranged(Int16, -(2**15), 2**15 - 1),
    ranged(UInt16, 0, 2**16 - 1),
    ranged(Int32, -(2**31), 2**31 - 1),
    ranged(UInt32, 0, 2**32 - 1),
    ranged(Timestamp, 0, 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(Float32),
    st.builds(Decimal, st.integers(0, 255), st.integers(0, 2**32 - 1)),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.just(LongString(b"\xff\xfe")),
)
names = st.text(max_size=10)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
tables = st.dictionaries(names, values, max_size=4)


def shape(value: object) -> object:
    """The value with its types, which == does not look at."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value), value


@given(tables)
def test_what_is_written_is_read_again_with_its_types(table: dict[str, object]) -> None:
    raw = encode_table(table)
    decoded, end = decode_table(raw)
    assert end == len(raw)
    assert shape(decoded) == shape(table)
    assert list(decoded) == list(table)
    assert encode_table(decoded) == raw


@given(tables, st.binary(max_size=5), st.binary(max_size=5))
def test_a_table_is_read_in_the_middle_of_other_bytes(table: dict[str, object], before: bytes, after: bytes) -> None:
    raw = encode_table(table)
    assert decode_table(before + raw + after, len(before)) == (table, len(before) + len(raw))


def test_what_rabbitmq_wrote_is_read_and_written_alike() -> None:
    table, end = decode_table(FROM_RABBITMQ)
    assert end == len(FROM_RABBITMQ)
    assert encode_table(table) == FROM_RABBITMQ
    assert shape({name: value for name, value in table.items() if len(name) < 3}) == shape(
        {
            "A": [True, None, 0, "z"],
            "B": UInt8(255),
            "D": Decimal(2, 256),
            "F": {"t": False},
            "I": Int32(-2),
            "L": -1,
            "S": LongString(b"h\xff"),
            "S2": "é",
            "T": Timestamp(2**64 - 1),
            "V": None,
            "b": Int8(-1),
            "d": -0.1,
            "f": Float32(1.5),
            "i": UInt32(2**32 - 2),
            "l": -1,
            "s": Int16(-2),
            "t": True,
            "u": UInt16(65534),
            "x": b"\0\1",
        }
    )
    assert shape(table["x-death"]) == shape(
        [
            {
                "count": 1,
                "reason": "rejected",
                "queue": "src",
                "time": Timestamp(1794799387),
                "exchange": "",
                "routing-keys": ["src"],
            }
        ]
    )


def test_an_unsigned_looking_long_is_signed_and_written_as_l_and_any_bool_as_one() -> None:
    table, _ = decode_table(b"\0\0\0\x0f\1aL" + b"\xff" * 8 + b"\1bt\5")
    assert shape(table) == shape({"a": -1, "b": True})
    assert encode_table(table) == b"\0\0\0\x0f\1al" + b"\xff" * 8 + b"\1bt\1"


def test_of_a_key_that_comes_twice_the_last_value_counts() -> None:
    assert decode_table(b"\0\0\0\x08\1at\0\1at\1")[0] == {"a": True}


def test_a_key_that_is_not_utf8_survives() -> None:
    raw = b"\0\0\0\4\1\xfft\1"
    assert encode_table(decode_table(raw)[0]) == raw


@given(tables)
def test_a_table_cut_short_anywhere_is_refused(table: dict[str, object]) -> None:
    raw = encode_table(table)
    for end in range(len(raw)):
        with pytest.raises(MalformedTable):
            decode_table(raw[:end])


@given(tables.map(encode_table), st.data())
def test_an_inner_length_never_reaches_beyond_its_table(raw: bytes, data: st.DataObject) -> None:
    """The same bytes with a shorter length in front, and more behind them: an error or a smaller table."""
    length = data.draw(st.integers(0, max(0, len(raw) - 5)))
    try:
        _, end = decode_table(struct.pack(">I", length) + raw[4:] + b"\0" * 40)
    except MalformedTable:
        return
    assert end == length + 4


@given(st.binary(max_size=80))
def test_any_bytes_are_a_table_or_malformed(body: bytes) -> None:
    try:
        table, end = decode_table(struct.pack(">I", len(body)) + body)
    except MalformedTable:
        return
    assert end == len(body) + 4
    assert shape(decode_table(encode_table(table))[0]) == shape(table)


@pytest.mark.parametrize(
    "body", [b"\1aZ", b"\1a", b"\1", b"\5ab", b"\1aS\0\0\0\2x", b"\1al\0", b"\1aF\0\0\0\1\1", b"\1aS\xff\xff\xff\xff"]
)
def test_malformed_fields_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedTable):
        decode_table(struct.pack(">I", len(body)) + body)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Float32("-inf")])
def test_what_erlang_can_not_read_as_a_float_is_refused(value: float) -> None:
    with pytest.raises(MalformedTable):
        decode_table(encode_table({"a": value}))


def nested(depth: int) -> bytes:
    body = b""
    for _ in range(depth - 1):
        body = b"\1aF" + struct.pack(">I", len(body)) + body
    return struct.pack(">I", len(body)) + body


def test_nesting_has_a_bound_in_both_directions() -> None:
    deepest, _ = decode_table(nested(MAX_DEPTH))
    assert encode_table(deepest) == nested(MAX_DEPTH)
    with pytest.raises(MalformedTable, match="nested"):
        decode_table(nested(MAX_DEPTH + 1))
    with pytest.raises(MalformedTable, match="nested"):
        decode_table(nested(20_000))
    with pytest.raises(ValueError, match="nested"):
        encode_table({"a": deepest})
    arrays = b"A\0\0\0\0"
    for _ in range(MAX_DEPTH):
        arrays = b"A" + struct.pack(">I", len(arrays)) + arrays
    with pytest.raises(MalformedTable, match="nested"):
        decode_table(struct.pack(">I", len(arrays) + 2) + b"\1a" + arrays)


@pytest.mark.parametrize("table", [{"a": 2**63}, {"a": Int8(200)}, {"a": Float32(1e300)}, {"a" * 256: 1}])
def test_a_value_that_does_not_fit_its_type_is_not_written(table: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"fit|longer"):
        encode_table(table)


def test_a_type_without_a_letter_is_not_written() -> None:
    with pytest.raises(TypeError, match="object"):
        encode_table({"a": object()})


# What every client can write; none of them writes all types, and pika reads doubles as integers.
TABLE: dict[str, object] = {"s": "héllo", "i": 7, "t": True, "n": None, "a": [1, "x", {"deep": False}], "e": {}}


def test_pika_reads_what_we_write_and_we_what_it_writes() -> None:
    data = pytest.importorskip("pika.data")
    table = {**TABLE, "x": b"\xff"}
    raw = encode_table(table)
    assert data.decode_table(raw, 0) == (table, len(raw))
    pieces: list[bytes] = []
    data.encode_table(pieces, table)
    assert decode_table(b"".join(pieces))[0] == table


def test_py_amqp_reads_what_we_write_and_we_what_it_writes() -> None:
    serialization = pytest.importorskip("amqp.serialization")
    table = {**TABLE, "d": 1.5}
    assert serialization.loads("F", encode_table(table), 0)[0][0] == table
    assert decode_table(serialization.dumps("F", [table]))[0] == table


def test_pamqp_reads_what_we_write_and_we_what_it_writes() -> None:
    decode = pytest.importorskip("pamqp.decode")
    encode = pytest.importorskip("pamqp.encode")
    table = {**TABLE, "d": 1.5}
    raw = encode_table(table)
    assert decode.field_table(raw) == (len(raw), table)
    assert decode_table(encode.field_table(table))[0] == table
