"""The audit trail by itself: who is noted, what is left out, and what happens while the log takes no writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.audit import AT_ONCE, MAX_WAITING, REFUSED_PER_S, TOPIC, About, Actor, Audit, act, acting, audited, note
from headrace.broker.settings import Settings
from headrace.log.errors import StorageError
from headrace.record import decode_batch
from headrace.testing.clock import SimulatedClock

ANNA = Actor("anna", "http", "127.0.0.1:1", "curl")


class Partition:
    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.sealed = ""
        self.refusal: Exception | None = None

    def append(self, batch: bytearray) -> int:
        assert not self.sealed, "only the trail itself opens it"
        if self.refusal is not None:
            raise self.refusal
        self.batches.append(bytes(batch))
        return 0

    def seal(self, reason: str) -> None:
        self.sealed = reason

    def unseal(self) -> None:
        self.sealed = ""


class Topic:
    def __init__(self) -> None:
        self.partitions = [Partition()]


class Topics:
    def __init__(self) -> None:
        self.made: list[Any] = []
        self.topic: Topic | None = None

    def get(self, name: str) -> Topic | None:
        assert name == TOPIC
        return self.topic

    def define(self, new: Any) -> Topic:
        self.made.append(new)
        self.topic = Topic()
        return self.topic


class Trail:
    def __init__(self, **settings: str) -> None:
        self.topics = Topics()
        self.clock = SimulatedClock()
        given = {"headrace.audit.enable": "true", **settings}
        self.audit = Audit(self.clock, Settings.from_mapping(given), self.topics)  # type: ignore[arg-type]

    @property
    def entries(self) -> list[dict[str, Any]]:
        topic = self.topics.topic
        written = [] if topic is None else topic.partitions[0].batches
        return [json.loads(record.value or b"") for batch in written for record in decode_batch(batch)]


def told(name: str, **_: object) -> About | None:
    return About(name) if name else None


@audited("thing.make", told)
async def make(name: str) -> str:
    await asyncio.sleep(0)
    rename(name)
    if name == "bad":
        raise ValueError("not this one")
    return name


@audited("thing.rename", told, bool)
def rename(name: str) -> bool:
    return name != "same"


def in_loop(work: Callable[[Trail], Any], trail: Trail | None = None) -> Trail:
    found = trail or Trail()

    async def run() -> None:
        await work(found)
        await asyncio.sleep(0)

    asyncio.run(run())
    return found


def test_what_somebody_does_is_noted_once_with_what_came_of_it() -> None:
    async def work(trail: Trail) -> None:
        with acting(trail.audit, ANNA):
            assert await make("a") == "a"
            with pytest.raises(ValueError, match="not this one"):
                await make("bad")
            assert rename("same") is False
            rename("other")
            await make("")
            note("thing.paint", "a", colour="red")
        await make("the server's own")

    trail = in_loop(work)
    assert [(each["action"], each["subject"], each["result"], each.get("reason")) for each in trail.entries] == [
        ("thing.make", "a", "ok", None),
        ("thing.make", "bad", "refused", "not this one"),
        ("thing.rename", "other", "ok", None),
        ("thing.paint", "a", "ok", None),
    ]
    first = trail.entries[0]
    assert (first["user"], first["protocol"], first["peer"], first["client"]) == ("anna", "http", "127.0.0.1:1", "curl")
    assert trail.entries[3]["details"] == {"colour": "red"}
    (new,) = trail.topics.made
    assert (new.name, new.partitions, new.config["retention.bytes"]) == (TOPIC, 1, "268435456")
    assert trail.topics.topic is not None
    assert trail.topics.topic.partitions[0].sealed


def test_tasks_belong_to_whom_they_were_begun_for_and_requests_do_not_mix() -> None:
    async def request(trail: Trail, user: str) -> None:
        act(trail.audit, Actor(user, "http", ""))
        await asyncio.create_task(make(f"of {user}"))

    async def work(trail: Trail) -> None:
        await asyncio.gather(*(asyncio.create_task(request(trail, user)) for user in ("anna", "bert")))

    assert sorted((each["user"], each["subject"]) for each in in_loop(work).entries) == [
        ("anna", "of anna"),
        ("bert", "of bert"),
    ]


def test_entries_of_one_turn_are_one_batch_and_many_are_several() -> None:
    async def work(trail: Trail) -> None:
        with acting(trail.audit, ANNA):
            for number in range(AT_ONCE + 1):
                rename(f"t{number}")

    trail = in_loop(work)
    assert trail.topics.topic is not None
    assert len(trail.topics.topic.partitions[0].batches) == 2
    assert len(trail.entries) == AT_ONCE + 1


def test_while_the_log_takes_no_writes_entries_wait_and_then_are_counted() -> None:
    async def work(trail: Trail) -> None:
        topic = trail.topics.define(None)
        topic.partitions[0].refusal = StorageError("the disk is full")
        with acting(trail.audit, ANNA):
            for number in range(MAX_WAITING + 5):
                rename(f"t{number}")
            await asyncio.sleep(0)
            assert trail.entries == []
            topic.partitions[0].refusal = None
            trail.audit.flush()
            assert len(trail.entries) == MAX_WAITING
            rename("last")

    assert in_loop(work).entries[-1]["left_out"] == 5


def test_a_flood_of_refusals_is_counted() -> None:
    async def work(trail: Trail) -> None:
        with acting(trail.audit, ANNA):
            for _ in range(REFUSED_PER_S + 7):
                note("thing.make", "x", ValueError("no"))
            rename("good")
            trail.clock.advance(1.0)
            note("thing.make", "x", ValueError("no"))

    found = in_loop(work).entries
    assert len(found) == REFUSED_PER_S + 2
    assert found[REFUSED_PER_S]["left_out"] == 7


def test_long_details_are_left_out_and_long_names_cut() -> None:
    async def work(trail: Trail) -> None:
        with acting(trail.audit, ANNA):
            note("thing.make", "n" * 5000, config={"x": "y" * 10_000})

    (found,) = in_loop(work).entries
    assert found["subject"] == "n" * 300
    assert "details" not in found


def test_it_can_be_off() -> None:
    async def work(trail: Trail) -> None:
        with acting(trail.audit, ANNA):
            await make("a")
            note("thing.paint", "a")

    trail = in_loop(work, Trail(**{"headrace.audit.enable": "false"}))
    assert trail.topics.made == []
