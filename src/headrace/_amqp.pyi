"""The compiled twin has exactly the functions of `headrace.record.amqp.pure`, and one more for its own tests."""

from headrace.record.amqp.pure import batch_span as batch_span
from headrace.record.amqp.pure import deliver as deliver
from headrace.record.amqp.pure import merge_records as merge_records
from headrace.record.amqp.pure import run_batch as run_batch
from headrace.record.amqp.pure import scan as scan
from headrace.record.amqp.pure import skip as skip
from headrace.record.amqp.pure import split_batches as split_batches

def limits() -> tuple[int, ...]: ...
