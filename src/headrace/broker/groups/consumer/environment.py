"""What every part of the consumer protocol works with: the table, the clock, the topics, the settings, and all groups."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from headrace.broker.groups.budget import Budget
from headrace.broker.groups.classic.rebalance import Rebalance
from headrace.broker.groups.group import Group
from headrace.broker.groups.store import GroupStore
from headrace.broker.groups.topic_catalog import TopicCatalog
from headrace.clock import Clock
from headrace.dataclass import dataclass


class ConsumerServerSettings(Protocol):
    """What is needed of `headrace.broker.settings`."""

    def get_int(self, name: str) -> int: ...

    def get_str(self, name: str) -> str: ...

    def get_list(self, name: str) -> tuple[str, ...]: ...


class GroupConfigValues(Protocol):
    """What is needed of `headrace.broker.group_configs`: the value in force for a group."""

    def get_int(self, group_id: str, name: str) -> int: ...


class ServerDefaults:
    """For when groups have no settings of their own: the server's `group.…` holds for all."""

    def __init__(self, settings: ConsumerServerSettings) -> None:
        self._settings = settings

    def get_int(self, group_id: str, name: str) -> int:
        return self._settings.get_int(f"group.{name}")


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    enabled: bool
    max_size: int
    assignors: tuple[str, ...]  # the first one is the default
    may_upgrade: bool
    may_downgrade: bool

    @classmethod
    def read(cls, settings: ConsumerServerSettings) -> ConsumerSettings:
        policy = settings.get_str("group.consumer.migration.policy").lower()
        return cls(
            "consumer" in settings.get_list("group.coordinator.rebalance.protocols"),
            settings.get_int("group.consumer.max.size"),
            settings.get_list("group.consumer.assignors"),
            policy in ("upgrade", "bidirectional"),
            policy in ("downgrade", "bidirectional"),
        )


@dataclass(frozen=True, slots=True)
class Environment:
    clock: Clock
    store: GroupStore
    budget: Budget
    catalog: TopicCatalog
    settings: ConsumerSettings
    configs: GroupConfigValues
    groups: dict[str, Group]
    rebalance: Rebalance  # of classic groups: a group that is downgraded rebalances
    new_uuid: Callable[[], UUID]

    def new_member_id(self) -> str:
        """As Kafka writes an id: 22 letters, digits, dashes and underscores."""
        return urlsafe_b64encode(self.new_uuid().bytes).rstrip(b"=").decode()

    def session_timeout_ms(self, group_id: str) -> int:
        return self.configs.get_int(group_id, "consumer.session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self.configs.get_int(group_id, "consumer.heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        return self.configs.get_int(group_id, "consumer.assignment.interval.ms")
