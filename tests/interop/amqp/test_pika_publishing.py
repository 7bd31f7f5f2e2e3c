"""pika: publishing. Confirms, returns, transactions, bodies of any size, properties and headers of every type."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import pika
import pytest
from pika.spec import Basic, BasicProperties
from tests.interop.amqp.inbox import Inbox, closes, count, drain, get, get_when_there, publish, pump, wait_for_count

pytestmark = pytest.mark.interop

FRAME_MAX = 131_072


class Confirms:
    """A channel of pika's, one layer down, where confirms and returns are seen as they come."""

    def __init__(self, connection):
        self.connection = connection
        self.blocking = connection.channel()
        self.channel = self.blocking._impl
        self.seen: list[tuple[str, object]] = []
        self._published = 0
        self._open: list[int] = []
        ready: list[object] = []
        self.channel.add_on_return_callback(lambda _, method, properties, body: self.seen.append(("return", body)))
        self.channel.confirm_delivery(self._confirmed, ready.append)
        pump(connection, lambda: ready, "confirm.select-ok")

    def publish(self, exchange, key, body, mandatory=False, **properties):
        self._published += 1
        self._open.append(self._published)
        self.channel.basic_publish(exchange, key, body, BasicProperties(**properties), mandatory)

    def _confirmed(self, frame):
        tag, kind = frame.method.delivery_tag, type(frame.method).__name__.lower()
        settled = [tag]
        if frame.method.multiple:
            settled = [number for number in self._open if number <= tag]
        self._open = [number for number in self._open if number not in settled]
        self.seen += [(kind.removeprefix("basic."), number) for number in settled]

    def wait(self):
        pump(self.connection, lambda: not self._open, "confirms")
        return self.seen


def test_a_mandatory_message_without_a_queue_comes_back(channel, make_exchange):
    exchange = make_exchange("direct")
    with pytest.raises(pika.exceptions.UnroutableError) as error:
        channel.basic_publish(exchange, "nowhere", b"body", BasicProperties(message_id="m", headers={"a": 1}), mandatory=True)
    (returned,) = error.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == (exchange, "nowhere")
    assert (returned.body, returned.properties.message_id, returned.properties.headers) == (b"body", "m", {"a": 1})
    channel.basic_publish(exchange, "nowhere", b"not mandatory: dropped and confirmed")


def test_the_return_comes_before_the_confirm(connection, make_exchange, make_queue):
    exchange, queue = make_exchange("direct"), make_queue()
    confirms = Confirms(connection)
    confirms.publish(exchange, "nowhere", b"1", mandatory=True)
    confirms.publish("", queue, b"2", mandatory=True)
    confirms.publish(exchange, "nowhere", b"3", mandatory=True, delivery_mode=2)
    seen = confirms.wait()
    assert seen.index(("return", b"1")) < seen.index(("ack", 1))
    assert seen.index(("return", b"3")) < seen.index(("ack", 3))
    assert sorted(map(str, seen)) == sorted(map(str, [("return", b"1"), ("return", b"3"), ("ack", 1), ("ack", 2), ("ack", 3)]))


def test_every_publish_is_confirmed_once_whatever_becomes_of_it(connection, make_queue, make_exchange):
    durable, transient, nowhere = make_queue(), make_queue(durable=False), make_exchange("fanout")
    confirms = Confirms(connection)
    for number in range(300):
        exchange, key = (("", durable), ("", transient), (nowhere, ""))[number % 3]
        confirms.publish(exchange, key, b"x", delivery_mode=1 + number % 2)
    assert sorted(confirms.wait()) == [("ack", number) for number in range(1, 301)]
    assert (count(confirms.blocking, durable), count(confirms.blocking, transient)) == (100, 100)


def test_a_queue_that_refuses_is_a_nack(connection, make_queue):
    full, free = make_queue(**{"x-max-length": 0, "x-overflow": "reject-publish"}), make_queue()
    confirms = Confirms(connection)
    for queue in (full, free, full):
        confirms.publish("", queue, b"x", delivery_mode=2)
    assert sorted(confirms.wait()) == [("ack", 2), ("nack", 1), ("nack", 3)]


def test_a_commit_makes_publishes_and_acks_happen_together(connection, channel, make_queue):
    queue, other = make_queue(), make_queue()
    publish(channel, queue, ["to be acked"])
    session = connection.channel()
    session.tx_select()
    method, _, _ = session.basic_get(queue)
    session.basic_ack(method.delivery_tag)
    publish(session, other, ["in the transaction"])
    assert count(channel, other) == 0
    session.tx_commit()
    assert drain(channel, other) == [b"in the transaction"]
    session.close()
    assert drain(channel, queue) == []


def test_a_rollback_undoes_publishes_and_acks(connection, channel, make_queue):
    queue, other = make_queue(), make_queue()
    publish(channel, queue, ["stays"])
    session = connection.channel()
    session.tx_select()
    delivery = get(session, queue, auto_ack=False)
    session.basic_ack(delivery.tag)
    publish(session, other, ["never"])
    session.tx_rollback()
    assert count(channel, other) == 0
    session.basic_ack(delivery.tag)  # the ack was undone, so the message is still to be settled
    session.tx_commit()
    session.close()
    assert (count(channel, queue), count(channel, other)) == (0, 0)


def test_a_channel_that_closes_forgets_its_transaction(connection, channel, make_queue):
    queue = make_queue()
    session = connection.channel()
    session.tx_select()
    publish(session, queue, ["never"])
    session.close()
    assert count(channel, queue) == 0


def test_a_commit_without_a_transaction_is_refused(connection):
    with closes(406, "PRECONDITION_FAILED - channel is not transactional"):
        connection.channel().tx_commit()


def test_a_channel_is_transactional_or_confirms_not_both(connection):
    first, second = connection.channel(), connection.channel()
    first.tx_select()
    with closes(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode"):
        first.confirm_delivery()
    second.confirm_delivery()
    with closes(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode"):
        second.tx_select()


@pytest.mark.parametrize("size", [0, 1, FRAME_MAX - 8, FRAME_MAX - 7, FRAME_MAX, 3 * FRAME_MAX + 1, 5_000_000])
def test_a_body_of_any_size_arrives_whole(size, channel, make_queue):
    queue, body = make_queue(), random.Random(size).randbytes(size)
    channel.basic_publish("", queue, body, BasicProperties(delivery_mode=2))
    assert Inbox(channel, queue, no_ack=True).wait(1)[0].body == body


def test_a_small_frame_size_splits_what_others_sent_whole(connect, channel, make_queue):
    queue, body = make_queue(), random.Random(1).randbytes(50_000)
    channel.basic_publish("", queue, body)
    small = connect(frame_max=4096).channel()
    assert Inbox(small, queue, no_ack=True).wait(1)[0].body == body
    small.basic_cancel(small.consumer_tags[0])
    small.basic_publish("", queue, body[::-1])
    assert get_when_there(channel, queue).body == body[::-1]


def test_every_property_arrives_as_it_was(channel, make_queue):
    queue = make_queue()
    given = BasicProperties(
        content_type="text/plain; charset=utf-8",
        content_encoding="gzip",
        headers={"k": "v"},
        delivery_mode=2,
        priority=7,
        correlation_id="c-1",
        reply_to="somewhere",
        expiration="60000",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="interop",
        cluster_id="c",
    )
    channel.basic_publish("", queue, b"x", given)
    assert get(channel, queue).properties == given


def test_no_property_arrives_as_none(channel, make_queue):
    queue = make_queue()
    channel.basic_publish("", queue, b"x")
    assert get(channel, queue).properties == BasicProperties()


def test_headers_of_every_type_arrive_as_they_were(channel, make_queue):
    queue = make_queue()
    headers = {
        "true": True,
        "false": False,
        "small": 5,
        "negative": -129,
        "int32": 2**31 - 1,
        "int64": -(2**62),
        "decimal": Decimal("-1.25"),
        "text": "ünïcode 🚰",
        "empty": "",
        "bytes": b"\x00\xff",
        "time": datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC),
        "void": None,
        "array": [1, "two", [-3, None], {"four": 4}],
        "table": {"nested": {"deeper": [True]}, "": "no name"},
        "long " + "k" * 120: "l" * 70_000,
    }
    channel.basic_publish("", queue, b"x", BasicProperties(headers=headers))
    came = get(channel, queue).properties.headers
    assert came == headers
    assert list(came) == list(headers)
    assert [came[name] is headers[name] for name in ("true", "false", "void")] == [True] * 3


@pytest.mark.parametrize("key", ["", "k" * 255, "ключ.🚰"])
def test_a_routing_key_of_any_length_arrives(key, channel, make_queue, make_exchange):
    exchange, queue = make_exchange("fanout"), make_queue()
    channel.queue_bind(queue, exchange)
    channel.basic_publish(exchange, key, b"x")
    method = get(channel, queue).method
    assert (method.exchange, method.routing_key) == (exchange, key)


def test_messages_of_one_channel_stay_in_order_through_any_exchange(channel, connection, make_queue, make_exchange):
    fanout, queue = make_exchange("fanout"), make_queue()
    channel.queue_bind(queue, fanout)
    plain = connection.channel()
    for number in range(1000):
        exchange, key = (fanout, "") if number % 3 else ("", queue)
        plain.basic_publish(exchange, key, str(number), BasicProperties(delivery_mode=1 + number % 2, type=str(number % 7)))
    wait_for_count(plain, queue, 1000)
    inbox = Inbox(channel, queue, no_ack=True)
    inbox.wait(1000)
    assert inbox.bodies == [str(number).encode() for number in range(1000)]


def test_a_user_id_that_is_not_the_users_is_refused(channel, make_queue):
    with closes(406, "PRECONDITION_FAILED - user_id property set to 'root' but authenticated user was 'guest'"):
        channel.basic_publish("", make_queue(), b"x", BasicProperties(user_id="root"))


def test_a_message_to_an_exchange_that_is_not_there_closes_the_channel(channel, unique):
    name = unique("no-exchange")
    with closes(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        channel.basic_publish(name, "k", b"x")


def test_the_immediate_flag_is_not_implemented(connect, make_queue):
    queue = make_queue()
    connection = connect()
    inner = connection.channel()._impl
    inner._send_method(Basic.Publish(exchange="", routing_key=queue, immediate=True), (BasicProperties(), b"x"))
    with closes(540, "NOT_IMPLEMENTED - immediate=true"):
        pump(connection, lambda: False, "the close")
