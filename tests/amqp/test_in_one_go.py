"""Methods that arrive together are done one after the other: what was published before a question is with the consumers,
expired or dropped when the answer is given, as it would be if the question came a second later."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.amqp.wire import NO_PROPERTIES, Wire

from headrace.amqp.arguments import Method
from headrace.amqp.frames import content_frames, method_frame
from headrace.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReject,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)


@pytest.fixture
def wire(connect: Callable[..., Wire]) -> Wire:
    wire = connect()
    wire.open()
    return wire


@pytest.fixture(params=[True, False], ids=["durable", "exclusive"])
def durable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def declare(wire: Wire, name: str, durable: bool, **arguments: object) -> str:
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    declared = QueueDeclare(name, durable=durable, exclusive=not durable, auto_delete=durable, arguments=named)
    return wire.call(1, declared, QueueDeclareOk).queue


def publish(queue: str, *bodies: bytes) -> bytes:
    method = method_frame(1, BasicPublish("", queue))
    return b"".join(method + content_frames(1, NO_PROPERTIES, body, 131_072) for body in bodies)


def ask(method: Method) -> bytes:
    return method_frame(1, method)


def delivered(wire: Wire) -> bytes:
    wire.expect(BasicDeliver)
    return wire.content()[1]


def got(wire: Wire) -> tuple[bytes, int]:
    left = wire.expect(BasicGetOk).message_count
    return wire.content()[1], left


def test_a_limit_holds_for_a_get_right_behind_the_publish(wire: Wire, name: str, durable: bool) -> None:
    queue = declare(wire, name, durable, max_length=2)
    wire.raw(publish(queue, b"a", b"b", b"c") + ask(BasicGet(queue, True)))
    assert got(wire) == (b"b", 1)
    wire.call(1, QueueDelete(queue), QueueDeleteOk)


def test_a_limit_of_none_lets_nobody_get_anything(wire: Wire, name: str, durable: bool) -> None:
    queue = declare(wire, name, durable, max_length=0)
    wire.raw(publish(queue, b"a") + ask(BasicGet(queue, True)))
    wire.expect(BasicGetEmpty)
    wire.call(1, QueueDelete(queue), QueueDeleteOk)


def test_a_limit_holds_for_what_is_given_back(wire: Wire, name: str, durable: bool) -> None:
    queue = declare(wire, name, durable, max_length=1)
    wire.raw(publish(queue, b"a") + ask(BasicGet(queue)))
    assert got(wire) == (b"a", 0)
    wire.raw(publish(queue, b"b") + ask(BasicNack(1, requeue=True)) + ask(BasicGet(queue, True)))
    assert got(wire)[1] == 0
    wire.call(1, QueueDelete(queue), QueueDeleteOk)


def test_what_has_no_time_to_live_is_not_there_to_be_got(wire: Wire, name: str, durable: bool) -> None:
    queue = declare(wire, name, durable, message_ttl=0)
    wire.raw(publish(queue, b"a") + ask(BasicGet(queue, True)))
    wire.expect(BasicGetEmpty)
    wire.call(1, QueueDelete(queue), QueueDeleteOk)


def test_what_has_no_time_to_live_does_not_come_again(wire: Wire, name: str, durable: bool) -> None:
    queue = declare(wire, name, durable, message_ttl=0)
    wire.call(1, BasicConsume(queue), BasicConsumeOk)
    wire.raw(publish(queue, b"a"))
    assert delivered(wire) == b"a"
    wire.raw(ask(BasicReject(1, True)) + publish(queue, b"b"))
    assert delivered(wire) == b"b"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (lambda queue: BasicGet(queue, True), BasicGetEmpty()),
        (lambda queue: QueueDeclare(queue, passive=True), lambda queue: QueueDeclareOk(queue, 0, 1)),
        (lambda queue: QueuePurge(queue), QueuePurgeOk(0)),
        (lambda queue: QueueDelete(queue, if_empty=True), QueueDeleteOk(0)),
        (lambda _: BasicCancel("me"), BasicCancelOk("me")),
    ],
    ids=["get", "declare", "purge", "delete", "cancel"],
)
def test_a_consumer_that_waits_comes_first(
    wire: Wire, name: str, durable: bool, question: Callable[[str], Method], answer: Method | Callable[[str], Method]
) -> None:
    queue = declare(wire, name, durable)
    wire.call(1, BasicConsume(queue, "me", no_ack=True), BasicConsumeOk)
    wire.raw(publish(queue, b"first"))
    assert delivered(wire) == b"first"
    wire.raw(publish(queue, b"a", b"b") + ask(question(queue)))
    bodies, answers = [], []
    while len(bodies) < 2 or not answers:  # RabbitMQ may answer before it delivers
        _, method = wire.method()
        if isinstance(method, BasicDeliver):
            bodies.append(wire.content()[1])
        elif not isinstance(method, BasicCancel):
            answers.append(method)
    assert bodies == [b"a", b"b"]
    assert answers == [answer if isinstance(answer, Method) else answer(queue)]
