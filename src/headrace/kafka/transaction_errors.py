"""How Kafka's protocol says what the transaction coordinator could not do. The one table of it.

Trouble with storage is NOT_COORDINATOR, as for groups: every client then looks for the coordinator again and retries.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.transactions import errors
from headrace.broker.transactions.errors import TransactionError
from headrace.kafka.codec.errors import ErrorCode

_CODES: Mapping[type[TransactionError], ErrorCode] = {
    errors.ConcurrentTransactions: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.CoordinatorFailed: ErrorCode.NOT_COORDINATOR,
    errors.CoordinatorFull: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.InvalidPattern: ErrorCode.INVALID_REGULAR_EXPRESSION,
    errors.InvalidProducerIdMapping: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    errors.InvalidTransactionTimeout: ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    errors.ProducerFenced: ErrorCode.PRODUCER_FENCED,
    errors.TransactionAbortable: ErrorCode.TRANSACTION_ABORTABLE,
    errors.TransactionalIdNotFound: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
}


def code_of(error: TransactionError | None, *, knows_fenced: bool = True) -> ErrorCode:
    """Clients before KIP-588 know of INVALID_PRODUCER_EPOCH only."""
    code = ErrorCode.NONE if error is None else _CODES[type(error)]
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def code_for_write(error: TransactionError, *, knows_abortable: bool) -> ErrorCode:
    """For a Produce or a TxnOffsetCommit that is not admitted. A fenced producer is told of its epoch, which it may get out of
    (KIP-360); what will pass is NOT_ENOUGH_REPLICAS, which every producer retries without looking for another leader."""
    code = code_of(error, knows_fenced=False)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    if code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
