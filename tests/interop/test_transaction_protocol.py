"""The transaction APIs byte by byte, with every error code that a client can meet. Each expectation was taken from Apache Kafka
4.3.1, and holds there still: `HEADRACE_INTEROP_BOOTSTRAP=host:port` runs the same tests on it. Where Kafka is at work in the
background it says CONCURRENT_TRANSACTIONS, and the tests ask again, as clients do."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.schema import Request, decode, encode
from headrace.kafka.messages import MESSAGES, response_class
from headrace.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.kafka.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headrace.kafka.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.kafka.messages.describe_transactions import DescribeTransactionsRequest
from headrace.kafka.messages.end_txn import EndTxnRequest
from headrace.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.kafka.messages.init_producer_id import InitProducerIdRequest
from headrace.kafka.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.kafka.messages.list_transactions import ListTransactionsRequest
from headrace.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headrace.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.kafka.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from headrace.record import Event, encode_batch
from headrace.testing import wait_until

pytestmark = pytest.mark.interop

_PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
COMMIT, ABORT = True, False


class Wire:
    """One connection; `call` sends a request in a version and reads its answer."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._correlation = 0

    def call(self, request: Request, version: int | None = None) -> Any:
        key = request.api_key
        version = request.versions[1] if version is None else version
        first_flexible = MESSAGES[key].flexible
        flexible = first_flexible is not None and version >= first_flexible
        self._correlation += 1
        head = struct.pack(">hhih", key, version, self._correlation, 4) + b"test" + b"\0" * flexible
        frame = head + bytes(encode(request, version))
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        answer = self._take(struct.unpack(">i", self._take(4))[0])
        return decode(response_class(key), version, answer, 4 + flexible)

    def _take(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            more = self._socket.recv(size - len(taken))
            assert more, "the connection was closed"
            taken += more
        return taken

    def close(self) -> None:
        self._socket.close()


class Talk:
    """What a transactional producer says, in any version, and the names of what it hears."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.wire = wire
        self.topic = topic

    def _patiently(self, ask: Callable[[], tuple[list[int], Any]]) -> Any:
        for _ in range(100):
            codes, answer = ask()
            if not _PASSING & {ErrorCode(code) for code in codes}:
                return answer
            time.sleep(0.05)  # what clients do: the answer says to try again
        return answer

    def init(self, name: str | None, expected: tuple[int, int] = (-1, -1), version: int = 5, timeout_ms: int = 60_000) -> Any:
        def ask() -> tuple[list[int], Any]:
            request = InitProducerIdRequest(
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
                producer_id=expected[0],
                producer_epoch=expected[1],
            )
            answer = self.wire.call(request, version)
            return [answer.error_code], answer

        answer = self._patiently(ask)
        return _name(answer.error_code) if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def add(
        self, name: str, producer: tuple[int, int], *partitions: int, version: int = 3, topic: str | None = None
    ) -> list[str]:
        def ask() -> tuple[list[int], Any]:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic or self.topic, partitions=list(partitions))],
            )
            answer = self.wire.call(request, version).results_by_topic_v3_and_below
            codes = [
                one.partition_error_code for one in sorted(answer[0].results_by_partition, key=lambda p: p.partition_index)
            ]
            return codes, [_name(code) for code in codes]

        return self._patiently(ask)

    def produce(
        self,
        name: str | None,
        producer: tuple[int, int],
        sequence: int,
        *,
        version: int,
        index: int = 0,
        transactional: bool = True,
    ) -> str | int:
        def ask() -> tuple[list[int], Any]:
            records = encode_batch(
                [Event(None, b"value", timestamp_ms=int(time.time() * 1000))],
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=sequence,
                transactional=transactional,
            )
            data = TopicProduceData(name=self.topic, partition_data=[PartitionProduceData(index=index, records=bytes(records))])
            request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=5000, topic_data=[data])
            [answer] = self.wire.call(request, version).responses[0].partition_responses
            return [answer.error_code], _name(answer.error_code) if answer.error_code else answer.base_offset

        return self._patiently(ask)

    def end(self, name: str, producer: tuple[int, int], commit: bool, *, version: int) -> Any:
        """The name of an error; or what the producer goes on with, which versions before 5 do not say."""

        def ask() -> tuple[list[int], Any]:
            answer = self.wire.call(
                EndTxnRequest(transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit),
                version,
            )
            return [answer.error_code], answer

        answer = self._patiently(ask)
        return _name(answer.error_code) if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def add_offsets(self, name: str, producer: tuple[int, int], group: str, version: int = 3) -> str:
        def ask() -> tuple[list[int], Any]:
            request = AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], group_id=group
            )
            code = self.wire.call(request, version).error_code
            return [code], _name(code)

        return self._patiently(ask)

    def commit_offset(
        self, name: str, producer: tuple[int, int], group: str, offset: int, *, version: int, generation: int = -1
    ) -> str:
        def ask() -> tuple[list[int], Any]:
            new = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
            request = TxnOffsetCommitRequest(
                transactional_id=name,
                group_id=group,
                producer_id=producer[0],
                producer_epoch=producer[1],
                generation_id=generation,
                member_id="member" if generation >= 0 else "",
                topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[new])],
            )
            code = self.wire.call(request, version).topics[0].partitions[0].error_code
            return [code], _name(code)

        return self._patiently(ask)

    def fetch_offset(self, group: str, *, stable: bool) -> tuple[str, int]:
        asked = OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])], require_stable=stable)
        topics = wait_until(lambda: self.wire.call(request, 8).groups[0].topics, what="the group coordinator")
        [found] = topics[0].partitions
        return _name(found.error_code), found.committed_offset

    def state(self, name: str) -> tuple[str, int]:
        """State and epoch, once nothing is under way."""

        def ask() -> Any:
            [found] = self.wire.call(DescribeTransactionsRequest(transactional_ids=[name])).transaction_states
            return None if found.transaction_state.startswith("Prepare") else found

        found = wait_until(ask, what="the end of a transaction")
        return (_name(found.error_code), -1) if found.error_code else (found.transaction_state, found.producer_epoch)

    def last_stable(self, index: int = 0) -> int:
        asked = ListOffsetsPartition(partition_index=index, timestamp=-1)
        topic = ListOffsetsTopic(name=self.topic, partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[topic])
        return self.wire.call(request, 7).topics[0].partitions[0].offset

    def fetch(self, offset: int = 0, *, committed: bool, index: int = 0) -> tuple[int, int, list[int] | None, bool]:
        """High watermark, last stable offset, where aborted transactions began, and whether there are records."""
        partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=int(committed),
            topics=[FetchTopic(topic=self.topic, partitions=[partition])],
        )
        [found] = self.wire.call(request, 12).responses[0].partitions
        aborted = found.aborted_transactions
        return (
            found.high_watermark,
            found.last_stable_offset,
            None if aborted is None else [one.first_offset for one in aborted],
            bool(found.records),
        )

    def producers(self, index: int = 0) -> list[tuple[int, int, int]]:
        """Epoch, last sequence and where the open transaction began."""
        request = DescribeProducersRequest(topics=[TopicRequest(name=self.topic, partition_indexes=[index])])
        [found] = self.wire.call(request).topics[0].partitions
        return [(one.producer_epoch, one.last_sequence, one.current_txn_start_offset) for one in found.active_producers]

    def mark(self, producer: tuple[int, int], coordinator_epoch: int, *, transactions: int = 0) -> str:
        marker = WritableTxnMarker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=self.topic, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transactions,
        )
        [answer] = self.wire.call(WriteTxnMarkersRequest(markers=[marker])).markers
        return _name(answer.topics[0].partitions[0].error_code)


def _name(code: int) -> str:
    return ErrorCode(code).name


@pytest.fixture
def talk(bootstrap: str, make_topic: Callable[..., str]) -> Iterator[Talk]:
    wire = Wire(bootstrap)
    for kind in (0, 1):  # a new Kafka makes its internal topics now
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"])
        wait_until(lambda r=request: not wire.call(r, 4).coordinators[0].error_code, timeout_s=30, what="a coordinator")
    yield Talk(wire, make_topic(partitions=3))
    wire.close()


@pytest.fixture
def name(unique: Callable[[str], str]) -> str:
    return unique("tx")


@pytest.fixture
def producer(talk: Talk, name: str) -> tuple[int, int]:
    found = talk.init(name)
    assert found[1] == 0
    return found


def test_init_refuses_what_makes_no_sense(talk, name):
    assert talk.init("") == "INVALID_REQUEST"
    assert talk.init(name, timeout_ms=900_001) == talk.init(name, timeout_ms=0) == "INVALID_TRANSACTION_TIMEOUT"
    assert talk.init(name, expected=(5, -1)) == "INVALID_REQUEST"
    assert talk.state(name) == ("TRANSACTIONAL_ID_NOT_FOUND", -1)


def test_a_producer_goes_on_after_an_error_unless_another_one_came(talk, name, producer):
    producer_id, epoch = producer
    after = (producer_id, epoch + 1)
    assert talk.init(name, expected=producer) == after
    assert talk.init(name, expected=producer) == after, "asked again"
    assert talk.init(name) == (producer_id, epoch + 2)
    assert talk.init(name, expected=producer) == "PRODUCER_FENCED"
    assert talk.init(name, expected=producer, version=3) == "INVALID_PRODUCER_EPOCH"
    assert talk.init(name, expected=(producer_id + 1000, epoch + 2)) == "PRODUCER_FENCED"


def test_partitions_are_added_all_or_none(talk, name, producer):
    assert talk.add(name, producer, 0, 9) == ["OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert talk.state(name) == ("Empty", 0)
    assert talk.add(name, (producer[0] + 1000, 0), 0) == ["INVALID_PRODUCER_ID_MAPPING"]
    assert talk.add(name, (producer[0], 5), 0) == ["PRODUCER_FENCED"]
    assert talk.add(name, (producer[0], 5), 0, version=1) == ["INVALID_PRODUCER_EPOCH"]
    assert talk.add("unknown" + name, producer, 0) == ["INVALID_PRODUCER_ID_MAPPING"]
    assert talk.add("", producer, 0) == ["INVALID_REQUEST"]
    assert talk.add(name, producer, 0, 1) == ["NONE", "NONE"]
    assert talk.state(name) == ("Ongoing", 0)


def test_the_older_protocols_writes_need_their_partition(talk, name, producer):
    assert talk.produce(name, producer, 0, version=10) == "INVALID_TXN_STATE"
    assert talk.produce(name, producer, 0, version=11) == "TRANSACTION_ABORTABLE"
    assert talk.produce(None, producer, 0, version=11) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    talk.add(name, producer, 0)
    assert talk.produce(name, producer, 0, version=11) == 0
    assert talk.produce(name, producer, 0, version=11) == 0, "a retry is written once"
    assert talk.produce(name, producer, 5, version=11) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert talk.produce(None, producer, 1, version=11, transactional=False) == "INVALID_TXN_STATE"
    assert talk.produce(name, producer, 0, version=11, index=2) == "TRANSACTION_ABORTABLE"
    assert talk.produce(name, (producer[0], 3), 0, version=11) == "INVALID_PRODUCER_EPOCH"


def test_the_older_protocols_ends(talk, name, producer):
    nothing = (-1, -1)
    for commit in (COMMIT, ABORT):
        assert talk.end(name, producer, commit, version=4) == "INVALID_TXN_STATE", "nothing is open"
    for number, commit in enumerate((COMMIT, ABORT)):
        talk.add(name, producer, 0)
        assert talk.produce(name, producer, number, version=11) == 2 * number
        assert talk.last_stable() == 2 * number
        assert talk.end(name, (producer[0], 4), commit, version=4) == "PRODUCER_FENCED"
        assert talk.end(name, (producer[0], 4), commit, version=1) == "INVALID_PRODUCER_EPOCH"
        assert talk.end(name, (producer[0] + 1000, 0), commit, version=4) == "INVALID_PRODUCER_ID_MAPPING"
        assert talk.end(name, producer, commit, version=4) == nothing
        assert talk.end(name, producer, commit, version=4) == nothing, "asked again"
        assert talk.end(name, producer, not commit, version=4) == "INVALID_TXN_STATE"
        assert talk.state(name) == ("CompleteCommit" if commit else "CompleteAbort", 0)
        wait_until(lambda n=number: talk.last_stable() == 2 * n + 2, what="the marker")
    assert talk.produce(name, producer, 2, version=11) == "TRANSACTION_ABORTABLE", "too late"


def test_readers_are_told_what_was_aborted(talk, name, producer):
    for number, commit in enumerate((COMMIT, ABORT, COMMIT)):
        talk.add(name, producer, 0)
        talk.produce(name, producer, number, version=11)
        talk.end(name, producer, commit, version=4)
        talk.state(name)
    wait_until(lambda: talk.last_stable() == 6, what="the markers")
    assert talk.fetch(committed=True) == (6, 6, [2], True)
    assert talk.fetch(4, committed=True) == (6, 6, [], True)
    assert talk.fetch(committed=False)[2] in (None, [])
    assert talk.producers() == [(0, 2, -1)]
    talk.add(name, producer, 0)
    talk.produce(name, producer, 3, version=11)
    assert talk.fetch(6, committed=True) == (7, 6, [], False)
    assert talk.fetch(6, committed=False)[3]
    assert talk.producers() == [(0, 3, 6)]


def test_a_new_producer_aborts_what_the_old_one_left(talk, name, producer):
    talk.add(name, producer, 0)
    talk.produce(name, producer, 0, version=11)
    new = talk.init(name)
    assert new == (producer[0], 2)
    wait_until(lambda: talk.last_stable() == 2, what="the marker")
    assert talk.fetch(committed=True) == (2, 2, [0], True)
    assert talk.add(name, producer, 0) == ["PRODUCER_FENCED"]
    assert talk.produce(name, producer, 1, version=10) == "INVALID_PRODUCER_EPOCH"
    assert talk.end(name, producer, COMMIT, version=4) == "PRODUCER_FENCED"


def test_transactions_v2(talk, name, producer):
    producer_id = producer[0]
    assert talk.produce(name, producer, 0, version=12) == 0, "a write adds its partition"
    assert talk.produce(name, producer, 0, version=12, index=1) == 0
    assert talk.produce(name, (producer_id, 4), 0, version=12) == "INVALID_PRODUCER_EPOCH"
    assert talk.produce(name, (producer_id + 1000, 0), 0, version=12) == "INVALID_PRODUCER_ID_MAPPING"
    assert talk.end(name, producer, COMMIT, version=5) == (producer_id, 1)
    assert talk.state(name) == ("CompleteCommit", 1)
    assert talk.end(name, producer, COMMIT, version=5) == (producer_id, 1), "asked again"
    assert talk.end(name, producer, ABORT, version=5) == "INVALID_TXN_STATE"
    assert talk.end(name, (producer_id, 1), COMMIT, version=5) == "INVALID_TXN_STATE", "nothing is open"
    assert talk.end(name, (producer_id, 1), ABORT, version=5) == (producer_id, 2)
    assert talk.state(name) == ("CompleteAbort", 2)
    assert talk.produce(name, producer, 1, version=12) == "INVALID_PRODUCER_EPOCH", "too late"
    assert talk.produce(name, (producer_id, 2), 1, version=12) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert talk.produce(name, (producer_id, 2), 0, version=12) == 2
    assert talk.end(name, (producer_id, 2), COMMIT, version=4) == (-1, -1), "an older client's end keeps the epoch"
    assert talk.state(name) == ("CompleteCommit", 2)


def test_offsets_in_the_older_protocol(talk, name, producer, unique):
    group = unique("group")
    assert talk.commit_offset(name, producer, group, 5, version=4) == "TRANSACTION_ABORTABLE"
    assert talk.commit_offset(name, producer, group, 5, version=3) == "INVALID_TXN_STATE"
    assert talk.add_offsets(name, (producer[0], 7), group) == "PRODUCER_FENCED"
    assert talk.add_offsets(name, (producer[0], 7), group, version=1) == "INVALID_PRODUCER_EPOCH"
    assert talk.add_offsets(name, producer, group) == "NONE"
    assert talk.commit_offset(name, producer, group, 5, version=4) == "NONE"
    assert talk.commit_offset(name, (producer[0], 3), group, 5, version=4) == "INVALID_PRODUCER_EPOCH"
    assert talk.commit_offset(name, producer, group, 5, version=4, generation=3) in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
    assert talk.commit_offset(name, producer, "", 5, version=4) == "INVALID_GROUP_ID"
    assert talk.fetch_offset(group, stable=True) == ("UNSTABLE_OFFSET_COMMIT", -1)
    assert talk.fetch_offset(group, stable=False) == ("NONE", -1)
    talk.end(name, producer, COMMIT, version=4)
    wait_until(lambda: talk.fetch_offset(group, stable=True) == ("NONE", 5), what="the offset")
    talk.add_offsets(name, producer, group)
    talk.commit_offset(name, producer, group, 9, version=4)
    talk.end(name, producer, ABORT, version=4)
    wait_until(lambda: talk.fetch_offset(group, stable=True) == ("NONE", 5), what="the old offset")


def test_offsets_in_transactions_v2(talk, name, producer, unique):
    group = unique("group")
    assert talk.commit_offset(name, producer, group, 21, version=5) == "NONE"
    assert talk.fetch_offset(group, stable=True) == ("UNSTABLE_OFFSET_COMMIT", -1)
    assert talk.end(name, producer, COMMIT, version=5) == (producer[0], 1)
    wait_until(lambda: talk.fetch_offset(group, stable=True) == ("NONE", 21), what="the offset")


def test_an_administrators_marker_ends_a_transaction_in_its_partition(talk, name, producer):
    talk.add(name, producer, 0)
    talk.produce(name, producer, 0, version=11)
    assert talk.mark(producer, 0, transactions=2) == "INVALID_PRODUCER_EPOCH"
    assert talk.mark(producer, 0) == "NONE"
    assert talk.last_stable() == 2
    assert talk.producers() == [(0, 0, -1)]
    assert talk.mark((producer[0], -1), 0) in ("INVALID_REQUEST", "UNKNOWN_SERVER_ERROR")


def test_transactions_are_listed_by_state_producer_and_pattern(talk, name, producer):
    def listed(**how: Any) -> list[tuple[str, str]]:
        answer = talk.wire.call(ListTransactionsRequest(**how))
        assert not answer.error_code
        return [(one.transactional_id, one.transaction_state) for one in answer.transaction_states]

    assert listed(producer_id_filters=[producer[0]], state_filters=["Empty"]) == [(name, "Empty")]
    assert listed(producer_id_filters=[producer[0]], state_filters=["Ongoing"]) == []
    assert listed(transactional_id_pattern=name[:-1] + ".") == [(name, "Empty")]
    assert listed(transactional_id_pattern=name[:-1]) == []
    answer = talk.wire.call(ListTransactionsRequest(state_filters=["Bogus"]))
    assert answer.unknown_state_filters == ["Bogus"]
    bad = talk.wire.call(ListTransactionsRequest(transactional_id_pattern="["))
    assert _name(bad.error_code) == "INVALID_REGULAR_EXPRESSION"
