"""The rows of `__share_group_state`, in Kafka's own record format, so that tools which read that topic understand ours.

    key    int16 0 (ShareSnapshotKey), group string, topic id uuid, partition int32
    value  int16 0 (ShareSnapshotValue version 0): snapshot epoch, state epoch and leader epoch int32; start offset, time of
           creation and of writing int64; the runs as [first int64, last int64, state int8, delivery count int16]; and, as
           tagged field 0, how many records above the start are done

One row holds all of a share partition, so there are no ShareUpdate records: a row is as long as its window has runs. What is
acquired is written as available with the count it had before, since whoever held it at a crash is not heard of again.

Why a record waits for its copy (ARCHIVING) is our own tagged field of a run, with a number far from Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from uuid import UUID

from headrace.broker.groups.share.runs import Cause, RecordState, Run
from headrace.dataclass import dataclass
from headrace.record.varint import read_unsigned_varint, write_unsigned_varint

_KEY_TYPE = Struct(">h")
_LENGTH = Struct(">H")
_PLACE = Struct(">16si")
_HEAD = Struct(">hiiiqqq")
_RUN = Struct(">qqbh")
_DONE_COUNT = b"\x00\x04"  # tag 0, four bytes
_CAUSE_TAG = 10_000
_CAUSE = b"\x90\x4e\x01"  # that tag, one byte
_SNAPSHOT = 0
_MAX_COUNT = 0x7FFF


class MalformedState(ValueError):
    """Bytes that neither a Kafka broker nor this one writes."""


@dataclass(frozen=True, slots=True)
class Place:
    """A share partition: one partition of a topic as one group reads it."""

    group_id: str
    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class State:
    start: int
    runs: tuple[Run, ...]
    state_epoch: int = 0
    leader_epoch: int = 0
    created_ms: int = 0


def encode_key(place: Place) -> bytes:
    group = place.group_id.encode()
    return _KEY_TYPE.pack(_SNAPSHOT) + _LENGTH.pack(len(group)) + group + _PLACE.pack(place.topic_id.bytes, place.partition)


def decode_key(key: bytes) -> Place | None:
    """None for a row of another kind."""
    if len(key) < 4:
        raise MalformedState("a key shorter than its header")
    if _KEY_TYPE.unpack_from(key)[0] != _SNAPSHOT:
        return None
    length = _LENGTH.unpack_from(key, 2)[0]
    if len(key) != 4 + length + _PLACE.size:
        raise MalformedState("a key whose length is wrong")
    topic_id, partition = _PLACE.unpack_from(key, 4 + length)
    try:
        return Place(key[4 : 4 + length].decode(), UUID(bytes=topic_id), partition)
    except UnicodeDecodeError as error:
        raise MalformedState("a group name that is not UTF-8") from error


def encode_state(
    start: int, runs: Iterable[Run], *, state_epoch: int, leader_epoch: int, created_ms: int, now_ms: int
) -> bytes:
    kept = _as_kept(runs)
    out = bytearray(_HEAD.pack(0, 0, state_epoch, leader_epoch, start, created_ms, now_ms))
    write_unsigned_varint(out, len(kept) + 1)
    done = 0
    for first, last, state, count, cause in kept:
        out += _RUN.pack(first, last, state, min(count, _MAX_COUNT))
        if cause is Cause.NONE:
            out.append(0)
        else:
            out += b"\x01" + _CAUSE + bytes((cause,))
        if state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED):
            done += last - first + 1
    out += b"\x01" + _DONE_COUNT + done.to_bytes(4, "big")
    return bytes(out)


def _as_kept(runs: Iterable[Run]) -> list[tuple[int, int, RecordState, int, Cause]]:
    kept: list[tuple[int, int, RecordState, int, Cause]] = []
    for run in runs:
        state, count = run.state, run.count
        if state is RecordState.ACQUIRED:
            state, count = RecordState.AVAILABLE, count - 1
        if kept and kept[-1][2:] == (state, count, run.cause):
            kept[-1] = (kept[-1][0], run.last, *kept[-1][2:])
        else:
            kept.append((run.first, run.last, state, count, run.cause))
    while kept and kept[-1][2:4] == (RecordState.AVAILABLE, 0):  # as if it had never been delivered
        kept.pop()
    return kept


def decode_state(value: bytes) -> State:
    if len(value) < _HEAD.size:
        raise MalformedState("a value shorter than its header")
    version, _, state_epoch, leader_epoch, start, created_ms, _ = _HEAD.unpack_from(value)
    if version != 0:
        raise MalformedState(f"ShareSnapshotValue version {version}")
    count, position = _take_uvarint(value, _HEAD.size)
    runs: list[Run] = []
    for _ in range(count - 1):
        if position + _RUN.size > len(value):
            raise MalformedState("ends inside a run")
        first, last, state, deliveries = _RUN.unpack_from(value, position)
        if first > last or state not in _KEPT:
            raise MalformedState(f"offsets {first} to {last} in state {state}")
        cause, position = _take_cause(value, position + _RUN.size)
        runs.append(Run(first, last, RecordState(state), deliveries, cause=cause))
    return State(start, tuple(runs), state_epoch, leader_epoch, created_ms)


_KEPT = frozenset({RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED})


def _take_cause(value: bytes, position: int) -> tuple[Cause, int]:
    cause = Cause.NONE
    tags, position = _take_uvarint(value, position)
    for _ in range(tags):
        tag, position = _take_uvarint(value, position)
        size, position = _take_uvarint(value, position)
        if position + size > len(value):
            raise MalformedState("ends inside a tagged field")
        if tag == _CAUSE_TAG and size == 1 and value[position] in (Cause.REJECTED, Cause.DELIVERED_TOO_OFTEN):
            cause = Cause(value[position])
        position += size
    return cause, position


def _take_uvarint(value: bytes, position: int) -> tuple[int, int]:
    try:
        return read_unsigned_varint(value, position)
    except (ValueError, IndexError) as error:
        raise MalformedState("a varint that does not end") from error
