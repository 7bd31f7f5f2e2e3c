"""pika: where a message goes. Every exchange type, and exchanges behind exchanges."""

from __future__ import annotations

from collections import Counter

import pika
import pytest
from pika.spec import BasicProperties
from tests.interop.amqp.inbox import closes, count, drain, gone, settle

pytestmark = pytest.mark.interop


def test_the_default_exchange_reaches_every_queue_by_its_name(channel, make_queue):
    first, second = make_queue(), make_queue()
    channel.basic_publish("", first, b"for the first")
    assert drain(channel, first) == [b"for the first"]
    assert drain(channel, second) == []


def test_a_direct_exchange_compares_the_whole_key(channel, make_queue, make_exchange):
    exchange, one, both = make_exchange("direct"), make_queue(), make_queue()
    channel.queue_bind(one, exchange, "red")
    channel.queue_bind(both, exchange, "red")
    channel.queue_bind(both, exchange, "blue")
    for key in ("red", "blue", "re", "red.", ""):
        channel.basic_publish(exchange, key, key)
    assert drain(channel, one) == [b"red"]
    assert drain(channel, both) == [b"red", b"blue"]


def test_a_fanout_exchange_ignores_the_key_and_gives_each_queue_one_copy(channel, make_queue, make_exchange):
    exchange, queues = make_exchange("fanout"), [make_queue() for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, exchange, "some")
        channel.queue_bind(queue, exchange, "other")
    channel.basic_publish(exchange, "third", b"news")
    assert [drain(channel, queue) for queue in queues] == [[b"news"]] * 3


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a.b", ["a.b"], ["a", "a.b.c", "A.b", ""]),
        ("*.b", ["a.b", ".b", "long.b"], ["b", "a.b.b", "b.a"]),
        ("a.*", ["a.b", "a."], ["a", "a.b.c"]),
        ("#", ["", "a", "a.b.c", "..."], []),
        ("a.#", ["a", "a.b", "a.b.c"], ["", "b", "ab"]),
        ("#.z", ["z", "y.z", "x.y.z"], ["", "z.y", "zz"]),
        ("a.#.z", ["a.z", "a.b.z", "a.b.c.z"], ["a", "z", "a.z.b"]),
        ("*.#", ["a", "a.b", "."], [""]),
        ("#.*.#.*", ["a.b", "a.b.c"], ["a"]),
        ("a.*.#.d", ["a.b.d", "a.b.c.d"], ["a.d"]),
        ("*", ["a"], ["a.b", ""]),  # the empty key has no word at all
        ("", [""], ["a"]),
        ("a*.b", ["a*.b"], ["ab.b", "a.b"]),  # an asterisk is a wildcard only as a whole word
    ],
)
def test_a_topic_exchange_matches_words(pattern, matching, others, channel, make_queue, make_exchange):
    exchange, queue = make_exchange("topic"), make_queue()
    channel.queue_bind(queue, exchange, pattern)
    for key in [*matching, *others]:
        channel.basic_publish(exchange, key, key)
    assert drain(channel, queue) == [key.encode() for key in matching]


def test_a_topic_exchange_gives_a_queue_one_copy_however_many_patterns_match(channel, make_queue, make_exchange):
    exchange, queue = make_exchange("topic"), make_queue()
    for pattern in ("a.b", "a.*", "#", "*.b", "a.#"):
        channel.queue_bind(queue, exchange, pattern)
    channel.basic_publish(exchange, "a.b", b"once")
    channel.queue_unbind(queue, exchange, "#")
    channel.basic_publish(exchange, "x.y.z", b"no more")
    assert drain(channel, queue) == [b"once"]


@pytest.mark.parametrize(
    ("arguments", "matching", "others"),
    [
        ({"x-match": "all", "a": 1, "b": "two"}, [{"a": 1, "b": "two"}, {"a": 1, "b": "two", "c": 3}], [{"a": 1}, {}, None]),
        ({"a": 1, "b": "two"}, [{"a": 1, "b": "two"}], [{"a": 1}, {"a": 1, "b": "three"}]),  # all is the default
        ({"x-match": "any", "a": 1, "b": "two"}, [{"a": 1}, {"b": "two"}, {"a": 9, "b": "two"}], [{"a": 2}, {"c": 1}, {}]),
        ({"x-match": "all", "a": 1, "x-b": 2}, [{"a": 1}, {"a": 1, "x-b": 3}], [{"x-b": 2}]),  # x-… do not count
        ({"x-match": "all-with-x", "a": 1, "x-b": 2}, [{"a": 1, "x-b": 2}], [{"a": 1}, {"x-b": 2}]),
        ({"x-match": "any-with-x", "a": 1, "x-b": 2}, [{"a": 1}, {"x-b": 2}], [{"a": 2, "x-b": 3}]),
        ({"x-match": "all", "a": None}, [{"a": 1}, {"a": "anything"}, {"a": None}], [{"b": 1}]),  # a void: only there
        ({"x-match": "all", "t": True}, [{"t": True}], [{"t": False}, {"t": "true"}]),
        ({"x-match": "all"}, [{}, {"a": 1}, None], []),
        ({"x-match": "any"}, [], [{}, {"a": 1}]),
    ],
)
def test_a_headers_exchange_matches_headers(arguments, matching, others, channel, make_queue, make_exchange):
    exchange, queue = make_exchange("headers"), make_queue()
    channel.queue_bind(queue, exchange, "", arguments)
    for number, headers in enumerate([*matching, *others]):
        channel.basic_publish(exchange, "", str(number), BasicProperties(headers=headers))
    assert drain(channel, queue) == [str(number).encode() for number in range(len(matching))]


def test_an_alternate_exchange_takes_what_finds_no_queue(channel, make_queue, make_exchange):
    spare, rest = make_exchange("fanout"), make_queue()
    exchange, queue = make_exchange("direct", **{"alternate-exchange": spare}), make_queue()
    channel.queue_bind(rest, spare)
    channel.queue_bind(queue, exchange, "known")
    channel.basic_publish(exchange, "known", b"routed")
    channel.basic_publish(exchange, "unknown", b"left over", mandatory=True)  # routed too: not returned
    assert drain(channel, queue) == [b"routed"]
    assert drain(channel, rest) == [b"left over"]


def test_alternate_exchanges_may_form_a_chain_and_a_circle(channel, make_queue, make_exchange, unique, made):
    first, second = unique("first"), unique("second")
    made.exchanges += [first, second]
    for name, other in ((first, second), (second, first)):
        channel.exchange_declare(name, "direct", durable=True, arguments={"alternate-exchange": other})
    queue = make_queue()
    channel.queue_bind(queue, second, "found")
    channel.basic_publish(first, "found", b"through the chain", mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(first, "lost", b"round the circle", mandatory=True)
    assert drain(channel, queue) == [b"through the chain"]


def test_exchanges_bound_to_exchanges_pass_on_by_their_own_rules(channel, make_queue, make_exchange):
    topic, fanout, direct = make_exchange("topic"), make_exchange("fanout"), make_exchange("direct")
    everything, red = make_queue(), make_queue()
    channel.exchange_bind(fanout, topic, "logs.#")
    channel.exchange_bind(direct, fanout)
    channel.queue_bind(everything, fanout)
    channel.queue_bind(red, direct, "logs.red")
    for key in ("logs.red", "logs.blue", "metrics.red"):
        channel.basic_publish(topic, key, key)
    assert drain(channel, everything) == [b"logs.red", b"logs.blue"]
    assert drain(channel, red) == [b"logs.red"]
    channel.exchange_unbind(fanout, topic, "logs.#")
    channel.basic_publish(topic, "logs.red", b"no longer")
    assert drain(channel, everything) == []


def test_a_circle_of_bound_exchanges_delivers_once(channel, make_queue, make_exchange):
    ring = [make_exchange("fanout") for _ in range(3)]
    for source, destination in zip(ring, ring[1:] + ring[:1], strict=True):
        channel.exchange_bind(destination, source)
    queues = [make_queue() for _ in ring]
    for queue, exchange in zip(queues, ring, strict=True):
        channel.queue_bind(queue, exchange)
    channel.basic_publish(ring[0], "", b"round")
    assert [drain(channel, queue) for queue in queues] == [[b"round"]] * 3


def test_two_paths_to_a_queue_give_it_one_copy(channel, make_queue, make_exchange):
    source, left, right, queue = make_exchange("fanout"), make_exchange("fanout"), make_exchange("fanout"), make_queue()
    for middle in (left, right):
        channel.exchange_bind(middle, source)
        channel.queue_bind(queue, middle)
    channel.queue_bind(queue, source)
    channel.basic_publish(source, "", b"once")
    assert drain(channel, queue) == [b"once"]


def test_an_internal_exchange_is_reached_through_others_only(channel, connection, make_queue, make_exchange):
    inside, outside, queue = make_exchange("fanout", internal=True), make_exchange("fanout"), make_queue()
    channel.exchange_bind(inside, outside)
    channel.queue_bind(queue, inside)
    channel.basic_publish(outside, "", b"through the door")
    assert drain(channel, queue) == [b"through the door"]
    with closes(403, f"ACCESS_REFUSED - cannot publish to internal exchange '{inside}' in vhost '/'"):
        channel.basic_publish(inside, "", b"through the wall")


def test_an_auto_delete_exchange_goes_with_its_last_binding(channel, connection, make_queue, make_exchange):
    exchange, first, second = make_exchange("direct", auto_delete=True), make_queue(), make_queue()
    channel.queue_bind(first, exchange, "k")
    channel.queue_bind(second, exchange, "k")
    channel.queue_unbind(first, exchange, "k")
    channel.exchange_declare(exchange, passive=True)
    channel.queue_delete(second)
    with closes(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        connection.channel().exchange_declare(exchange, passive=True)


def test_deleting_an_exchange_that_is_in_use_can_be_refused(channel, connection, make_queue, make_exchange):
    exchange, queue = make_exchange("direct"), make_queue()
    channel.queue_bind(queue, exchange, "k")
    with closes(406, f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"):
        connection.channel().exchange_delete(exchange, if_unused=True)
    channel.queue_unbind(queue, exchange, "k")
    channel.exchange_delete(exchange, if_unused=True)
    channel.exchange_delete(exchange)  # deleting what is not there is no error


def test_bindings_differ_by_their_arguments_too(channel, make_queue, make_exchange):
    exchange, queue = make_exchange("headers"), make_queue()
    channel.queue_bind(queue, exchange, "", {"x-match": "all", "a": 1})
    channel.queue_bind(queue, exchange, "", {"x-match": "all", "a": 2})
    channel.queue_unbind(queue, exchange, "", {"x-match": "all", "a": 1})
    for number in (1, 2):
        channel.basic_publish(exchange, "", str(number), BasicProperties(headers={"a": number}))
    assert drain(channel, queue) == [b"2"]


def test_cc_and_bcc_route_to_more_keys_and_bcc_is_not_seen(channel, make_queue, make_exchange):
    exchange, queues = make_exchange("direct"), {key: make_queue() for key in ("to", "cc", "bcc")}
    for key, queue in queues.items():
        channel.queue_bind(queue, exchange, key)
    channel.basic_publish(exchange, "to", b"x", BasicProperties(headers={"CC": ["cc", "nobody"], "BCC": ["bcc"]}))
    for queue in queues.values():
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        assert (body, method.routing_key, properties.headers) == (b"x", "to", {"CC": ["cc", "nobody"]})


def test_a_consistent_hash_exchange_keeps_a_key_on_one_queue_and_weighs(channel, make_queue, make_exchange):
    exchange, light, heavy = make_exchange("x-consistent-hash"), make_queue(), make_queue()
    channel.queue_bind(light, exchange, "1")
    channel.queue_bind(heavy, exchange, "4")
    keys = [f"key-{number}" for number in range(500)]
    for _ in range(2):
        for key in keys:
            channel.basic_publish(exchange, key, key)
    parts = {queue: Counter(drain(channel, queue)) for queue in (light, heavy)}
    assert sum(part.total() for part in parts.values()) == 2 * len(keys)
    assert all(set(part.values()) == {2} for part in parts.values())
    assert not set(parts[light]) & set(parts[heavy])
    assert len(parts[light]) * 2 < len(parts[heavy])


@pytest.mark.parametrize(
    ("argument", "properties"),
    [
        ({"hash-header": "user"}, lambda who: BasicProperties(headers={"user": who})),
        ({"hash-property": "correlation_id"}, lambda who: BasicProperties(correlation_id=who)),
        ({"hash-property": "message_id"}, lambda who: BasicProperties(message_id=who)),
    ],
)
def test_a_consistent_hash_exchange_can_hash_a_header_or_a_property(argument, properties, channel, make_queue, make_exchange):
    exchange, queues = make_exchange("x-consistent-hash", **argument), [make_queue() for _ in range(2)]
    for queue in queues:
        channel.queue_bind(queue, exchange, "10")
    people = [f"user-{number}" for number in range(60)]
    for number, who in enumerate(people * 2):
        channel.basic_publish(exchange, f"key-{number}", who, properties(who))
    parts = [Counter(drain(channel, queue)) for queue in queues]
    assert parts[0].keys().isdisjoint(parts[1])
    assert parts[0] | parts[1] == Counter({who.encode(): 2 for who in people})
    assert all(parts)


def test_a_delayed_exchange_holds_a_message_as_long_as_its_header_says(broker, channel, make_queue, make_exchange):
    if broker.outside:
        pytest.skip("needs the rabbitmq_delayed_message_exchange plugin, which RabbitMQ does not come with")
    exchange, queue = make_exchange("x-delayed-message", **{"x-delayed-type": "direct"}), make_queue()
    channel.queue_bind(queue, exchange, "k")
    for body, delay_ms in ((b"third", 500), (b"second", 250), (b"first", 0)):
        channel.basic_publish(exchange, "k", body, BasicProperties(delivery_mode=2, headers={"x-delay": delay_ms}))
    channel.basic_publish(exchange, "k", b"at once")
    bodies = [body for _, _, body in _consume(channel, queue, 4)]
    assert sorted(bodies[:2]) == [b"at once", b"first"]
    assert bodies[2:] == [b"second", b"third"]


def _consume(channel, queue, number):
    deliveries = []
    for delivery in channel.consume(queue, auto_ack=True, inactivity_timeout=20):
        deliveries.append(delivery)
        if len(deliveries) == number:
            break
    channel.cancel()
    return deliveries


def test_a_deleted_queue_leaves_no_binding_behind(channel, make_queue, make_exchange):
    exchange, queue = make_exchange("fanout"), make_queue()
    channel.queue_bind(queue, exchange)
    channel.queue_delete(queue)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(exchange, "", b"nobody", mandatory=True)
    channel.exchange_delete(exchange, if_unused=True)
    assert gone(channel, queue)


def test_the_predeclared_exchanges_are_there(channel, make_queue):
    queue = make_queue()
    for name, kind in [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ]:
        channel.exchange_declare(name, kind, durable=True)
        channel.queue_bind(queue, name, queue, {"only": queue})
    for name in ("amq.direct", "amq.topic"):
        channel.basic_publish(name, queue, name)
    settle(channel, queue)
    assert count(channel, queue) == 2
