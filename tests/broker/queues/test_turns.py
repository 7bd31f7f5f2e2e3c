"""A turn of the event loop for queues: deliveries first, then whoever waits for the disk; and nobody is told a lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from headrace.broker.queues.turns import Turns
from headrace.log.errors import DiskFull, LogError
from headrace.testing.clock import SimulatedClock

Synced = Callable[[Exception | None], None]


class Story:
    """A log, a queue and a connection that tell what happens to them, in order."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.trouble: LogError | None = None
        self.clock = SimulatedClock()
        self.turns = Turns(self.clock, cast(Any, self))

    def after_sync(self, synced: Synced, *, now: bool) -> None:
        self.told.append("sync now" if now else "sync")
        synced(None)

    def append_gathered(self) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.told.append("append")

    def pump(self) -> None:
        self.told.append("hand out")
        self.turns.flush_later(self)

    def flush(self) -> None:
        self.told.append("send")

    def publish(self) -> None:
        self.turns.gathers(self)
        self.turns.wake(self)


def test_deliveries_are_sent_before_the_disk_is_asked_for_the_confirm() -> None:
    story = Story()
    story.publish()
    story.turns.after_turn(lambda error: story.told.append(error))
    story.clock.advance(0)
    assert story.told == ["append", "hand out", "send", "sync now", None]


def test_what_nobody_waits_for_is_done_last_and_its_failure_stops_nobody() -> None:
    story = Story()
    story.turns.at_end(lambda: story.told.append(1 // 0))
    story.turns.at_end(lambda: story.told.append("the rest"))
    story.publish()
    story.turns.after_turn(lambda error: story.told.append(error))
    story.clock.advance(0)
    assert story.told == ["append", "hand out", "send", "sync now", None, "the rest"]
    story.turns.at_end(lambda: story.told.append("later"))
    story.clock.advance(0)
    assert story.told[-1] == "later"


def test_whoever_asks_at_once_has_everything_appended_at_once() -> None:
    story = Story()
    story.publish()
    story.turns.after_sync(lambda error: story.told.append(error))
    assert story.told == ["append", "sync", None]


def test_what_is_not_in_the_log_is_durable_for_nobody_who_asks_in_the_same_turn() -> None:
    story = Story()
    story.trouble = full = DiskFull("no space left")
    story.publish()
    story.turns.after_turn(lambda error: story.told.append(("later", error)))
    story.turns.after_sync(lambda error: story.told.append(("now", error)))
    story.clock.advance(0)
    assert ("now", full) in story.told
    assert ("later", full) in story.told
    assert not {"sync", "sync now"} & set(map(str, story.told))


def test_nor_if_the_queue_itself_was_asked_to_append() -> None:
    story = Story()
    story.trouble = full = DiskFull("no space left")
    story.publish()
    story.turns.take_in(story)
    story.turns.after_sync(lambda error: story.told.append(error))
    assert story.told == [full]


def test_the_next_turn_knows_nothing_of_it() -> None:
    story = Story()
    story.trouble = DiskFull("no space left")
    story.publish()
    story.clock.advance(0)
    story.trouble = None
    story.told.clear()
    story.publish()
    story.turns.after_turn(lambda error: story.told.append(error))
    story.clock.advance(0)
    assert story.told == ["append", "hand out", "send", "sync now", None]


def test_one_callback_that_fails_does_not_end_the_turns() -> None:
    story = Story()

    def fails(error: Exception | None) -> None:
        raise RuntimeError("planted")

    story.turns.after_turn(fails)
    story.turns.after_turn(lambda error: story.told.append(error))
    story.clock.advance(0)
    story.publish()
    story.clock.advance(0)
    assert story.told == ["sync now", "sync now", None, "append", "hand out", "send"]
