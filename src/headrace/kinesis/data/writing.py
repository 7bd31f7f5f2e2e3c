"""PutRecord and PutRecords.

A body in the usual form is read in one go by the compiled `scan`; any other takes the thorough way, with AWS's texts for all
that may be wrong. What is wrong with one record of PutRecords in itself (its size, its hash key) refuses the whole request, as
on AWS: a record fails for itself only where it is the shard's or the disk's fault.

Bounds: 500 records in a request; a record (data and partition key) as large as the stream allows, 1 MiB unless it is told
otherwise; all of a request 5 MiB, or 10 MiB where the stream allows records of more than 1 MiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.kinesis.data.positions import offset_of
from headrace.kinesis.data.shared import FORMS, shared_by
from headrace.kinesis.data.twin import Puts, scan
from headrace.kinesis.errors import KinesisError, dry_run, invalid_argument, serialization, validation

if TYPE_CHECKING:
    from headrace.broker.streams.stream import Stream
    from headrace.kinesis.service import RawCall

MIB = 1024 * 1024
HASH_KEYS = 1 << 128
AUTO = "AUTO"  # a stream that chooses the shards of records by itself


def put_record(call: RawCall) -> None:
    _put(call, True)


def put_records(call: RawCall) -> None:
    _put(call, False)


def _put(call: RawCall, sole: bool) -> None:
    form = FORMS[call.encoding]
    puts = scan(call.body, form, sole)
    given: dict[str, Any] = {}
    if puts is None:
        given = call.checked()
        stream = call.find_stream(given)
        puts = Puts(_records(given, sole))
    else:
        stream = call.find_stream(_named(puts))
    storing = shared_by(call.service).storing
    most = storing.largest_record(stream)
    if puts.largest > most or puts.size > 5 * MIB or puts.without_key >= 0:
        _check(puts, stream, most, sole)
    if given:
        if sole and "SequenceNumberForOrdering" in given:
            _check_ordering(stream, given["SequenceNumberForOrdering"], call.account)
        if given.get("DryRun"):
            raise dry_run()
    storing.put(call, puts, stream, form, sole)


def _named(puts: Puts) -> dict[str, Any]:
    if puts.stream_arn is None:
        return {"StreamName": puts.stream_name}
    if puts.stream_name is None:
        return {"StreamARN": puts.stream_arn}
    return {"StreamName": puts.stream_name, "StreamARN": puts.stream_arn}


def _records(given: dict[str, Any], sole: bool) -> list[tuple[bytes, bytes | None, bytes | None]]:
    """Raises KinesisError."""
    found: list[tuple[bytes, bytes | None, bytes | None]] = []
    for record in [given] if sole else given["Records"]:
        key: str | None = record.get("PartitionKey")
        explicit: str | None = record.get("ExplicitHashKey")
        if explicit is not None and int(explicit) >= HASH_KEYS:
            raise invalid_argument(
                f"Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value was {explicit}"
            )
        try:
            found.append(
                (record["Data"], None if key is None else key.encode(), None if explicit is None else explicit.encode())
            )
        except UnicodeEncodeError:  # half of a pair of surrogates
            raise serialization() from None
    return found


def _check(puts: Puts, stream: Stream, most: int, sole: bool) -> None:
    """Raises KinesisError."""
    whole = 5 if stream.max_record_bytes <= MIB else 10
    if not sole and puts.size > whole * MIB:
        raise invalid_argument(f"Records size exceeds {whole} MB limit")
    if puts.largest > most:
        place = next(place for place, size in enumerate(puts.sizes()) if size > most)
        raise _failed("", "data", place, sole, f"Member must have length less than or equal to {most}")
    if puts.without_key >= 0 and stream.distribution != AUTO:
        raise _failed("null ", "partitionKey", puts.without_key, sole, "Member must not be null")


def _failed(value: str, member: str, place: int, sole: bool, constraint: str) -> KinesisError:
    where = member if sole else f"records.{place + 1}.member.{member}"
    return validation(f"1 validation error detected: Value {value}at '{where}' failed to satisfy constraint: {constraint}")


def _check_ordering(stream: Stream, number: str, account: str) -> None:
    """It must be a number that this stream has given, or the one with which a shard begins. That the new record's will be above
    it needs no more: offsets grow, and children's numbers are above their parents'. Raises KinesisError."""
    if all(offset_of(stream, shard, number) is None for shard in stream.shards):
        raise invalid_argument(
            f"ExclusiveMinimumSequenceNumber {number} used in PutRecord on stream {stream.name} "
            f"under account {account} is invalid."
        )
