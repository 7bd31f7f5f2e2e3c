"""The whole server in one answer, and what it says needs attention."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote

import pika
import pytest
from tests.http.v1.asking import V1

from headrace.http.v1 import attention
from headrace.http.v1.walking import Walk
from headrace.testing import HeadraceServer, wait_until
from headrace.times import Times


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer(durability="flush") as started:
        yield started


@pytest.fixture
def v1(server: HeadraceServer) -> V1:
    return V1(server)


def test_totals_traffic_lag_and_what_needs_attention(server: HeadraceServer, v1: V1) -> None:
    v1.ask("POST", "/v1/topics", {"name": "orders", "partitions": 3})
    v1.publish("orders", *range(10), partition=0)
    v1.ask("POST", "/v1/groups/slow/offsets/reset", {"topic": "orders", "to": "earliest"})
    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as connection:
        channel = connection.channel()
        channel.queue_declare("full", durable=True)
        for number in range(attention.MANY_MESSAGES):
            channel.basic_publish("", "full", str(number).encode())
        channel.queue_declare("full", passive=True)  # all of them are there

        def ready() -> bool:
            totals = v1.get("/v1/overview")["totals"]
            return bool(totals["messages"] == attention.MANY_MESSAGES and totals["lag"] == 10)

        wait_until(ready)
        found = v1.get("/v1/overview")
    assert (found["totals"]["topics"], found["totals"]["groups"], found["totals"]["queues"]) == (1, 1, 1)
    assert found["lag"] == [{"group": "slow", "lag": 10, "members": 0}]
    assert found["protocols"]["amqp"]["connections"] == 1
    assert found["protocols"]["http"]["connections"] == 1
    assert found["protocols"]["http"]["bytes_in"] > 0
    assert found["health"] == {"ready": True, "reason": None}
    assert found["storage"]["log_bytes"] > 0
    assert sorted(found["listeners"]) == ["amqp", "http", "kafka", "kinesis"]
    told = {each["link"]: (each["severity"], each["text"]) for each in found["attention"]}
    assert told["/groups/slow"] == ("info", "Group slow has no members and is 10 records behind")
    assert told["/queues/%2F/full"] == ("info", "Queue full holds 10,000 messages and has no consumers")
    assert told["/settings"] == ("info", "Durability is flush: an acknowledged write may go with the power")


def test_a_route_is_named_and_not_the_group_that_it_keeps_its_position_with(v1: V1) -> None:
    v1.publish("routed", *range(7), partition=0)
    ends = {"source": {"type": "topic", "topic": "routed"}, "destination": {"type": "topic", "topic": "routed-copy"}}
    assert v1.ask("PUT", "/v1/routes/copier", ends).status == 201
    wait_until(lambda: v1.get("/v1/routes/copier")["lag"] == 0)
    assert v1.ask("POST", "/v1/routes/copier/pause").status == 200
    v1.publish("routed", *range(7), partition=0)

    def told() -> dict[str, str]:
        return {each["link"]: each["text"] for each in v1.get("/v1/overview")["attention"]}

    wait_until(lambda: "/routes/copier" in told())
    assert told()["/routes/copier"] == "Route copier is paused, and 7 records wait for it"
    assert not [text for text in told().values() if "headrace.route" in text]
    behind = {each["group"]: each for each in v1.get("/v1/overview")["lag"]}
    assert behind["headrace.route.copier"]["route"] == "copier"
    assert "route" not in behind["slow"]
    (listed,) = v1.get("/v1/groups?pattern=headrace.route.copier")["groups"]
    assert listed["route"] == "copier"
    assert v1.ask("POST", "/v1/routes/copier/resume").status == 200
    wait_until(lambda: "/routes/copier" not in told())
    assert v1.ask("DELETE", "/v1/routes/copier").status == 204


def test_dead_letters_in_queues_need_attention_until_they_are_gone(v1: V1) -> None:
    vhost = "/v1/vhosts/%2F"
    by_exchange = {"x-dead-letter-exchange": "morgue"}
    by_name = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead by name"}
    for name, arguments in (("dead", {}), ("dead by name", {}), ("work", by_exchange), ("more work", by_name)):
        assert v1.ask("PUT", f"{vhost}/queues/{quote(name)}", {"arguments": arguments}).status == 201
    assert v1.ask("PUT", f"{vhost}/exchanges/morgue", {"type": "fanout"}).status == 201
    assert v1.ask("POST", f"{vhost}/bindings/e/morgue/q/dead", {}).status == 201
    for name, count in (("work", 2), ("more work", 1)):
        for _ in range(count):
            message = {"properties": {}, "routing_key": name, "payload": "x", "payload_encoding": "string"}
            assert v1.ask("POST", f"{vhost}/exchanges/amq.default/publish", message).body == {"routed": True}
        rejected = {"count": count, "ackmode": "reject_requeue_false", "encoding": "auto"}
        assert v1.ask("POST", f"{vhost}/queues/{quote(name)}/get", rejected).status == 200

    def told() -> set[tuple[str, str, str]]:
        found = v1.get("/v1/overview")["attention"]
        return {(one["severity"], one["text"], one["link"]) for one in found if "dead" in one["text"]}

    by_both = {
        ("warning", "Queue dead holds 2 dead letters", "/dead-letters/%2F/dead"),
        ("warning", "Queue dead by name holds 1 dead letter", "/dead-letters/%2F/dead%20by%20name"),
    }
    wait_until(lambda: told() == by_both, timeout_s=30)
    for name in ("dead", "dead by name"):
        assert v1.ask("POST", f"/v1/dead-letters/%2F/{quote(name)}/retry", {}).status == 200
    wait_until(lambda: told() == set(), timeout_s=30)


def test_the_worst_comes_first_and_not_too_much_of_it() -> None:
    items = [attention.Attention(severity, str(number), "/") for number in range(20) for severity in ("info", "error")]
    shown = attention.worst_first(items)
    assert len(shown) == attention.MOST_ITEMS
    assert {each.severity for each in shown} == {"error"}


def test_a_full_disk_and_refused_writes_are_told() -> None:
    assert [(each.severity, each.text) for each in attention.of_storage("the disk is full", 5, 100)] == [
        ("error", "Writes are refused: the disk is full"),
        ("warning", "Only 5% of the disk is free"),
    ]
    assert attention.of_storage(None, 50, 100) == []


def test_an_event_loop_that_was_held_up_long_ago_needs_no_attention() -> None:
    delays = Times()
    for _ in range(10):
        delays.add(0.5)
    (told,) = attention.of_loop(delays, [0] * len(delays.counts))
    assert told.severity == "warning"
    before = list(delays.counts)
    for _ in range(1000):
        delays.add(0.0001)
    assert attention.of_loop(delays, before) == []
    assert attention.of_loop(Times(), [0] * len(delays.counts)) == []


def test_a_long_walk_goes_to_its_end_once_and_then_a_little_at_a_time() -> None:
    steps = 0

    async def begin() -> AsyncIterator[int | None]:
        nonlocal steps
        for _ in range(100):
            steps += 1
            yield None
        yield steps

    async def looks() -> tuple[list[int], int]:
        walk = Walk(begin, turn_s=0.0, turns=1)  # one step, and it is used up
        first = await walk.look()
        found = [first] + [await walk.look() for _ in range(100)]
        return found, steps

    found, taken = asyncio.run(looks())
    assert found == [100] * 101, "what the last whole walk has found"
    assert taken == 200


def test_a_short_walk_is_always_of_now() -> None:
    values = iter(range(100))

    async def begin() -> AsyncIterator[int | None]:
        yield None
        yield next(values)

    async def looks() -> list[int]:
        walk = Walk(begin, turn_s=60.0)
        return [await walk.look() for _ in range(3)]

    assert asyncio.run(looks()) == [0, 1, 2]
