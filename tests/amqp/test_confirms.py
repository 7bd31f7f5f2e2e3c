"""Confirms come in order, together where they can, and never before their sync."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from headrace.amqp.confirms import Confirms
from headrace.times import Times

Answers = list[tuple[int, bool, bool]]


class SlowLog:
    def __init__(self) -> None:
        self.waiting: list[Callable[[Exception | None], None]] = []

    def after_turn(self, synced: Callable[[Exception | None], None]) -> None:
        self.waiting.append(synced)

    def sync(self, error: Exception | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for synced in waiting:
            synced(error)


def confirms() -> tuple[Confirms, SlowLog, Answers]:
    log, answers = SlowLog(), cast(Answers, [])
    return Confirms(cast(Any, log), lambda *answer: answers.append(answer), Times()), log, answers


def test_what_is_not_durable_is_confirmed_with_its_receive_buffer() -> None:
    c, _, answers = confirms()
    c.published(3, durable=False)
    c.published(2, durable=False)
    assert answers == []
    c.settle()
    assert answers == [(5, True, True)]
    assert c.unconfirmed == 0


def test_one_message_is_confirmed_without_multiple() -> None:
    c, _, answers = confirms()
    c.published(1, durable=False)
    c.settle()
    assert answers == [(1, False, True)]


def test_durable_ones_wait_for_the_sync_and_others_for_them() -> None:
    c, log, answers = confirms()
    c.published(2, durable=True)
    c.settle()
    c.published(1, durable=False)
    c.settle()
    assert answers == []
    assert c.unconfirmed == 3
    log.sync()
    assert answers == [(3, True, True)]


def test_refused_messages_get_a_nack_in_their_place() -> None:
    c, _, answers = confirms()
    c.published(6, durable=False, refused=[1, 2, 4])
    c.settle()
    assert answers == [(1, False, True), (3, True, False), (4, False, True), (5, False, False), (6, False, True)]


def test_acks_before_a_refused_group_are_one() -> None:
    c, log, answers = confirms()
    c.published(2, durable=True)
    c.settle()
    c.published(2, durable=False)
    c.settle()
    c.published(2, durable=False, refused=range(2))
    c.settle()
    log.sync()
    assert answers == [(4, True, True), (6, True, False)]


def test_a_failed_sync_refuses_everything_that_waited_for_it() -> None:
    c, log, answers = confirms()
    c.published(4, durable=True)
    c.settle()
    log.sync(OSError("disk"))
    assert answers == [(4, True, False)]
