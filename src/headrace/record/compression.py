"""The four compressions of a batch, in the framing that Kafka's own clients write and read.

    gzip    one or more gzip members
    snappy  written as the Java library's stream (xerial): a 16-byte header, then blocks of up to 32 KiB, each after its
            length; read in that form and as one raw block, which librdkafka and Go clients write
    lz4     the LZ4 frame with independent blocks of 64 KiB: Kafka's Java reader refuses linked blocks, and cramjam
    writes linked ones, so the frame is put together here
    zstd    one or more zstd frames

Nothing here takes more memory than `max_size`, whatever the bytes claim. cramjam is imported when it is first needed.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from types import ModuleType

from headrace.record.errors import BatchTooBig, CorruptBatch, UnknownCompression

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED = 128 * 1024 * 1024

_GZIP_WINDOW = 31  # zlib's way to say "with the gzip header"
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version, lowest compatible version
_XERIAL_BLOCK = 32 * 1024
# Magic, flags (version 1, independent blocks, no checksums), 64 KiB blocks, the checksum of these two bytes.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x8000_0000  # a block that did not get smaller
_BE32 = Struct(">I")
_LE32 = Struct("<I")


class Compression(IntEnum):
    """The codes in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: Compression, payload: bytes, level: int | None = None) -> bytes:
    """`level` counts for gzip and zstd only."""
    match compression:
        case Compression.NONE:
            return payload
        case Compression.GZIP:
            return _gzip(payload, -1 if level is None else level)
        case Compression.SNAPPY:
            return _snappy(payload)
        case Compression.LZ4:
            return _lz4(payload)
        case Compression.ZSTD:
            return bytes(_cramjam().zstd.compress(payload, 3 if level is None else level))


def decompress(compression: int, payload: Buffer, max_size: int = MAX_DECOMPRESSED) -> Buffer:
    """Raises `BatchTooBig` when the result would be larger than `max_size`, `CorruptBatch` when the bytes are not what
    they claim to be."""
    match compression:
        case Compression.NONE:
            if len(payload) > max_size:
                raise BatchTooBig(f"more than {max_size} bytes")
            return payload
        case Compression.GZIP:
            return _expand(_cramjam().gzip, payload, max_size)
        case Compression.SNAPPY:
            return _unsnappy(payload, max_size)
        case Compression.LZ4:
            return _expand(_cramjam().lz4, payload, max_size)
        case Compression.ZSTD:
            return _expand(_cramjam().zstd, payload, max_size)
        case _:
            raise UnknownCompression(f"compression {compression} is unknown")


def _cramjam() -> ModuleType:
    try:
        import cramjam
    except ImportError as error:
        raise UnknownCompression("snappy, lz4 and zstd need the cramjam library") from error
    module: ModuleType = cramjam
    return module


def _gzip(payload: bytes, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(payload) + packer.flush()


def _snappy(payload: bytes) -> bytes:
    pack = _cramjam().snappy.compress_raw
    view = memoryview(payload)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(payload), _XERIAL_BLOCK):
        block = bytes(pack(view[start : start + _XERIAL_BLOCK]))
        out += _BE32.pack(len(block))
        out += block
    return bytes(out)


def _unsnappy(payload: Buffer, max_size: int) -> Buffer:
    view = memoryview(payload)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnappy_block(view, max_size)
    # Version and compatibility are not looked at: Redpanda once wrote them little-endian, and there is but one version.
    if len(view) < len(_XERIAL_HEADER):
        raise CorruptBatch("snappy: the bytes end too early")
    whole = bytearray()
    pos = len(_XERIAL_HEADER)
    while pos < len(view):
        if len(view) - pos < 4:
            raise CorruptBatch("snappy: the bytes end too early")
        size = _BE32.unpack_from(view, pos)[0]
        pos += 4
        if size > len(view) - pos:
            raise CorruptBatch("snappy: the bytes end too early")
        whole += _unsnappy_block(view[pos : pos + size], max_size - len(whole))
        pos += size
    return whole


def _unsnappy_block(block: memoryview, room: int) -> Buffer:
    snappy = _cramjam().snappy
    # A snappy element of three bytes stands for 64 at most, so a larger claim is a lie not worth the memory.
    try:
        size: int = snappy.decompress_raw_len(block)
        if size > room:
            raise BatchTooBig(f"snappy: {size - room} bytes more than allowed")
        if size > len(block) * 64:
            raise CorruptBatch("snappy: the length does not fit the bytes")
        out = bytearray(size)
        snappy.decompress_raw_into(block, out)
    except _cramjam().DecompressionError as error:
        raise CorruptBatch("snappy: the bytes do not decompress") from error
    return out


def _lz4(payload: bytes) -> bytes:
    pack = _cramjam().lz4.compress_block
    out = bytearray(_LZ4_HEADER)
    for start in range(0, len(payload), _LZ4_BLOCK):
        plain = payload[start : start + _LZ4_BLOCK]
        block = bytes(pack(plain, store_size=False))
        if len(block) < len(plain):
            out += _LE32.pack(len(block))
            out += block
        else:
            out += _LE32.pack(len(plain) | _LZ4_STORED)
            out += plain
    out += b"\x00\x00\x00\x00"  # the end mark
    return bytes(out)


def _expand(codec: ModuleType, payload: Buffer, max_size: int) -> Buffer:
    """Decompresses into a buffer of a likely size, then into larger ones up to `max_size`: none of these formats has to
    tell its size, and one that does may lie."""
    size = min(max_size, max(64 * 1024, 4 * len(payload)))
    while True:
        out = bytearray(size)
        try:
            return memoryview(out)[: codec.decompress_into(payload, out)]
        except _cramjam().DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise CorruptBatch(f"{codec.__name__}: the bytes do not decompress") from error
        if size == max_size:
            raise BatchTooBig(f"{codec.__name__}: more than {max_size} bytes")
        size = min(max_size, size * 8)
