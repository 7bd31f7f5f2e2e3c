"""What consumers get from a queue, in which order, and what is left after a crash."""

from __future__ import annotations

import pytest
from tests.broker.queues.conftest import Desk
from tests.log.conftest import Rig

from headrace.broker.queues.run import Run
from headrace.record.amqp.message import Message
from headrace.record.amqp.properties import NO_PROPERTIES

DURABLE_OR_NOT = pytest.mark.parametrize("durable", [True, False])


@DURABLE_OR_NOT
def test_messages_come_in_order_and_are_gone_once_acknowledged(desk: Desk, durable: bool) -> None:
    queue = desk.queue(durable=durable)
    desk.publish(queue, b"a", b"b")
    desk.publish(queue, b"c")
    reader = desk.consume(queue)
    desk.settle()
    assert reader.got == [(b"a", False), (b"b", False), (b"c", False)]
    assert (queue.ready_count, queue.unacked_count) == (0, 3)
    reader.ack(queue, b"b", b"a", b"c")
    assert queue.message_count == 0
    assert queue.lanes[0].floor == 3


@DURABLE_OR_NOT
def test_what_is_given_back_comes_first_again_and_flagged(desk: Desk, durable: bool) -> None:
    queue = desk.queue(durable=durable)
    reader = desk.consume(queue, room=3)
    desk.publish(queue, b"a", b"b", b"c", b"d", b"e")
    desk.settle()
    reader.requeue(queue, b"c", b"a")
    desk.settle()
    assert reader.got[3:] == [(b"a", True), (b"c", True)]


def test_consumers_of_one_priority_share_in_turn(desk: Desk) -> None:
    queue = desk.queue(durable=False)
    first, second = desk.consume(queue), desk.consume(queue)
    desk.publish(queue, b"1", b"2", b"3", b"4")
    desk.settle()
    assert first.bodies == [b"1", b"3"]
    assert second.bodies == [b"2", b"4"]


def test_a_consumer_of_higher_priority_is_served_first_while_it_has_room(desk: Desk) -> None:
    queue = desk.queue(durable=False)
    low, high = desk.consume(queue), desk.consume(queue, priority=5, room=2)
    desk.publish(queue, b"1", b"2", b"3")
    desk.settle()
    assert (high.bodies, low.bodies) == ([b"1", b"2"], [b"3"])


def test_priorities_are_strict_and_kept_across_a_restart(desk: Desk, rig: Rig) -> None:
    queue = desk.queue(max_priority=3)
    for priority in (0, 2, 9, 1):
        desk.publish(queue, b"p%d" % priority, priority=priority)
    desk.settle()
    desk.close()
    rig.restart()
    desk.start()
    queue = desk.queue(max_priority=3)
    reader = desk.consume(queue)
    desk.settle()
    assert reader.got == [(b"p9", False), (b"p2", False), (b"p1", False), (b"p0", False)]


def test_a_crash_brings_back_what_was_not_acknowledged_and_flags_it(desk: Desk, rig: Rig) -> None:
    queue = desk.queue()
    reader = desk.consume(queue, room=4)
    desk.publish(queue, b"a", b"b", b"c", b"d", b"e")
    desk.settle()
    reader.ack(queue, b"a", b"c")
    desk.settle()
    rig.reopen()
    desk.start()
    reader = desk.consume(desk.queue())
    desk.settle()
    assert reader.bodies[:2] == [b"b", b"d"]
    assert reader.bodies[-1] == b"e"
    assert reader.got[0] == (b"b", True)


def test_what_was_settled_before_a_restart_stays_gone_while_its_neighbours_are_settled(desk: Desk, rig: Rig) -> None:
    queue = desk.queue()
    reader = desk.consume(queue)
    desk.publish(queue, b"a", b"b", b"c", b"d", b"e", b"f")
    desk.settle()
    reader.ack(queue, b"b", b"d", b"e")
    desk.settle()
    desk.close()
    rig.restart()
    desk.start()
    queue = desk.queue()
    reader = desk.consume(queue, no_ack=True)  # each delivery moves the floor over what was settled long ago
    desk.settle()
    assert (reader.bodies, queue.message_count) == ([b"a", b"c", b"f"], 0)


def test_a_clean_restart_flags_only_what_was_delivered(desk: Desk, rig: Rig) -> None:
    queue = desk.queue()
    desk.consume(queue, room=1)
    desk.publish(queue, b"a", b"b")
    desk.settle()
    desk.close()
    rig.restart()
    desk.start()
    reader = desk.consume(desk.queue())
    desk.settle()
    assert reader.got == [(b"a", True), (b"b", False)]


def test_a_long_backlog_is_read_from_the_log_and_not_kept_in_memory(desk: Desk) -> None:
    queue = desk.queue()
    bodies = [b"%05d" % number + bytes(20_000) for number in range(300)]
    for body in bodies:
        desk.publish(queue, body)
    assert desk.around.budget.kept_bytes < 2_000_000
    reader = desk.consume(queue)
    for _ in range(20):
        desk.settle()
    assert [body[:5] for body in reader.bodies] == [body[:5] for body in bodies]
    assert desk.around.budget.kept_bytes == 0


def test_what_many_queues_in_memory_have_is_there_once(desk: Desk) -> None:
    queues = [desk.queue(f"q{number}", durable=number == 0) for number in range(4)]
    run = Run.of([Message("amq.fanout", "", NO_PROPERTIES, body) for body in (b"a", b"b")])
    for queue in queues:
        desk.rig.call(lambda queue=queue: queue.publish(run))
    readers = [desk.consume(queue) for queue in queues]
    desk.settle()
    assert [reader.bodies for reader in readers] == [[b"a", b"b"]] * 4
    assert len({id(chunk.data) for reader in readers[1:] for chunk in reader.chunks}) == 1


def test_old_messages_leave_and_are_dead_lettered(desk: Desk, rig: Rig) -> None:
    queue = desk.queue(message_ttl_ms=1000, dead_letter_exchange="dlx")
    desk.publish(queue, b"old")
    desk.publish(queue, b"older", expiration="10")
    desk.settle()
    rig.advance(0.5)
    desk.settle()
    assert desk.dead == []  # only the head of a queue expires
    rig.advance(1.0)
    desk.settle()
    assert desk.dead == [("q", b"old", "expired"), ("q", b"older", "expired")]
    assert queue.message_count == 0


def test_a_time_to_live_of_zero_still_reaches_a_waiting_consumer(desk: Desk) -> None:
    queue = desk.queue(message_ttl_ms=0)
    desk.publish(queue, b"lost")
    desk.settle()
    reader = desk.consume(queue, room=1)
    desk.publish(queue, b"found", b"lost too")
    desk.settle()
    assert (reader.bodies, queue.ready_count) == ([b"found"], 0)


def test_a_full_queue_drops_its_head(desk: Desk) -> None:
    queue = desk.queue(max_length=2, dead_letter_exchange="dlx")
    desk.publish(queue, b"1", b"2", b"3", b"4")
    desk.settle()
    assert queue.ready_count == 2
    assert desk.dead == [("q", b"1", "maxlen"), ("q", b"2", "maxlen")]


def test_a_limit_in_bytes_counts_bodies(desk: Desk) -> None:
    queue = desk.queue(max_length_bytes=10)
    desk.publish(queue, b"aaaa", b"bbbbbb", b"c")
    desk.settle()
    reader = desk.consume(queue)
    desk.settle()
    assert reader.bodies == [b"bbbbbb", b"c"]


def test_a_message_given_back_too_often_is_dead_lettered(desk: Desk) -> None:
    queue = desk.queue(kind="quorum", delivery_limit=2, dead_letter_exchange="dlx")
    desk.publish(queue, b"poison", b"good")
    reader = desk.consume(queue, room=1)
    desk.settle()
    for _ in range(3):
        assert reader.bodies[-1] == b"poison"
        reader.requeue(queue, b"poison")
        desk.settle()
    assert reader.bodies[-1] == b"good"
    assert [chunk.delivery_count for chunk in reader.chunks] == [0, 1, 2, 0]
    assert desk.dead == [("q", b"poison", "delivery_limit")]


def test_a_rejected_message_is_read_again_for_the_dead_letter_exchange(desk: Desk) -> None:
    queue = desk.queue(dead_letter_exchange="dlx")
    reader = desk.consume(queue)
    desk.publish(queue, b"a", b"b")
    desk.settle()
    reader.reject(queue, b"b")
    reader.ack(queue, b"a")
    desk.settle()
    assert desk.dead == [("q", b"b", "rejected")]
    assert queue.message_count == 0


def test_a_retried_message_rests_longer_each_time_and_across_a_crash(desk: Desk, rig: Rig) -> None:
    how: dict[str, object] = {"retry_on": "all", "retry_min_ms": 1000, "retry_max_ms": 5000}
    queue = desk.queue(**how)
    desk.publish(queue, b"a", b"b")
    reader = desk.consume(queue)
    desk.settle()
    reader.requeue(queue, b"a")
    desk.settle()
    assert reader.bodies == [b"a", b"b"]
    rig.advance(1.0)
    desk.settle()
    assert reader.bodies == [b"a", b"b", b"a"]
    reader.requeue(queue, b"a")
    desk.settle()
    rig.reopen()
    desk.start()
    reader = desk.consume(desk.queue(**how))
    desk.settle()
    assert reader.bodies == [b"b"]
    rig.advance(2.0)
    desk.settle()
    assert reader.got == [(b"b", True), (b"a", True)]


def test_purge_leaves_what_is_out(desk: Desk) -> None:
    queue = desk.queue()
    reader = desk.consume(queue, room=1)
    desk.publish(queue, b"a", b"b", b"c")
    desk.settle()
    assert queue.purge() == 2
    assert (queue.ready_count, queue.unacked_count) == (0, 1)
    reader.ack(queue, b"a")
    assert queue.lanes[0].floor == 3


def test_get_takes_one_and_reads_it_from_the_log_if_need_be(desk: Desk, rig: Rig) -> None:
    queue = desk.queue()
    desk.publish(queue, b"a", b"b")
    desk.settle()
    desk.close()
    rig.restart()
    desk.start()
    queue = desk.queue()

    async def get() -> object:
        chunk = queue.get(no_ack=True)
        if chunk is not None and not hasattr(chunk, "data"):
            chunk = await chunk  # type: ignore[misc]
        return chunk

    chunk = rig.run(get())
    assert chunk is not None
    assert queue.message_count == 1


def test_an_unused_queue_is_reported_when_its_time_is_over(desk: Desk, rig: Rig) -> None:
    queue = desk.queue(durable=False, expires_ms=1000)
    reader = desk.consume(queue)
    rig.advance(5.0)
    assert desk.unused == []
    rig.call(lambda: queue.cancel(reader))
    rig.advance(2.1)
    assert desk.unused == [queue]


def test_with_a_single_active_consumer_the_next_one_takes_over(desk: Desk, rig: Rig) -> None:
    queue = desk.queue(durable=False, single_active_consumer=True)
    first, second = desk.consume(queue), desk.consume(queue)
    desk.publish(queue, b"1", b"2")
    desk.settle()
    rig.call(lambda: queue.cancel(first))
    desk.publish(queue, b"3")
    desk.settle()
    assert (first.bodies, second.bodies) == ([b"1", b"2"], [b"3"])


def test_a_message_that_rests_is_woken_in_time_although_another_expires_later(desk: Desk, rig: Rig) -> None:
    queue = desk.queue(retry_on="all", retry_min_ms=1000, retry_max_ms=1000, message_ttl_ms=60_000)
    desk.publish(queue, b"a", b"b")
    reader = desk.consume(queue, room=3)
    desk.settle()
    reader.requeue(queue, b"a")
    desk.settle()
    desk.publish(queue, b"c")
    rig.advance(1.1)
    desk.settle()
    assert b"a" in reader.bodies[1:]
