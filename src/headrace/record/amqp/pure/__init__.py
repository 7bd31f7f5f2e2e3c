"""The hot work between frames and records in pure Python: the twin of `headrace._amqp`, with the same functions, the same
answers and the same exceptions.

`headrace.record.amqp.twin` picks one of the two. What is added here is added there; tests/record/amqp runs both, and one
against the other. Imports only `record`.
"""

from headrace.record.amqp.pure.batching import batch_span, merge_records, run_batch, split_batches
from headrace.record.amqp.pure.delivering import deliver, skip
from headrace.record.amqp.pure.scanning import scan

__all__ = ["batch_span", "deliver", "merge_records", "run_batch", "scan", "skip", "split_batches"]
