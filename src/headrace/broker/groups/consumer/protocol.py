"""The face of the consumer protocol to the coordinator."""

from __future__ import annotations

from headrace.broker.groups.consumer.classic_members import ClassicMembers
from headrace.broker.groups.consumer.environment import Environment
from headrace.broker.groups.consumer.fencing import Fencing
from headrace.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupDescription
from headrace.broker.groups.consumer.heartbeat import Heartbeats
from headrace.broker.groups.consumer.loading import load
from headrace.broker.groups.consumer.patterns import Patterns
from headrace.broker.groups.errors import UnsupportedVersion


class ConsumerProtocol:
    def __init__(self, env: Environment) -> None:
        self.env = env
        self.fencing = Fencing(env)
        self.classic_members = ClassicMembers(env, self.fencing)
        self.heartbeats = Heartbeats(env, self.fencing, Patterns(env))

    def load(self) -> None:
        """Brings back the groups; `resume` lets their time run."""
        self.env.groups.update(load(self.env.store.other_rows(), self.env.clock, self.env.budget))

    def resume(self) -> None:
        for group in self.env.groups.values():
            if isinstance(group, ConsumerGroup):
                self.fencing.resume(group)

    def describe(self, group_id: str) -> ConsumerGroupDescription:
        if not self.env.settings.enabled:
            raise UnsupportedVersion("The consumer group protocol is not enabled.")
        return self.heartbeats.group(group_id).describe(self.env.settings.assignors[0])
