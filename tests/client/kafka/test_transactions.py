"""Transactions against a coordinator that answers as it is told to: what is asked again, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.client.kafka import Cluster, Refused, TopicPartition
from headrace.client.kafka.groups import Committed
from headrace.client.kafka.transactions import Fenced, Transaction
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headrace.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from headrace.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.kafka.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headrace.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ORDERS = TopicPartition("orders", 0)
NOT_NOW = [
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
]


class Script:
    """Answers each kind of request with the codes given for it, then with none. A code of -1 closes the connection."""

    def __init__(self, broker: Any, hang_up: Any) -> None:
        self.codes: dict[type, list[int]] = {}
        self._hang_up = hang_up
        self._broker = broker
        for kind, answer in (
            (InitProducerIdRequest, lambda code, _: InitProducerIdResponse(error_code=code, producer_id=42, producer_epoch=3)),
            (AddPartitionsToTxnRequest, self._added),
            (AddOffsetsToTxnRequest, lambda code, _: AddOffsetsToTxnResponse(error_code=code)),
            (TxnOffsetCommitRequest, self._committed),
            (EndTxnRequest, lambda code, _: EndTxnResponse(error_code=code)),
        ):
            broker.on(kind, lambda request, answer=answer: self._answer(request, answer))
        broker.on(FindCoordinatorRequest, self._found)

    def _answer(self, request: Any, answer: Any) -> Any:
        codes = self.codes.get(type(request), [])
        code = codes.pop(0) if codes else 0
        return self._hang_up if code == -1 else answer(code, request)

    def _found(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        (key,) = request.coordinator_keys
        one = Coordinator(key=key, node_id=0, host="127.0.0.1", port=self._broker.port)
        return FindCoordinatorResponse(coordinators=[one])

    def _added(self, code: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _committed(self, code: int, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)


@pytest.fixture
def script(broker: Any, hang_up: Any) -> Script:
    return Script(broker, hang_up)


def run(broker: Any) -> None:
    transaction = Transaction.begin(Cluster(broker.address, timeout_s=5), "mine", 5000)
    transaction.add([ORDERS])
    transaction.commit_offsets("group", {ORDERS: Committed(7, "words")})
    transaction.commit()


STEPS = [InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest]


def test_the_steps_of_a_transaction(broker: Any, script: Script) -> None:
    run(broker)
    assert [type(request) for request in broker.requests if type(request) in STEPS] == STEPS
    (begun,), (offsets,), (ended,) = (broker.received(STEPS[step]) for step in (0, 3, 4))
    assert (begun.transactional_id, begun.transaction_timeout_ms) == ("mine", 5000)
    assert (offsets.producer_id, offsets.producer_epoch, offsets.group_id) == (42, 3, "group")
    one = offsets.topics[0].partitions[0]
    assert (one.committed_offset, one.committed_metadata) == (7, "words")
    assert (ended.transactional_id, ended.producer_id, ended.producer_epoch, ended.committed) == ("mine", 42, 3, True)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("code", [*NOT_NOW, -1])
def test_what_will_pass_is_asked_again(broker: Any, script: Script, step: type, code: int) -> None:
    script.codes[step] = [code, code]
    run(broker)
    assert len(broker.received(step)) == 3


@pytest.mark.parametrize("step", STEPS[1:])
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_is_told_so_and_nothing_is_asked_again(broker: Any, script: Script, step: type, code: int) -> None:
    script.codes[step] = [code]
    with pytest.raises(Fenced, match="'mine' was taken over by another attempt"):
        run(broker)
    assert len(broker.received(step)) == 1


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "code",
    [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING],
)
def test_what_will_not_pass_ends_it(broker: Any, script: Script, step: type, code: ErrorCode) -> None:
    script.codes[step] = [code]
    with pytest.raises(Refused, match=code.name):
        run(broker)
    assert len(broker.received(step)) == 1


def test_a_transaction_with_nothing_in_it_is_not_ended(broker: Any, script: Script) -> None:
    cluster = Cluster(broker.address)
    Transaction.begin(cluster, "mine").commit()
    Transaction.begin(cluster, "mine").abort()
    assert broker.received(EndTxnRequest) == []


def test_a_group_is_added_once(broker: Any, script: Script) -> None:
    transaction = Transaction.begin(Cluster(broker.address), "mine")
    for offset in (1, 2):
        transaction.commit_offsets("group", {ORDERS: Committed(offset)})
    transaction.abort()
    assert len(broker.received(AddOffsetsToTxnRequest)) == 1
    assert [request.committed for request in broker.received(EndTxnRequest)] == [False]
