"""Frames come out of a stream whole, however the stream was cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.codec.framing import FrameReader, InvalidFrame, frame


@given(frames=st.lists(st.binary(max_size=50), max_size=8), data=st.data())
def test_frames_come_out_as_they_went_in(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(payload) for payload in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader = FrameReader()
    found = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:stop])
    assert found == frames
    assert reader.pending_bytes == 0


def test_parts_become_one_frame() -> None:
    assert frame(b"ab", bytearray(b"c")) == b"\0\0\0\3abc"


@pytest.mark.parametrize("size", ["ffffffff", "80000000", "0000000b", "47455420"])  # the last is "GET "
def test_a_negative_or_oversized_frame_is_refused_before_it_arrives(size: str) -> None:
    reader = FrameReader(max_frame_bytes=10)
    with pytest.raises(InvalidFrame):
        reader.feed(bytes.fromhex(size))


def test_a_frame_of_exactly_the_limit_is_taken() -> None:
    assert FrameReader(max_frame_bytes=10).feed(frame(b"x" * 10)) == [b"x" * 10]
