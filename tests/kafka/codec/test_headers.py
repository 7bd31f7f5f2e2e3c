"""Request and response headers, against bytes written by hand and against kio."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeader2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from headrace.kafka.codec.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    response_header_is_flexible,
    skip_header_tags,
)
from headrace.kafka.codec.wire import MalformedMessage, UnencodableMessage


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "ünï"])
@pytest.mark.parametrize("flexible", [False, True])
def test_a_request_header_looks_like_kio_s(client_id: str | None, flexible: bool) -> None:
    header = RequestHeader(api_key=3, api_version=12, correlation_id=-7, client_id=client_id)
    kio_class = KioRequestHeader2 if flexible else KioRequestHeader1
    kio_header = kio_class(request_api_key=i16(3), request_api_version=i16(12), correlation_id=i32(-7), client_id=client_id)
    with io.BytesIO() as out:
        entity_writer(kio_class)(out, kio_header)
        wire = out.getvalue()
    assert encode_request_header(header, flexible=flexible) == wire
    found, pos = decode_request_header(wire)
    assert found == header
    assert (skip_header_tags(wire, pos) if flexible else pos) == len(wire)


def test_tagged_fields_of_a_request_header_are_passed_over() -> None:
    wire = bytes.fromhex("0003 000c 00000001 ffff 02 00 01 aa 07 02 bbcc") + b"body"
    _, pos = decode_request_header(wire)
    assert wire[skip_header_tags(wire, pos) :] == b"body"


def test_a_response_header() -> None:
    assert encode_response_header(5, flexible=False) == bytes.fromhex("00000005")
    assert encode_response_header(5, flexible=True) == bytes.fromhex("00000005 00")
    assert decode_response_header(b"\0\0\0\5\0rest", flexible=True) == (5, 5)
    assert decode_response_header(b"\0\0\0\5rest", flexible=False) == (5, 4)


def test_the_response_to_api_versions_always_has_the_oldest_header() -> None:
    assert response_header_is_flexible(3, flexible=True)
    assert not response_header_is_flexible(3, flexible=False)
    assert not response_header_is_flexible(18, flexible=True)


def test_a_client_id_that_is_too_long_is_refused() -> None:
    with pytest.raises(UnencodableMessage):
        encode_request_header(RequestHeader(0, 0, 0, "x" * 32768), flexible=True)


@pytest.mark.parametrize("wire", ["", "0003", "0003 000c 00000001 00", "0003 000c 00000001 0005 6162"])
def test_a_request_header_that_is_cut_short(wire: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(bytes.fromhex(wire))


@given(st.binary(max_size=40))
def test_random_bytes_are_a_header_or_malformed(wire: bytes) -> None:
    try:
        _, pos = decode_request_header(wire)
        assert pos <= len(wire)
        assert skip_header_tags(wire, pos) <= len(wire)
    except MalformedMessage:
        pass
    try:
        decode_response_header(wire, flexible=True)
    except MalformedMessage:
        pass
