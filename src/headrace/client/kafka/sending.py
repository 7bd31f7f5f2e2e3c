"""Sending record batches that are encoded already: many under way at once, in order for each partition, none written twice.

For those who make whole batches (the Spark sink); `producer` is for those who have records. Every batch carries the producer's
id and a sequence number (KIP-98), so the server drops what it has already written and refuses what would leave a gap. That
allows up to five requests to wait for their answers on each connection: when one of them fails in a way that will pass, the
answers to the others are awaited, and everything that was not acknowledged is sent again in its order. A batch that the server
finds too large is split in two; its halves share its sequence numbers.

Bounds: BUFFER_BYTES of batches not acknowledged, after which `send` waits; REQUEST_BYTES to a request (or one batch, if that is
larger); `timeout_s` without any acknowledgement, after which the last error is raised.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.client.kafka.cluster import FIRST_PAUSE_S, LONGEST_PAUSE_S, Cluster
from headrace.client.kafka.connection import Connection, Pending
from headrace.client.kafka.errors import ClientError, Disconnected, ProtocolViolation, Refused, TimedOut, Unreachable, check
from headrace.client.kafka.partitions import TopicPartition, by_leader
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.record.batch import Record, decode_batch, encode_batch, wrap_records
from headrace.record.compression import Compression

IN_FLIGHT = 5  # requests to one broker: the server remembers the last five batches of a producer to know them again
BUFFER_BYTES = 32 * 1024 * 1024
REQUEST_BYTES = 1024 * 1024
REQUEST_TIMEOUT_S = 30.0
DELIVERY_TIMEOUT_S = 120.0
_NEWEST_BY_NAME = 12
_NEWEST_IN_TRANSACTION = 11  # from 12 on a Produce adds its partitions to the transaction itself (KIP-890); here that is asked
_SEQUENCE_MASK = 0x7FFFFFFF
_ALL = -1
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class ProducerId(NamedTuple):
    number: int
    epoch: int


class EncodedRecords(NamedTuple):
    """Records for one partition, encoded as in a batch but not compressed."""

    payload: bytes
    records: int
    first_timestamp_ms: int
    max_timestamp_ms: int


@dataclass(slots=True, eq=False)
class _Batch:
    encoded: bytearray
    count: int
    sequence: int


class _Sent(NamedTuple):
    link: Connection
    pending: Pending
    batches: dict[TopicPartition, _Batch]


@dataclass(slots=True)
class _Lane:
    """What one partition is still owed: batches in order, of which the first `sent` are under way."""

    batches: deque[_Batch] = field(default_factory=deque)
    sent: int = 0


Links = dict[int, Connection]
"""Connections for Produce alone, by broker. They may outlive a Sender, and serve one Sender at a time."""


def new_producer_id(cluster: Cluster) -> ProducerId:
    """For writing without transactions."""

    def ask() -> ProducerId:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        answer = cluster.any().call(request, InitProducerIdResponse, cluster.deadline())
        check("a producer id", answer.error_code)
        return ProducerId(answer.producer_id, answer.producer_epoch)

    return cluster.retry(ask)


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        producer: ProducerId,
        *,
        links: Links | None = None,
        transactional_id: str | None = None,
        joining: Callable[[list[TopicPartition]], None] = lambda partitions: None,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        timeout_s: float = DELIVERY_TIMEOUT_S,
    ) -> None:
        """`joining` is told of partitions before anything is sent to them."""
        self._cluster = cluster
        self._producer = producer
        self._links: Links = {} if links is None else links
        self._transactional_id = transactional_id
        self._joining = joining
        self._compression = compression
        self._level = level
        self._timeout_s = timeout_s
        self._sequences: dict[TopicPartition, int] = {}
        self._joined: set[TopicPartition] = set()
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._under_way: deque[_Sent] = deque()
        self._waiting_bytes = 0
        self._last_progress = time.monotonic()
        self._pause_s = FIRST_PAUSE_S

    @property
    def partitions(self) -> set[TopicPartition]:
        """Everywhere this sender has sent something to."""
        return self._joined

    def send(self, records: Iterable[tuple[TopicPartition, EncodedRecords]]) -> None:
        """Takes records and sends what may be sent; waits for acknowledgements while the buffer is full."""
        for partition, encoded in records:
            if not self._waiting_bytes:
                self._last_progress = time.monotonic()
            batch = self._wrap(partition, encoded)
            self._lanes.setdefault(partition, _Lane()).batches.append(batch)
            self._waiting_bytes += len(batch.encoded)
            if self._waiting_bytes >= BUFFER_BYTES:
                self._push()
                while self._waiting_bytes >= BUFFER_BYTES:
                    self._advance()
        self._push()

    def flush(self) -> None:
        """Returns when everything is acknowledged; raises when it can't be."""
        while self._lanes:
            self._advance()

    def abandon(self) -> None:
        """Gives up what was not acknowledged. Connections whose answers nobody will read are closed."""
        for sent in self._under_way:
            sent.link.close()
        self._under_way.clear()
        self._lanes.clear()
        self._waiting_bytes = 0

    def _wrap(self, partition: TopicPartition, records: EncodedRecords) -> _Batch:
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + records.records) & _SEQUENCE_MASK
        encoded = wrap_records(
            *records,
            compression=self._compression,
            level=self._level,
            producer_id=self._producer.number,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
            transactional=self._transactional_id is not None,
        )
        return _Batch(encoded, records.records, sequence)

    # Sending

    def _push(self) -> None:
        try:
            self._push_or_fail()
        except (Disconnected, Unreachable, TimedOut) as error:
            self._recover(error)
        except Refused as refused:
            if not refused.retriable:
                raise
            self._recover(refused)

    def _push_or_fail(self) -> None:
        waiting = [partition for partition, lane in self._lanes.items() if lane.sent < len(lane.batches)]
        if not waiting:
            return
        new = [partition for partition in waiting if partition not in self._joined]
        if new:
            self._joining(new)
            self._joined.update(new)
        for leader, partitions in by_leader(self._cluster, waiting).items():
            link = self._link(leader)
            busy = sum(sent.link is link for sent in self._under_way)
            while busy < IN_FLIGHT and (taken := self._take(partitions)):
                self._transmit(link, taken)
                busy += 1

    def _link(self, leader: int) -> Connection:
        link = self._links.get(leader)
        if link is None or link.closed:
            link = self._links[leader] = self._cluster.open(leader)
        return link

    def _take(self, partitions: list[TopicPartition]) -> dict[TopicPartition, _Batch]:
        """One batch of each partition, as many as a request may hold. Marked as sent by `_transmit`."""
        taken: dict[TopicPartition, _Batch] = {}
        size = 0
        for partition in partitions:
            lane = self._lanes[partition]
            if lane.sent == len(lane.batches):
                continue
            batch = lane.batches[lane.sent]
            size += len(batch.encoded)
            if taken and size > REQUEST_BYTES:
                break
            taken[partition] = batch
        return taken

    def _transmit(self, link: Connection, taken: dict[TopicPartition, _Batch]) -> None:
        topics: dict[str, TopicProduceData] = {}
        for partition, batch in taken.items():
            topic = topics.setdefault(partition.topic, TopicProduceData(name=partition.topic))
            topic.partition_data.append(PartitionProduceData(index=partition.partition, records=batch.encoded))
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=_ALL,
            timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
            topic_data=list(topics.values()),
        )
        newest = _NEWEST_BY_NAME if self._transactional_id is None else _NEWEST_IN_TRANSACTION
        version = link.version_of(ProduceRequest, newest)
        pending = link.send(request, time.monotonic() + REQUEST_TIMEOUT_S, version=version)
        self._under_way.append(_Sent(link, pending, taken))
        for partition in taken:
            self._lanes[partition].sent += 1

    # Answers

    def _advance(self) -> None:
        """Waits for one answer, then sends what that made room for."""
        if self._under_way:
            sent = self._under_way.popleft()
            trouble = self._receive(sent)
            if trouble is not None:
                self._recover(trouble)
        self._push()

    def _receive(self, sent: _Sent) -> ClientError | None:
        """Settles one request. Returns an error that is worth another try; raises any other."""
        if sent.link.closed:
            return Disconnected(f"{sent.link.address} closed the connection during Produce")
        try:
            answer = sent.link.receive(sent.pending, ProduceResponse, time.monotonic() + REQUEST_TIMEOUT_S)
        except (Disconnected, TimedOut) as error:
            return error
        left = dict(sent.batches)
        trouble: Refused | None = None
        for topic in answer.responses:
            for one in topic.partition_responses:
                partition = TopicPartition(topic.name, one.index)
                batch = left.pop(partition, None)
                if batch is None:
                    raise ProtocolViolation(f"{sent.link.address} acknowledged {partition}, which was not sent")
                trouble = self._settle(partition, batch, one) or trouble
        if left:
            raise ProtocolViolation(f"{sent.link.address} did not acknowledge {min(left)}")
        return trouble

    def _settle(self, partition: TopicPartition, batch: _Batch, one: PartitionProduceResponse) -> Refused | None:
        code = one.error_code
        lane = self._lanes.get(partition)
        if lane is None or batch not in lane.batches:
            return None  # acknowledged by an earlier answer to the same batch
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._finish(partition, lane, batch)
            return None
        message = next((e.batch_index_error_message for e in one.record_errors if e.batch_index_error_message), None)
        refused = Refused(str(partition), code, message or one.error_message)
        if code in _TOO_LARGE and batch.count > 1:
            self._split(lane, batch)
            return refused
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            refused.retriable = True  # a topic that is gone is noticed when its leader is looked up again
        elif code == _OUT_OF_ORDER:
            refused.retriable = batch is not lane.batches[0]  # only because the one before it failed
        if not refused.retriable:
            raise refused
        return refused

    def _finish(self, partition: TopicPartition, lane: _Lane, batch: _Batch) -> None:
        lane.batches.remove(batch)  # the first one, unless the server is odd
        lane.sent -= 1
        if not lane.batches:
            del self._lanes[partition]
        self._waiting_bytes -= len(batch.encoded)
        self._last_progress = time.monotonic()
        self._pause_s = FIRST_PAUSE_S

    def _split(self, lane: _Lane, batch: _Batch) -> None:
        records = decode_batch(batch.encoded)
        middle = batch.count // 2
        halves = [self._again(records[:middle], batch.sequence), self._again(records[middle:], batch.sequence + middle)]
        place = lane.batches.index(batch)
        lane.batches.remove(batch)
        for half in reversed(halves):
            lane.batches.insert(place, half)
        self._waiting_bytes += sum(len(half.encoded) for half in halves) - len(batch.encoded)
        self._last_progress = time.monotonic()

    def _again(self, records: list[Record], sequence: int) -> _Batch:
        sequence &= _SEQUENCE_MASK
        encoded = encode_batch(
            records,
            compression=self._compression,
            level=self._level,
            producer_id=self._producer.number,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
            transactional=self._transactional_id is not None,
        )
        return _Batch(encoded, len(records), sequence)

    def _recover(self, trouble: ClientError) -> None:
        """After something that will pass: the other answers first, then everything again that is not acknowledged."""
        while self._under_way:
            self._receive(self._under_way.popleft())
        for lane in self._lanes.values():
            lane.sent = 0
        if time.monotonic() + self._pause_s > self._last_progress + self._timeout_s:
            raise trouble
        self._cluster.forget()
        if not isinstance(trouble, Refused) or trouble.code not in _TOO_LARGE:
            time.sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
