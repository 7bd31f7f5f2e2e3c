"""Transactions: exactly-once writing over many partitions, and reading with it (KIP-98, KIP-447, KIP-664, KIP-890).

`transaction` is one transactional id and the rules of its epochs, `coordinator` what may be done with it, `records` its row on
disk, `sweeping` what time does. What partitions know of transactions is the log's; the offsets that a transaction will commit
wait in `headrace.broker.groups.pending`. Imports the log's port, the record and the groups' pending offsets; imported by the
broker and its front ends.
"""

from headrace.broker.transactions.coordinator import OFFSETS, TransactionCoordinator
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.transaction import State, TopicPartition, Transaction

__all__ = ["OFFSETS", "State", "TopicPartition", "Transaction", "TransactionCoordinator", "TransactionError"]
