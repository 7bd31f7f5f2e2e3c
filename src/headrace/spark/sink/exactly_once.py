"""A task's rows of a batch, written exactly once: in one transaction with the marker that says so.

    begin       the task's transactional id is taken over: an attempt that is still running is fenced, what it left is aborted,
                what it had asked to commit is committed
    look        the marker: is this batch written already? then the rows are counted and compared, and nothing is written
    write       the rows, and the marker
    commit      both are there, or neither

Whatever ends an attempt at whatever moment, the next one begins by finding out. A task without rows writes nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from headrace.client.kafka.errors import ClientError, Refused
from headrace.client.kafka.sending import Sender
from headrace.client.kafka.transactions import Transaction
from headrace.spark.sink.kept import links, servers_of
from headrace.spark.sink.markers import Marker, marker_offsets, read_marker
from headrace.spark.sink.producing import Encoder, Tally, chunks, produce
from headrace.spark.sink.settings import FAIL, ROWS_AND_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.client.kafka.cluster import Cluster
    from headrace.spark.sink.settings import WriteSettings
    from headrace.spark.sink.work import Work


class CannotReplay(RuntimeError):
    """Writing would double rows and skipping would lose some, or nobody can tell. The text says what to do."""


def write_exactly_once(batches: Iterator[pa.RecordBatch], settings: WriteSettings, work: Work) -> tuple[Tally, bool]:
    """What was written, and whether an earlier attempt had done so."""
    servers = servers_of(settings)
    rows = chunks(batches)
    first = next(rows, None)
    if first is None:
        marker = read_marker(servers, work.group)
        if marker is not None and marker.batch == work.batch:
            _compare(marker, Tally(), settings, work)
        return Tally(), marker is not None and marker.batch >= work.batch
    rows = chain((first,), rows)
    transaction = Transaction.begin(servers, work.transactional_id, settings.transaction_timeout_ms)
    marker = _look(servers, transaction, settings, work)
    if marker is None:
        return _write(rows, servers, transaction, settings, work), False
    tally = Tally(topics=set(marker.topics))
    for chunk in rows:
        tally.add(chunk)
    _compare(marker, tally, settings, work)
    return tally, True


def _look(servers: Cluster, transaction: Transaction, settings: WriteSettings, work: Work) -> Marker | None:
    """The marker of this batch, if it is written already."""
    if not work.lasting and transaction.producer.epoch == 0:
        return None  # the name was made for this write, and nobody has begun under it before
    marker = read_marker(servers, work.group)
    if marker is not None:
        if marker.batch > work.batch:
            raise CannotReplay(
                f"{work}: the cluster has rows of batch {marker.batch} already, so the checkpoint is older than what was "
                "written (was it restored, or were files in it deleted?). Start with a new checkpoint, or see 'markers' in "
                "docs/spark-sink.md"
            )
        return marker if marker.batch == work.batch else None
    over = read_marker(servers, work.name)
    if not work.lasting and over is not None:
        raise CannotReplay(f"{work}: this write is over; the attempt came too late and wrote nothing")
    if work.lasting and work.batch > 0 and over is None and settings.missing_markers == FAIL:
        raise CannotReplay(
            f"{work}: the markers of this query are gone, so nobody can tell whether an earlier run has written this batch. "
            "Brokers keep them for offsets.retention.minutes (7 days by default) after the last batch. If the query did not "
            "fail in the middle of a batch, or if rows that come twice do no harm, start it with option missingMarkers=write"
        )
    return None


def _compare(marker: Marker, tally: Tally, settings: WriteSettings, work: Work) -> None:
    same = marker.rows == tally.rows and (settings.replay_check != ROWS_AND_BYTES or marker.size_bytes == tally.size_bytes)
    if not same:
        raise CannotReplay(
            f"{work} was written by an earlier attempt with {marker.rows} rows of {marker.size_bytes} bytes; now it has "
            f"{tally.rows} rows of {tally.size_bytes} bytes. The query gives its tasks other rows than before: its code, its "
            "number of shuffle partitions or its input has changed in the middle of a batch. Run it as it was until this batch "
            "is done. Where only the content varies (uuid(), rand(), a clock in a UDF) set option replayCheck=rows"
        )


def _write(
    rows: Iterator[pa.RecordBatch], servers: Cluster, transaction: Transaction, settings: WriteSettings, work: Work
) -> Tally:
    sender = Sender(
        servers,
        transaction.producer,
        links=links(settings.endpoint),
        transactional_id=work.transactional_id,
        joining=transaction.add,
        compression=settings.compression,
        level=settings.level,
        timeout_s=settings.delivery_timeout_s,
    )
    try:
        tally = produce(rows, Encoder(servers, settings), sender)
        marker = Marker(work.batch, tally.rows, tally.size_bytes)
        transaction.commit_offsets(work.group, marker_offsets(marker, tally.topics))
    except BaseException as error:
        sender.abandon()
        _abort(transaction)
        if isinstance(error, Refused):
            raise transaction.name_fence(error) from error
        raise
    transaction.commit()
    return tally


def _abort(transaction: Transaction) -> None:
    """So that readers need not wait for the transaction to time out. The next attempt would do it as well."""
    try:
        transaction.abort()
    except ClientError:
        pass
