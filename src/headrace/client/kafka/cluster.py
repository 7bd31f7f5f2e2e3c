"""The cluster as a client sees it: who the brokers are, who leads which partition, who coordinates which group.

Everything here is found out by Metadata and FindCoordinator, kept until an answer shows that it is stale, and asked for again.
`retry` is the one place that decides to try once more: after a broken connection and after codes that mean "not now" or "not
here", with growing pauses, until the deadline; then the last error is raised as it is.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar
from uuid import UUID

from headrace.client.kafka.address import Address, parse_addresses
from headrace.client.kafka.connection import CLIENT_ID, Connection
from headrace.client.kafka.errors import Disconnected, ProtocolViolation, Refused, UnknownName, Unreachable, check
from headrace.client.kafka.security import NO_SECURITY, Security
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headrace.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0
CONNECT_TIMEOUT_S = 10.0
_BEING_CREATED_S = 3.0  # Kafka says that it knows no such topic until it has made it
_JUST_CREATED_S = 0.3  # a broker may hear of a new topic a moment after its creation was acknowledged


class CoordinatorOf(IntEnum):
    """FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    index: int
    leader: int  # -1 while there is none
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    topic_id: UUID
    internal: bool
    partitions: tuple[PartitionInfo, ...]

    def partition(self, index: int) -> PartitionInfo:
        for partition in self.partitions:
            if partition.index == index:
                return partition
        last = len(self.partitions) - 1
        raise UnknownName(f"topic '{self.name}' has no partition {index}: its partitions are 0 to {last}")


@dataclass(frozen=True, slots=True)
class Metadata:
    cluster_id: str | None
    controller: int
    brokers: dict[int, Broker]
    topics: dict[str, TopicInfo]


class Cluster:
    def __init__(
        self, servers: str, *, timeout_s: float = 30.0, security: Security = NO_SECURITY, client_id: str = CLIENT_ID
    ) -> None:
        self.timeout_s = timeout_s
        self._security = security
        self._client_id = client_id
        self._bootstrap = parse_addresses(servers)
        self._first: Connection | None = None
        self._connections: dict[int, Connection] = {}
        self._brokers: dict[int, Broker] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._coordinators: dict[tuple[CoordinatorOf, str], int] = {}
        self._met = False

    def close(self) -> None:
        for connection in [self._first, *self._connections.values()]:
            if connection is not None:
                connection.close()

    def deadline(self) -> float:
        return time.monotonic() + self.timeout_s

    def insist(self) -> None:
        """From now on an unreachable server is one that will come back, even if none has answered yet."""
        self._met = True

    # What the cluster looks like

    def metadata(self, topics: Iterable[str] | None = None, deadline: float | None = None) -> Metadata:
        """Fresh from a broker; all topics unless some are named. Topics with an error are left out."""
        return self.retry(lambda: self._ask_metadata(topics)[0], deadline)

    def existing(self, topics: Iterable[str] | None = None) -> Metadata:
        """As `metadata`, but only topics that do not exist are left out: what else keeps a named one from being shown is waited
        for, or raised. What was known of topics is replaced by the answer."""

        def ask() -> Metadata:
            metadata, errors = self._ask_metadata(topics)
            if topics is not None:
                for name, code in errors.items():
                    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        check(f"topic '{name}'", code)
            self._topics = dict(metadata.topics)
            return metadata

        return self.retry(ask)

    def known_ids(self) -> dict[str, UUID]:
        """The ids of the topics that are known now; a topic that was deleted and made again has another."""
        return {name: topic.topic_id for name, topic in self._topics.items()}

    def topic(self, name: str) -> TopicInfo:
        """What is known about one topic; UnknownName when there is none."""
        if name not in self._topics:
            self.topics([name])
        return self._topics[name]

    def topics(self, names: Iterable[str], *, create: bool = False) -> dict[str, TopicInfo]:
        """With `create` those that do not exist are made, where the server allows it (auto.create.topics.enable)."""
        wanted = list(dict.fromkeys(names))
        missing = [name for name in wanted if name not in self._topics]
        if missing:
            patience = time.monotonic() + (_BEING_CREATED_S if create else _JUST_CREATED_S)
            self._topics.update(self.retry(lambda: self._ask_topics(missing, patience, create)))
        return {name: self._topics[name] for name in wanted}

    def _ask_topics(self, names: list[str], patience: float, create: bool) -> dict[str, TopicInfo]:
        while True:
            metadata, errors = self._ask_metadata(names, create)
            unknown = [name for name in names if errors.get(name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            if not unknown or time.monotonic() > patience:
                break
            time.sleep(0.05)
        if unknown:
            raise UnknownName(self._no_topic(unknown[0]))
        for name in names:
            check(f"topic '{name}'", errors.get(name, 0))
            if name not in metadata.topics:
                raise ProtocolViolation(f"the server left topic '{name}' out of its answer")
        return metadata.topics

    def _ask_metadata(self, topics: Iterable[str] | None, create: bool = False) -> tuple[Metadata, dict[str, int]]:
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        answer = self.any().call(request, MetadataResponse, self.deadline())
        self._brokers = {
            broker.node_id: Broker(broker.node_id, Address(broker.host, broker.port), broker.rack) for broker in answer.brokers
        }
        errors = {topic.name or "": topic.error_code for topic in answer.topics}
        found = {
            topic.name or "": TopicInfo(
                name=topic.name or "",
                topic_id=topic.topic_id,
                internal=topic.is_internal,
                partitions=tuple(
                    PartitionInfo(
                        index=partition.partition_index,
                        leader=partition.leader_id,
                        leader_epoch=partition.leader_epoch,
                        replicas=tuple(partition.replica_nodes),
                        in_sync=tuple(partition.isr_nodes),
                    )
                    for partition in sorted(topic.partitions, key=lambda one: one.partition_index)
                ),
            )
            for topic in answer.topics
            if topic.error_code == ErrorCode.NONE
        }
        return Metadata(answer.cluster_id, answer.controller_id, self._brokers, found), errors

    def _no_topic(self, name: str) -> str:
        close = difflib.get_close_matches(name, self._ask_metadata(None)[0].topics, 1)
        meant = f"did you mean '{close[0]}'?" if close else "'headrace topic list' shows what there is"
        return f"there is no topic '{name}'; {meant}"

    def brokers(self) -> dict[int, Broker]:
        if not self._brokers:
            self.metadata(())
        return self._brokers

    def forget(self) -> None:
        """What was known turned out to be stale."""
        self._topics.clear()
        self._coordinators.clear()

    # Connections

    def any(self) -> Connection:
        """A connection to whichever broker answers: the first one named, or any that was heard of since."""
        if self._first is not None and not self._first.closed:
            return self._first
        addresses = [*self._bootstrap, *(broker.address for broker in self._brokers.values())]
        failure: Unreachable | None = None
        for address in dict.fromkeys(addresses):
            try:
                self._first = self._connect(address)
            except Unreachable as error:
                failure = failure or error
                continue
            self._met = True
            return self._first
        assert failure is not None
        raise failure

    def to(self, node_id: int) -> Connection:
        """The shared connection to one broker."""
        connection = self._connections.get(node_id)
        if connection is None or connection.closed:
            connection = self._connections[node_id] = self.open(node_id)
        return connection

    def open(self, node_id: int) -> Connection:
        """A connection of the caller's own, for those who leave requests waiting on it."""
        broker = self.brokers().get(node_id)
        if broker is None:
            raise Refused(f"broker {node_id}", ErrorCode.BROKER_NOT_AVAILABLE)
        return self._connect(broker.address)

    def _connect(self, address: Address) -> Connection:
        return Connection(address, min(self.timeout_s, CONNECT_TIMEOUT_S), self._security, self._client_id)

    def controller(self) -> Connection:
        """The broker that Metadata names as the controller: a KRaft broker passes requests on, an older one must be it."""
        metadata = self._ask_metadata(())[0]
        return self.to(metadata.controller) if metadata.controller in metadata.brokers else self.any()

    def coordinator(self, name: str, kind: CoordinatorOf = CoordinatorOf.GROUP) -> Connection:
        """The broker that looks after a group or a transactional id."""
        return self.to(self.coordinator_id(name, kind))

    def coordinator_id(self, name: str, kind: CoordinatorOf = CoordinatorOf.GROUP) -> int:
        if (kind, name) not in self._coordinators:
            self._coordinators[kind, name] = self._find_coordinator(name, kind)
        return self._coordinators[kind, name]

    def _find_coordinator(self, name: str, kind: CoordinatorOf) -> int:
        connection = self.any()
        request = FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=[name])
        answer = connection.call(request, FindCoordinatorResponse, self.deadline())
        what = f"the coordinator of {'group' if kind is CoordinatorOf.GROUP else 'transactional id'} '{name}'"
        if answer.coordinators:
            found = answer.coordinators[0]
            check(what, found.error_code, found.error_message)
            node_id, address = found.node_id, Address(found.host, found.port)
        else:
            check(what, answer.error_code, answer.error_message)
            node_id, address = answer.node_id, Address(answer.host, answer.port)
        self.brokers().setdefault(node_id, Broker(node_id, address))
        return node_id

    # Trying again

    def retry(self, action: Callable[[], T], deadline: float | None = None) -> T:
        end = self.deadline() if deadline is None else deadline
        pause = FIRST_PAUSE_S
        while True:
            try:
                return action()
            except (Disconnected, Unreachable):
                if not self._met or time.monotonic() + pause > end:
                    raise
            except Refused as refused:
                if not refused.retriable or time.monotonic() + pause > end:
                    raise
            self.forget()
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
