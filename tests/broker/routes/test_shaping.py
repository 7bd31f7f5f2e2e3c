"""Filters and transforms of routes: what passes, in what form, and what becomes of records that they fail on."""

from __future__ import annotations

import json

import pytest
from tests.broker.routes.conftest import Site

from headrace.broker.routes.errors import InvalidRoute
from headrace.broker.routes.route import State
from headrace.expressions.expressions import Expressions, Fault, Outcome
from headrace.expressions.here import Here
from headrace.record import Event, Record


@pytest.fixture
def topics(site: Site) -> Site:
    site.rig.create("t")
    site.rig.create("u")
    return site


def amounts(*amounts: int) -> list[Event]:
    return [Event(b"k%d" % amount, json.dumps({"amount": amount}).encode()) for amount in amounts]


def test_only_what_the_filter_says_yes_to_is_delivered(topics: Site) -> None:
    topics.append("t", *amounts(1, 200, 3, 400))
    route = topics.to_topic(filter="value.amount > 100")
    topics.caught_up()
    assert [record.key for record in topics.records("u")] == [b"k200", b"k400"]
    assert (route.counts.delivered, route.counts.filtered, route.counts.dead_lettered) == (2, 2, 0)


def test_a_position_moves_also_where_nothing_passes(topics: Site) -> None:
    topics.append("t", *amounts(*range(500)))
    topics.to_topic(filter="false")
    topics.caught_up()
    assert topics.position() == 500
    assert topics.values("u") == []


def test_value_key_and_headers_become_what_the_transform_says(topics: Site) -> None:
    topics.append("t", Event(b"a", b'{"amount": 5, "who": "eve"}', (("trace", b"7"),), 1_700_000_000_000))
    transform = {
        "value": "{'euros': value.amount * 100, 'where': topic + '/' + string(partition) + '/' + string(offset)}",
        "key": "value.who",
        "headers": "{'trace': headers.trace, 'was': key}",
    }
    topics.to_topic(transform=transform)
    topics.caught_up()
    (record,) = topics.records("u")
    assert record.event == Event(b"eve", b'{"euros":500,"where":"t/0/0"}', (("trace", b"7"), ("was", b"a")), 1_700_000_000_000)


def test_what_has_no_expression_stays_byte_for_byte(topics: Site) -> None:
    value = b'{ "amount" :5,\t"b":1e2 }'
    topics.append("t", Event(b"\xff", value, (("x", b"\xfe"), ("x", None))))
    topics.to_topic(filter="value.b == 100.0", transform={"key": "'new'"})
    topics.caught_up()
    (record,) = topics.records("u")
    assert (record.key, record.value, record.headers) == (b"new", value, (("x", b"\xfe"), ("x", None)))


def test_a_transform_changes_the_partition_that_the_key_picks(site: Site) -> None:
    site.rig.create("t")
    site.rig.create("u", 4)
    site.append("t", *amounts(*range(40)))
    site.to_topic(transform={"key": "'same'"})
    site.caught_up()
    assert sorted(len(site.values("u", partition)) for partition in range(4)) == [0, 0, 0, 40]


def test_a_record_that_can_not_be_evaluated_is_a_dead_letter_as_it_was(topics: Site) -> None:
    topics.append("t", *amounts(200), Event(b"odd", b"not json"), *amounts(300))
    route = topics.to_topic(filter="value.amount > 100", transform={"value": "value.amount"})
    topics.caught_up()
    assert topics.values("u") == [b"200", b"300"]
    (dead,) = topics.records("r.dead-letters")
    assert (dead.key, dead.value) == (b"odd", b"not json")
    headers = dict(dead.headers)
    assert (headers["__dlq.errors.offset"], headers["__dlq.errors.topic"]) == (b"1", b"t")
    assert (headers["__dlq.errors.message"] or b"").startswith(b"filter: ")
    assert (route.counts.delivered, route.counts.dead_lettered) == (2, 1)


def test_a_record_that_can_not_be_evaluated_is_skipped_if_that_was_asked_for(topics: Site) -> None:
    topics.append("t", *amounts(200), b"not json")
    route = topics.to_topic(filter="value.amount > 100", on_failure="skip")
    topics.caught_up()
    assert (route.counts.delivered, route.counts.skipped) == (1, 1)
    assert "r.dead-letters" not in topics.rig.log.topics()


def test_a_record_that_the_destination_does_not_take_is_a_dead_letter_as_it_was(site: Site) -> None:
    site.rig.create("t")
    site.exchange("x")
    site.append("t", Event(b"key", b"text"))
    site.put(
        "r", topic="t", destination={"type": "exchange", "exchange": "x"}, filter="true", transform={"value": "text + '!'"}
    )
    site.caught_up()
    (dead,) = site.records("r.dead-letters")
    assert (dead.value, dict(dead.headers)["__dlq.errors.message"]) == (b"text", b"no queue takes it: NO_ROUTE")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"filter": "value.amount >"}, "filter: line 1, column 15: Syntax error"),
        ({"filter": "amount > 5"}, "filter: line 1, column 1: undeclared reference to 'amount'"),
        ({"filter": "true &&\n valu.x"}, "filter: line 2, column"),
        ({"filter": "'yes'"}, "filter must say true or false, and this is a string"),
        ({"filter": "(" * 50 + "true" + ")" * 50}, "recursion limit exceeded"),
        ({"filter": ""}, "Syntax error"),
        ({"transform": {"value": "1 +"}}, "transform.value: line 1"),
        ({"transform": {"headers": "{"}}, "transform.headers: line 1"),
    ],
)
def test_an_expression_that_can_not_be_compiled_is_refused_and_it_is_said_where(
    topics: Site, given: dict[str, object], text: str
) -> None:
    with pytest.raises(InvalidRoute) as refusal:
        topics.to_topic(**given)
    assert text in str(refusal.value)
    with pytest.raises(Exception, match="there is no route"):
        topics.broker.routes.get("r")


def test_an_expression_that_was_stored_and_can_not_be_compiled_blocks_its_route(topics: Site) -> None:
    row = {"topic": "t", "destination": {"type": "topic", "topic": "u"}, "filter": "no.such.thing"}
    table = topics.rig.run(topics.rig.log.table("__headrace_routes"))
    topics.rig.call(lambda: table.put({b"r": json.dumps(row).encode()}))
    topics.append("t", b"1")
    topics.restart()
    route = topics.broker.routes.get("r")
    topics.wait_for(lambda: route.state is State.BLOCKED)
    assert "undeclared reference to 'no" in (route.error or "")
    topics.to_topic(filter="true")
    topics.caught_up()
    assert topics.values("u") == [b"1"]


class Deadly(Here):
    """Records whose value is `boom` end the process that looks at them."""

    async def evaluate(self, expressions: Expressions, topic: str, partition: int, records: list[Record]) -> Outcome:
        for place, record in enumerate(records):
            if record.value == b"boom":
                before = await super().evaluate(expressions, topic, partition, records[:place])
                return Outcome([*before.results, Fault("it takes too long")], stopped=True)
        return await super().evaluate(expressions, topic, partition, records)


def test_behind_a_record_that_takes_too_long_others_come_a_second_later(topics: Site) -> None:
    object.__setattr__(topics.broker.routes.surroundings, "evaluator", Deadly())
    topics.append("t", b"1", b"boom", b"2", b"boom", b"3")
    route = topics.to_topic(filter="true")
    topics.wait_for(lambda: route.state is State.BLOCKED)
    assert route.error == "partition 0, offset 2: filter or transform: it takes too long"
    topics.caught_up()
    assert topics.values("u") == [b"1", b"2", b"3"]
    assert topics.values("r.dead-letters") == [b"boom", b"boom"]


class Short(Here):
    """Says what becomes of three records at a time."""

    async def evaluate(self, expressions: Expressions, topic: str, partition: int, records: list[Record]) -> Outcome:
        return await super().evaluate(expressions, topic, partition, records[:3])


def test_answers_that_come_in_parts_are_all_delivered_and_no_trouble(topics: Site) -> None:
    object.__setattr__(topics.broker.routes.surroundings, "evaluator", Short())
    topics.append("t", *(b"%d" % number for number in range(20)))
    topics.append("t", *(b"%d" % number for number in range(20, 40)))
    route = topics.to_topic(filter="value != 7")
    topics.caught_up()
    assert topics.values("u") == [b"%d" % number for number in range(40) if number != 7]
    assert (route.error, route.counts.delivered, route.counts.filtered) == (None, 39, 1)


def test_a_destination_that_waits_keeps_order_among_what_passes(site: Site) -> None:
    site.rig.create("t")
    site.exchange("x")
    site.queue("q", "x", "#", x_max_length=2, x_overflow="reject-publish")
    site.append("t", *(Event(b"k", b"%d" % number) for number in range(20)))
    site.put("r", topic="t", destination={"type": "exchange", "exchange": "x"}, filter="value % 3 == 0")
    got: list[bytes] = []

    def drained() -> bool:
        got.extend(site.bodies("q"))
        return len(got) == 7

    site.wait_for(drained)
    assert got == [b"0", b"3", b"6", b"9", b"12", b"15", b"18"]
    site.caught_up()
    assert site.broker.routes.get("r").counts.filtered == 13
