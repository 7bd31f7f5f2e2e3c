"""What the transaction coordinator can answer instead of doing what was asked.

The names are the domain's; each front end maps them to its own codes in one table (Kafka's is
`headrace.kafka.transaction_errors`).
"""

from __future__ import annotations


class TransactionError(Exception):
    """The root of everything below; never raised itself."""


class InvalidRequest(TransactionError):
    """A request that contradicts itself, such as an empty transactional id."""


class InvalidTransactionTimeout(TransactionError):
    """Not above zero, or above transaction.max.timeout.ms."""


class InvalidProducerIdMapping(TransactionError):
    """The transactional id is not known, perhaps because it expired, or belongs to another producer id."""


class ProducerFenced(TransactionError):
    """A newer producer has this transactional id, or the coordinator gave up waiting for this one."""


class InvalidTransactionState(TransactionError):
    """The transaction is not in a state that allows this."""


class TransactionAbortable(TransactionError):
    """The partition was not added to the transaction: it must be aborted, and then the producer may go on (KIP-890)."""


class ConcurrentTransactions(TransactionError):
    """Another change of the same transactional id is under way; asking again will help."""


class TransactionalIdNotFound(TransactionError):
    pass


class InvalidPattern(TransactionError):
    """A regular expression that can't be understood."""


class CoordinatorFull(TransactionError):
    """There are as many transactional ids, or offsets waiting for their transaction, as there may be."""


class CoordinatorFailed(TransactionError):
    """The change could not be made durable, so it did not happen; asking again may help."""
