"""What a control batch holds: the end of a transaction, as a record whose key says commit or abort.

Both key and value begin with a version of two bytes, and are read as the newest version known.
"""

from __future__ import annotations

from enum import IntEnum

from headrace.kafka.codec.fields import int16, int32
from headrace.kafka.codec.schema import Message


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecordKey(Message):
    version: int = int16()
    type: int = int16()


class EndTxnMarker(Message):
    version: int = int16()
    coordinator_epoch: int = int32()
