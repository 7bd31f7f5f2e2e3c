"""Event stream messages: byte for byte, and as botocore reads them."""

from __future__ import annotations

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from headrace.kinesis.fanout.eventstream import Frame


def read(data: bytes) -> list[tuple[dict[str, str], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(message.headers, message.payload) for message in buffer]


def test_a_message_without_headers_or_payload_is_sixteen_known_bytes():
    assert Frame([]).message() == bytes.fromhex("000000100000000005c248eb7d98c8ff")


def test_a_message_with_a_header_is_laid_out_as_written_down():
    message = Frame([("content-type", "application/json")]).message(b"{'foo':'bar'}")
    assert message == bytes.fromhex(
        "0000003d"  # of the whole message
        "00000020"  # of the headers
        "07fd8396"  # CRC of these
        "0c636f6e74656e742d74797065"  # content-type
        "0700106170706c69636174696f6e2f6a736f6e"  # text, 16 bytes, application/json
        "7b27666f6f273a27626172277d"  # the payload
        "8d9c08b1"  # CRC of all this
    )


def test_parts_of_a_payload_are_one_payload():
    frame = Frame([("a", "b")])
    assert frame.message(b"one", b"", b"two") == frame.message(b"onetwo")


@given(
    st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=50), max_size=5),
    st.lists(st.lists(st.binary(max_size=200), max_size=3), max_size=4),
)
def test_botocore_reads_what_was_framed(headers, payloads):
    frame = Frame(headers.items())
    sent = b"".join(frame.message(*parts) for parts in payloads)
    assert read(sent) == [(headers, b"".join(parts)) for parts in payloads]


@pytest.mark.parametrize("header", [("", "x"), ("n" * 256, "x"), ("name", "v" * 0x8000)])
def test_headers_that_can_not_be_written_are_refused(header):
    with pytest.raises(ValueError, match="too long"):
        Frame([header])


def test_headers_beyond_what_sdks_read_are_refused():
    with pytest.raises(ValueError, match="too large"):
        Frame([(f"h{n}", "v" * 0x7FFF) for n in range(5)])
