"""Each fault that the checker promises to find is planted in a sound history, and found; the sound one has none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.history.history import Asked, Ended, Event, Reached, Read, Wrote, problems

PLACE = ("topic", 0)
OTHER = ("topic", 1)


def sound() -> list[Event]:
    """Three transactions, the second aborted and tried again as the third; a write without one; two readers."""
    history: list[Event] = [
        Wrote(1, PLACE, 0, "a", "t1"),
        Wrote(2, OTHER, 0, "b", "t1"),
        Asked(3, "t1", commit=True),
        Ended(4, "t1", commit=True),
        Wrote(5, PLACE, 2, "c", "t2"),
        Asked(6, "t2", commit=False),
        Ended(7, "t2", commit=False),
        Wrote(8, PLACE, 4, "c", "t3"),
        Wrote(9, OTHER, 2, "d", "t3"),
        Asked(10, "t3", commit=True),
        Ended(11, "t3", commit=True),
        Wrote(12, PLACE, 6, "plain"),
    ]
    for reader in ("one", "two"):
        history += [
            Read(20, reader, PLACE, 0, "a", "t1"),
            Read(21, reader, OTHER, 0, "b", "t1"),
            Read(22, reader, PLACE, 4, "c", "t3"),
            Read(23, reader, OTHER, 2, "d", "t3"),
            Read(24, reader, PLACE, 6, "plain"),
            Reached(30, reader, PLACE, 7),
            Reached(31, reader, OTHER, 3),
        ]
    return history


def kinds(history: list[Event]) -> set[str]:
    return {problem.kind for problem in problems(history)}


def without(history: list[Event], *gone: Event) -> list[Event]:
    assert all(event in history for event in gone)
    return [event for event in history if event not in gone]


def test_a_sound_history_has_no_problems():
    assert problems(sound()) == []


def test_a_lost_write_is_found():
    assert kinds(without(sound(), Read(24, "one", PLACE, 6, "plain"))) == {"lost write"}


def test_what_nobody_read_up_to_is_not_lost():
    history = without(sound(), Read(24, "one", PLACE, 6, "plain"), Reached(30, "one", PLACE, 7))
    assert problems([*history, Reached(30, "one", PLACE, 6)]) == []


def test_a_write_of_unknown_outcome_is_not_lost():
    history = [event for event in sound() if event != Ended(11, "t3", commit=True)]
    unseen = [event for event in history if not (isinstance(event, Read) and event.transaction == "t3")]
    assert problems(history) == []
    assert problems(unseen) == []


def test_an_aborted_read_is_found():
    assert kinds([*sound(), Read(21.5, "one", PLACE, 2, "x", "t2")]) >= {"aborted read"}


def test_a_reader_of_everything_may_see_what_was_aborted():
    reads = [replace(event, committed_only=False) if isinstance(event, Read) else event for event in sound()]
    assert problems([*reads, Read(21.5, "one", PLACE, 2, "c", "t2", committed_only=False)]) == []


def test_a_dirty_read_is_found():
    read = Read(20, "one", PLACE, 0, "a", "t1")
    assert kinds([*without(sound(), read), replace(read, time=2.5)]) == {"dirty read"}


def test_a_read_of_a_transaction_that_nobody_asked_to_commit_is_found():
    history = without(sound(), Asked(10, "t3", commit=True), Ended(11, "t3", commit=True))
    assert "dirty read" in kinds(history)


def test_a_read_while_the_commit_is_under_way_is_right():
    read = Read(20, "one", PLACE, 0, "a", "t1")
    assert problems([*without(sound(), read), replace(read, time=3.5)]) == []


def test_a_torn_transaction_is_found_also_when_its_outcome_is_unknown():
    history = without(sound(), Ended(11, "t3", commit=True), Read(23, "one", OTHER, 2, "d", "t3"))
    assert kinds(history) == {"torn transaction"}


def test_a_duplicate_is_found():
    assert kinds([*sound(), Read(25, "one", PLACE, 7, "plain")]) >= {"duplicate"}


@pytest.mark.parametrize(
    "planted",
    [
        Read(25, "two", PLACE, 6, "other"),  # not what was acknowledged there
        Read(25, "three", PLACE, 5, "plain"),  # not where it was acknowledged
        Read(25, "one", PLACE, 4, "c", "t3"),  # the reader goes back
    ],
)
def test_offset_divergence_is_found(planted):
    assert "offset divergence" in kinds([*sound(), planted])


def test_two_readers_who_disagree_are_found():
    history = [event for event in sound() if not isinstance(event, Wrote)]
    reads = [replace(event, value="z") if event == Read(24, "two", PLACE, 6, "plain") else event for event in history]
    assert kinds(reads) == {"offset divergence"}
