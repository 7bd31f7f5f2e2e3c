"""Writing records: gathered into one batch for each partition, sent to all leaders at once, tried again where that helps.

At most one batch of a partition is under way at any time, so retries never reorder records. With idempotence (KIP-98, the
default of every current client) a batch keeps its sequence number through retries and the server drops what it has already
written; without it a retry after a broken connection may write a batch twice. A batch that the server finds too large is
split in two.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.connection import Connection, Pending
from headrace.client.kafka.errors import ProtocolViolation, Refused, check
from headrace.client.kafka.partitioner import StickyChoice, partition_for_key
from headrace.client.kafka.partitions import TopicPartition, by_leader
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.fields import NO_UUID
from headrace.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.kafka.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from headrace.record.batch import encode_batch
from headrace.record.compression import Compression
from headrace.record.event import Event

ALL = -1
BATCH_BYTES = 512 * 1024
BUFFER_BYTES = 8 * 1024 * 1024
_RECORD_OVERHEAD_BYTES = 24
_NEWEST_BY_NAME = 12  # from ProduceRequest version 13 on topics go by id
_SEQUENCE_MASK = 0x7FFFFFFF


@dataclass(slots=True)
class Delivered:
    """What a partition has acknowledged. The offsets are -1 where no acknowledgement was asked for."""

    records: int = 0
    first_offset: int = -1
    last_offset: int = -1

    def add(self, records: int, base_offset: int) -> None:
        self.records += records
        if base_offset >= 0:
            if self.first_offset < 0:
                self.first_offset = base_offset
            self.last_offset = base_offset + records - 1


@dataclass(slots=True)
class _Batch:
    events: list[Event] = field(default_factory=list)
    size_bytes: int = 0
    sequence: int = -1
    encoded: bytearray | None = None


@dataclass(frozen=True, slots=True)
class _ProducerId:
    number: int = -1
    epoch: int = -1


class Producer:
    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ALL,
        compression: Compression = Compression.NONE,
        idempotent: bool = True,
        chance: random.Random | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        if idempotent and acks != ALL:
            raise ValueError("idempotence needs acks=all")
        self._cluster = cluster
        self._acks = acks
        self._compression = compression
        self._idempotent = idempotent
        self._chance = chance or random.Random()
        self._now_ms = now_ms
        self._producer_id = _ProducerId()
        self._sequences: dict[TopicPartition, int] = {}
        self._sticky: dict[str, StickyChoice] = {}
        self._open: dict[TopicPartition, deque[_Batch]] = {}  # the first of each is the one under way
        self._waiting_bytes = 0
        self._taken = 0
        self.delivered: dict[TopicPartition, Delivered] = {}

    @property
    def waiting(self) -> int:
        """Records that have not been acknowledged."""
        return self._taken - sum(one.records for one in self.delivered.values())  # right wherever Ctrl-C comes in between

    def send(self, topic: str, event: Event, partition: int | None = None) -> None:
        """Takes a record; it is sent by the next `flush`, or at once when enough have come together."""
        if event.timestamp_ms is None:
            event = Event(event.key, event.value, event.headers, self._now_ms())
        target = TopicPartition(topic, self._choose(topic, event, partition))
        size = _size_bytes(event)
        batches = self._open.setdefault(target, deque())
        if not batches or batches[-1].size_bytes + size > BATCH_BYTES:
            batches.append(_Batch())
        self._taken += 1
        batches[-1].events.append(event)
        batches[-1].size_bytes += size
        self._waiting_bytes += size
        if self._waiting_bytes >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Returns when everything taken so far is acknowledged as `acks` says; raises when it can't be. What was acknowledged
        before that is in `delivered`."""
        deadline = self._cluster.deadline()

        def attempt() -> None:
            refused: Refused | None = None
            if self._idempotent and self._producer_id.number < 0:
                self._producer_id = self._ask_producer_id(deadline)
            for leader, partitions in by_leader(self._cluster, list(self._open)).items():
                refused = self._send_to(self._cluster.to(leader), partitions, deadline) or refused
            if refused is not None:
                raise refused

        while self._open:
            self._cluster.retry(attempt, deadline)
        self._waiting_bytes = 0
        for choice in self._sticky.values():
            choice.move()

    def _choose(self, topic: str, event: Event, partition: int | None) -> int:
        info = self._cluster.topic(topic)
        if partition is not None:
            return info.partition(partition).index
        if event.key is not None:
            return partition_for_key(event.key, len(info.partitions))
        if topic not in self._sticky:
            self._sticky[topic] = StickyChoice(len(info.partitions), self._chance)
        return self._sticky[topic].current

    def _ask_producer_id(self, deadline: float) -> _ProducerId:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        answer = self._cluster.any().call(request, InitProducerIdResponse, deadline)
        check("a producer id", answer.error_code)
        return _ProducerId(answer.producer_id, answer.producer_epoch)

    def _send_to(self, connection: Connection, partitions: list[TopicPartition], deadline: float) -> Refused | None:
        """One request to one leader. Returns the last refusal that is worth another try."""
        version, request = self._request(connection, partitions)
        if self._acks == 0:
            connection.send(request, deadline, version=version, answered=False)
            for partition in partitions:
                self._finish(partition, -1)
            return None
        pending = connection.send(request, deadline, version=version)
        return self._settle(connection, pending, partitions, deadline)

    def _request(self, connection: Connection, partitions: list[TopicPartition]) -> tuple[int, ProduceRequest]:
        topics: dict[str, TopicProduceData] = {}
        for partition in partitions:
            topic_id = self._cluster.topic(partition.topic).topic_id
            topic = topics.setdefault(partition.topic, TopicProduceData(name=partition.topic, topic_id=topic_id))
            topic.partition_data.append(PartitionProduceData(index=partition.partition, records=self._encoded(partition)))
        by_id = all(topic.topic_id != NO_UUID for topic in topics.values())
        request = ProduceRequest(
            acks=self._acks, timeout_ms=int(self._cluster.timeout_s * 1000), topic_data=list(topics.values())
        )
        return connection.version_of(ProduceRequest, None if by_id else _NEWEST_BY_NAME), request

    def _encoded(self, partition: TopicPartition) -> bytearray:
        batch = self._open[partition][0]
        if batch.encoded is None:
            if self._idempotent:
                batch.sequence = self._sequences.get(partition, 0)
            batch.encoded = encode_batch(
                batch.events,
                compression=self._compression,
                producer_id=self._producer_id.number,
                producer_epoch=self._producer_id.epoch,
                base_sequence=batch.sequence,
            )
        return batch.encoded

    def _settle(
        self, connection: Connection, pending: Pending, partitions: list[TopicPartition], deadline: float
    ) -> Refused | None:
        answer = connection.receive(pending, ProduceResponse, deadline)
        names = {self._cluster.topic(partition.topic).topic_id: partition.topic for partition in partitions}
        left = set(partitions)
        refused: Refused | None = None
        for topic in answer.responses:
            for one in topic.partition_responses:
                partition = TopicPartition(topic.name or names.get(topic.topic_id, ""), one.index)
                if partition not in left:
                    raise ProtocolViolation(f"{connection.address} acknowledged {partition}, which was not sent")
                left.discard(partition)
                if one.error_code == ErrorCode.NONE:
                    self._finish(partition, one.base_offset)
                elif one.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # written by an earlier try; where is forgotten
                    self._finish(partition, -1)
                elif one.error_code == ErrorCode.MESSAGE_TOO_LARGE and len(self._open[partition][0].events) > 1:
                    self._split(partition)
                else:
                    message = _first_message(one.error_message, [e.batch_index_error_message for e in one.record_errors])
                    refused = Refused(str(partition), one.error_code, message)
                    # A topic that is gone is noticed when its leader is looked up again; this may be stale metadata.
                    refused.retriable |= one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    if not refused.retriable:
                        raise refused
        if left:
            raise ProtocolViolation(f"{connection.address} did not acknowledge {min(left)}")
        return refused

    def _finish(self, partition: TopicPartition, base_offset: int) -> None:
        batches = self._open[partition]
        batch = batches.popleft()
        if not batches:
            del self._open[partition]
        if batch.sequence >= 0:
            self._sequences[partition] = (batch.sequence + len(batch.events)) & _SEQUENCE_MASK
        self.delivered.setdefault(partition, Delivered()).add(len(batch.events), base_offset)

    def _split(self, partition: TopicPartition) -> None:
        """Nothing of the batch was written, so its halves take its sequence numbers."""
        events = self._open[partition].popleft().events
        middle = len(events) // 2
        self._open[partition].extendleft(
            _Batch(half, sum(map(_size_bytes, half))) for half in (events[middle:], events[:middle])
        )


def _size_bytes(event: Event) -> int:
    size = len(event.key or b"") + len(event.value or b"") + _RECORD_OVERHEAD_BYTES
    for name, value in event.headers:
        size += len(name) + len(value or b"") + 4
    return size


def _first_message(message: str | None, others: list[str | None]) -> str | None:
    """What the server says about the first record it did not like is more exact than what it says about the batch."""
    return next((one for one in others if one), message)
