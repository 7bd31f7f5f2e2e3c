"""pika: dead-lettering. Why a message died, where it goes, and what its x-death header says."""

from __future__ import annotations

import datetime

import pytest
from pika.spec import BasicProperties
from tests.interop.amqp.inbox import Inbox, count, drain, get, get_when_there, publish, settle, wait_for_count

pytestmark = pytest.mark.interop


def dead_letters_to(queue):
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def test_a_rejected_message_says_where_and_why_it_died(channel, make_queue):
    dead = make_queue("dead")
    queue = make_queue(**dead_letters_to(dead))
    publish(channel, queue, [b"x"], headers={"mine": 1}, message_id="m")
    channel.basic_reject(get(channel, queue, auto_ack=False).tag, requeue=False)
    letter = get_when_there(channel, dead)
    assert (letter.body, letter.properties.message_id, letter.method.exchange) == (b"x", "m", "")
    assert letter.method.routing_key == dead
    headers = letter.properties.headers
    (death,) = headers.pop("x-death")
    assert isinstance(death.pop("time"), datetime.datetime)
    assert death == {"queue": queue, "reason": "rejected", "count": 1, "exchange": "", "routing-keys": [queue]}
    assert headers == {
        "mine": 1,
        "x-first-death-exchange": "",
        "x-first-death-queue": queue,
        "x-first-death-reason": "rejected",
    } | {name: headers[name] for name in headers if name.startswith("x-last-death-")}  # 3.13 and later tell the last too


def test_without_a_routing_key_of_its_own_a_letter_keeps_its_keys(channel, make_queue, make_exchange):
    exchange, graveyard = make_exchange("topic"), make_exchange("topic")
    queue, dead = make_queue(**{"x-dead-letter-exchange": graveyard}), make_queue()
    channel.queue_bind(queue, exchange, "#")
    channel.queue_bind(dead, graveyard, "a.*")
    channel.basic_publish(exchange, "a.b", b"x")
    channel.basic_nack(get(channel, queue, auto_ack=False).tag, requeue=False)
    letter = get_when_there(channel, dead)
    assert (letter.method.exchange, letter.method.routing_key) == (graveyard, "a.b")
    (death,) = letter.properties.headers["x-death"]
    assert (death["exchange"], death["routing-keys"]) == (exchange, ["a.b"])


@pytest.mark.parametrize("per_message", [False, True])
def test_an_expired_message_is_dead_lettered(per_message, channel, make_queue):
    dead = make_queue("dead")
    queue = make_queue(**dead_letters_to(dead), **({} if per_message else {"x-message-ttl": 100}))
    publish(channel, queue, [b"x"], expiration="100" if per_message else None)
    letter = get_when_there(channel, dead)
    (death,) = letter.properties.headers["x-death"]
    assert death["reason"] == "expired"
    assert letter.properties.expiration is None  # or it would expire again
    assert death.get("original-expiration") == ("100" if per_message else None)


def test_a_chain_of_expiries_makes_a_delay(channel, make_queue):
    end = make_queue("end")
    middle = make_queue("middle", **dead_letters_to(end), **{"x-message-ttl": 100})
    start = make_queue("start", **dead_letters_to(middle), **{"x-message-ttl": 100})
    publish(channel, start, [b"1", b"2", b"3"])
    wait_for_count(channel, end, 3)
    letters = [get(channel, end) for _ in range(3)]
    assert [letter.body for letter in letters] == [b"1", b"2", b"3"]
    assert [death["queue"] for death in letters[0].properties.headers["x-death"]] == [middle, start]
    assert letters[0].properties.headers["x-first-death-queue"] == start


def test_a_message_dropped_for_room_is_dead_lettered(channel, make_queue):
    dead = make_queue("dead")
    queue = make_queue(**dead_letters_to(dead), **{"x-max-length": 2})
    publish(channel, queue, [b"1", b"2", b"3", b"4"])
    wait_for_count(channel, dead, 2)
    letters = [get(channel, dead) for _ in range(2)]
    assert [letter.body for letter in letters] == [b"1", b"2"]
    assert {letter.properties.headers["x-death"][0]["reason"] for letter in letters} == {"maxlen"}
    assert drain(channel, queue) == [b"3", b"4"]


def test_deaths_in_the_same_queue_for_the_same_reason_are_counted(channel, make_queue):
    wait = make_queue("wait")
    work = make_queue("work", **dead_letters_to(wait))
    channel.queue_delete(wait)
    channel.queue_declare(wait, durable=True, arguments={**dead_letters_to(work), "x-message-ttl": 50})
    publish(channel, work, [b"x"])
    for attempt in range(3):  # a retry with a delay, as it is done everywhere
        delivery = get_when_there(channel, work, auto_ack=False)
        deaths = {(d["queue"], d["reason"]): d["count"] for d in (delivery.properties.headers or {}).get("x-death", [])}
        assert deaths == ({(work, "rejected"): attempt, (wait, "expired"): attempt} if attempt else {})
        channel.basic_nack(delivery.tag, requeue=False)
    delivery = get_when_there(channel, work, auto_ack=True)
    assert [death["queue"] for death in delivery.properties.headers["x-death"]] == [wait, work]  # the newest first


def test_a_circle_of_automatic_deaths_ends_with_the_message(channel, make_queue, unique, made):
    names = [unique("circle"), unique("circle")]
    made.queues += names
    for name, other in (names, reversed(names)):
        channel.queue_declare(name, durable=True, arguments={**dead_letters_to(other), "x-message-ttl": 50})
    witness = make_queue()
    publish(channel, names[0], [b"round"])
    publish(channel, witness, [b"x"], expiration="500")
    wait_for_count(channel, witness, 0)
    wait_for_count(channel, names[0], 0)
    wait_for_count(channel, names[1], 0)


def test_a_rejected_message_may_go_round(channel, make_queue, unique, made):
    name = unique("self")
    made.queues.append(name)
    channel.queue_declare(name, durable=True, arguments=dead_letters_to(name))
    publish(channel, name, [b"x"])
    for attempt in range(4):
        delivery = get_when_there(channel, name, auto_ack=False)
        if attempt:
            assert delivery.properties.headers["x-death"][0]["count"] == attempt
        channel.basic_reject(delivery.tag, requeue=False)


def test_letters_to_an_exchange_that_is_not_there_are_dropped(channel, make_queue, unique):
    queue = make_queue(**{"x-dead-letter-exchange": unique("nowhere")})
    publish(channel, queue, [b"x"])
    channel.basic_reject(get(channel, queue, auto_ack=False).tag, requeue=False)
    settle(channel, queue)
    assert count(channel, queue) == 0


def test_purged_and_deleted_messages_are_not_dead_lettered(channel, make_queue):
    dead = make_queue("dead")
    queue = make_queue(**dead_letters_to(dead))
    publish(channel, queue, [b"1", b"2"])
    channel.queue_purge(queue)
    publish(channel, queue, [b"3"])
    channel.queue_delete(queue)
    publish(channel, dead, [b"marks the end"])
    assert drain(channel, dead) == [b"marks the end"]


def test_letters_of_many_rejected_at_once_keep_their_order(channel, make_queue):
    dead = make_queue("dead")
    queue = make_queue(**dead_letters_to(dead))
    publish(channel, queue, [str(number) for number in range(50)])
    inbox = Inbox(channel, queue)
    inbox.wait(50)
    channel.basic_nack(inbox.deliveries[-1].tag, multiple=True, requeue=False)
    wait_for_count(channel, dead, 50)
    assert drain(channel, dead) == [str(number).encode() for number in range(50)]


def test_cc_is_in_the_routing_keys_of_the_death(channel, make_queue):
    dead = make_queue("dead")
    queue = make_queue(**dead_letters_to(dead))
    channel.basic_publish("", queue, b"x", BasicProperties(headers={"CC": ["other"]}))
    channel.basic_reject(get(channel, queue, auto_ack=False).tag, requeue=False)
    headers = get_when_there(channel, dead).properties.headers
    assert headers["x-death"][0]["routing-keys"] == [queue, "other"]
    assert "CC" not in headers  # a letter with a new key goes nowhere else
