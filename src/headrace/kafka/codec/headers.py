"""Request and response headers.

A request header has version 2 where the request is flexible and version 1 elsewhere; a response header has 1 and 0. One
exception: the response to ApiVersions always has header 0, so that a client can read it before it knows what the broker
speaks (KIP-511). The client id has a length of two bytes even in the flexible header, for the same reason.
"""

from __future__ import annotations

from struct import Struct as Packing
from typing import NamedTuple

from headrace.kafka.codec.wire import (
    MAX_STRING_BYTES,
    Buffer,
    MalformedMessage,
    UnencodableMessage,
    skip_tagged_fields,
)

API_VERSIONS_KEY = 18

_REQUEST = Packing(">hhih")
_CORRELATION = Packing(">i")


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(buf: Buffer, pos: int = 0) -> tuple[RequestHeader, int]:
    """The part that is the same in every version, and the position after it. Raises MalformedMessage.

    What follows depends on API and version: pass the position through `skip_header_tags` when they are flexible.
    """
    if len(buf) - pos < _REQUEST.size:
        raise MalformedMessage("a request header is cut short")
    api_key, api_version, correlation_id, length = _REQUEST.unpack_from(buf, pos)
    pos += _REQUEST.size
    if length < 0:
        return RequestHeader(api_key, api_version, correlation_id, None), pos
    if length > len(buf) - pos:
        raise MalformedMessage("a client id goes beyond the end of the request")
    client_id = str(buf[pos : pos + length], "utf-8", "replace")
    return RequestHeader(api_key, api_version, correlation_id, client_id), pos + length


def skip_header_tags(buf: Buffer, pos: int) -> int:
    """The position after the tagged fields of a flexible header. Raises MalformedMessage."""
    try:
        return skip_tagged_fields(buf, pos, len(buf))
    except IndexError:
        raise MalformedMessage("a request header is cut short") from None


def encode_request_header(header: RequestHeader, *, flexible: bool) -> bytearray:
    """Raises UnencodableMessage when the client id is too long."""
    api_key, api_version, correlation_id, client_id = header
    if client_id is None:
        out = bytearray(_REQUEST.pack(api_key, api_version, correlation_id, -1))
    else:
        raw = client_id.encode()
        if len(raw) > MAX_STRING_BYTES:
            raise UnencodableMessage(f"a client id of {len(raw)} bytes")
        out = bytearray(_REQUEST.pack(api_key, api_version, correlation_id, len(raw)))
        out += raw
    if flexible:
        out.append(0)
    return out


def response_header_is_flexible(api_key: int, *, flexible: bool) -> bool:
    """Whether the header of a response has tagged fields, given that its body is flexible or not."""
    return flexible and api_key != API_VERSIONS_KEY


def encode_response_header(correlation_id: int, *, flexible: bool) -> bytearray:
    out = bytearray(_CORRELATION.pack(correlation_id))
    if flexible:
        out.append(0)
    return out


def decode_response_header(buf: Buffer, pos: int = 0, *, flexible: bool) -> tuple[int, int]:
    """The correlation id, and the position after the header. Raises MalformedMessage."""
    if len(buf) - pos < _CORRELATION.size:
        raise MalformedMessage("a response header is cut short")
    correlation_id: int = _CORRELATION.unpack_from(buf, pos)[0]
    pos += _CORRELATION.size
    return correlation_id, skip_header_tags(buf, pos) if flexible else pos
