"""A coordinator on a log in memory and a clock that stands still: groups without sockets, disks or waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

import pytest

from headrace.broker.groups import Committer, GroupCoordinator, GroupError, Join, Joined, Leaver, NewOffset, Sync, Synced
from headrace.broker.settings import Settings
from headrace.log.errors import StorageError
from headrace.log.port import Lease, Partition, Topic
from headrace.log.port import Synced as SyncCallback
from headrace.testing.clock import SimulatedClock

T = TypeVar("T")

DEFAULTS = {
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 1_800_000,
    "group.initial.rebalance.delay.ms": 0,
    "group.max.size": 2**31 - 1,
    "offset.metadata.max.bytes": 4_096,
    "offsets.retention.minutes": 10_080,
    "offsets.retention.check.interval.ms": 600_000,
}


class MemoryTable:
    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.rows: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        return list(self.rows.items())

    def __len__(self) -> int:
        return len(self.rows)

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        if self._log.refuses_writes:
            raise StorageError("no room")
        for key, value in rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


class MemoryLog:
    """The tables of a log. With `holds_sync` nothing becomes durable before `sync`."""

    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}
        self.refuses_writes = False
        self.holds_sync = False
        self.waiting: list[SyncCallback] = []
        self.syncs_awaited = 0

    def after_sync(self, synced: SyncCallback) -> None:
        self.syncs_awaited += 1
        if self.holds_sync:
            self.waiting.append(synced)
        else:
            synced(None)

    async def synced(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.after_sync(done)
        await future

    def sync(self, error: Exception | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for synced in waiting:
            synced(error)

    async def table(self, name: str, slot: int = 0) -> MemoryTable:
        return self.tables.setdefault(name, MemoryTable(self))

    async def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, *, topic_id: UUID | None = None
    ) -> Topic:
        raise NotImplementedError

    async def add_partitions(self, name: str, total: int) -> None:
        raise NotImplementedError

    async def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        raise NotImplementedError

    async def delete_topic(self, name: str) -> None:
        raise NotImplementedError

    def topics(self) -> Mapping[str, Topic]:
        return {}

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return None

    def partition(self, topic: str, index: int) -> Partition | None:
        return None

    def leases(self, group: str, table: str) -> AsyncIterator[Lease]:
        raise NotImplementedError


class FixedSettings:
    """The server's own defaults, but where a test says otherwise."""

    def __init__(self, **changed: Any) -> None:
        self.values: dict[str, Any] = DEFAULTS | {name.replace("_", "."): value for name, value in changed.items()}
        self._server = Settings()

    def get_int(self, name: str) -> int:
        return int(self.values[name]) if name in self.values else self._server.get_int(name)

    def get_str(self, name: str) -> str:
        return str(self.values[name]) if name in self.values else self._server.get_str(name)

    def get_list(self, name: str) -> tuple[str, ...]:
        return tuple(self.values[name]) if name in self.values else self._server.get_list(name)


@dataclass
class Pending(Generic[T]):
    """A request that may still wait for its answer."""

    task: asyncio.Task[T]

    @property
    def done(self) -> bool:
        return self.task.done()

    @property
    def result(self) -> T:
        return self.task.result()

    @property
    def error(self) -> type[GroupError] | None:
        """The kind of error it was answered with."""
        raised = self.task.exception()
        assert raised is None or isinstance(raised, GroupError)
        return None if raised is None else type(raised)

    @property
    def member_id(self) -> str:
        raised = self.task.exception()
        assert isinstance(raised, GroupError)
        assert raised.member_id is not None
        return raised.member_id


@dataclass
class World:
    settings: FixedSettings = field(default_factory=FixedSettings)
    log: MemoryLog = field(default_factory=MemoryLog)
    clock: SimulatedClock = field(default_factory=SimulatedClock)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    coordinator: GroupCoordinator = field(init=False)
    pending: list[asyncio.Task[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.coordinator = GroupCoordinator(self.log, self.clock, self.settings)
        self.loop.run_until_complete(self.coordinator.start())

    def restart(self) -> None:
        """As after kill -9: what the table holds is all there is."""
        self.coordinator.close()
        for task in self.pending:
            task.cancel()
        self.settle()
        self.pending.clear()
        self._start()

    def close(self) -> None:
        if self.loop.is_closed():
            return
        self.coordinator.close()
        for task in self.pending:
            task.cancel()
        self.settle()
        self.loop.close()

    def settle(self) -> None:
        async def rounds() -> None:
            for _ in range(5):
                await asyncio.sleep(0)

        self.loop.run_until_complete(rounds())

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.settle()

    def sync_disk(self, error: Exception | None = None) -> None:
        self.log.sync(error)
        self.settle()

    def ask(self, request: Coroutine[Any, Any, T]) -> Pending[T]:
        task = self.loop.create_task(request)
        self.pending = [old for old in self.pending if not old.done()]
        self.pending.append(task)
        self.settle()
        return Pending(task)

    def run(self, request: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(request)

    # -- requests with the fields that do not matter filled in

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"m"),),
        protocol_type: str = "consumer",
        session_s: float = 10,
        rebalance_s: float = 60,
        client: str = "c",
        requires_member_id: bool = True,
        can_skip_assignment: bool = True,
    ) -> Pending[Joined]:
        join = Join(
            group,
            member_id,
            instance,
            client,
            "/127.0.0.1",
            protocol_type,
            protocols,
            round(session_s * 1000),
            round(rebalance_s * 1000),
            None,
            requires_member_id,
            can_skip_assignment,
        )
        return self.ask(self.coordinator.join(join))

    def enter(self, **fields: Any) -> tuple[str, Pending[Joined]]:
        """A dynamic member's two JoinGroups (KIP-394)."""
        member_id = self.join(**fields).member_id
        return member_id, self.join(member_id, **fields)

    def sync(
        self,
        member_id: str,
        generation: int,
        *,
        group: str = "g",
        instance: str | None = None,
        assignments: Mapping[str, bytes] | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Pending[Synced]:
        given = tuple((assignments or {}).items())
        return self.ask(self.coordinator.sync(Sync(group, member_id, instance, generation, protocol_type, protocol, given)))

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> type[GroupError] | None:
        return refused(lambda: self.coordinator.heartbeat(group, member_id, instance, generation))

    def leave(self, *leavers: Leaver, group: str = "g") -> list[type[GroupError] | None]:
        answers = self.coordinator.leave(group, leavers)
        self.settle()
        return [None if answer is None else type(answer) for answer in answers]

    def commit(
        self, *offsets: NewOffset, group: str = "g", by: Committer | None = None, **options: Any
    ) -> Pending[list[GroupError | None]]:
        return self.ask(self.coordinator.commit_offsets(group, by or Committer(), offsets, **options))

    def committed(self, topic: str = "t", partition: int = 0, *, group: str = "g") -> int | None:
        (found,) = self.run(self.coordinator.fetch_offsets(group, [(topic, partition, None)]))
        return None if found is None else found.offset

    def state(self, group: str = "g") -> str:
        return self.coordinator.describe_classic(group).state

    def members(self, group: str = "g") -> list[str]:
        return [member.member_id for member in self.coordinator.describe_classic(group).members]

    def stable(self, count: int, **fields: Any) -> tuple[int, list[str]]:
        """A stable group of this many members; the generation, and the members with the leader first."""
        ids = [self.join(**fields).member_id for _ in range(count)]
        joins = [self.join(member_id, **fields) for member_id in ids]
        self.advance(0)
        if not all(join.done for join in joins):
            joins = [self.join(member_id, **fields) for member_id in ids]
            self.advance(0)
        generation = joins[0].result.generation
        leader = joins[0].result.leader
        assert leader is not None
        ids.sort(key=lambda member_id: member_id != leader)
        for member_id in reversed(ids):
            given = {one: one.encode() for one in ids} if member_id == leader else {}
            synced = self.sync(member_id, generation, assignments=given, **{k: fields[k] for k in fields if k == "group"})
        assert synced.result.assignment == leader.encode()
        return generation, ids


def refused(call: Callable[[], object]) -> type[GroupError] | None:
    """The error that a call raises."""
    try:
        call()
    except GroupError as error:
        return type(error)
    return None


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def world_with() -> Iterator[Callable[..., World]]:
    """Makes worlds with other settings: `world_with(group_max_size=2)`."""
    worlds: list[World] = []

    def make(**settings: int) -> World:
        worlds.append(World(FixedSettings(**settings)))
        return worlds[-1]

    yield make
    for made in worlds:
        made.close()
