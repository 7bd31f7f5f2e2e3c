"""From a body to parameters and from an answer to a body, in each of the encodings.

What comes out of `decode` is plain: maps, lists, texts, numbers, booleans, byte strings (CBOR alone) and `Moment` (CBOR alone).
Blobs in JSON are still base64 then, and timestamps numbers: `validation` knows from its table which texts and numbers they are.
What `encode` takes is the same, with byte strings and `Moment` in JSON too.

Bound: `MAX_VALUES` in a body of JSON (as its commas tell: a small body can stand for very many empty objects), and what `cbor`
has for its own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.kinesis.codec import cbor
from headrace.kinesis.codec.encoding import Encoding, Moment

MAX_VALUES = 200_000  # 500 records may have 256 commas each in their keys


class Undecodable(ValueError):
    """The body is not in the encoding that it says."""


def decode(body: bytes, encoding: Encoding) -> Any:
    """Raises Undecodable."""
    try:
        if encoding is Encoding.JSON:
            if len(body) > MAX_VALUES and body.count(b",") > MAX_VALUES:
                raise Undecodable("too many values")
            return _json_decoder.decode(body)
        return cbor.decode(body)
    except (msgspec.DecodeError, cbor.NotCbor, RecursionError, UnicodeDecodeError) as error:
        raise Undecodable(str(error)) from error


def encode(answer: dict[str, Any], encoding: Encoding) -> bytes:
    if encoding is Encoding.JSON:
        return _json_encoder.encode(answer)
    return cbor.encode(answer, timestamps_in_ms=encoding is Encoding.CBOR)


def _seconds(value: Any) -> float:
    if isinstance(value, Moment):
        return value.ms / 1000
    raise TypeError(f"{type(value).__name__} has no place in an answer")


_json_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_json_encoder = msgspec.json.Encoder(enc_hook=_seconds)
