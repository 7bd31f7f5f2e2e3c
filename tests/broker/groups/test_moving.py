"""Moving a group from outside: one step of the table for all partitions, or nothing."""

from __future__ import annotations

import asyncio

from headrace.broker.groups import Committer, Leaver, NewOffset
from headrace.broker.groups.errors import GroupNotEmpty, InvalidGroupId, OffsetMetadataTooLarge, StorageFailed
from headrace.broker.groups.store import TABLE


def move(world, *offsets, forgotten=(), group="g"):
    return world.ask(world.coordinator.move_offsets(group, offsets, forgotten))


def positions(world, group="g"):
    found = world.run(world.coordinator.fetch_all_offsets(group))
    return {(topic, index): each.offset for topic, by_index in found.items() for index, each in by_index.items()}


def counted_puts(world):
    """How many rows each step of the table had."""
    puts, table = [], world.log.tables[TABLE]
    real = table.put
    table.put = lambda rows: (real(rows), puts.append(len(rows)))
    return puts


def test_all_partitions_of_all_topics_are_one_step(world):
    world.commit(NewOffset("a", 0, 5), NewOffset("a", 1, 5), NewOffset("b", 0, 5, metadata="note"))
    puts = counted_puts(world)
    assert move(world, NewOffset("a", 0, 1), NewOffset("b", 0, 2), NewOffset("c", 7, 3), forgotten=[("a", 1)]).error is None
    assert puts == [4]
    assert positions(world) == {("a", 0): 1, ("b", 0): 2, ("c", 7): 3}
    world.restart()
    assert positions(world) == {("a", 0): 1, ("b", 0): 2, ("c", 7): 3}


def test_many_partitions_are_one_step_too(world):
    puts = counted_puts(world)
    assert move(world, *[NewOffset("a", index, 1) for index in range(1234)]).error is None
    assert puts == [1234]


def test_a_position_that_was_committed_meanwhile_is_not_overwritten(world):
    world.commit(NewOffset("a", 0, 5), NewOffset("b", 0, 5))
    seen = {("a", 0): world.coordinator.positions("g")["a"][0], ("b", 0): None}
    new = [NewOffset("a", 0, 1), NewOffset("b", 0, 1)]
    assert world.run(world.coordinator.move_offsets("g", new, held=seen)) is False
    seen["b", 0] = world.coordinator.positions("g")["b"][0]
    moving = world.ask(world.coordinator.move_offsets("g", new, held=seen))
    assert moving.result is True
    world.commit(NewOffset("a", 0, 1))  # the same offset, and another commit
    assert world.run(world.coordinator.move_offsets("g", [NewOffset("b", 0, 0)], held=seen)) is False
    assert positions(world) == {("a", 0): 1, ("b", 0): 1}


def test_who_joins_while_it_is_made_ready_keeps_the_group(world):
    world.commit(NewOffset("a", 0, 5))
    task = world.loop.create_task(world.coordinator.move_offsets("g", [NewOffset("a", index, 1) for index in range(3000)]))
    world.loop.run_until_complete(asyncio.sleep(0))
    world.join()  # it has an id now, and is about to come
    assert isinstance(task.exception(), GroupNotEmpty)
    assert positions(world) == {("a", 0): 5}


def test_it_is_answered_when_it_is_durable(world):
    world.log.holds_sync = True
    moved = move(world, NewOffset("a", 0, 1))
    assert not moved.done
    world.sync_disk()
    assert moved.error is None


def test_what_can_not_be_written_moves_nothing(world):
    world.commit(NewOffset("a", 0, 5), NewOffset("b", 0, 5))
    world.log.refuses_writes = True
    assert move(world, NewOffset("a", 0, 1), NewOffset("b", 0, 1)).error is StorageFailed
    assert move(world, NewOffset("a", 0, 1), group="new").error is StorageFailed
    assert world.coordinator.find("new") is None
    world.log.refuses_writes = False
    assert positions(world) == {("a", 0): 5, ("b", 0): 5}


def test_one_note_that_is_too_long_moves_nothing(world):
    world.commit(NewOffset("a", 0, 5))
    assert move(world, NewOffset("a", 0, 1), NewOffset("b", 0, 1, metadata="x" * 4097)).error is OffsetMetadataTooLarge
    assert positions(world) == {("a", 0): 5}


def test_a_group_with_members_is_not_moved(world):
    generation, (leader,) = world.stable(1)
    world.commit(NewOffset("a", 0, 5), by=Committer(leader, None, generation))
    assert move(world, NewOffset("a", 0, 1)).error is GroupNotEmpty
    assert positions(world) == {("a", 0): 5}
    world.leave(Leaver(leader))
    assert move(world, NewOffset("a", 0, 1)).error is None
    assert positions(world) == {("a", 0): 1}


def test_a_group_is_made_for_positions_and_not_for_taking_some_away(world):
    assert move(world, forgotten=[("a", 0)]).error is None
    assert world.coordinator.find("g") is None
    assert move(world, NewOffset("a", 0, 1)).error is None
    assert world.state() == "Empty"
    assert move(world, NewOffset("a", 0, 1), group="").error is InvalidGroupId
