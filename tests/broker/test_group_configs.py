"""Settings of groups: where a value comes from, what is refused, who is told, and what survives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from headrace.broker.group_config_defs import GROUP_CONFIGS, duration_ms
from headrace.broker.group_configs import GroupConfigs
from headrace.broker.settings import Settings
from headrace.broker.stored_configs import StoredConfigs
from headrace.broker.topic_errors import InvalidRequest, PolicyViolation
from headrace.log.errors import InvalidConfig, RecoveryFailed

SESSION = "consumer.session.timeout.ms"


class MemoryLog:
    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    async def table(self, name: str, slot: int = 0) -> MemoryLog:
        return self

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        return self.rows.items()

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    async def synced(self) -> None:
        await asyncio.sleep(0)


async def started(log: MemoryLog, settings: Settings | None = None) -> GroupConfigs:
    configs = GroupConfigs(log, settings or Settings())  # type: ignore[arg-type]
    await configs.start()
    return configs


async def set_(configs: GroupConfigs, group_id: str, **texts: str) -> None:
    named = {name.replace("_", "."): text for name, text in texts.items()}
    await configs.configure(group_id, lambda before: {**before, **named})


def test_a_value_comes_from_the_group_then_the_server_then_the_default() -> None:
    async def scenario() -> None:
        configs = await started(MemoryLog(), Settings({"group.consumer.session.timeout.ms": "46000"}))
        assert configs.get("g", SESSION) == 46_000
        assert configs.get("g", "share.auto.offset.reset") == "latest"
        await set_(configs, "g", consumer_session_timeout_ms="50000")
        assert configs.get_int("g", SESSION) == 50_000
        assert configs.get_int("h", SESSION) == 46_000
        assert configs.get_bool("g", "share.renew.acknowledge.enable") is True
        await configs.configure("g", lambda before: {})
        assert configs.get("g", SESSION) == 46_000
        with pytest.raises(KeyError):
            configs.get("g", "nope")

    asyncio.run(scenario())


def test_what_is_beyond_the_servers_limits_is_moved_to_the_nearest_when_it_is_read() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        await set_(await started(log), "g", consumer_session_timeout_ms="60000")
        narrower = await started(log, Settings({"group.consumer.max.session.timeout.ms": "50000"}))
        assert narrower.get("g", SESSION) == 50_000
        assert narrower.overrides("g") == {SESSION: "60000"}

    asyncio.run(scenario())


def test_changes_are_told_and_survive() -> None:
    async def scenario() -> None:
        log, told = MemoryLog(), []
        settings = Settings()
        configs = await started(log, settings)
        configs.subscribe(told.append)
        await set_(configs, "g", share_delivery_count_limit="7", share_auto_offset_reset="by_duration:PT1H")
        with pytest.raises(InvalidConfig):
            await set_(configs, "g", nope="1")
        await configs.configure("g", lambda before: {}, validate_only=True)
        settings.set_dynamic({"group.consumer.assignment.interval.ms": "5"}, {})
        assert told == ["g", None]
        again = await started(log)
        assert again.get("g", "share.delivery.count.limit") == 7
        assert again.group_ids() == ["g"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("nope", "1", "Unknown group config name: nope"),
        (SESSION, "x", f"Invalid value x for configuration {SESSION}: Not a number of type INT"),
        (SESSION, "10", f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (SESSION, "60001", f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"),
        (
            "streams.num.standby.replicas",
            "3",
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            "consumer.assignment.interval.ms",
            "16000",
            "consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
        ("share.isolation.level", "READ", "String must be one of: read_committed, read_uncommitted"),
        ("share.auto.offset.reset", "by_duration:-PT1H", "The value must be either 'earliest', 'latest' or of the format"),
        ("share.auto.offset.reset", "by_duration:P", "The value must be either 'earliest', 'latest' or of the format"),
    ],
)
def test_a_wrong_value_is_refused_with_kafkas_words(name: str, text: str, why: str) -> None:
    async def scenario() -> None:
        configs = await started(MemoryLog())
        with pytest.raises(InvalidConfig) as refused:
            await configs.configure("g", lambda before: {name: text})
        assert why in str(refused.value)
        assert configs.group_ids() == []
        with pytest.raises(InvalidRequest, match="Default group resources are not allowed"):
            await configs.configure("", lambda before: {})

    asyncio.run(scenario())


def test_a_session_must_be_longer_than_a_heartbeat() -> None:
    async def scenario() -> None:
        settings = Settings({"group.consumer.min.session.timeout.ms": "5", "group.consumer.max.heartbeat.interval.ms": "60000"})
        configs = await started(MemoryLog(), settings)
        with pytest.raises(InvalidConfig, match=r"must be greater than consumer\.heartbeat"):
            await set_(configs, "g", consumer_session_timeout_ms="5000")

    asyncio.run(scenario())


def test_every_setting_has_a_default_that_it_would_accept() -> None:
    async def scenario() -> None:
        configs = await started(MemoryLog())
        await configs.configure("g", lambda before: {entry.name: entry.value or "" for entry in configs.entries("g")})
        assert configs.overrides("g").keys() == GROUP_CONFIGS.keys()

    asyncio.run(scenario())


@pytest.mark.parametrize(("text", "ms"), [("PT1H", 3_600_000), ("P1DT2H3M4.5S", 93_784_500), ("by_duration:PT0.25S", 250)])
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_names_and_bytes_are_bounded_and_a_row_that_cannot_be_read_stops_the_start() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        stored = StoredConfigs(log, "t", max_names=2, max_bytes=100)  # type: ignore[arg-type]
        await stored.start()
        stored.put("a", {"x": "1"})
        stored.put("b", {"x": "1"})
        with pytest.raises(PolicyViolation, match="No more than 2 names"):
            stored.put("c", {"x": "1"})
        with pytest.raises(PolicyViolation, match="100 bytes"):
            stored.put("a", {"x": "1" * 100})
        stored.put("a", {})
        stored.put("c", {"x": "2"})
        assert stored.names() == ["b", "c"]
        for row in (b"", b"[]", b"\xff"):
            log.rows[b"k"] = row
            with pytest.raises(RecoveryFailed):
                await stored.start()

    asyncio.run(scenario())
