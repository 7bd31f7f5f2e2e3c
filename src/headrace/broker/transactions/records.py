"""The rows of `__transaction_state`, in Kafka's own record format, so that tools which read that topic understand ours.

    key    int16 version 0, transactional id string
    value  int16 version 1 (flexible), producer id int64, epoch int16, timeout int32, state int8, partitions (null when there
           are none), last update int64, start int64, tags: 0 previous producer id, 2 the client's version of transactions

Version 0 of the value, as older brokers wrote it, is read too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from headrace.broker.row_fields import MalformedRow, RowReader
from headrace.broker.transactions.transaction import NO_PRODUCER_ID, State, Transaction
from headrace.record.varint import write_unsigned_varint

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
    write_unsigned_varint(out, len(by_topic) + 1 if by_topic or transaction.ongoing else 0)
    for topic, indexes in by_topic.items():
        name = topic.encode()
        write_unsigned_varint(out, len(name) + 1)
        out += name
        write_unsigned_varint(out, len(indexes) + 1)
        out += struct.pack(f">{len(indexes)}i", *indexes)
        out.append(0)
    out += _TIMES.pack(transaction.updated_ms, transaction.started_ms)
    tags = []
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        tags.append((_PREVIOUS, struct.pack(">q", transaction.previous_producer_id)))
    if transaction.client_version:
        tags.append((_CLIENT_VERSION, struct.pack(">h", transaction.client_version)))
    write_unsigned_varint(out, len(tags))
    for number, content in tags:
        write_unsigned_varint(out, number)
        write_unsigned_varint(out, len(content))
        out += content
    return bytes(out)


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    reader = RowReader(value)
    version, producer_id, epoch, timeout_ms, state = _HEAD.unpack(reader.take(_HEAD.size))
    if version not in (0, 1) or not 0 <= state < len(_STATES):
        raise MalformedRow(f"version {version}, state {state}")
    count: Callable[[], int] = (lambda: reader.uvarint() - 1) if version else reader.int32

    def topic() -> set[tuple[str, int]]:
        name = reader.compact_string() if version else reader.string()
        found = {(name, index) for index in reader.items(count(), reader.int32, least_size=4)}
        if version:
            reader.tags()
        return found

    partitions = frozenset[tuple[str, int]]().union(*reader.items(count(), topic))
    updated_ms, started_ms = _TIMES.unpack(reader.take(_TIMES.size))
    tags = reader.tags() if version else {}
    return Transaction(
        transactional_id,
        producer_id,
        epoch,
        timeout_ms,
        _STATES[state],
        partitions,
        started_ms,
        updated_ms,
        int.from_bytes(tags.get(_CLIENT_VERSION, b""), "big"),
        int.from_bytes(tags[_PREVIOUS], "big", signed=True) if _PREVIOUS in tags else NO_PRODUCER_ID,
    )


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise MalformedRow("text that is not UTF-8") from None
