"""Members of a consumer group that join, are slow to give up, change their minds, crash, leave and come back in any order,
while topics come, grow and go, and the server crashes.

Checked all along: no partition is in the hands of two members; the books agree with each other and with the table. Checked at
any moment: when the living behave, each partition that somebody subscribes to ends up with exactly one of them, evenly; when
all are gone, the group is empty.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from tests.broker.groups.conftest import FixedSettings
from tests.broker.groups.consumer.conftest import ConsumerWorld

from headrace.broker.groups.budget import Budget, size_of_name
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.loading import load
from headrace.broker.groups.errors import FencedInstance, FencedMemberEpoch, UnknownMember, UnreleasedInstance

SESSION_S = 45
REBALANCE_S = 20
TOPICS = ("t", "u", "v")
SUBSCRIPTIONS = (("t",), ("t", "u"), ("u", "v"), ("t", "u", "v"))
REGEXES = ("", "t|v", "[uv]", ".*")

Owned = dict[UUID, frozenset[int]]


@dataclass
class Client:
    member_id: str
    instance_id: str | None
    topics: frozenset[str]
    regex: str
    epoch: int = 0
    told: Owned = field(default_factory=dict)
    holds: set[tuple[UUID, int]] = field(default_factory=set)
    news: bool = False  # the subscription changed since the last heartbeat
    heard_at: float = 0.0
    asked_at: float | None = None  # when it was told to give up what it still holds

    @property
    def owned(self) -> Owned:
        owned: dict[UUID, set[int]] = {}
        for topic_id, index in self.holds:
            owned.setdefault(topic_id, set()).add(index)
        return {topic_id: frozenset(indexes) for topic_id, indexes in owned.items()}

    def give_up(self) -> None:
        self.holds &= {(topic_id, index) for topic_id, indexes in self.told.items() for index in indexes}
        self.asked_at = None

    def take(self, assignment: Mapping[UUID, Mapping[int, int]], now: float) -> None:
        """What is new is there to be read at once; what is gone is given up when the application has time."""
        self.told = {topic_id: frozenset(epochs) for topic_id, epochs in assignment.items()}
        told = {(topic_id, index) for topic_id, indexes in self.told.items() for index in indexes}
        self.holds |= told
        if self.asked_at is None and self.holds != told:
            self.asked_at = now

    def forget(self) -> None:
        self.epoch, self.told, self.asked_at = 0, {}, None
        self.holds.clear()


class ConsumerGroups(RuleBasedStateMachine):
    @initialize(assignor=st.sampled_from(["uniform", "range"]), interval_ms=st.sampled_from([0, 1000]))
    def begin(self, assignor, interval_ms):
        self.world = ConsumerWorld(
            FixedSettings(group_consumer_assignors=(assignor,), group_consumer_assignment_interval_ms=interval_ms)
        )
        self.assignor = assignor
        self.world.topic("t", 3)
        self.clients: list[Client] = []
        self.away: dict[str, str] = {}  # static members that left for a while
        self.count = 0

    def teardown(self):
        if hasattr(self, "world"):
            self.settle()
            self.world.close()

    # -- what happens

    @precondition(lambda self: len(self.clients) < 6)
    @rule(subscription=st.sampled_from(SUBSCRIPTIONS), regex=st.sampled_from(REGEXES), static=st.booleans())
    def join(self, subscription, regex, static):
        self.count += 1
        used = {client.instance_id for client in self.clients}
        instance = next((f"i{n}" for n in range(6) if f"i{n}" not in used), None) if static else None
        client = Client(f"m{self.count}", instance, frozenset() if regex else frozenset(subscription), regex)
        self.clients.append(client)
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(which=st.randoms(use_true_random=False))
    def heartbeat(self, which):
        self.beat(which.choice(self.clients))

    @precondition(lambda self: self.clients)
    @rule(which=st.randoms(use_true_random=False))
    def give_up(self, which):
        which.choice(self.clients).give_up()

    @precondition(lambda self: self.clients)
    @rule(which=st.randoms(use_true_random=False), subscription=st.sampled_from(SUBSCRIPTIONS))
    def change_subscription(self, which, subscription):
        client = which.choice(self.clients)
        client.topics, client.regex, client.news = frozenset(subscription), "", True

    @precondition(lambda self: self.clients)
    @rule(which=st.randoms(use_true_random=False))
    def crash(self, which):
        self.clients.remove(which.choice(self.clients))

    @precondition(lambda self: self.clients)
    @rule(which=st.randoms(use_true_random=False), for_a_while=st.booleans())
    def leave(self, which, for_a_while):
        client = which.choice(self.clients)
        self.clients.remove(client)
        epoch = -2 if for_a_while and client.instance_id else -1
        refused = self.world.refused(member_id=client.member_id, epoch=epoch, instance_id=client.instance_id)
        assert refused in (None, UnknownMember, FencedInstance)

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 6))
    def make_or_grow_topic(self, name, partitions):
        known = self.world.log.made.get(name)
        self.world.topic(name, max(partitions, 0 if known is None else len(known.partitions)))

    @rule(name=st.sampled_from(TOPICS))
    def delete_topic(self, name):
        if name in self.world.log.made:
            gone = self.world.log.made[name].topic_id
            self.world.drop_topic(name)
            for client in self.clients:  # nothing is left to be read
                client.holds = {(topic_id, index) for topic_id, index in client.holds if topic_id != gone}

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0, 30.0]))
    def time_passes(self, seconds):
        self.world.advance(seconds)
        now = self.world.clock.monotonic()
        for client in self.clients:  # one that could not be heard for so long, or gave nothing up, knows that it is out
            slow = client.asked_at is not None and now - client.asked_at >= REBALANCE_S
            if slow or now - client.heard_at >= SESSION_S:
                client.forget()

    @rule()
    def server_crashes(self):
        self.world.restart()

    # -- what must hold

    @invariant()
    def nothing_has_two_owners(self):
        if not hasattr(self, "world"):
            return
        holders = Counter(partition for client in self.clients for partition in client.holds)
        assert all(count == 1 for count in holders.values()), holders

    @invariant()
    def the_books_agree_with_the_table(self):
        if not hasattr(self, "world"):
            return
        kept = self.world.coordinator._store.other_rows()
        loaded = load(kept, self.world.clock, Budget())
        groups = {k: g for k, g in self.world.coordinator._groups.items() if isinstance(g, ConsumerGroup)}
        assert loaded.keys() == groups.keys()
        for group_id, group in groups.items():
            other = loaded[group_id]
            assert (group.epoch, group.assignment_epoch, group.metadata_hash) == (
                other.epoch,
                other.assignment_epoch,
                other.metadata_hash,
            )
            assert group.members == other.members
            assert group.static_members == other.static_members
            assert group.targets == other.targets
            assert group.targets.keys() <= group.members.keys()
            assert group._holders == other._holders
            assert {r: f.topics for r, f in group.resolved.items()} == {r: f.topics for r, f in other.resolved.items()}
        sizes = sum(size_of_name(g.group_id) + sum(m.size_bytes for m in g.members.values()) for g in groups.values())
        assert self.world.coordinator._budget.used_bytes == sizes

    # -- helping hands

    def beat(self, client: Client) -> None:
        joining = client.epoch == 0
        news = {"topics": client.topics, "regex": client.regex} if joining or client.news else {}
        try:
            answer = self.world.beat(
                member_id=client.member_id,
                epoch=client.epoch,
                instance_id=client.instance_id,
                rebalance_timeout_ms=REBALANCE_S * 1000 if joining else -1,
                owned=client.owned,
                **news,
            )
        except (UnknownMember, FencedMemberEpoch):
            client.forget()
            return
        except (UnreleasedInstance, FencedInstance):
            # Its former self crashed and may be thought to live: this one has to wait, or is somebody else now.
            client.forget()
            self.count += 1
            client.member_id = f"m{self.count}"
            return
        client.news = False
        client.epoch = answer.epoch
        client.heard_at = self.world.clock.monotonic()
        if answer.assignment is not None:
            client.take(answer.assignment, client.heard_at)

    def settle(self) -> None:
        """The dead are forgotten, the living do what they are told."""
        for _ in range(30):
            for client in self.clients:
                client.give_up()
                self.beat(client)
                self.nothing_has_two_owners()
            self.world.advance(5)
        if not self.clients:
            self.world.advance(2 * SESSION_S)
            groups = self.world.coordinator.list_groups()
            assert all(group.state == "Empty" for group in groups)
            return
        group = self.world.group
        assert self.world.consumer_state() == "Stable"
        assert set(group.members) == {client.member_id for client in self.clients}
        wanted = {
            (topic.topic_id, index)
            for topic in self.world.log.made.values()
            for index in range(len(topic.partitions))
            if any(self.reads(client, topic.name) for client in self.clients)
        }
        assert {partition for client in self.clients for partition in client.holds} == wanted
        for client in self.clients:
            names = {self.world.log.topic_by_id(topic_id).name for topic_id, _ in client.holds}
            assert all(self.reads(client, name) for name in names)
        alike = len({frozenset(name for name in TOPICS if self.reads(c, name)) for c in self.clients}) == 1
        if self.assignor == "uniform" and alike:
            loads = [len(client.holds) for client in self.clients]
            assert max(loads) - min(loads) <= 1

    def reads(self, client: Client, name: str) -> bool:
        return name in client.topics or bool(client.regex and re.fullmatch(client.regex, name))


def test_consumer_groups_keep_their_promises():
    run_state_machine_as_test(ConsumerGroups, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))
