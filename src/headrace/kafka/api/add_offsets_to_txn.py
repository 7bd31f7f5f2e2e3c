"""AddOffsetsToTxn, versions 0 to 4: the transaction is going to commit offsets of a group. Answered when that is durable.

2: PRODUCER_FENCED (KIP-588) · 3: flexible · 4: TRANSACTION_ABORTABLE (KIP-890). Clients with transactions V2 do not send it.
"""

from __future__ import annotations

from headrace.broker.transactions import OFFSETS, TransactionError
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headrace.kafka.transaction_errors import code_of
from headrace.log.errors import StorageError

_FENCED_SINCE = 2


async def handle(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    try:
        call.broker.transactions.add_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch, [OFFSETS]
        )
        await call.broker.log.synced()
    except TransactionError as error:
        return AddOffsetsToTxnResponse(error_code=code_of(error, knows_fenced=call.version >= _FENCED_SINCE))
    except StorageError:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)
    return AddOffsetsToTxnResponse()
