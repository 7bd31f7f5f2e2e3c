"""Topic administration on a log in memory. What clients see of it is tested with the Kafka APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.settings import Settings
from headrace.broker.topic_errors import PolicyViolation, UnknownTopicId
from headrace.broker.topics import NewTopic, Topics, check_name
from headrace.log.errors import InvalidConfig, InvalidName, StorageError, TopicExists, UnknownTopic


class HeldLog:
    """A log whose topics are made when the test says so."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.may_go_on = asyncio.Event()
        self.fails: Exception | None = None
        self.creating = 0
        self.most_at_once = 0

    async def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> Any:
        self.creating += 1
        self.most_at_once = max(self.most_at_once, self.creating)
        await self.may_go_on.wait()
        self.creating -= 1
        if self.fails is not None:
            raise self.fails
        self.stored[name] = SimpleNamespace(
            name=name, topic_id=uuid4(), partitions=[None] * partitions, config=dict(config or {}), internal=False
        )
        return self.stored[name]

    async def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        await asyncio.sleep(0)
        self.stored[name].config = dict(config)

    def topics(self) -> Mapping[str, Any]:
        return self.stored

    def topic_by_id(self, topic_id: UUID) -> Any:
        return None


def topics_on(log: HeldLog, **settings: str) -> Topics:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return Topics(log, Settings.from_mapping(given))  # type: ignore[arg-type]


async def started(*work: Any) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(one) for one in work]
    await asyncio.sleep(0)
    return tasks


@given(st.text(alphabet="ab.-_ é/\n\0", max_size=6) | st.sampled_from(["a" * 249, "a" * 250]))
def test_a_name_is_as_kafka_allows_it(name: str) -> None:
    allowed = (
        0 < len(name) <= 249
        and name not in (".", "..")
        and all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name)
    )
    if allowed:
        check_name(name)
    else:
        with pytest.raises(InvalidName):
            check_name(name)


def test_a_name_that_ends_with_a_line_break_is_refused() -> None:
    with pytest.raises(InvalidName):
        check_name("name\n")


def test_new_topics_are_made_side_by_side() -> None:
    async def scenario() -> int:
        log = HeldLog()
        topics = topics_on(log)
        tasks = await started(*(topics.create(NewTopic(f"t{number}")) for number in range(50)))
        log.may_go_on.set()
        await asyncio.gather(*tasks)
        assert len(log.stored) == 50
        return log.most_at_once

    assert asyncio.run(scenario()) == 50


def test_a_name_is_taken_from_the_moment_somebody_asks_for_it() -> None:
    async def scenario() -> None:
        log = HeldLog()
        topics = topics_on(log)
        [first] = await started(topics.create(NewTopic("a.b")))
        with pytest.raises(TopicExists):
            await topics.create(NewTopic("a.b"))
        with pytest.raises(InvalidName, match=r"collides with existing topic: a\.b"):
            await topics.create(NewTopic("a_b"))
        log.may_go_on.set()
        await first

    asyncio.run(scenario())


def test_partitions_count_from_the_moment_somebody_asks_for_them() -> None:
    async def scenario() -> None:
        log = HeldLog()
        topics = topics_on(log, max_partitions="10")
        [first] = await started(topics.create(NewTopic("one", 8)))
        with pytest.raises(PolicyViolation):
            await topics.create(NewTopic("two", 3))
        log.may_go_on.set()
        await first
        with pytest.raises(PolicyViolation):
            await topics.create(NewTopic("two", 3))
        await topics.create(NewTopic("two", 2))

    asyncio.run(scenario())


def test_partitions_are_counted_again_when_there_seems_to_be_no_room_left() -> None:
    async def scenario() -> None:
        log = HeldLog()
        log.may_go_on.set()
        topics = topics_on(log, max_partitions="10")
        await topics.create(NewTopic("one", 6))
        await topics.create(NewTopic("two", 4))
        with pytest.raises(PolicyViolation, match="There are 10 partitions; 1 more"):
            await topics.create(NewTopic("three", 1))
        del log.stored["two"]
        await topics.create(NewTopic("three", 3))
        await topics.create(NewTopic("four", 1))
        with pytest.raises(PolicyViolation, match="There are 10 partitions; 1 more"):
            await topics.create(NewTopic("five", 1))

    asyncio.run(scenario())


def test_a_topic_that_could_not_be_made_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        log = HeldLog()
        log.may_go_on.set()
        topics = topics_on(log, max_partitions="10")
        log.fails = StorageError("no")
        with pytest.raises(StorageError):
            await topics.create(NewTopic("a.b", 10))
        log.fails = None
        await topics.create(NewTopic("a_b", 10))

    asyncio.run(scenario())


def test_who_asks_for_a_topic_that_is_being_made_waits_for_it() -> None:
    async def scenario() -> None:
        log = HeldLog()
        topics = topics_on(log)
        first, second = await started(topics.auto_create("new"), topics.auto_create("new"))
        log.may_go_on.set()
        assert (await first) is (await second)
        assert await topics.auto_create("new") is log.stored["new"]

    asyncio.run(scenario())


def test_who_waits_for_a_topic_that_is_not_made_after_all_is_told() -> None:
    async def scenario() -> None:
        log = HeldLog()
        log.fails = StorageError("no")
        topics = topics_on(log)
        first, second = await started(topics.auto_create("new"), topics.auto_create("new"))
        log.may_go_on.set()
        with pytest.raises(StorageError):
            await first
        with pytest.raises(UnknownTopic):
            await second

    asyncio.run(scenario())


def test_two_alterations_at_once_both_hold() -> None:
    async def scenario() -> None:
        log = HeldLog()
        log.may_go_on.set()
        topics = topics_on(log)
        await topics.create(NewTopic("one"))
        await asyncio.gather(
            topics.configure("one", lambda before: {**before, "retention.ms": "5"}),
            topics.configure("one", lambda before: {**before, "flush.ms": "6"}),
        )
        assert log.stored["one"].config == {"retention.ms": "5", "flush.ms": "6"}

    asyncio.run(scenario())


def test_settings_are_checked_against_those_of_the_server() -> None:
    async def scenario() -> None:
        log = HeldLog()
        log.may_go_on.set()
        topics = topics_on(log, log_cleaner_max_compaction_lag_ms="100")
        with pytest.raises(InvalidConfig, match="conflict topic config setting"):
            await topics.create(NewTopic("one", config={"min.compaction.lag.ms": "101"}))

    asyncio.run(scenario())


def test_the_servers_own_tables_are_not_there_for_clients() -> None:
    async def scenario() -> None:
        log = HeldLog()
        log.may_go_on.set()
        await log.create_topic("__headrace_topics")
        topics = topics_on(log)
        assert topics.get("__headrace_topics") is None
        assert list(topics.all()) == []
        with pytest.raises(UnknownTopic):
            await topics.delete("__headrace_topics")
        with pytest.raises(TopicExists):
            await topics.create(NewTopic("__headrace_topics"))
        with pytest.raises(UnknownTopicId):
            await topics.delete_by_id(UUID(int=7))

    asyncio.run(scenario())
