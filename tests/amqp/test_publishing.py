"""Publishing: confirms, returns, transactions, and what is refused, as RabbitMQ does it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.amqp.wire import NO_PROPERTIES, PERSISTENT, Wire

from headrace.amqp.frames import content_frames, method_frame
from headrace.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from headrace.record.amqp.properties import Properties, decode_properties, encode_properties

Connect = Callable[..., Wire]
BIG = b"0123456789" * 40_000  # needs several frames


@pytest.fixture
def wire(connect: Connect) -> Wire:
    wire = connect()
    wire.open()
    return wire


@pytest.fixture
def queue(wire: Wire, name: str) -> str:
    return wire.call(1, QueueDeclare(name, durable=False, exclusive=True), QueueDeclareOk).queue


def ready(wire: Wire, queue: str) -> int:
    return wire.call(1, QueueDeclare(queue, passive=True), QueueDeclareOk).message_count


def mandatory(exchange: str, key: str, properties: bytes, body: bytes) -> bytes:
    return method_frame(1, BasicPublish(exchange, key, mandatory=True)) + content_frames(1, properties, body, 4096)


def confirmed(wire: Wire, count: int) -> None:
    """Waits for acks up to this sequence number, in whatever pieces they come."""
    last = 0
    while last < count:
        ack = wire.expect(BasicAck)
        assert ack.delivery_tag > last
        assert ack.multiple or ack.delivery_tag == last + 1
        last = ack.delivery_tag
    assert last == count


@pytest.mark.parametrize("properties", [NO_PROPERTIES, PERSISTENT])
def test_confirms_come_in_order_and_for_all(wire: Wire, queue: str, properties: bytes) -> None:
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    wire.publish(1, queue, *[b"m%d" % number for number in range(1000)], properties=properties)
    confirmed(wire, 1000)
    assert ready(wire, queue) == 1000


def test_a_confirm_of_a_durable_queue_waits_for_the_disk_and_comes(wire: Wire, name: str) -> None:
    wire.call(1, QueueDeclare(name, durable=True), QueueDeclareOk)
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    wire.publish(1, name, b"a", b"b", properties=PERSISTENT)
    wire.publish(1, name, b"c")
    wire.publish(1, name, BIG, properties=PERSISTENT)
    confirmed(wire, 4)


def test_selecting_confirms_again_does_not_count_anew(wire: Wire, queue: str) -> None:
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    wire.publish(1, queue, b"a")
    confirmed(wire, 1)
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    wire.publish(1, queue, b"b")
    assert wire.expect(BasicAck).delivery_tag == 2


def test_what_nobody_gets_is_confirmed_too(wire: Wire, name: str) -> None:
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    wire.publish(1, name, b"a")
    confirmed(wire, 1)


def test_a_mandatory_message_comes_back_before_its_confirm(wire: Wire, name: str) -> None:
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    method = method_frame(1, BasicPublish("", name, mandatory=True))
    wire.raw(method + content_frames(1, PERSISTENT, BIG, wire.frame_max))
    returned = wire.expect(BasicReturn)
    assert returned == BasicReturn(312, "NO_ROUTE", "", name)
    assert wire.content() == (PERSISTENT, BIG)
    assert wire.expect(BasicAck).delivery_tag == 1


def test_each_returned_message_keeps_its_own_properties_and_body(wire: Wire, name: str) -> None:
    properties = [Properties(message_id=str(number), delivery_mode=number % 2 + 1) for number in range(20)]
    sent = [(encode_properties(each), b"%d" % number) for number, each in enumerate(properties)]
    wire.raw(b"".join(mandatory("", name, raw, body) for raw, body in sent))
    for message in sent:
        wire.expect(BasicReturn)
        assert wire.content() == message


def test_a_returned_message_does_not_tell_of_its_bcc(wire: Wire, name: str) -> None:
    headers = {"CC": [name + "1"], "BCC": [name + "2"], "n": 1}
    wire.raw(mandatory("", name, encode_properties(Properties(headers=headers, message_id="m")), b"x"))
    wire.expect(BasicReturn)
    returned = decode_properties(wire.content()[0])
    assert returned == Properties(headers={"CC": [name + "1"], "n": 1}, message_id="m")


def test_what_was_published_before_a_mistake_is_confirmed(wire: Wire, queue: str, name: str) -> None:
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    good = method_frame(1, BasicPublish("", queue)) + content_frames(1, NO_PROPERTIES, b"", 4096)
    wire.raw(good + good + mandatory(name, "key", NO_PROPERTIES, b""))
    confirmed(wire, 2)
    assert wire.closed_channel()[0] == 404


def test_what_was_published_before_a_close_is_confirmed(wire: Wire, queue: str) -> None:
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    good = method_frame(1, BasicPublish("", queue)) + content_frames(1, NO_PROPERTIES, b"", 4096)
    wire.raw(good + method_frame(1, ChannelClose(200, "", 0, 0)))
    confirmed(wire, 1)
    wire.expect(ChannelCloseOk)


def test_immediate_is_not_there(wire: Wire, queue: str) -> None:
    wire.raw(method_frame(1, BasicPublish("", queue, immediate=True)) + content_frames(1, NO_PROPERTIES, b"", 4096))
    assert wire.closed() == (540, "NOT_IMPLEMENTED - immediate=true", 60, 40)


@pytest.mark.parametrize("body", [b"", b"x", BIG])
def test_an_unknown_exchange_closes_the_channel(wire: Wire, name: str, body: bytes) -> None:
    wire.publish(1, "key", body, exchange=name)
    assert wire.closed_channel() == (404, f"NOT_FOUND - no exchange '{name}' in vhost '/'", 60, 40)


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("soon", "no_integer"),
        ("", "no_integer"),
        ("12s", '{leftover_string,"s"}'),
        ("-1", "{value_negative,-1}"),
    ],
)
def test_an_expiration_that_makes_no_sense_closes_the_channel(wire: Wire, queue: str, expiration: str, reason: str) -> None:
    wire.publish(1, queue, b"x", properties=encode_properties(Properties(expiration=expiration)))
    assert wire.closed_channel()[:2] == (406, f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}")


def test_nobody_publishes_in_another_s_name(wire: Wire, queue: str) -> None:
    wire.publish(1, queue, b"x", properties=encode_properties(Properties(user_id="guest")))
    assert ready(wire, queue) == 1
    wire.publish(1, queue, b"x", properties=encode_properties(Properties(user_id="else")))
    text = "PRECONDITION_FAILED - user_id property set to 'else' but authenticated user was 'guest'"
    assert wire.closed_channel() == (406, text, 60, 40)


def test_everything_a_message_has_arrives_as_it_was_sent(connect: Connect, name: str) -> None:
    wire = connect(frame_max=4096)
    wire.open()
    wire.call(1, QueueDeclare(name, exclusive=True), QueueDeclareOk)
    headers = {"text": "ä", "number": 5, "list": [1, "two", {"three": 3.0}], "none": None, "yes": True, "raw": b"\xff"}
    properties = encode_properties(
        Properties(
            "text/plain", "utf-8", headers, 2, 7, "corr", "reply", "60000", "id", 1_700_000_000, "type", "guest", "app", "c"
        )
    )
    for body in (b"", b"x", b"y" * 4088, b"z" * 4089, BIG):
        wire.publish(1, name, body, properties=properties)
        got = wire.call(1, BasicGet(name, no_ack=True), BasicGetOk)
        assert (got.exchange, got.routing_key, got.redelivered) == ("", name, False)
        returned, same = wire.content()
        assert same == body
        assert decode_properties(returned) == decode_properties(properties)


# --- transactions


def test_a_transaction_is_seen_when_it_is_committed(wire: Wire, queue: str) -> None:
    wire.call(1, TxSelect(), TxSelectOk)
    wire.publish(1, queue, b"a", BIG, properties=PERSISTENT)
    assert ready(wire, queue) == 0
    wire.call(1, TxCommit(), TxCommitOk)
    assert ready(wire, queue) == 2
    wire.publish(1, queue, b"c")
    wire.call(1, TxRollback(), TxRollbackOk)
    wire.call(1, TxCommit(), TxCommitOk)
    assert ready(wire, queue) == 2


def test_acks_are_a_part_of_the_transaction(wire: Wire, queue: str) -> None:
    wire.publish(1, queue, b"a", b"b", b"c")
    wire.call(1, TxSelect(), TxSelectOk)
    tags = []
    for _ in range(3):
        tags.append(wire.call(1, BasicGet(queue), BasicGetOk).delivery_tag)
        wire.content()
    wire.send(1, BasicAck(tags[0]), BasicNack(tags[1], requeue=True))
    wire.call(1, TxRollback(), TxRollbackOk)
    wire.send(1, BasicAck(tags[0]), BasicNack(tags[1], requeue=True), BasicAck(tags[2]))
    wire.call(1, BasicGet(queue), BasicGetEmpty)
    wire.call(1, TxCommit(), TxCommitOk)
    got = wire.call(1, BasicGet(queue), BasicGetOk)
    assert got.redelivered
    assert wire.content()[1] == b"b"


def test_an_ack_counts_once_in_a_transaction(wire: Wire, queue: str) -> None:
    wire.publish(1, queue, b"a")
    wire.call(1, TxSelect(), TxSelectOk)
    tag = wire.call(1, BasicGet(queue), BasicGetOk).delivery_tag
    wire.content()
    wire.send(1, BasicAck(tag), BasicAck(tag))
    assert wire.closed_channel() == (406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", 60, 80)
    wire.send(1, ChannelCloseOk())
    wire.open(1)
    assert wire.call(1, BasicGet(queue), BasicGetOk).redelivered  # nothing was committed


def test_a_mandatory_message_comes_back_at_the_commit(wire: Wire, name: str) -> None:
    wire.call(1, TxSelect(), TxSelectOk)
    wire.raw(method_frame(1, BasicPublish("", name, mandatory=True)) + content_frames(1, NO_PROPERTIES, b"x", 4096))
    wire.send(1, TxCommit())
    wire.expect(BasicReturn)
    assert wire.content()[1] == b"x"
    wire.expect(TxCommitOk)


def test_an_unknown_exchange_is_refused_before_the_commit(wire: Wire, name: str) -> None:
    wire.call(1, TxSelect(), TxSelectOk)
    wire.publish(1, "key", b"x", exchange=name)
    assert wire.closed_channel() == (404, f"NOT_FOUND - no exchange '{name}' in vhost '/'", 60, 40)


@pytest.mark.parametrize("wrong", [Properties(expiration="soon"), Properties(user_id="joe"), Properties(headers={"CC": 1})])
def test_what_makes_no_sense_is_refused_before_the_commit(wire: Wire, queue: str, wrong: Properties) -> None:
    wire.call(1, TxSelect(), TxSelectOk)
    wire.publish(1, queue, b"x", properties=encode_properties(wrong))
    code, _, class_id, method_id = wire.closed_channel()
    assert (code, class_id, method_id) == (406, 60, 40)


def test_an_internal_exchange_is_refused_before_the_commit(wire: Wire, name: str) -> None:
    wire.call(1, ExchangeDeclare(name, "direct", internal=True), ExchangeDeclareOk)
    wire.call(1, TxSelect(), TxSelectOk)
    wire.publish(1, "key", b"x", exchange=name)
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '/'"
    assert wire.closed_channel() == (403, text, 60, 40)
    wire.send(1, ChannelCloseOk())
    wire.open()
    wire.call(1, ExchangeDelete(name), ExchangeDeleteOk)


def test_what_was_for_an_exchange_that_is_gone_at_the_commit_goes_nowhere(wire: Wire, name: str) -> None:
    wire.call(1, ExchangeDeclare(name, "fanout"), ExchangeDeclareOk)
    wire.call(1, TxSelect(), TxSelectOk)
    wire.publish(1, "key", b"x", exchange=name)
    wire.raw(mandatory(name, "key", NO_PROPERTIES, b"y"))
    wire.call(1, ExchangeDelete(name), ExchangeDeleteOk)
    wire.send(1, TxCommit())
    assert wire.expect(BasicReturn) == BasicReturn(312, "NO_ROUTE", name, "key")
    assert wire.content()[1] == b"y"
    wire.expect(TxCommitOk)


def test_only_what_found_no_queue_comes_back_at_the_commit(wire: Wire, queue: str, name: str) -> None:
    hashing, nowhere = f"{name}-h", f"{name}-n"
    by_id = {"hash-property": "message_id"}
    wire.call(1, ExchangeDeclare(hashing, "x-consistent-hash", arguments=by_id), ExchangeDeclareOk)
    wire.call(1, ExchangeDeclare(nowhere, "fanout"), ExchangeDeclareOk)
    wire.call(1, QueueBind(queue, hashing, "1"), QueueBindOk)
    wire.call(1, ExchangeBind(nowhere, hashing, "1"), ExchangeBindOk)
    wire.call(1, TxSelect(), TxSelectOk)
    sent = [encode_properties(Properties(message_id=str(number))) for number in range(40)]
    wire.raw(b"".join(mandatory(hashing, "", properties, b"") for properties in sent))
    wire.send(1, TxCommit())
    returned = []
    while not isinstance(method := wire.method()[1], TxCommitOk):
        assert isinstance(method, BasicReturn)
        returned.append(wire.content()[0])
    assert 0 < len(returned) < len(sent)
    assert ready(wire, queue) == len(sent) - len(returned)
    wire.call(1, ExchangeDelete(hashing), ExchangeDeleteOk)
    wire.call(1, ExchangeDelete(nowhere), ExchangeDeleteOk)


def test_a_transaction_that_fails_gives_its_acks_back(wire: Wire, queue: str) -> None:
    wire.publish(1, queue, b"kept")
    wire.call(1, TxSelect(), TxSelectOk)
    tag = wire.call(1, BasicGet(queue), BasicGetOk).delivery_tag
    wire.content()
    wire.send(1, BasicAck(tag))
    wire.publish(1, queue, b"x", properties=encode_properties(Properties(expiration="soon")))
    assert wire.closed_channel()[0] == 406
    wire.send(1, ChannelCloseOk())
    wire.open()
    assert wire.call(1, BasicGet(queue), BasicGetOk).redelivered
    assert wire.content()[1] == b"kept"


def test_confirms_and_transactions_exclude_each_other(wire: Wire) -> None:
    wire.open(2)
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    wire.send(1, TxSelect())
    assert wire.closed_channel() == (406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode", 90, 10)
    wire.call(2, TxSelect(), TxSelectOk)
    wire.send(2, ConfirmSelect())
    assert wire.closed_channel(2) == (406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", 85, 10)


@pytest.mark.parametrize(("method", "ids"), [(TxCommit(), (90, 20)), (TxRollback(), (90, 30))])
def test_there_is_no_commit_without_a_transaction(wire: Wire, method: TxCommit | TxRollback, ids: tuple[int, int]) -> None:
    wire.send(1, method)
    assert wire.closed_channel() == (406, "PRECONDITION_FAILED - channel is not transactional", *ids)


# --- direct reply-to


def test_a_reply_goes_straight_to_the_channel_that_asked(connect: Connect, wire: Wire, queue: str) -> None:
    wire.call(1, BasicConsume("amq.rabbitmq.reply-to", "r", no_ack=True), BasicConsumeOk)
    wire.publish(1, queue, b"?", properties=encode_properties(Properties(reply_to="amq.rabbitmq.reply-to")))
    wire.call(1, BasicGet(queue, no_ack=True), BasicGetOk)
    reply_to = decode_properties(wire.content()[0]).reply_to
    assert reply_to is not None
    assert reply_to.startswith("amq.rabbitmq.reply-to.")
    other = connect()
    other.open()
    assert other.call(1, QueueDeclare(reply_to, passive=True), QueueDeclareOk).queue == reply_to
    other.publish(1, reply_to, b"!")
    delivered = wire.expect(BasicDeliver)
    assert (delivered.consumer_tag, delivered.routing_key) == ("r", reply_to)
    assert wire.content()[1] == b"!"


def test_a_request_for_a_reply_needs_somebody_to_get_it(wire: Wire, queue: str) -> None:
    wire.publish(1, queue, b"?", properties=encode_properties(Properties(reply_to="amq.rabbitmq.reply-to")))
    assert wire.closed_channel() == (406, "PRECONDITION_FAILED - fast reply consumer does not exist", 60, 40)


def test_replies_are_not_acknowledged(wire: Wire) -> None:
    wire.send(1, BasicConsume("amq.rabbitmq.reply-to", "r"))
    assert wire.closed_channel() == (406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", 60, 20)
