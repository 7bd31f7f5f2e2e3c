"""Records that are published in runs arrive as those that are published one by one: same queues, order, keys and properties."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.routes.conftest import Site

from headrace.broker.queues.run import Run
from headrace.broker.routes.ends.exchange import ExchangeTarget
from headrace.broker.routes.exchange import ExchangeDestination
from headrace.record import Record
from headrace.record.amqp.mapping import event_to_message
from headrace.record.amqp.properties import decode_properties

QUEUES = ("a", "b", "priorities", "all")
KINDS = {
    "topic": [("a", "a.*", {}), ("b", "#.b", {}), ("priorities", "*.*", {}), ("all", "#", {})],
    "direct": [("a", "a.a", {}), ("b", "a.b", {}), ("priorities", "a.b", {}), ("all", "b.b", {})],
    "fanout": [("a", "", {}), ("priorities", "", {})],
    "headers": [("a", "", {"colour": "red"}), ("b", "", {"colour": "blue", "x-match": "any"}), ("all", "", {"x-match": "all"})],
    "x-consistent-hash": [("a", "1", {}), ("b", "1", {}), ("priorities", "2", {})],
}

keys = st.sampled_from([None, b"a.a", b"a.b", b"b.b", b"b.a", b"\xff", b"", b"k" * 256])
headers = st.lists(
    st.sampled_from(
        [
            ("colour", b"red"),
            ("colour", b"blue"),
            ("trace", b"1"),
            ("amqp.priority", b"3"),
            ("amqp.priority", b"0"),
            ("amqp.expiration", b"60000"),
            ("amqp.expiration", b"never"),
            ("amqp.delivery-mode", b"1"),
            ("amqp.reply-to", b"somewhere"),
            ("amqp.user-id", b"somebody"),
            ("amqp.message-id", b"m"),
            ("amqp.types", b'{"CC":"A"}'),
            ("CC", b'["a.a"]'),
            ("CC", b"no array"),
            ("amqp.exchange", b"elsewhere"),
        ]
    ),
    max_size=3,
).map(tuple)
records = st.lists(st.tuples(keys, headers, st.integers(0, 2)), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site()
    for queue in QUEUES:
        site.queue(queue, **({"x_max_priority": 5} if queue == "priorities" else {}))
    for kind, bindings in KINDS.items():
        site.exchange(kind, kind)
        for queue, key, arguments in bindings:
            bind = (queue, kind, key, arguments)
            site.rig.call(lambda bind=bind: site.vhost.bind_queue(*bind))  # type: ignore[misc]
    yield site
    site.rig.end()


def arrived(site: Site) -> dict[str, list[object]]:
    return {
        queue: [
            (message.exchange, message.routing_key, decode_properties(message.properties), message.body)
            for message in site.messages(queue)
        ]
        for queue in QUEUES
    }


@pytest.mark.parametrize("kind", [*KINDS, ""])
@pytest.mark.parametrize("routing_key", [None, "a.b"])
@given(given_records=records)
@settings(max_examples=15, deadline=None)
def test_runs_change_nothing_about_what_arrives(
    site: Site, kind: str, routing_key: str | None, given_records: list[tuple[bytes | None, tuple, int]]
) -> None:
    destination = ExchangeDestination(ExchangeTarget(kind, routing_key=routing_key), "topic", site.broker.vhosts.get)
    given = [
        Record(offset, 1_700_000_000_000 + time, key, b"%d" % offset, found)
        for offset, (key, found, time) in enumerate(given_records)
    ]
    together = site.rig.run(destination.deliver(given, 0))
    as_runs = arrived(site)
    alone = [site.rig.run(destination.deliver([record], 0)) for record in given]
    assert as_runs == arrived(site)
    assert together.done == len(given)
    assert [(failure.place, failure.reason) for failure in together.failures] == [
        (place, delivery.failures[0].reason) for place, delivery in enumerate(alone) if delivery.failures
    ]


def test_properties_are_those_of_the_mapping(site: Site) -> None:
    record = Record(0, 1_700_000_000_123, b"a.a", b"body", (("amqp.content-type", b"text/plain"), ("trace", b"1")))
    destination = ExchangeDestination(ExchangeTarget("direct"), "topic", site.broker.vhosts.get)
    site.rig.run(destination.deliver([record], 0))
    (message,) = site.messages("a")
    assert message == event_to_message(record)._replace(exchange="direct")


def test_records_of_many_keys_that_go_the_same_way_are_few_runs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made = count()
    of = Run.of
    monkeypatch.setattr(Run, "of", lambda messages: (next(made), of(messages))[1])
    destination = ExchangeDestination(ExchangeTarget("fanout"), "topic", site.broker.vhosts.get)
    given = [Record(offset, 1_700_000_000_000 + offset, b"%d" % offset, b"") for offset in range(200)]
    site.rig.run(destination.deliver(given, 0))
    assert next(made) == 1
    assert len(site.messages("a")) == 200
    site.messages("priorities")
