"""Reading records: one fetch waiting at each leader, whole batches decoded as they arrive.

Each leader gets a connection of its own for fetches, because a fetch waits at the server and would hold up whatever is asked
behind it. Control batches are dropped, and under read_committed so are the records of aborted transactions (KIP-98), which
the server names in its answer.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.client.kafka.aborted import AbortedTransactions
from headrace.client.kafka.cluster import FIRST_PAUSE_S, LONGEST_PAUSE_S, Cluster
from headrace.client.kafka.connection import Connection, Pending
from headrace.client.kafka.errors import (
    ClientError,
    Disconnected,
    ProtocolViolation,
    Refused,
    Unreachable,
    check,
)
from headrace.client.kafka.offsets import Isolation, end_offsets, start_offsets
from headrace.client.kafka.partitions import TopicPartition, by_leader
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.fields import NO_UUID
from headrace.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from headrace.record import BatchError
from headrace.record.batch import TimestampType, batches, decode_batch
from headrace.record.event import Header

MAX_WAIT_S = 0.5
FETCH_BYTES = 16 * 1024 * 1024
PARTITION_BYTES = 1024 * 1024
_NEWEST_BY_NAME = 12  # from FetchRequest version 13 on topics go by id


class Received(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str  # "create" or "append"
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Gap(NamedTuple):
    """Records that were deleted before they could be read."""

    partition: TopicPartition
    expected: int
    found: int


@dataclass(slots=True)
class _Link:
    connection: Connection
    pending: Pending | None = None
    asked: Mapping[TopicPartition, int] = field(default_factory=dict)


class Reader:
    """Reads on from `positions`, which it moves forward; take a partition out, or set it elsewhere, at any time."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._links: dict[int, _Link] = {}
        self._turn = 0
        self._failing_since: float | None = None
        self._pause_s = FIRST_PAUSE_S
        self.positions = dict(positions)
        self.ends: dict[TopicPartition, int] = {}  # how far one could read, as of the last answer
        self.gaps: list[Gap] = []
        self.partition_bytes = PARTITION_BYTES  # that an answer may have of each partition; a whole batch in any case

    def close(self) -> None:
        for link in self._links.values():
            link.connection.close()
        self._links.clear()

    def poll(self, wait_s: float = MAX_WAIT_S) -> list[Received]:
        """What has arrived, waiting up to about `wait_s` for something. Short troubles with a broker are sat out; when they
        last longer than the cluster's timeout the last error is raised."""
        try:
            records = self._poll(wait_s)
        except (Disconnected, Unreachable) as error:
            self._endure(error)
            return []
        except Refused as error:
            if not error.retriable:
                raise
            self._endure(error)
            return []
        self._failing_since = None
        self._pause_s = FIRST_PAUSE_S
        return records

    def _poll(self, wait_s: float) -> list[Received]:
        for leader, partitions in by_leader(self._cluster, self.positions).items():
            link = self._links.get(leader)
            if link is None or link.connection.closed:
                link = self._links[leader] = _Link(self._cluster.open(leader))
            if link.pending is None:
                self._send(link, partitions, wait_s)
        waiting = {link.connection.fileno(): link for link in self._links.values() if link.pending is not None}
        ready = select.select(list(waiting), [], [], wait_s + self._cluster.timeout_s)[0] if waiting else []
        records: list[Received] = []
        try:
            for fd in ready:
                self._receive(waiting[fd], records)
        except ClientError:
            if not records:  # what was read is returned first; the trouble will still be there next time
                raise
            self.close()
            self._cluster.forget()
        return records

    def _endure(self, error: ClientError) -> None:
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > self._cluster.timeout_s:
            raise error
        self.close()
        self._cluster.forget()
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _send(self, link: _Link, partitions: list[TopicPartition], wait_s: float) -> None:
        # A server fills its answer in the order asked, so each partition gets its turn to be first.
        self._turn = (self._turn + 1) % len(partitions)
        topics: dict[str, FetchTopic] = {}
        for partition in partitions[self._turn :] + partitions[: self._turn]:
            topic_id = self._cluster.topic(partition.topic).topic_id
            topic = topics.setdefault(partition.topic, FetchTopic(topic=partition.topic, topic_id=topic_id))
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=self.positions[partition],
                    partition_max_bytes=self.partition_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=int(wait_s * 1000),
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=self._isolation,
            topics=list(topics.values()),
        )
        by_id = all(topic.topic_id != NO_UUID for topic in topics.values())
        version = link.connection.version_of(FetchRequest, None if by_id else _NEWEST_BY_NAME)
        link.asked = {partition: self.positions[partition] for partition in partitions}
        link.pending = link.connection.send(request, self._cluster.deadline(), version=version)

    def _receive(self, link: _Link, records: list[Received]) -> None:
        assert link.pending is not None
        pending, asked, link.pending = link.pending, link.asked, None
        answer = link.connection.receive(pending, FetchResponse, self._cluster.deadline())
        check("fetch", answer.error_code)
        names = {self._cluster.topic(topic).topic_id: topic for topic, _ in asked}
        refused: Refused | None = None
        for topic in answer.responses:
            for one in topic.partitions:
                partition = TopicPartition(topic.topic or names.get(topic.topic_id, ""), one.partition_index)
                if partition not in asked:
                    raise ProtocolViolation(f"{link.connection.address} answered about {partition}, which was not asked")
                if self.positions.get(partition) != asked[partition]:
                    continue  # taken away or moved while the fetch was under way
                if one.error_code == ErrorCode.NONE:
                    self._take(partition, one, records)
                elif one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._leap(partition)
                else:
                    refused = Refused(str(partition), one.error_code)
                    refused.retriable |= one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if refused is not None:
            raise refused

    def _take(self, partition: TopicPartition, one: PartitionData, records: list[Received]) -> None:
        committed = self._isolation is Isolation.READ_COMMITTED and one.last_stable_offset >= 0
        self.ends[partition] = one.last_stable_offset if committed else one.high_watermark
        if not one.records:
            return
        aborted = None
        if committed:
            aborted = AbortedTransactions((abort.first_offset, abort.producer_id) for abort in one.aborted_transactions or ())
        position = self.positions[partition]
        whole = False
        try:
            for header, batch in batches(one.records):
                whole = True
                if header.last_offset < position:
                    continue
                if not (header.control if aborted is None else aborted.drops(header, batch)):
                    kind = "append" if header.timestamp_type is TimestampType.LOG_APPEND_TIME else "create"
                    records += [
                        Received(*partition, offset, when, kind, key, value, headers)
                        for offset, when, key, value, headers in decode_batch(batch)
                        if offset >= position
                    ]
                position = self.positions[partition] = header.last_offset + 1
        except BatchError as error:
            raise ClientError(f"{partition}: the batch at offset {position} can't be read: {error}") from None
        if not whole:
            raise ClientError(f"{partition}: the batch at offset {position} is larger than a fetch may return")

    def _leap(self, partition: TopicPartition) -> None:
        """Retention or a trim was faster than we: go on with the oldest record there is, and say so in `gaps`."""
        expected = self.positions[partition]
        start = start_offsets(self._cluster, [partition])[partition]
        if expected >= start:
            end = end_offsets(self._cluster, [partition])[partition]
            raise Refused(f"{partition}", ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {expected} is beyond the end, which is {end}")
        self.gaps.append(Gap(partition, expected, start))
        self.positions[partition] = start
