"""An encoder of Avro that knows nothing of the decoder, and strategies for schemas with data of them."""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Any

from hypothesis import strategies as st


def zigzag(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def sized(content: bytes) -> bytes:
    return zigzag(len(content)) + content


TEXTS = st.text(max_size=12)
LONGS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def cases(draw: st.DrawFn, depth: int = 3) -> tuple[Any, st.SearchStrategy[tuple[bytes, Any]]]:
    """A schema, and a strategy for data of it together with what it stands for."""
    leaves = ["null", "boolean", "int", "long", "double", "string", "bytes", "fixed", "enum"]
    kind = draw(st.sampled_from(leaves + (["array", "map", "record", "union"] * 2 if depth else [])))
    name = f"N{draw(st.uuids()).hex}"
    if kind == "fixed":
        size = draw(st.integers(0, 5))
        contents = st.binary(min_size=size, max_size=size)
        return {"type": "fixed", "name": name, "size": size}, contents.map(lambda content: (content, content.hex()))
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDE"), min_size=1, unique=True))
        indexes = st.integers(0, len(symbols) - 1)
        return {"type": "enum", "name": name, "symbols": symbols}, indexes.map(lambda index: (zigzag(index), symbols[index]))
    if kind in ("array", "map"):
        inner, values = draw(cases(depth - 1))
        schema = {"type": kind, ("items" if kind == "array" else "values"): inner}
        return schema, (arrays(values) if kind == "array" else maps(values))
    if kind == "record":
        fields = draw(st.lists(cases(depth - 1), max_size=4))
        schema = {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": f[0]} for n, f in enumerate(fields)]}
        return schema, st.tuples(*(values for _, values in fields)).map(
            lambda found: (b"".join(data for data, _ in found), {f"f{n}": value for n, (_, value) in enumerate(found)})
        )
    if kind == "union":
        branches = draw(st.lists(cases(depth - 1).filter(lambda case: not isinstance(case[0], list)), min_size=1, max_size=3))
        branches = list({_union_name(schema): (schema, values) for schema, values in branches}.values())
        chosen = st.one_of(
            *(values.map(lambda found, n=n: (zigzag(n) + found[0], found[1])) for n, (_, values) in enumerate(branches))
        )
        return [schema for schema, _ in branches], chosen
    return kind, PLAIN[kind]


def _union_name(schema: Any) -> str:
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


def _bytes_shown(content: bytes) -> object:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}


PLAIN: dict[str, st.SearchStrategy[tuple[bytes, Any]]] = {
    "null": st.just((b"", None)),
    "boolean": st.booleans().map(lambda value: (bytes([value]), value)),
    "int": st.integers(-(2**31), 2**31 - 1).map(lambda value: (zigzag(value), value)),
    "long": LONGS.map(lambda value: (zigzag(value), value)),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(lambda value: (struct.pack("<d", value), value)),
    "string": TEXTS.map(lambda value: (sized(value.encode()), value)),
    "bytes": st.binary(max_size=8).map(lambda value: (sized(value), _bytes_shown(value))),
}


@st.composite
def blocks(draw: st.DrawFn, items: list[bytes]) -> bytes:
    """Items cut into blocks, some of which say how many bytes they take."""
    data, rest = b"", items
    while rest:
        count = draw(st.integers(1, len(rest)))
        block, rest = b"".join(rest[:count]), rest[count:]
        data += zigzag(-count) + zigzag(len(block)) + block if draw(st.booleans()) else zigzag(count) + block
    return data + b"\0"


def arrays(values: st.SearchStrategy[tuple[bytes, Any]]) -> st.SearchStrategy[tuple[bytes, Any]]:
    @st.composite
    def drawn(draw: st.DrawFn) -> tuple[bytes, Any]:
        found = draw(st.lists(values, max_size=4))
        return draw(blocks([data for data, _ in found])), [value for _, value in found]

    return drawn()


def maps(values: st.SearchStrategy[tuple[bytes, Any]]) -> st.SearchStrategy[tuple[bytes, Any]]:
    @st.composite
    def drawn(draw: st.DrawFn) -> tuple[bytes, Any]:
        found = draw(st.dictionaries(TEXTS, values, max_size=4))
        items = [sized(name.encode()) + data for name, (data, _) in found.items()]
        return draw(blocks(items)), {name: value for name, (_, value) in found.items()}

    return drawn()


@st.composite
def encoded(draw: st.DrawFn) -> tuple[Any, bytes, Any]:
    schema, values = draw(cases())
    return schema, *draw(values)
