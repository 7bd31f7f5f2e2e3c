"""What the operations that carry records have in common, one for each service: the limits of shards, the key of iterators, and
what is remembered of streams so that a put does not have to find it out again.

Bound: what is remembered of a stream goes with the stream.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.data.limits import Limits
from headrace.kinesis.data.storing import Storing
from headrace.kinesis.data.tokens import Tokens
from headrace.kinesis.data.twin import CBOR, JSON, RPC

if TYPE_CHECKING:
    from headrace.kinesis.service import Service

ENFORCE_LIMITS = "kinesis.enforce.limits"
ITERATOR_EXPIRY_MS = "kinesis.iterator.expiry.ms"

MAKING = 4

FORMS = {Encoding.JSON: JSON, Encoding.CBOR: CBOR, Encoding.RPC: RPC}


class Shared:
    def __init__(self, service: Service) -> None:
        broker = service.broker
        self.clock = broker.clock
        self.log = broker.log
        self.tokens = Tokens(broker.log)
        self.limits = Limits(broker.clock)
        self.storing = Storing(broker, service.traffic.bytes_in, self.limits)
        self.went = service.traffic.bytes_out
        self.making = asyncio.Semaphore(MAKING)  # of large answers
        self._settings = broker.settings
        broker.settings.subscribe(self._read_settings)
        self._read_settings()

    def _read_settings(self) -> None:
        self.iterator_expiry_ms = self._settings.get_int(ITERATOR_EXPIRY_MS)
        self.enforcing = self.storing.enforcing = self._settings.get_bool(ENFORCE_LIMITS)


_of_service: WeakKeyDictionary[Service, Shared] = WeakKeyDictionary()


def shared_by(service: Service) -> Shared:
    found = _of_service.get(service)
    if found is None:
        found = _of_service[service] = Shared(service)
    return found
