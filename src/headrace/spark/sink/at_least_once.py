"""A task's rows, written at least once: acknowledged by all replicas before the task ends, and no transaction.

The producer is idempotent, so a broken connection doubles nothing. A task that is done again writes its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.spark.sink.kept import give_back, idempotent_sender, servers_of
from headrace.spark.sink.producing import Encoder, Tally, chunks, produce

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.spark.sink.settings import WriteSettings


def write_at_least_once(batches: Iterator[pa.RecordBatch], settings: WriteSettings) -> Tally:
    servers = servers_of(settings)
    sender = idempotent_sender(settings)
    try:
        tally = produce(chunks(batches), Encoder(servers, settings), sender)
    except BaseException:
        sender.abandon()
        raise
    give_back(settings, sender)
    return tally
