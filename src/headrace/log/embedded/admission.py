"""What a topic lets in: the checks of a batch that depend on the topic's configuration.

That a batch is whole and sound is `headrace.record`'s to say; size, time, keys and compression are the topic's.
"""

from __future__ import annotations

from headrace.disk.port import Buffer
from headrace.log.errors import BatchTooLarge, CorruptBatch, InvalidBatch, InvalidTimestamp, KeyNeeded
from headrace.log.topic_config import TopicConfig
from headrace.record import BatchError, InconsistentBatch, UnsupportedMagic, check_batch, check_records
from headrace.record.batch import Record, decode_batch, encode_batch, read_header
from headrace.record.compression import Compression

Checked = tuple[int, int, int, int, int, int, int, int]  # what `check_batch` returns

COMPRESSION = 0x07
TRANSACTIONAL = 0x10
CONTROL = 0x20
NO_LIMIT_MS = 0x7FFF_FFFF_FFFF_FFFF
_CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
_MAX_LOOKED_INTO_BYTES = 32 * 1024 * 1024  # of what a client compressed


def check_from_client(batch: Buffer) -> Checked:
    """For a batch as a client sent it; raises what the client is to be told."""
    try:
        checked = check_batch(batch, 0, len(batch))
        if not checked[0] & COMPRESSION:
            check_records(batch, checked[7])
    except (InconsistentBatch, UnsupportedMagic) as error:
        raise InvalidBatch(str(error)) from None
    except BatchError as error:
        raise CorruptBatch(str(error)) from None
    attributes = checked[0]
    if attributes & (CONTROL | TRANSACTIONAL):
        if attributes & CONTROL:
            raise InvalidBatch("clients may not write control batches")
        if checked[4] < 0:
            raise InvalidBatch("a batch of a transaction without a producer id")
    if attributes & COMPRESSION >= len(_CODECS):
        raise InvalidBatch("a compression that does not exist")
    return checked


def is_picky(config: TopicConfig) -> bool:
    """Whether `prepare` has anything to do for this topic."""
    return config.compact or config.compression_type != "producer"


def plain_bytes(config: TopicConfig) -> int:
    """Up to which size a batch is stored as it came, if its timestamps are in order; -1 for topics that look at each."""
    looks = is_picky(config) or config.log_append_time or config.message_timestamp_before_max_ms != NO_LIMIT_MS
    return -1 if looks else config.max_message_bytes


def prepare(batch: bytearray | memoryview, attributes: int, config: TopicConfig) -> bytearray | memoryview:
    """What few topics ask for: keys in every record, another compression than the producer's."""
    try:
        if config.compact:
            _check_keys(decode_batch(batch, max_size=_MAX_LOOKED_INTO_BYTES))
        if config.compression_type not in ("producer", _CODECS[attributes & COMPRESSION]):
            batch = _recompress(batch, config)
    except BatchError as error:
        raise InvalidBatch(f"the records can't be read: {error}") from None
    if len(batch) > config.max_message_bytes:
        raise BatchTooLarge(f"{len(batch)} bytes as stored, where max.message.bytes allows {config.max_message_bytes}")
    return batch


def _check_keys(records: list[Record]) -> None:
    faults = [(place, "a compacted topic takes only records with a key") for place, r in enumerate(records) if r.key is None]
    if faults:
        raise KeyNeeded(faults)


def _recompress(batch: bytearray | memoryview, config: TopicConfig) -> bytearray:
    header = read_header(batch)
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    codec = config.compression_type
    return bytearray(
        encode_batch(
            decode_batch(batch, max_size=_MAX_LOOKED_INTO_BYTES),
            compression=Compression.NONE if codec == "uncompressed" else Compression[codec.upper()],
            level=levels.get(codec, -1) if levels.get(codec, -1) != -1 else None,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.transactional,
        )
    )


def check_timestamps(batch: Buffer, config: TopicConfig, now_ms: int) -> None:
    """KIP-937: each record's own time counts, and one without a time is always in order."""
    faults = []
    for place, record in enumerate(_records(batch)):
        when = record.timestamp_ms
        if when != -1 and (
            now_ms - when > config.message_timestamp_before_max_ms or when - now_ms > config.message_timestamp_after_max_ms
        ):
            faults.append((place, f"timestamp {when} is too far from the server's clock, {now_ms}"))
    if faults:
        raise InvalidTimestamp(faults)


def _records(batch: Buffer) -> list[Record]:
    try:
        return decode_batch(batch)
    except BatchError as error:
        raise InvalidBatch(str(error)) from None
