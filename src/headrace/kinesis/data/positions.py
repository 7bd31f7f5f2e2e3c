"""Where reading begins: from a type, a sequence number or a time to an offset. For GetShardIterator and SubscribeToShard.

LATEST is where the shard ends when it is asked for. A sequence number must be one that this shard has given, or may have given:
one of another shard, of another stream of the same name, or from the future is refused, each with AWS's own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.streams.sequence import parse_sequence_number
from headrace.broker.streams.shard import shard_id
from headrace.kinesis.errors import invalid_argument, shard_does_not_exist, shard_not_found

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream

LONGEST_NUMBER = 129  # digits, by the API's own pattern
KINDS = ("AFTER_SEQUENCE_NUMBER", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER", "TRIM_HORIZON")
AHEAD_MS = 1000  # a caller's clock may be a little ahead of ours
_MAX_INDEX = 2_147_483_647


def find_shard(stream: Stream, text: str, account: str) -> Shard:
    """What stands before the first hyphen does not count, nor do zeros, as with AWS. Raises KinesisError."""
    index = shard_index(text, stream.name, account)
    if index >= len(stream.shards):
        raise shard_does_not_exist(shown_id(text, index), stream.name, account)
    return stream.shards[index]


def shown_id(text: str, index: int) -> str:
    """How a shard that is not there is named: in full, unless the caller gave nothing but its number."""
    return text if text.isdecimal() else shard_id(index)


def shard_index(text: str, stream: str, account: str) -> int:
    """Raises KinesisError."""
    parts = text.split("-")
    digits = (parts[1] if len(parts) > 1 else "") or text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 128 and int(digits) <= _MAX_INDEX):
        raise shard_not_found(text, stream, account)
    return int(digits)


async def starting_offset(
    stream: Stream,
    shard: Shard,
    kind: str,
    sequence: str | None,
    timestamp_s: float | None,
    *,
    now_ms: int,
    account: str,
    operation: str,
) -> int:
    """Raises KinesisError and LogError."""
    if kind not in KINDS:
        raise invalid_argument(f"Invalid ShardIteratorType: {kind}")
    partition = stream.partition(shard)
    if kind == "AT_TIMESTAMP":
        when = _moment_ms(timestamp_s, now_ms)
        found = await partition.offset_at(when)
        return _end_of(stream, shard) if found is None else found.offset
    if kind == "TRIM_HORIZON":
        return partition.start_offset
    if kind == "LATEST":
        return _end_of(stream, shard)
    if sequence is None:
        raise invalid_argument(
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or "
            "(2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. "
            f"Request specified {kind} and no StartingSequenceNumber."
        )
    offset = _offset_in(stream, shard, sequence, account, operation)
    return max(0, offset + (kind == "AFTER_SEQUENCE_NUMBER"))


def _end_of(stream: Stream, shard: Shard) -> int:
    end = stream.partition(shard).high_watermark
    return end if shard.closed_at is None else min(end, shard.closed_at)


def _moment_ms(timestamp_s: float | None, now_ms: int) -> int:
    if timestamp_s is None:
        raise invalid_argument(
            "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. "
            "Current request has no timestamp parameter."
        )
    when = round(timestamp_s * 1000)
    if when > now_ms + AHEAD_MS:
        raise invalid_argument(
            "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. "
            f"timestampInMillis: {when}, currentTimestampInMillis: {now_ms}"
        )
    return when


def _offset_in(stream: Stream, shard: Shard, sequence: str, account: str, operation: str) -> int:
    offset = offset_of(stream, shard, sequence)
    if offset is not None:
        return offset
    why = ""
    try:
        created_ms, _, index = parse_sequence_number(sequence)
    except ValueError:
        pass
    else:
        own_ms, _, own = parse_sequence_number(shard.starting_sequence_number)
        if created_ms and index != own:
            raise invalid_argument(
                f"Invalid StartingSequenceNumber. It encodes {shard_id(index)}, "
                f"while it was used in a call to a shard with {shard.id}"
            )
        if created_ms != own_ms:
            why = " because it did not come from this stream"
    raise invalid_argument(
        f"StartingSequenceNumber {sequence} used in {operation} on shard {shard.id} in stream {stream.name} under account "
        f"{account} is invalid{why}."
    )


def offset_of(stream: Stream, shard: Shard, sequence: str) -> int | None:
    """The offset that this number stands for in this shard: -1 for the number with which the shard begins, None if the shard
    has given no such number. That with which a closed one ends is one of its own."""
    if len(sequence) > LONGEST_NUMBER or not (sequence.isascii() and sequence.isdecimal()):
        return None
    offset = int(sequence) - int(shard.starting_sequence_number) - 1
    last = stream.partition(shard).end_offset - 1 if shard.closed_at is None else shard.closed_at
    return offset if -1 <= offset <= last else None
