"""The three ways in which a body is written, and what is said about each in headers.

`JSON`   AWS JSON 1.1: blobs in base64, timestamps as seconds with a fraction.
`CBOR`   AWS CBOR 1.1, the Java SDK's: blobs as byte strings, timestamps as tag 1 with *milliseconds*.
`RPC`    Smithy's RPC v2 CBOR: as CBOR, but timestamps are seconds (as RFC 8949 has tag 1) and errors carry their full name.
"""

from __future__ import annotations

from enum import Enum


class Encoding(Enum):
    JSON = b"application/x-amz-json-1.1"
    CBOR = b"application/x-amz-cbor-1.1"
    RPC = b"application/cbor"

    def __init__(self, content_type: bytes) -> None:
        self.content_type = content_type
        self.header = (b"content-type", content_type)


class Moment:
    """A timestamp in an answer, which each encoding writes in its own way."""

    __slots__ = ("ms",)

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def __repr__(self) -> str:
        return f"Moment({self.ms})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moment) and other.ms == self.ms

    def __hash__(self) -> int:
        return hash(self.ms)
