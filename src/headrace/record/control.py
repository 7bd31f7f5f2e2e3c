"""Control batches: the markers that end a transaction (KIP-98). One record; its key says which kind, its value by whom.

key    version i16 = 0, type i16        value  version i16 = 0, coordinator_epoch i32
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

from headrace.dataclass import dataclass
from headrace.record.batch import Record, encode_batch
from headrace.record.errors import CorruptBatch
from headrace.record.event import Event

_KEY = Struct(">hh")
_VALUE = Struct(">hi")


class ControlType(IntEnum):
    """Those beyond these two belong to KRaft; a client that meets one it does not know passes over it."""

    ABORT = 0
    COMMIT = 1
    UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    commit: bool
    coordinator_epoch: int


def control_type(record: Record) -> ControlType:
    """What a record of a control batch is."""
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatch("a control record with a key that is too short")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatch("a control record with a negative version")
    return ControlType(kind) if kind in (ControlType.ABORT, ControlType.COMMIT) else ControlType.UNKNOWN


def read_marker(record: Record) -> EndTransactionMarker | None:
    """The marker in a record of a control batch; None when it is of another kind."""
    kind = control_type(record)
    if kind is ControlType.UNKNOWN:
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptBatch("an end-transaction marker that is too short")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptBatch("an end-transaction marker with a negative version")
    return EndTransactionMarker(kind is ControlType.COMMIT, coordinator_epoch)


def encode_marker(
    marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, now_ms: int, base_offset: int = 0
) -> bytearray:
    """The control batch that ends this producer's transaction."""
    kind = ControlType.COMMIT if marker.commit else ControlType.ABORT
    event = Event(_KEY.pack(0, kind), _VALUE.pack(0, marker.coordinator_epoch), timestamp_ms=now_ms)
    return encode_batch(
        [event],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
