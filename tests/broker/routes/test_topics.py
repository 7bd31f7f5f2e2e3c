"""Routes from a topic to a topic: what arrives, in which partition, what can't, and routes that would go round in circles."""

from __future__ import annotations

import json

import pytest
from tests.broker.routes.conftest import Site

from headrace.broker.routes.errors import InvalidRoute, RouteConflict
from headrace.broker.routes.route import State
from headrace.record import Event
from headrace.record.partitioner import partition_for_key

ZMQ = {"type": "zmq", "address": "tcp://127.0.0.1:5999"}
NOW_MS = 1_700_000_000_000


@pytest.fixture
def topics(site: Site) -> Site:
    site.rig.create("t")
    site.rig.create("u")
    return site


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# --- what arrives


def test_a_record_arrives_with_its_key_value_headers_and_timestamp(topics: Site) -> None:
    events = [
        Event(b"k", b"v", (("a", b"1"), ("a", None), ("b", b"\xff")), NOW_MS),
        Event(None, b"", (), NOW_MS + 5),
        Event(b"", None, (), NOW_MS - 5),
    ]
    topics.append("t", *events)
    topics.to_topic()
    topics.caught_up()
    assert [record.event for record in topics.records("u")] == events


def test_a_timestamp_can_be_that_of_the_delivery(topics: Site) -> None:
    topics.append("t", Event(b"k", b"v", (), NOW_MS))
    before = topics.rig.clock.now_ms()
    topics.to_topic(timestamp=False)
    topics.caught_up()
    (record,) = topics.records("u")
    assert before <= record.timestamp_ms <= topics.rig.clock.now_ms()


def test_keys_pick_the_partition_that_kafkas_clients_would(site: Site) -> None:
    site.rig.create("t", 2)
    site.rig.create("u", 5)
    for number in range(100):
        site.append("t", Event(b"key-%d" % (number % 13), b"%d" % number), partition=(number % 13) % 2)
    site.to_topic()
    site.caught_up()
    found: dict[bytes, list[int]] = {}
    for partition in range(5):
        for record in site.records("u", partition):
            assert record.key is not None
            assert partition_for_key(record.key, 5) == partition
            found.setdefault(record.key, []).append(int(record.value or b""))
    assert sum(map(len, found.values())) == 100
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_records_can_stay_in_the_partition_of_the_same_number(site: Site) -> None:
    site.rig.create("t", 3)
    site.rig.create("u", 2)
    for partition in range(3):
        site.append("t", b"%d" % partition, partition=partition)
    site.to_topic(partition="same")
    site.caught_up()
    assert (sorted(site.values("u", 0)), site.values("u", 1)) == ([b"0", b"2"], [b"1"])


def test_a_missing_topic_is_made_with_the_servers_defaults() -> None:
    site = Site(settings={"num.partitions": "3"})
    site.rig.create("t")
    site.append("t", b"1")
    site.to_topic(to="made")
    site.caught_up()
    assert len(site.rig.log.topics()["made"].partitions) == 3
    site.rig.end()


def test_a_missing_topic_is_waited_for_where_the_server_makes_none() -> None:
    site = Site(settings={"auto.create.topics.enable": "false"})
    site.rig.create("t")
    site.append("t", b"1")
    route = site.to_topic(to="missing")
    site.wait_for(lambda: route.state is State.BLOCKED)
    assert "there is no topic 'missing'" in (route.error or "")
    site.rig.create("missing")
    site.caught_up()
    assert site.values("missing") == [b"1"]
    site.rig.end()


def test_what_the_topic_does_not_take_is_a_dead_letter_and_the_rest_arrives(site: Site) -> None:
    site.rig.create("t")
    site.rig.create("u", max_message_bytes="1000")
    big = b"x" * 2000
    site.append("t", b"1", big, b"2", b"3")
    site.to_topic()
    site.caught_up()
    assert site.values("u") == [b"1", b"2", b"3"]
    (dead,) = site.records("r.dead-letters")
    assert dead.value == big
    reason = dict(dead.headers)["__dlq.errors.message"]
    assert reason is not None
    assert reason.startswith(b"topic 'u' does not take it: a batch of 20")


def test_a_record_without_a_key_is_a_dead_letter_where_the_topic_is_compacted(site: Site) -> None:
    site.rig.create("t")
    site.rig.create("u", cleanup_policy="compact")
    site.append("t", Event(b"a", b"1"), Event(None, b"2"), Event(b"a", b"3"))
    route = site.to_topic(on_failure="skip")
    site.caught_up()
    assert site.values("u") == [b"1", b"3"]
    assert (route.counts.delivered, route.counts.skipped) == (2, 1)


def test_many_records_are_few_batches(topics: Site) -> None:
    topics.append("t", *numbered(1000))
    topics.to_topic()
    topics.caught_up()
    assert topics.values("u") == numbered(1000)
    assert topics.rig.partition("u", 0).end_offset == 1000


# --- circles


def test_a_route_that_feeds_itself_is_refused(topics: Site) -> None:
    with pytest.raises(RouteConflict, match="come back for ever: t → t"):
        topics.to_topic(to="t")


def test_a_circle_of_routes_is_refused_also_by_a_change(topics: Site) -> None:
    topics.to_topic("one", "a", "b")
    topics.to_topic("two", "b", "c")
    topics.to_topic("three", "c", "d", paused=True)
    with pytest.raises(RouteConflict, match="d → b → c → d"):
        topics.to_topic("four", "d", "b")
    with pytest.raises(RouteConflict, match="c → a → b → c"):
        topics.to_topic("three", "c", "a")
    topics.to_topic("two", "b", "e")
    topics.to_topic("three", "c", "a")  # no way round any more


def test_a_circle_through_an_exchange_and_stream_queues_is_refused_where_it_is_certain(site: Site) -> None:
    site.exchange("x", "fanout")
    site.queue("s", "x", "", x_queue_type="stream")
    site.to_topic("back", "s", "t")
    with pytest.raises(RouteConflict, match="t → s → t"):
        site.route("forth")
    site.exchange("y", "topic")
    site.queue("s", "y", "only.this", x_queue_type="stream")
    site.route("forth", exchange="y")  # it depends on the keys of records
    with pytest.raises(RouteConflict, match="t → s → t"):
        site.route("other", exchange="y", routing_key="only.this")


def test_two_routes_may_meet_in_a_topic(topics: Site) -> None:
    for name, topic in (("one", "a"), ("two", "b"), ("three", "c")):
        topics.to_topic(name, topic, "u")


def test_a_route_to_its_own_dead_letters_is_refused(topics: Site) -> None:
    with pytest.raises(InvalidRoute, match="its own dead letters"):
        topics.to_topic(to="r.dead-letters")


# --- definitions


def test_a_definition_of_the_first_form_is_read_as_ever(site: Site) -> None:
    site.rig.create("t")
    site.exchange("x")
    site.queue("q", "x", "#")
    destination = {"type": "exchange", "vhost": "/", "exchange": "x", "routing_key": None, "mandatory": True}
    old = {"topic": "t", "destination": destination, "on_failure": "dead-letter", "paused": False}
    row = json.dumps(old).encode()
    table = site.rig.run(site.rig.log.table("__headrace_routes"))
    site.rig.call(lambda: table.put({b"old": row}))
    site.append("t", b"1")
    site.restart()
    site.caught_up("old")
    assert site.bodies("q") == [b"1"]


def test_what_is_stored_is_what_was_put(topics: Site) -> None:
    route = topics.to_topic(filter="value == '1'", transform={"key": "'k'"}, partition="same", timestamp=False)
    definition = route.definition
    topics.restart()
    assert topics.broker.routes.get("r").definition == definition


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"source": {"type": "topic", "topic": "a"}, "topic": "b"}, "say different things"),
        ({"source": {"type": "carrier pigeon"}}, "source.type must be one of: topic, webhook, zmq, udp"),
        ({"source": 5}, "source must be an object"),
        ({"topic": "a", "filter": "x" * 5000}, "filter has more than 4096 bytes"),
        ({"topic": "a", "filter": 1}, "filter must be a text"),
        ({"topic": "a", "transform": {"offset": "1"}}, "transform.offset is not known"),
        ({"topic": "a", "transform": "value"}, "transform must be an object"),
        ({"topic": "a", "transform": {"value": 1}}, "transform.value must be a text"),
        ({"topic": "a", "destination": {"type": "topic"}}, "destination.topic must be the name"),
        ({"topic": "a", "destination": {"type": "topic", "topic": "__headrace_x"}}, "the server's own"),
        ({"topic": "a", "destination": {"type": "topic", "topic": "b", "partition": "any"}}, "one of: key, same"),
        (
            {
                "source": {"type": "zmq", "address": "tcp://127.0.0.1:5999"},
                "destination": {"type": "exchange", "exchange": "x"},
            },
            "must be a topic",
        ),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused_with_a_reason(site: Site, given: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidRoute, match=text):
        site.put("r", **{"destination": {"type": "topic", "topic": "u"}, **given})


def test_a_transform_that_says_nothing_is_none(topics: Site) -> None:
    assert topics.to_topic(transform={}).definition.transform is None


def test_no_route_writes_to_the_servers_own_topics(topics: Site) -> None:
    with pytest.raises(InvalidRoute, match="server's own"):
        topics.to_topic(to="__consumer_offsets")
