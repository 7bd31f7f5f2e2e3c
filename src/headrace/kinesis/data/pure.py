"""The work on each record in Python: the twin of `headrace._kinesis`, with the same classes, the same answers and the same
exceptions. The same tests run over both.

`Puts` is the records of one request on their way to the log, and the answer about them. `RecordList` is the answer of
GetRecords as it grows. Both know the three encodings by a number (`JSON`, `CBOR`, `RPC`).

`scan` is what only the compiled twin does: it finds the records in a body without making objects of them. None says that the
body needs the thorough way (`RawCall.checked`), and here it always does.
"""

from __future__ import annotations

import json
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import md5
from struct import Struct

from headrace.broker.streams.mapping import EXPLICIT_HASH_KEY, arrival_ms, partition_key
from headrace.kinesis.codec.bodies import encode
from headrace.kinesis.codec.cbor import head
from headrace.kinesis.codec.encoding import Encoding
from headrace.record import CorruptBatch
from headrace.record.batch import HEADER, HEADER_SIZE, LENGTH_BASE, wrap_records
from headrace.record.twin import decode_records, encode_records

_ENCODINGS = (Encoding.JSON, Encoding.CBOR, Encoding.RPC)
JSON, CBOR, RPC = range(3)  # RPC differs in timestamps: seconds, where CBOR has milliseconds

_COMPRESSION, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_RECORD_BYTES = 36  # at most, of a record beside its key, value and header
_HEADER_BYTES = 10 + len(EXPLICIT_HASH_KEY)
_DOUBLE = Struct(">d")
_WORD = Struct(">I")

Buffer = bytes | bytearray | memoryview
Put = tuple[bytes, bytes | None, bytes | None]  # data, partition key, explicit hash key in decimal
Batch = tuple[int, int, int, bytearray]  # its number, the place of its shard, how many records, the bytes


def scan(body: bytes, form: int, sole: bool) -> Puts | None:
    """The records of a PutRecords request, or the one of PutRecord (`sole`); None when that takes the thorough way."""
    return None


class Puts:
    """Records with places from 0 on. `batches` gives each one that has not failed to a batch; what became of the batch is told
    by `stored` or `fail_batch`; `answer` is for when all is told."""

    __slots__ = (
        "_batches", "_outcomes", "_records", "count", "failed", "largest", "size", "stream_arn", "stream_name", "without_key",
    )  # fmt: skip

    def __init__(self, records: Sequence[Put], stream_name: str | None = None, stream_arn: str | None = None) -> None:
        self._records = records
        self._batches: list[Sequence[int]] = []
        self._outcomes: list[tuple[str, str] | None] = [None] * len(records)  # sequence number and shard
        self.stream_name = stream_name
        self.stream_arn = stream_arn
        self.count = len(records)
        sizes = self.sizes()
        self.size = sum(sizes)  # of data and partition keys
        self.largest = max(sizes, default=0)
        self.without_key = next((place for place, (_, key, _) in enumerate(records) if key is None), -1)
        self.failed: dict[int, tuple[str, str]] = {}  # code and message

    def sizes(self) -> list[int]:
        return [len(data) + len(key or b"") for data, key, _ in self._records]

    def places(self, lasts: bytes) -> list[int]:
        """Of each record the place of its shard among those whose last hash keys these are, 16 bytes each, in order."""
        ends = _ends(lasts)
        return [bisect_left(ends, _hash_key(key, explicit)) for _, key, explicit in self._records]

    def batches(
        self, lasts: bytes, now_ms: int, most: int, spread: int = -1, again: Iterable[int] | None = None
    ) -> list[Batch]:
        """Records in the order in which they came, one batch for each shard, or more where it would be longer than `most`
        bytes. All go to the shard at place `spread` if there is one. `again` has the numbers of batches that were not taken:
        only their records are meant then."""
        if again is None:
            meant: Iterable[int] = range(self.count)
        else:
            meant = sorted(place for number in again for place in self._batches[number])
        ends = _ends(lasts)
        found: list[Batch] = []
        groups: dict[int, list[int]] = {}
        for place in meant:
            if place not in self.failed:
                _, key, explicit = self._records[place]
                shard = spread if spread >= 0 else bisect_left(ends, _hash_key(key, explicit))
                groups.setdefault(shard, []).append(place)
        for shard, places in sorted(groups.items()):
            for portion in self._portions(places, most):
                payload = encode_records(
                    (delta, 0, key, data, () if explicit is None else ((EXPLICIT_HASH_KEY, explicit),))
                    for delta, (data, key, explicit) in enumerate(self._records[place] for place in portion)
                )
                found.append((len(self._batches), shard, len(portion), wrap_records(payload, len(portion), now_ms, now_ms)))
                self._batches.append(portion)
        return found

    def _portions(self, places: list[int], most: int) -> Iterable[list[int]]:
        portion: list[int] = []
        size = HEADER_SIZE
        for place in places:
            data, key, explicit = self._records[place]
            more = _RECORD_BYTES + len(data) + len(key or b"")
            if explicit is not None:
                more += _HEADER_BYTES + len(explicit)
            if portion and size + more > most:
                yield portion
                portion, size = [], HEADER_SIZE
            portion.append(place)
            size += more
        if portion:
            yield portion

    def stored(self, number: int, first: int, index: int, base_offset: int) -> None:
        """`first` is the sequence number with which the shard of this index begins."""
        shard = f"shardId-{index:012d}"
        first += base_offset + 1
        for delta, place in enumerate(self._batches[number]):
            self._outcomes[place] = (str(first + delta), shard)

    def fail(self, place: int, code: str, message: str) -> None:
        self.failed[place] = (code, message)

    def fail_batch(self, number: int, code: str, message: str) -> None:
        for place in self._batches[number]:
            self.failed[place] = (code, message)

    def answer(self, form: int, encryption: str | None) -> bytes:
        """Of PutRecords."""
        entries: list[dict[str, object]] = []
        for place, outcome in enumerate(self._outcomes):
            if place in self.failed:
                code, message = self.failed[place]
                entries.append({"ErrorCode": code, "ErrorMessage": message})
            else:
                assert outcome is not None
                entries.append({"SequenceNumber": outcome[0], "ShardId": outcome[1]})
        whole: dict[str, object] = {"FailedRecordCount": len(self.failed), "Records": entries}
        return encode(whole if encryption is None else {"EncryptionType": encryption, **whole}, _ENCODINGS[form])

    def sole_answer(self, form: int, encryption: str | None) -> bytes:
        """Of PutRecord."""
        outcome = self._outcomes[0]
        assert outcome is not None
        whole: dict[str, object] = {"SequenceNumber": outcome[0], "ShardId": outcome[1]}
        return encode(whole if encryption is None else {"EncryptionType": encryption, **whole}, _ENCODINGS[form])


def _hash_key(key: bytes | None, explicit: bytes | None) -> bytes:
    if explicit is not None:
        return int(explicit).to_bytes(16, "big")
    return md5(key or b"", usedforsecurity=False).digest()


def _ends(lasts: bytes) -> list[bytes]:
    return [lasts[start : start + 16] for start in range(0, len(lasts), 16)]


class RecordList:
    """Records of one shard, encoded one behind the other: at most `limit`, and `max_bytes` of data and keys, but one at least.
    `first` is the sequence number with which the shard begins: that of the record at an offset is as much more, and one.
    `keyless` says whether a record without a key is shown without one (or with the key `-`)."""

    __slots__ = (
        "_encryption", "_first", "_form", "_keyless", "_limit", "_max_bytes", "_parts",
        "count", "full", "last_ms", "next_offset", "size",
    )  # fmt: skip

    def __init__(self, form: int, first: int, limit: int, max_bytes: int, encryption: str | None, keyless: bool) -> None:
        self._form = form
        self._first = first
        self._limit = limit
        self._max_bytes = max_bytes
        self._encryption = encryption
        self._keyless = keyless
        self._parts: list[bytes] = []
        self.count = 0
        self.size = 0
        self.last_ms = -1  # the arrival of the last one
        self.next_offset = -1  # where to go on; -1: nothing was looked at
        self.full = False  # there was one more than there may be

    def take(self, data: Buffer, position: int, start: int, end: int) -> int:
        """Takes the records with offsets from `start` to `end` from whole batches, until it is full. Returns the position of
        the first batch that was not dealt with: one that is compressed, a part of a transaction or not sound is left to the
        caller, with nothing taken of it."""
        while not self.full and len(data) - position >= HEADER_SIZE:
            base, length, _, magic, _, attributes, last_delta, base_ms, max_ms, _, _, _, count = HEADER.unpack_from(
                data, position
            )
            if magic != 2 or length < HEADER_SIZE - LENGTH_BASE or last_delta < 0 or count < 0:
                break
            following = position + LENGTH_BASE + length
            if following > len(data) or base >= end:
                break
            if base + last_delta >= start:
                if attributes & (_COMPRESSION | _TRANSACTIONAL) and not attributes & _CONTROL:
                    break
                if not attributes & _CONTROL:
                    payload = memoryview(data)[position + HEADER_SIZE : following]
                    try:
                        append_ms = max_ms if attributes & _APPEND_TIME else -1
                        self.take_records(payload, count, base, base_ms, append_ms, start, end)
                    except CorruptBatch:
                        break
                if not self.full:
                    self.next_offset = max(self.next_offset, base + last_delta + 1)
            if not self.full:
                position = following
        return position

    def take_records(
        self, payload: Buffer, count: int, base_offset: int, base_ms: int, append_ms: int, start: int, end: int
    ) -> None:
        """The records of one batch, not compressed (any more). `append_ms` is the time of all of them, if there is one. Raises
        CorruptBatch, with nothing taken."""
        for offset, when, key, value, _ in decode_records(payload, count, base_offset, base_ms) if count else ():
            if not start <= offset < end:
                continue
            size = len(key or b"") + len(value or b"")
            if self.count >= self._limit or (self.count and self.size + size > self._max_bytes):
                self.full = True
                self.next_offset = offset
                return
            self.last_ms = arrival_ms(append_ms if append_ms >= 0 else when)
            self._parts.append(self._record(offset, key, value or b""))
            self.count += 1
            self.size += size
            self.next_offset = offset + 1

    def _record(self, offset: int, key: bytes | None, data: bytes) -> bytes:
        number = str(self._first + offset + 1)
        shown = None if key is None and self._keyless else partition_key(key)
        if self._form == JSON:
            seconds, millis = divmod(self.last_ms, 1000)
            named = "" if shown is None else f',"PartitionKey":{json.dumps(shown, ensure_ascii=False)}'
            more = "" if self._encryption is None else f',"EncryptionType":"{self._encryption}"'
            return (
                b'{"ApproximateArrivalTimestamp":%d.%03d,"Data":"%s"' % (seconds, millis, b64encode(data))
                + f'{named},"SequenceNumber":"{number}"{more}}}'.encode()
            )
        members = 3 + (shown is not None) + (self._encryption is not None)
        pieces = [bytes((0xA0 | members,)), _text("ApproximateArrivalTimestamp"), b"\xc1"]
        pieces.append(b"\xfb" + _DOUBLE.pack(self.last_ms / 1000) if self._form == RPC else head(0, self.last_ms))
        pieces += (_text("Data"), head(2, len(data)), data)
        if shown is not None:
            pieces += (_text("PartitionKey"), _text(shown))
        pieces += (_text("SequenceNumber"), _text(number))
        if self._encryption is not None:
            pieces += (_text("EncryptionType"), _text(self._encryption))
        return b"".join(pieces)

    def body(self, tail: bytes, members: int) -> bytes:
        """An object with these records as its member Records, and `members` others that `tail` has encoded: each with a comma
        before it in JSON. To be asked for once: the records are given away."""
        self.full = True
        if self._form == JSON:
            return b'{"Records":[' + b",".join(self._parts) + b"]" + tail + b"}"
        return b"".join((bytes((0xA1 + members,)), _text("Records"), b"\x9a", _WORD.pack(self.count), *self._parts, tail))


def _text(text: str) -> bytes:
    data = text.encode()
    return head(3, len(data)) + data
