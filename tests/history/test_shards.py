"""The checker of resharded streams finds each fault that it names, and none in a history without one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.history.shards import HASH_KEYS, Got, Put, ShardSeen, problems, uncovered

HALF = HASH_KEYS // 2
PARENT = ShardSeen("p", 0, HASH_KEYS - 1, (), 1, 20)
LEFT = ShardSeen("l", 0, HALF - 1, ("p",), 100, None)
RIGHT = ShardSeen("r", HALF, HASH_KEYS - 1, ("p",), 101, None)
SHARDS = [PARENT, LEFT, RIGHT]
PUTS = [
    Put("a", "a 0", "p", 10),
    Put("b", "b 0", "p", 11),
    Put("a", "a 1 lost"),
    Put("a", "a 1", "l", 110),
    Put("b", "b 1", "r", 111),
]
READ = [
    Got("p", 10, "a", "a 0"),
    Got("p", 11, "b", "b 0"),
    Got("l", 109, "a", "a 1 lost"),
    Got("l", 110, "a", "a 1"),
    Got("r", 111, "b", "b 1"),
]


def kinds(puts: list[Put], read: list[Got], shards: list[ShardSeen] = SHARDS) -> set[str]:
    return {problem.kind for problem in problems(puts, {"reader": read}, shards)}


def test_a_sound_history_has_no_problem():
    assert problems(PUTS, {"one": READ, "two": [*READ[:2], READ[4], *READ[2:4]]}, SHARDS) == []


def test_a_lost_attempt_need_not_be_there():
    assert kinds(PUTS, [*READ[:2], *READ[3:]]) == set()


@pytest.mark.parametrize("missing", [0, 1, 3, 4])
def test_an_acknowledged_record_that_is_not_read_is_lost(missing):
    assert kinds(PUTS, [got for number, got in enumerate(READ) if number != missing]) == {"lost write"}


def test_a_record_read_twice_in_one_place_is_a_duplicate_and_a_way_back():
    assert kinds(PUTS, [*READ, READ[4]]) == {"duplicate", "divergence"}


def test_a_record_read_in_two_places_is_a_duplicate():
    assert "duplicate" in kinds(PUTS, [*READ, Got("r", 112, "b", "b 1")])


def test_what_nobody_wrote_is_foreign():
    assert kinds(PUTS, [*READ, Got("r", 112, "c", "c 0")]) == {"foreign read"}


def test_another_key_is_foreign():
    assert kinds(PUTS, [*READ[:4], replace(READ[4], key="a ")]) == {"foreign read"}


def test_a_key_read_in_another_order_than_it_was_written_is_disorder():
    assert "disorder" in kinds(PUTS, [READ[2], READ[0], READ[1], READ[3], READ[4]])


def test_another_sequence_number_than_the_answer_gave_is_divergence():
    assert kinds(PUTS, [*READ[:4], replace(READ[4], sequence=112)]) == {"divergence"}


def test_two_records_at_one_sequence_number_are_divergence():
    assert "divergence" in kinds(PUTS, [*READ[:2], replace(READ[2], sequence=110), *READ[3:]])


def test_readers_that_disagree_about_a_lost_attempt_are_divergence():
    found = problems(PUTS, {"one": READ, "two": [*READ[:2], *READ[3:]]}, SHARDS)
    assert [problem.kind for problem in found] == ["divergence"]


def test_a_record_behind_the_end_of_its_closed_shard_is_found():
    assert kinds(PUTS, READ, [replace(PARENT, ending=10), LEFT, RIGHT]) == {"beyond the end"}


def test_a_record_of_a_child_before_the_end_of_its_parent_is_found():
    assert kinds(PUTS, READ, [replace(PARENT, ending=109), LEFT, RIGHT]) == {"beyond the end"}


def test_a_record_of_a_shard_that_no_list_has_shown_is_found():
    assert "beyond the end" in kinds(PUTS, READ, [PARENT, LEFT])


@pytest.mark.parametrize(
    "shards",
    [
        [],
        [PARENT],
        [PARENT, LEFT],
        [PARENT, RIGHT],
        [LEFT, replace(RIGHT, first_hash=HALF + 1)],
        [LEFT, replace(RIGHT, first_hash=HALF - 1)],
        [LEFT, replace(RIGHT, last_hash=HASH_KEYS - 2)],
        [replace(LEFT, first_hash=1), RIGHT],
        [LEFT, LEFT, RIGHT],
        [replace(PARENT, ending=None), LEFT, RIGHT],
    ],
)
def test_open_shards_that_do_not_take_every_hash_key_once_are_found(shards):
    assert {problem.kind for problem in uncovered(shards)} == {"uncovered hash keys"}


def test_open_shards_that_take_every_hash_key_once_are_sound():
    assert uncovered(SHARDS) == []
