"""One day in the life of a log, with the power lost before each step of the disk in turn, and then before each step of the
recovery that follows. The same story each time, so what fails here fails again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.log.embedded import commit, journal, table
from headrace.log.port import Append


@dataclass
class Story:
    """What was written, and how much of it was promised before the power went off."""

    written: dict[str, list[bytes]] = field(default_factory=lambda: {"a": [], "b": [], "rows": []})
    promised: dict[str, int] = field(default_factory=lambda: {"a": 0, "b": 0, "rows": 0})
    trimmed: int = 0
    tried_to_trim: int = 0
    chapter: str = "topics"


def _live(rig: Any, story: Story) -> None:
    def promise(*names: str) -> None:
        rig.settle()
        for name in names:
            story.promised[name] = len(story.written[name])

    def write(topic: str, *sizes: int) -> None:
        for size in sizes:
            value = b"%s-%d-" % (topic.encode(), len(story.written[topic])) + bytes(size)
            story.written[topic].append(value)
            rig.append(value, topic=topic)

    def put(number: int) -> None:
        story.written["rows"].append(b"%d" % number)
        rig.call(lambda: rows.put({b"n": b"%d" % number, b"pad": bytes(40)}))

    story.chapter = "topics"
    rig.create("a", internal_segment_bytes="900", index_interval_bytes="100")
    rig.create("b")
    rig.create("gone")
    rows = rig.run(rig.log.table("rows"))
    [lease] = rig.leases()
    story.chapter = "small and large writes"
    write("a", 10, 200)
    write("b", 10)
    promise("a", "b")
    write("a", 800, 700)  # large: synced where it is, in two segments
    promise("a", "b")
    put(1)
    rig.append(b"x", topic="gone")
    promise("rows")
    story.chapter = "a checkpoint"
    rig.checkpoint()
    write("a", 20, 20)
    promise("a")
    story.chapter = "a commit"
    story.written["rows"].append(b"2")
    story.written["a"].append(b"together")
    story.written["b"].append(b"together")
    appends = [Append("a", 0, rig.batch(b"together")), Append("b", 0, rig.batch(b"together"))]
    rig.run(lease.commit({b"n": b"2"}, appends))
    promise("a", "b", "rows")
    story.chapter = "a trim"
    story.tried_to_trim = 4
    rig.run(rig.partition("a").trim(4))
    story.trimmed = 4
    write("a", 300)
    write("b", 5)
    promise("a", "b")
    story.chapter = "a deleted topic"
    rig.run(rig.log.delete_topic("gone"))
    rig.checkpoint()
    story.chapter = "a table that is written anew"
    for number in range(3, 16):
        put(number)
        promise("rows")
    story.chapter = "a clean end and another day"
    rig.restart()
    rows = rig.run(rig.log.table("rows"))
    write("a", 10)
    put(16)
    promise("a", "rows")
    story.chapter = "the end"


def _check(rig: Any, story: Story) -> None:
    topics = rig.log.topics()
    if story.chapter not in ("topics", "a deleted topic"):
        assert {"a", "b"} <= set(topics)
        before_deletion = ("small and large writes", "a checkpoint", "a commit", "a trim")
        assert ("gone" in topics) == (story.chapter in before_deletion)
    for name in ("a", "b"):
        if name not in topics:
            assert not story.promised[name]
            continue
        partition = rig.partition(name)
        assert partition.broken == ""
        if name == "a":
            assert story.trimmed <= partition.start_offset <= story.tried_to_trim
        values = story.written[name][partition.start_offset : partition.end_offset]
        assert rig.values(name) == values
        assert partition.end_offset >= story.promised[name]
    row = rig.run(rig.log.table("rows")).get(b"n")
    assert (int(row) if row else 0) >= story.promised["rows"]
    together = [b"together" in story.written[name][: rig.partition(name).end_offset] for name in ("a", "b") if name in topics]
    assert len({*together, bool(row) and int(row) >= 2}) == 1, "a commit is whole or nothing"
    if "a" in topics:
        end = rig.partition("a").end_offset
        assert rig.write(b"goes on", topic="a") == end


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "_DIRECT_BYTES", 1200)
    monkeypatch.setattr(journal, "_STEP_BYTES", 8192)
    monkeypatch.setattr(table, "_REWRITE_FROM_BYTES", 700)
    monkeypatch.setattr(table, "_REWRITE_STEP_BYTES", 100)


def _steps(rig: Any) -> int:
    count = [0]

    def step() -> None:
        count[0] += 1

    rig.disk.on_step = step
    rig.open()
    _live(rig, Story())
    return count[0]


@pytest.mark.parametrize("seed", range(3))
def test_the_power_may_go_off_before_any_step(rigs: Any, crash_class: Any, seed: int) -> None:
    steps = _steps(rigs())
    assert steps > 100
    for step in range(steps):
        rig, story = rigs(), Story()
        rig.crash_at(step)
        try:
            rig.open()
            _live(rig, story)
        except crash_class:
            pass
        rig.crash(seed * 1000 + step)
        rig.open()
        _check(rig, story)
        rig.end()


@pytest.mark.timeout(3600)  # for the soak
@pytest.mark.parametrize("seed", range(2))
def test_and_again_before_any_step_of_the_recovery(rigs: Any, crash_class: Any, soak: bool, seed: int) -> None:
    steps = _steps(rigs())
    for step in range(seed, steps, 1 if soak else 29):
        again = 0
        while True:
            rig, story = rigs(), Story()
            rig.crash_at(step)
            try:
                rig.open()
                _live(rig, story)
            except crash_class:
                pass
            rig.crash(seed * 1000 + step)
            rig.crash_at(again)
            recovered = True
            try:
                rig.open()
            except crash_class:
                recovered = False
                rig.crash(again)
                rig.open()
            rig.disk.on_step = None
            _check(rig, story)
            rig.end()
            if recovered:
                break
            again += 1
