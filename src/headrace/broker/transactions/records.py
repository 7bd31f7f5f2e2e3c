"""The rows of `__transaction_state`, in Kafka's own record format, so that tools which read that topic understand ours.

    key    int16 version 0, transactional id string
    value  int16 version 1 (flexible), producer id int64, epoch int16, timeout int32, state int8, partitions (null when there
           are none), last update int64, start int64, tags: 0 previous producer id, 2 the client's version of transactions

Version 0 of the value, as older brokers wrote it, is read too.
"""

from __future__ import annotations

import struct

from headrace.broker.transactions.transaction import NO_PRODUCER_ID, State, Transaction

_STATES = (
    State.EMPTY,
    State.ONGOING,
    State.PREPARE_COMMIT,
    State.PREPARE_ABORT,
    State.COMPLETE_COMMIT,
    State.COMPLETE_ABORT,
    State.DEAD,
    State.PREPARE_EPOCH_FENCE,
)
_NUMBERS = {state: number for number, state in enumerate(_STATES)}
_KEY = struct.Struct(">hh")
_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
_PREVIOUS, _CLIENT_VERSION = 0, 2
MAX_ID_BYTES = 0x7FFF


class MalformedRow(ValueError):
    """Bytes that no Kafka broker writes."""


def encode_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _KEY.pack(0, len(name)) + name


def decode_key(key: bytes) -> str | None:
    """None for a kind of row that is not ours."""
    if len(key) < _KEY.size:
        raise MalformedRow("a key without a type")
    version, length = _KEY.unpack_from(key)
    if version != 0:
        return None
    if length < 0 or len(key) != _KEY.size + length:
        raise MalformedRow("a key of the wrong length")
    return _text(key[_KEY.size :])


def encode_value(transaction: Transaction) -> bytes:
    out = bytearray(
        _HEAD.pack(1, transaction.producer_id, transaction.epoch, transaction.timeout_ms, _NUMBERS[transaction.state])
    )
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(index)
    _put_uvarint(out, len(by_topic) + 1 if by_topic or transaction.ongoing else 0)
    for topic, indexes in by_topic.items():
        name = topic.encode()
        _put_uvarint(out, len(name) + 1)
        out += name
        _put_uvarint(out, len(indexes) + 1)
        out += struct.pack(f">{len(indexes)}i", *indexes)
        out.append(0)
    out += _TIMES.pack(transaction.updated_ms, transaction.started_ms)
    tags = []
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        tags.append((_PREVIOUS, struct.pack(">q", transaction.previous_producer_id)))
    if transaction.client_version:
        tags.append((_CLIENT_VERSION, struct.pack(">h", transaction.client_version)))
    _put_uvarint(out, len(tags))
    for number, content in tags:
        _put_uvarint(out, number)
        _put_uvarint(out, len(content))
        out += content
    return bytes(out)


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    try:
        return _Reader(value).transaction(transactional_id)
    except (struct.error, IndexError) as error:
        raise MalformedRow(str(error)) from None


class _Reader:
    def __init__(self, row: bytes) -> None:
        self._row = row
        self._position = 0

    def transaction(self, transactional_id: str) -> Transaction:
        version, producer_id, epoch, timeout_ms, state = self._take(_HEAD)
        if version not in (0, 1) or not 0 <= state < len(_STATES):
            raise MalformedRow(f"version {version}, state {state}")
        partitions = set()
        for _ in range(self._count(version)):
            topic = self._string(version)
            partitions |= {(topic, self._take(struct.Struct(">i"))[0]) for _ in range(self._count(version))}
            if version:
                self._tags()
        updated_ms, started_ms = self._take(_TIMES)
        tags = self._tags() if version else {}
        return Transaction(
            transactional_id,
            producer_id,
            epoch,
            timeout_ms,
            _STATES[state],
            frozenset(partitions),
            started_ms,
            updated_ms,
            int.from_bytes(tags.get(_CLIENT_VERSION, b""), "big"),
            int.from_bytes(tags[_PREVIOUS], "big", signed=True) if _PREVIOUS in tags else NO_PRODUCER_ID,
        )

    def _take(self, form: struct.Struct) -> tuple[int, ...]:
        values = form.unpack_from(self._row, self._position)
        self._position += form.size
        return values

    def _bytes(self, size: int) -> bytes:
        taken = self._row[self._position : self._position + size]
        if size < 0 or len(taken) < size:
            raise MalformedRow(f"{size} bytes are not there")
        self._position += size
        return taken

    def _uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._row[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedRow("a varint longer than five bytes")

    def _count(self, version: int) -> int:
        count = self._uvarint() - 1 if version else self._take(struct.Struct(">i"))[0]
        if count > len(self._row):
            raise MalformedRow(f"{count} elements in {len(self._row)} bytes")
        return max(count, 0)

    def _string(self, version: int) -> str:
        return _text(self._bytes(self._uvarint() - 1 if version else self._take(struct.Struct(">h"))[0]))

    def _tags(self) -> dict[int, bytes]:
        return {self._uvarint(): self._bytes(self._uvarint()) for _ in range(min(self._uvarint(), len(self._row)))}


def _put_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise MalformedRow("text that is not UTF-8") from None
