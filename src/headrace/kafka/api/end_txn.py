"""EndTxn, versions 0 to 5: commits or aborts. Answered when everything is durable: markers, offsets and the state itself.

2: PRODUCER_FENCED (KIP-588) · 3: flexible · 4: TRANSACTION_ABORTABLE · 5: transactions V2, each end gives the producer its
next epoch (KIP-890), and an aborted transaction need not have begun
"""

from __future__ import annotations

from headrace.broker.transactions import TransactionError
from headrace.kafka.call import Call
from headrace.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.kafka.transaction_errors import code_of

_FENCED_SINCE = 2
_V2_SINCE = 5


async def handle(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    try:
        producer_id, epoch = await call.broker.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            bump=call.version >= _V2_SINCE,
        )
    except TransactionError as error:
        return EndTxnResponse(error_code=code_of(error, knows_fenced=call.version >= _FENCED_SINCE))
    return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)
