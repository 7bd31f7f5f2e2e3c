r"""How `consume` writes a record: by a template with kcat's tokens, or as one JSON object a line.

    %t topic   %p partition   %o offset   %k key   %K its length   %s value   %S its length   %h headers as name=value,…
    %T timestamp in ms since 1970   %d the same as ISO 8601   %R value length as a big-endian 32-bit number   %% a percent sign

A missing key or value has length -1 and prints as nothing, or as NULL when asked for. Templates are compiled once into a list
of pieces; bytes are written as they are, never decoded.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from headrace.cli.escapes import unescape
from headrace.cli.moments import iso
from headrace.client.kafka.reader import Received

Writer = Callable[[Received], bytes]
Piece = bytes | Writer
Encoder = Callable[[bytes], bytes]

ENCODERS: dict[str, Encoder] = {"text": bytes, "hex": lambda data: data.hex().encode(), "base64": base64.b64encode}


class BadTemplate(ValueError):
    pass


def template_writer(template: str, *, missing: bytes = b"", encode: Encoder = bytes) -> Writer:
    """`encode` is applied to keys and values."""
    pieces = _compile(unescape(template), missing, encode)

    def write(record: Received) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in pieces])

    return write


def json_writer(record: Received) -> bytes:
    return json.dumps(record_object(record), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def record_object(record: Received) -> dict[str, Any]:
    """The documented object. Bytes that are not UTF-8 come as `…_base64` in place of the plain field; `produce --format json`
    reads all of this back."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": record.timestamp_type,
        **_bytes_field("key", record.key),
        **_bytes_field("value", record.value),
        "headers": [{"key": name, **_bytes_field("value", value)} for name, value in record.headers],
    }


def _bytes_field(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _compile(template: bytes, missing: bytes, encode: Encoder) -> list[Piece]:
    tokens = _tokens(missing, encode)
    pieces: list[Piece] = []
    literal = bytearray()
    position = 0
    while position < len(template):
        at = template.find(b"%", position)
        if at < 0 or at + 1 == len(template):
            literal += template[position:]
            break
        literal += template[position:at]
        token = template[at + 1 : at + 2].decode("latin-1")
        if token == "%":
            literal += b"%"
        elif token in tokens:
            pieces += [bytes(literal), tokens[token]]
            literal.clear()
        else:
            raise BadTemplate(f"%{token} is not a token: use {' '.join('%' + name for name in tokens)} or %%")
        position = at + 2
    pieces.append(bytes(literal))
    return [piece for piece in pieces if piece != b""]


def _tokens(missing: bytes, encode: Encoder) -> dict[str, Writer]:
    return {
        "t": lambda r: r.topic.encode(),
        "p": lambda r: b"%d" % r.partition,
        "o": lambda r: b"%d" % r.offset,
        "T": lambda r: b"%d" % r.timestamp_ms,
        "d": lambda r: iso(r.timestamp_ms).encode() if r.timestamp_ms >= 0 else b"-",
        "k": lambda r: missing if r.key is None else encode(r.key),
        "K": lambda r: b"%d" % _length(r.key),
        "s": lambda r: missing if r.value is None else encode(r.value),
        "S": lambda r: b"%d" % _length(r.value),
        "R": lambda r: _length(r.value).to_bytes(4, "big", signed=True),
        "h": lambda r: b",".join([_header(name, value, missing) for name, value in r.headers]),
    }


def _length(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _header(name: str, value: bytes | None, missing: bytes) -> bytes:
    return name.encode() + b"=" + (missing if value is None else value)
