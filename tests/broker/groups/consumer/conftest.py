"""Consumer groups on a log with topics but without records, and a member that behaves as clients do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

import pytest
from tests.broker.groups.conftest import FixedSettings, MemoryLog, World

from headrace.broker.groups import GroupError, Heartbeat, HeartbeatAnswer
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.log.port import Partition, Topic

NAMES = UUID(int=848)


@dataclass
class FakeTopic:
    name: str
    topic_id: UUID
    partitions: list[Partition]
    config: Mapping[str, str] = field(default_factory=dict)
    internal: bool = False


class TopicLog(MemoryLog):
    """Topics are names, ids and numbers of partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, Topic] = {}
        self.count = 0

    def topics(self) -> Mapping[str, Topic]:
        return self.made

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return next((topic for topic in self.made.values() if topic.topic_id == topic_id), None)


@dataclass
class ConsumerWorld(World):
    log: TopicLog = field(default_factory=TopicLog)

    def topic(self, name: str, partitions: int = 1) -> UUID:
        """Makes a topic, or makes one grow."""
        known = self.log.made.get(name)
        self.log.count += known is None
        topic_id = uuid5(NAMES, f"{name}/{self.log.count}") if known is None else known.topic_id
        self.log.made[name] = FakeTopic(name, topic_id, [None] * partitions)  # type: ignore[list-item]
        self.coordinator.catalog.changed(created=known is None)
        return topic_id

    def drop_topic(self, name: str) -> None:
        del self.log.made[name]
        self.coordinator.forget_topics([name])

    def beat(self, **fields: Any) -> HeartbeatAnswer:
        """One heartbeat; raises what it is answered with."""
        return self.run(self.coordinator.consumer_heartbeat(Heartbeat(**{"group_id": "g", **fields})))

    def refused(self, **fields: Any) -> type[GroupError] | None:
        try:
            self.beat(**fields)
        except GroupError as error:
            return type(error)
        return None

    def enter(self, member_id: str, topics: tuple[str, ...] = ("t",), **fields: Any) -> Client:  # type: ignore[override]
        """A client that has joined."""
        client = Client(self, member_id, topics, **fields)
        client.join()
        return client

    def settle_all(self, *clients: Client, rounds: int = 12) -> None:
        """Everybody's heartbeats until nothing changes any more."""
        for _ in range(rounds):
            before = [(client.epoch, client.owned) for client in clients]
            self.advance(1.0)
            for client in clients:
                client.beat()
            if before == [(client.epoch, client.owned) for client in clients] and self.consumer_state() == "Stable":
                return

    @property
    def group(self) -> ConsumerGroup:
        found = self.coordinator._groups["g"]
        assert isinstance(found, ConsumerGroup)
        return found

    def consumer_state(self, group: str = "g") -> str:
        return self.coordinator.describe_consumer(group).state


class Client:
    """A member as librdkafka and the Java client are: it gives up first, says so, and takes what it is told to have."""

    def __init__(self, world: ConsumerWorld, member_id: str, topics: tuple[str, ...] = ("t",), **fields: Any) -> None:
        self.world = world
        self.member_id = member_id
        self.topics: frozenset[str] | None = frozenset(topics)
        self.fields = fields
        self.epoch = 0
        self.owned: dict[UUID, frozenset[int]] = {}
        self.errors: list[type[GroupError]] = []

    @property
    def partitions(self) -> set[tuple[str, int]]:
        by_id = {topic.topic_id: topic.name for topic in self.world.log.made.values()}
        return {(by_id.get(topic_id, "?"), index) for topic_id, indexes in self.owned.items() for index in indexes}

    def join(self) -> None:
        self.epoch, self.owned = 0, {}
        answer = self.world.beat(
            member_id=self.member_id,
            epoch=0,
            rebalance_timeout_ms=self.fields.get("rebalance_timeout_ms", 60_000),
            topics=self.topics,
            owned={},
            **{name: value for name, value in self.fields.items() if name != "rebalance_timeout_ms"},
        )
        self._take(answer)

    def beat(self, **fields: Any) -> HeartbeatAnswer:
        instance = {k: v for k, v in self.fields.items() if k in ("instance_id", "group_id")}
        answer = self.world.beat(member_id=self.member_id, epoch=self.epoch, **{"owned": self.owned, **instance, **fields})
        self._take(answer)
        return answer

    def leave(self, epoch: int = -1) -> None:
        instance = {k: v for k, v in self.fields.items() if k in ("instance_id", "group_id")}
        self.world.beat(member_id=self.member_id, epoch=epoch, **instance)
        self.epoch, self.owned = epoch, {}

    def _take(self, answer: HeartbeatAnswer) -> None:
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.owned = {topic_id: frozenset(epochs) for topic_id, epochs in answer.assignment.items()}


@pytest.fixture
def world() -> Iterator[ConsumerWorld]:
    made = ConsumerWorld(FixedSettings(group_consumer_assignment_interval_ms=0))
    yield made
    made.close()


@pytest.fixture
def world_with() -> Iterator[Callable[..., ConsumerWorld]]:
    worlds: list[ConsumerWorld] = []

    def make(**settings: Any) -> ConsumerWorld:
        worlds.append(ConsumerWorld(FixedSettings(**{"group_consumer_assignment_interval_ms": 0, **settings})))
        return worlds[-1]

    yield make
    for made in worlds:
        made.close()
