"""Transactions (KIP-98): what is written in one is seen whole or not at all, and so are the group offsets committed in it.

    transaction = Transaction.begin(cluster, "copy-0")          # fences whoever had this id before and aborts what it left
    sender = Sender(cluster, transaction.producer, transactional_id="copy-0", joining=transaction.add)
    sender.send(...); sender.flush()
    transaction.commit_offsets("copies", {partition: Committed(7)})
    transaction.commit()

Every request here may be asked again when its answer was lost, also the one that ends the transaction: the coordinator knows
that it has ended it and says yes once more. Codes that mean "not now" or "not here" are tried again until the deadline, by
`Cluster.retry`. A producer whose epoch is not the newest any more is told so by `Fenced`, and nothing it does counts.

The calls are those of the first version of the protocol, which every broker since 0.11 understands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from headrace.client.kafka.cluster import Cluster, CoordinatorOf
from headrace.client.kafka.connection import Connection
from headrace.client.kafka.errors import ClientError, Refused, check
from headrace.client.kafka.groups import Committed
from headrace.client.kafka.partitions import TopicPartition, by_topic
from headrace.client.kafka.sending import ProducerId
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.schema import Request, Response
from headrace.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headrace.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from headrace.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

R = TypeVar("R", bound=Response)

DEFAULT_TIMEOUT_MS = 60_000
_NEWEST = {  # without KIP-890's second version of transactions
    AddPartitionsToTxnRequest: 3,
    AddOffsetsToTxnRequest: 3,
    TxnOffsetCommitRequest: 4,
    EndTxnRequest: 4,
    InitProducerIdRequest: 5,
}
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


class Fenced(ClientError):
    """Somebody else has begun with the same transactional id, or the transaction took longer than its timeout."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"transactional id '{transactional_id}' was taken over by another attempt, "
            "or its transaction took longer than transaction.timeout.ms; nothing of it was committed"
        )


class Transaction:
    """One transaction, from `begin` to `commit` or `abort`."""

    def __init__(self, cluster: Cluster, transactional_id: str, producer: ProducerId) -> None:
        self.transactional_id = transactional_id
        self.producer = producer
        self._cluster = cluster
        self._open = False  # whether the coordinator knows of anything in it
        self._groups: set[str] = set()

    @classmethod
    def begin(cls, cluster: Cluster, transactional_id: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Transaction:
        """When this returns, what a predecessor left open is aborted and what it had asked to commit is committed."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

        def ask() -> ProducerId:
            answer = _call(_coordinator(cluster, transactional_id), request, InitProducerIdResponse, cluster)
            check(f"transactional id '{transactional_id}'", answer.error_code)
            return ProducerId(answer.producer_id, answer.producer_epoch)

        return cls(cluster, transactional_id, cluster.retry(ask))

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """To be told before anything is written to them."""
        topics = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic(partitions).items()]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.number,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=topics,
        )

        def ask() -> None:
            answer = _call(self._mine(), request, AddPartitionsToTxnResponse, self._cluster)
            codes = {
                TopicPartition(topic.name, one.partition_index): one.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            }
            # Those that were not attempted because of another one say less than that one.
            for partition, code in sorted(codes.items(), key=lambda item: item[1] == ErrorCode.OPERATION_NOT_ATTEMPTED):
                self._check(str(partition), code)

        self._open = True
        self._cluster.retry(ask)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Offsets of a group that count when the transaction commits."""
        if group not in self._groups:
            self._open = True
            self._cluster.retry(lambda: self._add_group(group))
            self._groups.add(group)
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (name, index), committed in sorted(offsets.items()):
            topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=index, committed_offset=committed.offset, committed_metadata=committed.metadata or ""
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer.number,
            producer_epoch=self.producer.epoch,
            topics=list(topics.values()),
        )

        def ask() -> None:
            answer = _call(self._cluster.coordinator(group), request, TxnOffsetCommitResponse, self._cluster)
            for topic in answer.topics:
                for one in topic.partitions:
                    self._check(f"group '{group}', {topic.name}[{one.partition_index}]", one.error_code)

        self._cluster.retry(ask)

    def commit(self) -> None:
        """Everything is flushed before. When this returns, it is committed; when it raises, it may be."""
        self._end(committed=True)

    def abort(self) -> None:
        self._end(committed=False)

    def _add_group(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.number,
            producer_epoch=self.producer.epoch,
            group_id=group,
        )
        answer = _call(self._mine(), request, AddOffsetsToTxnResponse, self._cluster)
        self._check(f"group '{group}'", answer.error_code)

    def _end(self, *, committed: bool) -> None:
        if not self._open:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.number,
            producer_epoch=self.producer.epoch,
            committed=committed,
        )

        def ask() -> None:
            answer = _call(self._mine(), request, EndTxnResponse, self._cluster)
            self._check(f"the transaction of '{self.transactional_id}'", answer.error_code)

        self._cluster.retry(ask)
        self._open = False

    def _mine(self) -> Connection:
        return _coordinator(self._cluster, self.transactional_id)

    def _check(self, what: str, code: int) -> None:
        try:
            check(what, code)
        except Refused as refused:
            raise self.name_fence(refused) from None

    def name_fence(self, refused: Refused) -> ClientError:
        """The error as it is meant: an epoch that is not the newest means that somebody else has begun."""
        return Fenced(self.transactional_id) if refused.code in _FENCED else refused


def _coordinator(cluster: Cluster, transactional_id: str) -> Connection:
    return cluster.coordinator(transactional_id, CoordinatorOf.TRANSACTION)


def _call(connection: Connection, request: Request, response: type[R], cluster: Cluster) -> R:
    return connection.call(request, response, cluster.deadline(), newest=_NEWEST[type(request)])
