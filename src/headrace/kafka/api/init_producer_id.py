"""InitProducerId, versions 0 to 5: a number for an idempotent producer that no other producer ever had, with epoch 0.

A transactional id is refused with UNSUPPORTED_VERSION until there are transactions. Clients take that for final and say
so at once; any retriable code (COORDINATOR_NOT_AVAILABLE …) would leave `initTransactions` waiting until it times out,
and an authorization error would send people looking in the wrong place.

1: throttle time · 2: flexible · 3: producer id and epoch, to go on after INVALID_PRODUCER_EPOCH (KIP-360) · 4:
PRODUCER_FENCED · 5: TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.log.errors import StorageError

_NONE = -1


async def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        empty = not request.transactional_id
        return _refused(ErrorCode.INVALID_REQUEST if empty else ErrorCode.UNSUPPORTED_VERSION)
    try:
        producer_id = await call.broker.producer_ids.allocate()
    except StorageError:
        # What Kafka answers while it can't get a new block of ids.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE)
