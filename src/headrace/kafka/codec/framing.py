"""Cutting a byte stream into frames: four bytes of size, then that many bytes. No socket here: bytes in, frames out."""

from __future__ import annotations

from struct import Struct as Packing

from headrace.kafka.codec.wire import Buffer, MalformedMessage

SIZE = Packing(">i")

MAX_FRAME_BYTES = 104_857_600
"""Kafka's default for socket.request.max.bytes."""


class InvalidFrame(MalformedMessage):
    """A frame that is negative or too large. Nothing behind it can be understood, so the connection must end."""


class FrameReader:
    """Collects bytes until there is a frame. Holds at most one frame beyond what it was given."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """How much of an unfinished frame has arrived."""
        return len(self._buffer)

    def feed(self, data: Buffer) -> list[bytes]:
        """Takes what arrived, gives the frames that are complete, without their sizes. Raises InvalidFrame."""
        buffer = self._buffer
        buffer += data
        frames = []
        pos = 0
        while len(buffer) - pos >= SIZE.size:
            size = check_frame_size(SIZE.unpack_from(buffer, pos)[0], self.max_frame_bytes)
            stop = pos + SIZE.size + size
            if stop > len(buffer):
                break
            frames.append(bytes(memoryview(buffer)[pos + SIZE.size : stop]))
            pos = stop
        if pos:
            del buffer[:pos]
        return frames


def check_frame_size(size: int, max_frame_bytes: int = MAX_FRAME_BYTES) -> int:
    """The size itself, or InvalidFrame."""
    if not 0 <= size <= max_frame_bytes:
        raise InvalidFrame(f"a frame of {size} bytes; between 0 and {max_frame_bytes} are allowed")
    return size


def frame(*parts: Buffer) -> bytearray:
    """The parts as one frame, behind their size."""
    out = bytearray(SIZE.pack(sum(map(len, parts))))
    for part in parts:
        out += part
    return out
