"""Reads a piece of a partition into Arrow batches: what a task of the source does, and where its time goes.

The fetch that follows is sent before an answer is decoded, so that the server works while we do. An answer is received into
memory that is used again and again, and decoded straight into Arrow columns. So a worker holds one answer (FETCH_BYTES, or
one batch of records where that is larger) and one Arrow batch (ROWS_PER_BATCH rows, BYTES_PER_BATCH bytes, or one record where
that is larger), however long the piece is.

Troubles that pass are sat out: a leader that moved, a broken connection, a server that starts again; when they last longer
than the cluster's timeout the last error is raised. Offsets that are gone are data loss: an error, or a warning where the
settings say so.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.client.kafka.aborted import AbortedTransactions
from headrace.client.kafka.cluster import FIRST_PAUSE_S, LONGEST_PAUSE_S, Cluster
from headrace.client.kafka.connection import Connection, Landing, Pending
from headrace.client.kafka.errors import ClientError, Disconnected, Refused, TimedOut, UnknownName, Unreachable
from headrace.client.kafka.fetch import Fetched, FetchWish, receive_fetch, send_fetch
from headrace.client.kafka.offsets import Isolation, end_offsets, start_offsets
from headrace.client.kafka.partitions import TopicPartition, by_leader
from headrace.kafka.codec.errors import ErrorCode
from headrace.record.errors import BatchError
from headrace.spark.columns.arrow import BatchMaker
from headrace.spark.columns.twin import Decoder, survey
from headrace.spark.source.losses import report_loss

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.spark.pieces import Piece, ReadSettings

FETCH_BYTES = 8 * 1024 * 1024
SMALLEST_FETCH_BYTES = 64 * 1024
LIKELY_RECORD_BYTES = 1024  # a guess for the first fetch of a piece, made better by each answer
ROWS_PER_BATCH = 64 * 1024
BYTES_PER_BATCH = 16 * 1024 * 1024
MAX_WAIT_S = 0.5

# A topic that is not there may be one that a server has not heard of yet; only patience tells.
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def read_piece(cluster: Cluster, piece: Piece, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """The records of `piece`, in order. Each batch is good for ever: nothing of it is used again."""
    reading = _Reading(cluster, piece, settings)
    try:
        yield from reading.batches()
    finally:
        reading.close()


class _Link:
    """A connection to one leader, for fetches alone, and the memory their answers land in."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.landing = Landing(FETCH_BYTES + 64 * 1024)


# Links that nobody uses at the moment, by cluster and leader: a worker's next task goes on with them.
_idle: weakref.WeakKeyDictionary[Cluster, dict[int, _Link]] = weakref.WeakKeyDictionary()


class _Reading:
    def __init__(self, cluster: Cluster, piece: Piece, settings: ReadSettings) -> None:
        self._cluster = cluster
        self._partition = TopicPartition(piece.topic, piece.partition)
        self._end = piece.end
        self._settings = settings
        self._isolation = Isolation.READ_COMMITTED if settings.read_committed else Isolation.READ_UNCOMMITTED
        self._decoder = self._decoder_from(piece.start)
        self._leapt = False
        self._maker = BatchMaker(piece.topic, piece.partition)
        self._position = piece.start
        self._record_bytes: float = LIKELY_RECORD_BYTES
        self._leader = -1
        self._link: _Link | None = None
        self._pending: Pending | None = None
        self._asked = -1  # the offset of the fetch under way
        self._troubled_since: float | None = None
        self._pause_s = FIRST_PAUSE_S

    def batches(self) -> Iterator[pa.RecordBatch]:
        while self._position < self._end:
            try:
                answer = self._fetch()
            except (Disconnected, Unreachable, UnknownName) as error:
                self._endure(error, gone=isinstance(error, UnknownName))
                continue
            except Refused as error:
                gone = error.code in _GONE
                if not error.retriable and not gone:
                    raise
                self._endure(error, gone=gone)
                continue
            if answer is not None:
                yield from self._decode(answer)
            elif self._leapt:
                # The oldest record kept may be in the middle of a batch, whose other records are gone though they arrive.
                if self._decoder.rows:
                    yield self._maker.make(self._decoder.take())
                self._decoder, self._leapt = self._decoder_from(self._position), False
        if self._decoder.rows:
            yield self._maker.make(self._decoder.take())

    def _decoder_from(self, first: int) -> Decoder:
        return Decoder(first, self._end, self._settings.include_headers, ROWS_PER_BATCH, BYTES_PER_BATCH)

    def close(self) -> None:
        """Keeps the connection for the next piece, unless an answer is still to come on it."""
        link, self._link = self._link, None
        if link is None:
            return
        if self._pending is not None:
            self._pending = None
            link.connection.close()
        if not link.connection.closed:
            kept = _idle.setdefault(self._cluster, {}).setdefault(self._leader, link)
            if kept is not link:
                link.connection.close()

    # Asking

    def _fetch(self) -> Fetched | None:
        """The next answer that has batches; None when it says that there is nothing more to wait for, or to wait again."""
        link = self._connected()
        if self._pending is None:
            self._send(link, self._position)
        pending, self._pending = self._pending, None
        assert pending is not None
        answer = receive_fetch(link.connection, pending, self._cluster.deadline(), link.landing)
        if self._asked != self._position:
            return None
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._leap()
            return None
        if answer.error_code:
            raise Refused(str(self._partition), answer.error_code)
        if not answer.records:
            self._wait(answer)
            return None
        self._troubled_since = None
        self._pause_s = FIRST_PAUSE_S
        return answer

    def _connected(self) -> _Link:
        if self._link is not None and not self._link.connection.closed:
            return self._link
        self._pending = None
        (self._leader,) = by_leader(self._cluster, [self._partition])
        kept = _idle.get(self._cluster, {}).pop(self._leader, None)
        if kept is not None and not kept.connection.closed:
            self._link = kept
        else:
            self._link = _Link(self._cluster.open(self._leader))
        return self._link

    def _send(self, link: _Link, offset: int) -> None:
        # What lies beyond the piece's end would be fetched in vain.
        likely = int((self._end - offset) * self._record_bytes * 1.25)
        wish = FetchWish(
            topic=self._cluster.topic(self._partition.topic),
            partition=self._partition.partition,
            offset=offset,
            max_bytes=max(SMALLEST_FETCH_BYTES, min(FETCH_BYTES, likely)),
            wait_ms=int(MAX_WAIT_S * 1000),
            isolation=self._isolation,
        )
        self._asked = offset
        self._pending = send_fetch(link.connection, wish, self._cluster.deadline())

    # Decoding

    def _decode(self, answer: Fetched) -> Iterator[pa.RecordBatch]:
        size, following = survey(answer.records)
        if following <= self._position:
            raise ClientError(f"{self._partition}: what the server sent for offset {self._position} is no batch of records")
        self._record_bytes = size / (following - self._position)
        if following < self._end and self._link is not None:
            try:
                self._send(self._link, following)
            except (ClientError, OSError):  # met again, and dealt with, when it is this fetch's turn
                self._pending = None
        aborted = AbortedTransactions(answer.aborted) if self._settings.read_committed and answer.aborted else None
        try:
            self._decoder.feed(answer.records[:size], aborted)
            while self._decoder.fill():
                yield self._maker.make(self._decoder.take())
        except BatchError as error:
            raise ClientError(f"{self._partition}: a batch from offset {self._position} on can't be read: {error}") from None
        self._position = following

    # Trouble

    def _endure(self, error: ClientError, *, gone: bool) -> None:
        if self._link is not None:
            self._link.connection.close()
        self._link = self._pending = None
        if self._out_of_patience():
            if not gone:
                raise error
            self._lose(self._end, "its topic, or the partition, is not there any more")
            return
        self._cluster.forget()
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _out_of_patience(self) -> bool:
        now = time.monotonic()
        self._troubled_since = self._troubled_since or now
        return now - self._troubled_since > self._cluster.timeout_s

    def _wait(self, answer: Fetched) -> None:
        """An answer without records, though there should be some: not replicated yet, throttled, or held back by a transaction
        that is still open."""
        if self._out_of_patience():
            end = answer.last_stable_offset if self._settings.read_committed else answer.high_watermark
            raise TimedOut(
                f"{self._partition}: offset {self._position} could not be fetched in {self._cluster.timeout_s:g} s; the "
                f"partition can be read up to {end} and should be up to {self._end}"
            )
        if answer.throttle_ms:
            time.sleep(min(answer.throttle_ms / 1000, self._cluster.timeout_s))

    def _leap(self) -> None:
        """The server has no such offset: go on with the oldest record there is, if losing the others is allowed."""
        start = start_offsets(self._cluster, [self._partition])[self._partition]
        if start > self._position:
            self._lose(min(start, self._end), f"its oldest record is {start}")
            return
        end = end_offsets(self._cluster, [self._partition])[self._partition]
        if end <= self._position:
            self._lose(self._end, f"it ends at {end}")
        elif self._out_of_patience():  # otherwise the one who answered was behind, and is asked again
            raise Refused(str(self._partition), ErrorCode.OFFSET_OUT_OF_RANGE)

    def _lose(self, goes_on: int, found: str) -> None:
        lost = f"offsets {self._position} to {goes_on - 1} of {self._partition} are gone, {found}"
        report_loss(lost, fail=self._settings.fail_on_data_loss)
        self._position = self._decoder.first = goes_on  # a batch may begin before the oldest record
