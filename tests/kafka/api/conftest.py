"""A broker on a log in memory: APIs are called as functions, without sockets, disks or waiting."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from headrace.broker.client_metrics import ClientMetrics
from headrace.broker.group_configs import GroupConfigs
from headrace.broker.quotas import ClientQuotas
from headrace.broker.settings import Settings
from headrace.broker.telemetry import Telemetry
from headrace.broker.topics import Topics
from headrace.kafka.api import handler
from headrace.kafka.call import Call
from headrace.kafka.codec.schema import Request, Response, decode, encode
from headrace.kafka.messages import request_class, response_class
from headrace.log.errors import TopicExists, UnknownTopic
from headrace.log.port import StorageInfo
from headrace.log.topic_config import TOPIC_CONFIGS
from headrace.testing.clock import SimulatedClock


class MemoryPartition:
    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.start_offset = 0
        self.high_watermark = 0
        self.leader_epoch = 0
        self.size_bytes = 0
        self.archived_bytes = 0
        self.dirty_bytes = 0

    @property
    def end_offset(self) -> int:
        return self.high_watermark

    async def trim(self, before: int) -> int:
        self.start_offset = max(self.start_offset, before)
        return self.start_offset


class MemoryTopic:
    def __init__(self, name: str, partitions: int, config: Mapping[str, str], internal: bool) -> None:
        self.name = name
        self.topic_id = uuid4()
        self.config = dict(config)
        self.partitions = [MemoryPartition(name, index) for index in range(partitions)]
        self.internal = internal


class MemoryTable:
    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        return list(self.rows.items())

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


class MemoryLog:
    """What topic administration asks of a log. `refuses` is raised instead of any change."""

    def __init__(self) -> None:
        self._topics: dict[str, MemoryTopic] = {}
        self._tables: dict[str, MemoryTable] = {}
        self.refuses: Exception | None = None

    def add(self, name: str, partitions: int = 1, *, internal: bool = False, **config: str) -> MemoryTopic:
        spelled = {name.replace(".", "_"): name for name in TOPIC_CONFIGS}
        topic = MemoryTopic(name, partitions, {spelled[key]: text for key, text in config.items()}, internal)
        self._topics[name] = topic
        return topic

    async def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> MemoryTopic:
        await self._change()
        if name in self._topics:
            raise TopicExists(name)
        self._topics[name] = MemoryTopic(name, partitions, config or {}, internal=False)
        return self._topics[name]

    async def add_partitions(self, name: str, total: int) -> None:
        await self._change()
        partitions = self._topics[name].partitions
        partitions.extend(MemoryPartition(name, index) for index in range(len(partitions), total))

    async def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        await self._change()
        self._topics[name].config = dict(config)

    async def delete_topic(self, name: str) -> None:
        await self._change()
        if name not in self._topics:
            raise UnknownTopic(name)
        del self._topics[name]

    async def _change(self) -> None:
        await asyncio.sleep(0)  # as a real log does: other work may come in between
        if self.refuses is not None:
            raise self.refuses

    def topics(self) -> Mapping[str, MemoryTopic]:
        return self._topics

    def topic_by_id(self, topic_id: UUID) -> MemoryTopic | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def partition(self, topic: str, index: int) -> MemoryPartition | None:
        found = self._topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None

    async def table(self, name: str, slot: int = 0) -> MemoryTable:
        return self._tables.setdefault(name, MemoryTable())

    async def synced(self) -> None:
        await self._change()

    def storage(self) -> StorageInfo:
        return StorageInfo("/data", 1000, 400)


class Api:
    """Calls APIs the way a connection does: request and response go through their bytes in the version that is asked."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.configure({})

    def configure(self, settings: Mapping[str, str]) -> None:
        """A server started with these settings on the same log."""
        self.settings = Settings.from_mapping(settings)
        self.topics = Topics(self.log, self.settings)  # type: ignore[arg-type]
        self.clock = SimulatedClock()
        self.group_configs = GroupConfigs(self.log, self.settings)  # type: ignore[arg-type]
        self.client_metrics = ClientMetrics(self.log)  # type: ignore[arg-type]
        self.quotas = ClientQuotas(self.log, self.clock, self.settings)  # type: ignore[arg-type]
        self.broker = SimpleNamespace(
            node_id=0,
            cluster_id="4L6g3nShT-eMCtK--X86sw",
            log=self.log,
            settings=self.settings,
            topics=self.topics,
            clock=SimpleNamespace(now_ms=lambda: 1_700_000_000_000),
            group_configs=self.group_configs,
            client_metrics=self.client_metrics,
            telemetry=Telemetry(self.client_metrics, self.clock, self.settings.get_int("telemetry.max.bytes")),
            quotas=self.quotas,
        )
        for part in (self.topics, self.group_configs, self.client_metrics, self.quotas):
            asyncio.run(part.start())

    def __call__(self, request: Request, version: int | None = None) -> Any:
        return asyncio.run(self.call(request, version))

    async def call(self, request: Request, version: int | None = None) -> Any:
        key = request.api_key
        version = request.versions[1] if version is None else version
        received = decode(request_class(key), version, bytes(encode(request, version)))
        call = Call(self.broker, version, "test", "/127.0.0.1", "broker.example", 9092)  # type: ignore[arg-type]
        answer = handler(key)(call, received)
        if inspect.isawaitable(answer):
            answer = await answer
        body = bytes(encode(answer, version)) if isinstance(answer, Response) else answer
        return decode(response_class(key), version, body)


@pytest.fixture
def api() -> Api:
    return Api()
