"""Consuming: prefetch, acks, what is given back, cancelled consumers, as RabbitMQ does it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.amqp.wire import CAPABILITIES, Wire

from headrace.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)

Connect = Callable[..., Wire]


@pytest.fixture
def wire(connect: Connect) -> Wire:
    wire = connect()
    wire.open()
    return wire


@pytest.fixture
def queue(wire: Wire, name: str) -> str:
    return wire.call(1, QueueDeclare(name, auto_delete=True), QueueDeclareOk).queue


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_only_a_stream_is_read_from_an_offset(wire: Wire, name: str, kind: str) -> None:
    wire.call(1, QueueDeclare(name, durable=True, arguments={"x-queue-type": kind}), QueueDeclareOk)
    wire.send(1, BasicConsume(name, arguments={"x-stream-offset": "first"}))
    wrong = f"invalid arg 'x-stream-offset' for queue '{name}' in vhost '/' of queue type rabbit_{kind}_queue"
    assert wire.closed_channel() == (406, f"PRECONDITION_FAILED - {wrong}", 60, 20)
    wire.send(1, ChannelCloseOk())
    wire.open()
    wire.call(1, QueueDelete(name), QueueDeleteOk)


def deliveries(wire: Wire, count: int, channel: int = 1) -> list[tuple[int, bool, bytes]]:
    got = []
    for _ in range(count):
        delivered = wire.expect(BasicDeliver, channel)
        got.append((delivered.delivery_tag, delivered.redelivered, wire.content()[1]))
    return got


def nothing_more(wire: Wire, channel: int = 1) -> None:
    """Whatever would have been sent before this answer has not been."""
    for _ in range(3):
        wire.call(channel, BasicQos(0, 0), BasicQosOk)


def counted(wire: Wire, queue: str, ready: int, channel: int = 1) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if wire.call(channel, QueueDeclare(queue, passive=True), QueueDeclareOk).message_count == ready:
            return True
    return False


def test_what_is_there_and_what_comes_is_delivered_in_order(wire: Wire, queue: str) -> None:
    wire.publish(1, queue, b"a", b"b")
    wire.call(1, BasicConsume(queue, "me"), BasicConsumeOk)
    assert deliveries(wire, 2) == [(1, False, b"a"), (2, False, b"b")]
    wire.publish(1, queue, b"c" * 300_000, b"d")
    assert deliveries(wire, 2) == [(3, False, b"c" * 300_000), (4, False, b"d")]


def test_no_more_than_the_prefetch_is_out_with_a_consumer(wire: Wire, queue: str) -> None:
    wire.publish(1, queue, *[b"%d" % n for n in range(10)])
    wire.call(1, BasicQos(0, 3), BasicQosOk)
    wire.call(1, BasicConsume(queue, "me"), BasicConsumeOk)
    assert [tag for tag, _, _ in deliveries(wire, 3)] == [1, 2, 3]
    wire.call(1, BasicGet(queue), BasicGetOk)  # does not count
    wire.content()
    wire.send(1, BasicAck(2))
    assert deliveries(wire, 1) == [(5, False, b"4")]
    wire.send(1, BasicAck(3, multiple=True))
    assert [body for _, _, body in deliveries(wire, 2)] == [b"5", b"6"]
    assert counted(wire, queue, 3)


def test_a_prefetch_is_for_consumers_to_come_and_a_global_one_for_all(wire: Wire, queue: str) -> None:
    wire.call(1, BasicQos(0, 2), BasicQosOk)
    wire.call(1, BasicConsume(queue, "two"), BasicConsumeOk)
    wire.call(1, BasicQos(0, 3, True), BasicQosOk)
    wire.call(1, BasicQos(0, 0), BasicQosOk)
    wire.call(1, BasicQos(0, 3, True), BasicQosOk)
    wire.call(1, BasicConsume(queue, "unlimited"), BasicConsumeOk)
    wire.publish(1, queue, *[b"%d" % n for n in range(10)])
    assert len(deliveries(wire, 3)) == 3
    assert counted(wire, queue, 7)
    wire.send(1, BasicAck(0, multiple=True))
    assert len(deliveries(wire, 3)) == 3
    assert counted(wire, queue, 4)


def test_a_global_prefetch_goes_around_among_the_queues(wire: Wire, name: str) -> None:
    wire.call(1, BasicQos(0, 1, True), BasicQosOk)
    queues = [f"{name}-{number}" for number in range(3)]
    for queue in queues:
        wire.call(1, QueueDeclare(queue, exclusive=True), QueueDeclareOk)
        wire.call(1, BasicConsume(queue, queue), BasicConsumeOk)
    for queue in queues:
        wire.publish(1, queue, *[b"%d" % number for number in range(50)])
    served = set()
    for _ in range(45):
        delivered = wire.expect(BasicDeliver)
        wire.content()
        served.add(delivered.consumer_tag)
        wire.send(1, BasicAck(delivered.delivery_tag))
    assert served == set(queues)


def test_a_consumer_without_acks_waits_while_the_global_prefetch_is_used_up(wire: Wire, queue: str, name: str) -> None:
    wire.call(1, BasicQos(0, 1, True), BasicQosOk)
    wire.call(1, BasicConsume(queue, "acks"), BasicConsumeOk)
    other = wire.call(1, QueueDeclare(f"{name}-other", exclusive=True), QueueDeclareOk).queue
    wire.call(1, BasicConsume(other, "none", no_ack=True), BasicConsumeOk)
    wire.publish(1, queue, b"a")
    assert deliveries(wire, 1) == [(1, False, b"a")]
    wire.publish(1, other, b"b", b"c")
    assert counted(wire, other, 2)
    wire.send(1, BasicAck(1))
    assert [body for _, _, body in deliveries(wire, 2)] == [b"b", b"c"]


def test_a_prefetch_in_bytes_is_not_there(wire: Wire) -> None:
    wire.send(1, BasicQos(1000, 1))
    assert wire.closed() == (540, "NOT_IMPLEMENTED - prefetch_size!=0 (1000)", 60, 10)


def test_without_acks_everything_is_settled_when_it_is_sent(wire: Wire, queue: str) -> None:
    wire.call(1, BasicQos(0, 1), BasicQosOk)
    wire.call(1, BasicConsume(queue, "me", no_ack=True), BasicConsumeOk)
    wire.publish(1, queue, b"a", b"b", b"c")
    assert len(deliveries(wire, 3)) == 3
    wire.send(1, BasicAck(1))
    assert wire.closed_channel() == (406, "PRECONDITION_FAILED - unknown delivery tag 1", 60, 80)


@pytest.mark.parametrize(
    ("method", "tag", "ids"),
    [
        (BasicAck(9), 9, (60, 80)),
        (BasicAck(0), 0, (60, 80)),
        (BasicAck(9, multiple=True), 9, (60, 80)),
        (BasicNack(9), 9, (60, 120)),
        (BasicReject(9), 9, (60, 90)),
    ],
)
def test_an_unknown_tag_closes_the_channel(
    wire: Wire, queue: str, method: BasicAck | BasicNack | BasicReject, tag: int, ids: tuple[int, int]
) -> None:
    wire.publish(1, queue, b"a")
    wire.call(1, BasicConsume(queue, "me"), BasicConsumeOk)
    deliveries(wire, 1)
    wire.send(1, method)
    assert wire.closed_channel() == (406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", *ids)


def test_acking_all_when_nothing_is_out_is_no_mistake(wire: Wire) -> None:
    wire.send(1, BasicAck(0, multiple=True))
    nothing_more(wire)


def test_what_is_given_back_comes_again_at_its_place_and_flagged(wire: Wire, name: str) -> None:
    queue = wire.call(1, QueueDeclare(name, exclusive=True), QueueDeclareOk).queue
    wire.publish(1, queue, b"a", b"b", b"c", b"d")
    wire.call(1, BasicQos(0, 3), BasicQosOk)
    wire.call(1, BasicConsume(queue, "me"), BasicConsumeOk)
    deliveries(wire, 3)
    wire.call(1, BasicCancel("me"), BasicCancelOk)
    wire.send(1, BasicReject(3, requeue=True), BasicNack(2, multiple=True, requeue=True))
    seen = []
    for _ in range(4):
        got = wire.call(1, BasicGet(queue, no_ack=True), BasicGetOk)
        seen.append((wire.content()[1], got.redelivered))
    assert seen == [(b"a", True), (b"b", True), (b"c", True), (b"d", False)]
    wire.call(1, BasicGet(queue), BasicGetEmpty)


def test_rejected_without_requeue_is_gone(wire: Wire, queue: str) -> None:
    wire.publish(1, queue, b"a", b"b", b"c")
    for _ in range(3):
        wire.call(1, BasicGet(queue), BasicGetOk)
        wire.content()
    wire.send(1, BasicReject(1, requeue=False), BasicNack(3, multiple=True, requeue=False))
    assert counted(wire, queue, 0)
    wire.call(1, BasicGet(queue), BasicGetEmpty)


def test_recover_gives_everything_back(wire: Wire, queue: str) -> None:
    wire.publish(1, queue, b"a", b"b")
    wire.call(1, BasicConsume(queue, "me"), BasicConsumeOk)
    deliveries(wire, 2)
    wire.send(1, BasicRecover(True))
    wire.expect(BasicRecoverOk)
    assert deliveries(wire, 2) == [(3, True, b"a"), (4, True, b"b")]
    wire.send(1, BasicRecoverAsync(True))
    assert deliveries(wire, 2) == [(5, True, b"a"), (6, True, b"b")]
    wire.send(1, BasicRecover(False))
    assert wire.closed() == (540, "NOT_IMPLEMENTED - requeue=false", 60, 110)


@pytest.mark.parametrize("how", ["channel", "connection", "socket"])
def test_what_a_dead_consumer_had_goes_to_another_one_flagged(connect: Connect, wire: Wire, name: str, how: str) -> None:
    wire.call(1, QueueDeclare(name), QueueDeclareOk)
    other = connect()
    other.open()
    wire.publish(1, name, b"a", b"b")
    wire.call(1, BasicConsume(name, "me"), BasicConsumeOk)
    deliveries(wire, 2)
    wire.send(1, BasicAck(1))
    assert counted(wire, name, 0)
    other.call(1, BasicConsume(name, "you"), BasicConsumeOk)
    if how == "channel":
        wire.call(1, ChannelClose(200, "", 0, 0), ChannelCloseOk)
    elif how == "connection":
        wire.send(0, ChannelCloseOk())  # a mistake
    else:
        wire.close()
    assert deliveries(other, 1) == [(1, True, b"b")]
    other.call(1, QueueDelete(name), QueueDeleteOk)


def test_a_consumer_tag_is_used_once(wire: Wire, queue: str) -> None:
    wire.call(1, BasicConsume(queue, "me"), BasicConsumeOk)
    wire.send(1, BasicConsume(queue, "me"))
    assert wire.closed() == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'me'", 60, 20)


def test_tags_are_made_up_for_those_who_give_none(wire: Wire, queue: str) -> None:
    first = wire.call(1, BasicConsume(queue), BasicConsumeOk).consumer_tag
    second = wire.call(1, BasicConsume(queue), BasicConsumeOk).consumer_tag
    assert first != second
    assert first.startswith("amq.ctag-")
    assert wire.call(1, BasicCancel(first), BasicCancelOk).consumer_tag == first
    assert wire.call(1, BasicCancel("unknown"), BasicCancelOk).consumer_tag == "unknown"


def test_after_cancel_ok_nothing_comes(wire: Wire, queue: str) -> None:
    wire.call(1, BasicConsume(queue, "me", no_ack=True), BasicConsumeOk)
    wire.call(1, BasicConsume(queue, "other"), BasicConsumeOk)
    wire.call(1, BasicCancel("me"), BasicCancelOk)
    wire.publish(1, queue, b"a")
    assert wire.expect(BasicDeliver).consumer_tag == "other"


def test_a_consumer_is_told_when_its_queue_goes(connect: Connect, wire: Wire, queue: str) -> None:
    other, old = connect(), connect(capabilities={**CAPABILITIES, "consumer_cancel_notify": False})
    for each in (other, old):
        each.open()
        each.call(1, BasicConsume(queue, "me"), BasicConsumeOk)
    wire.call(1, BasicConsume(queue, "mine"), BasicConsumeOk)
    wire.call(1, QueueDelete(queue), QueueDeleteOk)  # first the answer, then the news
    assert wire.expect(BasicCancel) == BasicCancel("mine", True)
    assert other.expect(BasicCancel) == BasicCancel("me", True)
    nothing_more(old)
    assert wire.call(1, BasicCancel("mine"), BasicCancelOk).consumer_tag == "mine"


def test_an_exclusive_consumer_is_alone(connect: Connect, wire: Wire, queue: str) -> None:
    wire.call(1, BasicConsume(queue, "me", exclusive=True), BasicConsumeOk)
    other = connect()
    other.open()
    other.send(1, BasicConsume(queue, "you"))
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    assert other.closed_channel() == (403, text, 60, 20)


def test_an_exclusive_queue_is_its_connection_s(connect: Connect, wire: Wire, name: str) -> None:
    wire.call(1, QueueDeclare(name, exclusive=True), QueueDeclareOk)
    other = connect()
    other.open()
    other.send(1, BasicGet(name))
    code, text, class_id, method_id = other.closed_channel()
    assert (code, class_id, method_id) == (405, 60, 70)
    assert text.startswith(f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'.")
    wire.close()
    other.open(2)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        other.send(2, QueueDeclare(name, passive=True))
        if other.closed_channel(2)[0] == 404:
            return
        other.send(2, ChannelCloseOk())
        other.open(2)
    pytest.fail("the queue outlives its connection")


def test_no_name_means_the_queue_that_was_declared_last(wire: Wire) -> None:
    wire.send(1, BasicGet(""))
    assert wire.closed_channel() == (404, "NOT_FOUND - no previously declared queue", 60, 70)
    wire.open(2)
    queue = wire.call(2, QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    assert queue.startswith("amq.gen-")
    wire.call(2, QueueBind("", "amq.direct", ""), QueueBindOk)
    wire.publish(2, queue, b"bound by its name", exchange="amq.direct")
    got = wire.call(2, BasicGet(""), BasicGetOk)
    assert (got.exchange, got.routing_key, got.message_count) == ("amq.direct", queue, 0)
    wire.content()
    assert wire.call(2, QueuePurge(""), QueuePurgeOk).message_count == 0
    assert wire.call(2, QueueDelete(""), QueueDeleteOk).message_count == 0


def test_consumers_share_a_queue_in_turn(wire: Wire, queue: str) -> None:
    for tag in ("one", "two"):
        wire.call(1, BasicConsume(queue, tag), BasicConsumeOk)
    wire.publish(1, queue, *[b"%d" % n for n in range(10)])
    tags = []
    for _ in range(10):
        tags.append(wire.expect(BasicDeliver).consumer_tag)
        wire.content()
    assert tags.count("one") == tags.count("two") == 5


def test_a_consumer_with_a_higher_priority_goes_first(wire: Wire, queue: str) -> None:
    wire.call(1, BasicQos(0, 2), BasicQosOk)
    wire.call(1, BasicConsume(queue, "low"), BasicConsumeOk)
    wire.call(1, BasicConsume(queue, "high", arguments={"x-priority": 5}), BasicConsumeOk)
    wire.publish(1, queue, b"a", b"b", b"c")
    tags = []
    for _ in range(3):
        tags.append(wire.expect(BasicDeliver).consumer_tag)
        wire.content()
    assert sorted(tags) == ["high", "high", "low"]
