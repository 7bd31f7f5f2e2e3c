"""Which batches of a Produce request with a transactional id may be written (KIP-98, KIP-890).

Up to version 11 a partition must have been added to the transaction before; from 12 on a write adds it (transactions V2). A
client that knows nothing of TRANSACTION_ABORTABLE (before 11) is told INVALID_TXN_STATE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from uuid import UUID

from headrace.broker import Broker
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.transaction_errors import code_for_write

Place = tuple[str | bytes, int]
Wanted = Sequence[tuple[str | bytes, Sequence[tuple[int, int, int]]]]

TRANSACTIONAL = 0x10
ATTRIBUTES_AT = 22
_PRODUCER = Struct(">qh")
_PRODUCER_AT = 43
_HEADER_BYTES = 61
_ABORTABLE_SINCE = 11
_ADDED_BY_WRITES_SINCE = 12


def refusals(broker: Broker, transactional_id: str, version: int, topics: Wanted, view: memoryview) -> Mapping[Place, int]:
    """The error of each batch that must not be written. What belongs to no transaction is not looked at."""
    log = broker.log
    places: dict[Place, tuple[str, int]] = {}
    producer: tuple[int, int] | None = None
    for name, partitions in topics:
        topic = log.topics().get(name) if isinstance(name, str) else log.topic_by_id(UUID(bytes=name))
        if topic is None or topic.internal:
            continue
        for index, first, last in partitions:
            if not 0 <= index < len(topic.partitions) or last - first < _HEADER_BYTES:
                continue
            if view[first + ATTRIBUTES_AT] & TRANSACTIONAL:
                places[name, index] = (topic.name, index)
                found = _PRODUCER.unpack_from(view, first + _PRODUCER_AT)
                if producer not in (None, found):
                    return dict.fromkeys(places, ErrorCode.INVALID_PRODUCER_ID_MAPPING)  # two producers in one request
                producer = found
    if producer is None:
        return {}
    add = version >= _ADDED_BY_WRITES_SINCE
    refused = broker.transactions.admit_writes(transactional_id, *producer, tuple(places.values()), add=add)
    if not refused:
        return {}
    knows_abortable = version >= _ABORTABLE_SINCE
    return {
        place: code_for_write(error, knows_abortable=knows_abortable)
        for place, named in places.items()
        if (error := refused.get(named)) is not None
    }
