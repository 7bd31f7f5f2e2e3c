"""InitProducerId, versions 0 to 5: a producer gets its number and epoch.

Without a transactional id it is a number that no other producer ever had, with epoch 0. With one it is the id's number and its
next epoch: every producer before it is fenced, and the transaction that one left open is aborted. Kafka answers
CONCURRENT_TRANSACTIONS while it aborts; here that is one write, and the answer waits for it.

1: throttle time · 2: flexible · 3: producer id and epoch, to go on after INVALID_PRODUCER_EPOCH (KIP-360) · 4:
PRODUCER_FENCED (KIP-588) · 5: TRANSACTION_ABORTABLE (KIP-890). Version 6, two-phase commit (KIP-939), is not stable in Kafka
4.3 and not advertised there either.
"""

from __future__ import annotations

from headrace.broker.transactions import TransactionError
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.kafka.transaction_errors import code_of
from headrace.log.errors import StorageError

_NONE = -1
_FENCED_SINCE = 4


async def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return await _transactional(call, request, request.transactional_id)
    try:
        producer_id = await call.broker.producer_ids.allocate()
    except StorageError:
        # What Kafka answers while it can't get a new block of ids.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _transactional(call: Call, request: InitProducerIdRequest, transactional_id: str) -> InitProducerIdResponse:
    expected = None if request.producer_id == _NONE else (request.producer_id, request.producer_epoch)
    try:
        producer_id, epoch = await call.broker.transactions.init_producer(
            transactional_id, request.transaction_timeout_ms, expected
        )
    except TransactionError as error:
        return _refused(code_of(error, knows_fenced=call.version >= _FENCED_SINCE))
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE)
