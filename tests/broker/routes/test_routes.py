"""Routes from topics to exchanges, on a simulated disk and clock: order, positions, dead letters, pauses, replays, crashes."""

from __future__ import annotations

import pytest
from tests.broker.routes.conftest import Site

from headrace.broker.routes import exchange as exchange_module
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.errors import InvalidRoute, RouteConflict, UnknownRoute
from headrace.broker.routes.positions import Place
from headrace.broker.routes.route import State
from headrace.broker.topics import NewTopic
from headrace.record import Event
from headrace.record.amqp.properties import decode_properties
from headrace.record.control import EndTransactionMarker, encode_marker


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def end_transaction(site: Site, *, commit: bool) -> None:
    marker = encode_marker(EndTransactionMarker(commit, 0), producer_id=7, producer_epoch=0, now_ms=1)
    site.rig.call(lambda: site.rig.partition("t").append_control(marker))


@pytest.fixture
def bridge(site: Site) -> Site:
    """A topic `t`, an exchange `x`, and a queue `q` that gets everything."""
    site.rig.create("t")
    site.exchange("x")
    site.queue("q", "x", "#")
    return site


# --- delivering


def test_records_become_messages_in_order_and_the_position_follows(bridge: Site) -> None:
    bridge.append("t", *numbered(3))
    bridge.route()
    bridge.append("t", *numbered(700, 3))
    bridge.caught_up()
    assert bridge.bodies("q") == numbered(703)
    assert bridge.position() == 703


def test_a_message_has_what_the_mapping_says_and_the_exchange_it_went_through(bridge: Site) -> None:
    bridge.append("t", Event(b"order.new", b"body", (("trace", b"abc"),), 1_700_000_000_123))
    bridge.route()
    bridge.caught_up()
    (message,) = bridge.messages("q")
    assert (message.exchange, message.routing_key, message.body) == ("x", "order.new", b"body")
    properties = decode_properties(message.properties)
    assert properties.headers == {"trace": "abc", "timestamp_in_ms": 1_700_000_000_123}
    assert (properties.delivery_mode, properties.timestamp) == (2, 1_700_000_000)


def test_a_fixed_routing_key_keeps_the_records_key_in_a_header(bridge: Site) -> None:
    bridge.append("t", Event(b"customer-7", b"1"), Event(None, b"2"), Event(b"\xff", b"3"))
    bridge.route(routing_key="orders")
    bridge.caught_up()
    messages = bridge.messages("q")
    assert [message.routing_key for message in messages] == ["orders"] * 3
    keys = [(decode_properties(message.properties).headers or {}).get("x-opt-partition-key") for message in messages]
    assert keys == [b"customer-7", None, b"\xff"]


def test_each_record_goes_where_its_key_leads(bridge: Site) -> None:
    bridge.queue("new", "x", "order.new")
    bridge.append("t", Event(b"order.new", b"1"), Event(b"order.old", b"2"), Event(b"order.new", b"3"))
    bridge.route()
    bridge.caught_up()
    assert bridge.bodies("new") == [b"1", b"3"]
    assert bridge.bodies("q") == [b"1", b"2", b"3"]


def test_order_is_kept_in_each_of_many_partitions(site: Site) -> None:
    site.rig.create("t", 8)
    site.exchange("x", "fanout")
    site.queue("q", "x", "")
    site.route()
    for round_number in range(20):
        for partition in range(8):
            site.append("t", Event(b"p%d" % partition, b"%d" % round_number), partition=partition)
    site.caught_up()
    messages = site.messages("q")
    assert len(messages) == 160
    for partition in range(8):
        mine = [message.body for message in messages if message.routing_key == f"p{partition}"]
        assert mine == numbered(20)


def test_only_committed_records_are_delivered(bridge: Site) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    bridge.route()
    bridge.append("t", b"aborted", base_sequence=0, **producer)
    bridge.append("t", b"plain")
    bridge.settle()
    assert bridge.bodies("q") == []  # behind an open transaction
    end_transaction(bridge, commit=False)
    bridge.append("t", b"committed", base_sequence=1, **producer)
    end_transaction(bridge, commit=True)
    bridge.caught_up()
    assert bridge.bodies("q") == [b"plain", b"committed"]
    assert bridge.position() == 5  # past the marker


def test_a_message_does_not_come_back_to_the_topic_it_came_from(bridge: Site) -> None:
    bridge.queue("t", "x", "#", x_queue_type="stream")
    bridge.append("t", *numbered(5))
    bridge.route()
    bridge.caught_up()
    assert bridge.bodies("q") == numbered(5)
    assert len(bridge.records("t")) == 5


# --- what can't be delivered


def test_what_no_queue_takes_becomes_a_dead_letter_with_its_origin(site: Site) -> None:
    site.rig.create("t", 2)
    site.exchange("x")
    site.queue("q", "x", "good")
    site.append("t", Event(b"good", b"1"), Event(b"bad", b"2", (("trace", b"abc"),)), Event(b"good", b"3"), partition=1)
    route = site.route()
    site.caught_up()
    assert site.bodies("q") == [b"1", b"3"]
    (dead,) = site.records("r.dead-letters")
    assert (dead.key, dead.value) == (b"bad", b"2")
    headers = dict(dead.headers)
    assert headers.pop("__dlq.errors.timestamp") is not None
    assert headers == {
        "trace": b"abc",
        "__dlq.errors.topic": b"t",
        "__dlq.errors.partition": b"1",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": b"headrace.route.r",
        "__dlq.errors.route": b"r",
        "__dlq.errors.message": b"no queue takes it: NO_ROUTE",
    }
    assert (route.counts.delivered, route.counts.dead_lettered) == (2, 1)


def test_what_no_client_could_publish_becomes_a_dead_letter(bridge: Site) -> None:
    bridge.append("t", Event(b"k", b"1", (("amqp.expiration", b"soon"),)), Event(b"k", b"2"))
    bridge.route()
    bridge.caught_up()
    assert bridge.bodies("q") == [b"2"]
    (dead,) = bridge.records("r.dead-letters")
    assert dead.value == b"1"
    assert b"invalid expiration" in (dict(dead.headers)["__dlq.errors.message"] or b"")


def test_with_skip_nothing_is_kept_of_what_no_queue_takes(site: Site) -> None:
    site.rig.create("t")
    site.exchange("x")
    site.append("t", *numbered(3))
    route = site.route(on_failure="skip")
    site.caught_up()
    assert route.counts.skipped == 3
    assert "r.dead-letters" not in site.rig.log.topics()


def test_what_is_not_mandatory_may_be_dropped_by_the_exchange(site: Site) -> None:
    site.rig.create("t")
    site.exchange("x")
    site.append("t", *numbered(3))
    route = site.route(mandatory=False)
    site.caught_up()
    assert (route.counts.delivered, route.counts.dead_lettered) == (3, 0)


def test_a_dead_letter_topic_that_takes_nothing_stops_the_partition_until_it_does(site: Site) -> None:
    site.rig.create("t")
    site.exchange("x")
    site.queue("q", "x", "good")
    site.rig.create("r.dead-letters", cleanup_policy="compact")
    site.append("t", Event(b"good", b"1"), Event(None, b"no key"), Event(b"good", b"2"))
    route = site.route()
    site.wait_for(lambda: route.state is State.BLOCKED)
    assert "offset" in (route.error or "")
    assert (site.position() or 0) <= 1
    site.rig.run(site.broker.topics.configure("r.dead-letters", lambda _: {"cleanup.policy": "delete"}))
    site.caught_up()
    assert site.bodies("q") == [b"1", b"2"]
    assert [record.value for record in site.records("r.dead-letters")] == [b"no key"]


def test_a_batch_that_cannot_be_read_is_told_and_passed_over(bridge: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.broker.routes import reading

    monkeypatch.setattr(reading, "MAX_BATCH_RECORDS", 2)
    bridge.append("t", b"1")
    bridge.append("t", *numbered(3, 2))
    bridge.append("t", b"5")
    bridge.route()
    bridge.caught_up()
    assert bridge.bodies("q") == [b"1", b"5"]
    (dead,) = bridge.records("r.dead-letters")
    assert dead.value is None
    assert dict(dead.headers)["__dlq.errors.offset"] == b"1"


# --- what must wait


def test_an_exchange_that_is_missing_is_waited_for(site: Site) -> None:
    site.rig.create("t")
    site.append("t", *numbered(3))
    route = site.route()
    site.wait_for(lambda: route.state is State.BLOCKED)
    assert "there is no exchange 'x' in vhost '/'" in (route.error or "")
    site.exchange("x")
    site.queue("q", "x", "#")
    site.caught_up()
    assert route.error is None
    assert site.bodies("q") == numbered(3)


def test_an_internal_exchange_is_told_and_takes_nothing(site: Site) -> None:
    site.rig.create("t")
    site.exchange("x", internal=True)
    site.append("t", b"1")
    route = site.route()
    site.wait_for(lambda: route.state is State.BLOCKED)
    assert "cannot publish to internal exchange 'x'" in (route.error or "")
    assert "r.dead-letters" not in site.rig.log.topics()


def test_a_virtual_host_that_goes_is_waited_for(bridge: Site) -> None:
    hosts = bridge.broker.vhosts
    bridge.rig.call(lambda: hosts.create("other"))
    route = bridge.route(vhost="other", exchange="amq.fanout", mandatory=False)
    bridge.append("t", b"1")
    bridge.caught_up()
    bridge.rig.call(lambda: hosts.delete("other"))
    bridge.append("t", b"2")
    bridge.wait_for(lambda: route.state is State.BLOCKED)
    assert "there is no vhost 'other'" in (route.error or "")


def test_headers_decide_for_each_record_where_the_exchange_looks_at_them(site: Site) -> None:
    site.rig.create("t")
    site.exchange("x", "headers")
    for colour in ("red", "blue"):
        site.queue(colour)
        site.rig.call(lambda colour=colour: site.vhost.bind_queue(colour, "x", "", {"x-match": "all", "colour": colour}))  # type: ignore[misc]
    site.append("t", *(Event(b"k", b"%d" % n, (("colour", (b"red", b"blue")[n % 2]),), 1_700_000_000_000) for n in range(6)))
    site.route()
    site.caught_up()
    assert (site.bodies("red"), site.bodies("blue")) == ([b"0", b"2", b"4"], [b"1", b"3", b"5"])


def test_carbon_copies_and_delays_have_their_effect(bridge: Site) -> None:
    bridge.queue("copy", "x", "copy")
    bridge.exchange("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    bridge.queue("slow", "later", "")
    types = (("amqp.exchange", b""), ("amqp.types", b'{"CC":"A","x-delay":"I"}'))
    bridge.append("t", Event(b"k", b"1", (*types, ("CC", b'["copy"]'), ("x-delay", b"5000"))))
    bridge.route("one")
    bridge.caught_up("one")
    assert bridge.bodies("copy") == [b"1"]
    bridge.route("two", exchange="later")
    bridge.caught_up("two")
    assert bridge.vhost.queues["slow"].message_count == 0
    bridge.rig.advance(6)
    bridge.settle()
    assert bridge.bodies("slow") == [b"1"]


def test_a_full_queue_holds_its_partition_back_and_nothing_is_lost(site: Site) -> None:
    site.rig.create("t", 2)
    site.exchange("x")
    site.queue("small", "x", "small", x_max_length=2, x_overflow="reject-publish")
    site.queue("large", "x", "large")
    site.append("t", *(Event(b"small", body) for body in numbered(7)), partition=0)
    site.append("t", *(Event(b"large", body) for body in numbered(7)), partition=1)
    route = site.route()
    site.wait_for(lambda: route.state is State.BLOCKED and site.position(partition=1) == 7)
    assert site.bodies("large") == numbered(7)
    got: list[bytes] = []

    def drained() -> bool:
        got.extend(site.bodies("small"))
        return len(got) == 7

    site.wait_for(drained)
    assert got == numbered(7)
    site.caught_up()


def test_a_queue_that_dead_letters_what_it_refuses_holds_nothing_back(site: Site) -> None:
    site.rig.create("t")
    site.exchange("x")
    site.exchange("dlx", "fanout")
    site.queue("dead", "dlx", "")
    site.queue("q", "x", "#", x_max_length=2, x_overflow="reject-publish-dlx", x_dead_letter_exchange="dlx")
    site.append("t", *numbered(5))
    site.route()
    site.caught_up()
    assert site.bodies("q") == numbered(2)
    assert site.bodies("dead") == numbered(3, 2)


def test_nothing_is_published_while_the_log_is_backlogged(bridge: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    backlogged = True
    monkeypatch.setattr(type(bridge.rig.log), "backlogged", property(lambda log: backlogged))
    bridge.append("t", *numbered(3))
    bridge.route()
    for _ in range(20):
        bridge.rig.turn()
    assert bridge.vhost.queues["q"].message_count == 0
    backlogged = False
    bridge.caught_up()
    assert bridge.bodies("q") == numbered(3)


def test_an_error_of_our_own_is_told_and_tried_again(bridge: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(record: object) -> object:
        raise KeyError("ours")

    monkeypatch.setattr(exchange_module, "event_to_message", broken)
    bridge.append("t", b"1")
    route = bridge.route()
    bridge.wait_for(lambda: route.state is State.BLOCKED)
    assert "error of the server's own: KeyError" in (route.error or "")
    monkeypatch.undo()
    bridge.caught_up()
    assert bridge.bodies("q") == [b"1"]


# --- where it begins, pauses and replays


@pytest.mark.parametrize(("start", "expected"), [("earliest", 10), ("latest", 0), (4, 6), (99, 0)])
def test_a_new_route_begins_where_it_is_told(bridge: Site, start: object, expected: int) -> None:
    bridge.append("t", *numbered(10))
    bridge.settle()
    bridge.route(start=start)
    bridge.append("t", b"last")
    bridge.caught_up()
    assert bridge.bodies("q") == [*numbered(expected, 10 - expected), b"last"]


def test_a_route_begins_and_replays_at_a_time(bridge: Site) -> None:
    for hour in range(4):
        bridge.append("t", Event(b"k", b"%d" % hour, timestamp_ms=1_699_956_000_000 + hour * 3_600_000))
    bridge.settle()
    bridge.route(start="2023-11-14T12:00:00Z")
    bridge.caught_up()
    assert bridge.bodies("q") == [b"2", b"3"]
    bridge.rig.run(bridge.broker.routes.replay("r", Place.of("2023-11-14T12:00:00+01:00")))
    bridge.caught_up()
    assert bridge.bodies("q") == [b"1", b"2", b"3"]


def test_a_paused_route_stands_still_and_goes_on_where_it_was(bridge: Site) -> None:
    route = bridge.route()
    bridge.append("t", *numbered(3))
    bridge.caught_up()
    bridge.rig.run(bridge.broker.routes.pause("r"))
    bridge.append("t", *numbered(3, 3))
    bridge.settle()
    assert (route.state, route.error, bridge.position()) == (State.PAUSED, None, 3)
    assert sum(standing.lag for standing in route.standings()) == 3
    bridge.restart()
    assert bridge.broker.routes.get("r").state is State.PAUSED
    bridge.rig.run(bridge.broker.routes.resume("r"))
    bridge.caught_up()
    assert bridge.bodies("q") == numbered(6)


def test_a_replay_of_one_partition_leaves_the_others(site: Site) -> None:
    site.rig.create("t", 2)
    site.exchange("x")
    site.queue("q", "x", "#")
    for partition in range(2):
        site.append("t", *(Event(b"p%d" % partition, body) for body in numbered(3)), partition=partition)
    site.route()
    site.caught_up()
    site.messages("q")
    site.rig.run(site.broker.routes.replay("r", Place.of(1), 1))
    site.caught_up()
    assert [(message.routing_key, message.body) for message in site.messages("q")] == [("p1", b"1"), ("p1", b"2")]
    with pytest.raises(InvalidRoute, match="partitions 0 to 1"):
        site.rig.run(site.broker.routes.replay("r", Place.of(1), 2))


def test_another_destination_keeps_the_position_and_another_topic_is_refused(bridge: Site) -> None:
    bridge.append("t", *numbered(3))
    bridge.route()
    bridge.caught_up()
    bridge.exchange("y", "fanout")
    bridge.queue("other", "y", "")
    bridge.route(exchange="y")
    bridge.append("t", b"3")
    bridge.caught_up()
    assert (bridge.bodies("q"), bridge.bodies("other")) == (numbered(3), [b"3"])
    with pytest.raises(RouteConflict, match="reads topic 't'"):
        bridge.route(topic="u")


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_the_servers_own_topics_have_no_routes(bridge: Site, topic: str) -> None:
    with pytest.raises(InvalidRoute, match="the server's own"):
        bridge.route(topic=topic)


def test_a_deleted_route_takes_its_position_along(bridge: Site) -> None:
    bridge.append("t", *numbered(3))
    bridge.route()
    bridge.caught_up()
    bridge.rig.run(bridge.broker.routes.delete("r"))
    assert bridge.position() is None
    with pytest.raises(UnknownRoute):
        bridge.broker.routes.get("r")
    bridge.restart()
    assert list(bridge.broker.routes) == []


def test_a_group_with_members_is_not_overwritten(bridge: Site) -> None:
    from headrace.broker.groups.errors import UnknownMember

    class Crowded:
        group_id = "headrace.route.r"
        kind = "classic"
        removable = False

        def check_commit(self, committer: object) -> None:
            raise UnknownMember

        def close(self) -> None:
            pass

    bridge.rig.call(lambda: bridge.broker.groups.adopt(Crowded()))  # type: ignore[arg-type]
    with pytest.raises(RouteConflict, match="has members"):
        bridge.route()


@pytest.mark.parametrize("paused", [False, True])
def test_a_position_outlives_the_retention_of_offsets(paused: bool) -> None:
    site = Site(settings={"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "5000"})
    site.rig.create("t")
    site.exchange("x")
    site.append("t", *numbered(3))
    site.route(on_failure="skip")
    site.caught_up()
    if paused:
        site.rig.run(site.broker.routes.pause("r"))
    for _ in range(20):
        site.rig.advance(10)
        site.rig.settle()
    assert site.position() == 3
    site.restart()
    assert site.position() == 3
    site.rig.end()


# --- topics that come and go


def test_a_route_waits_for_its_topic_and_reads_all_of_it(site: Site) -> None:
    site.exchange("x")
    site.queue("q", "x", "#")
    route = site.route(start="latest")
    assert (route.state, route.error) == (State.WAITING, "there is no topic 't'")
    site.rig.run(site.broker.topics.create(NewTopic("t")))
    site.append("t", *numbered(3))
    site.caught_up()
    assert site.bodies("q") == numbered(3)


def test_a_topic_that_is_deleted_and_made_anew_is_read_from_its_beginning(bridge: Site) -> None:
    bridge.append("t", *numbered(5))
    route = bridge.route()
    bridge.caught_up()
    bridge.messages("q")
    bridge.rig.run(bridge.broker.topics.delete("t"))
    bridge.settle()
    assert (route.state, bridge.position()) == (State.WAITING, None)
    bridge.rig.run(bridge.broker.topics.create(NewTopic("t")))
    bridge.append("t", b"anew")
    bridge.caught_up()
    assert (bridge.bodies("q"), bridge.position()) == ([b"anew"], 1)


def test_new_partitions_are_read_from_their_beginning(bridge: Site) -> None:
    bridge.append("t", *numbered(3))
    bridge.settle()
    bridge.route(start="latest")
    bridge.rig.run(bridge.broker.topics.add_partitions("t", 3))
    bridge.append("t", b"new", partition=2)
    bridge.caught_up()
    assert bridge.bodies("q") == [b"new"]


def test_what_retention_took_is_counted_and_passed_over(bridge: Site) -> None:
    bridge.append("t", *numbered(5))
    bridge.append("t", b"kept")
    route = bridge.route(paused=True)
    bridge.rig.run(bridge.rig.partition("t").trim(5))
    bridge.rig.run(bridge.broker.routes.resume("r"))
    bridge.caught_up()
    assert (bridge.bodies("q"), route.counts.lost) == ([b"kept"], 5)


# --- crashes


def test_a_crash_repeats_a_little_and_loses_nothing(bridge: Site) -> None:
    bridge.route()
    sent = 0
    for _ in range(5):
        bridge.append("t", *numbered(50, sent))
        sent += 50
        bridge.rig.run(bridge.rig.log.synced())
        for _ in range(3):
            bridge.rig.turn()
        bridge.crash()
    bridge.caught_up()
    bodies = bridge.bodies("q")
    assert list(dict.fromkeys(bodies)) == numbered(sent)


def test_a_clean_restart_repeats_nothing(bridge: Site) -> None:
    bridge.route()
    for number in range(5):
        bridge.append("t", *numbered(20, number * 20))
        bridge.rig.run(bridge.rig.log.synced())
        bridge.restart()
    bridge.caught_up()
    assert bridge.bodies("q") == numbered(100)


# --- definitions


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "destination must be an object"),
        ({"destination": {"type": "fax"}}, "destination.type must be one of: exchange"),
        ({"destination": {"type": "exchange"}}, "destination.exchange must be a text"),
        ({"destination": {"type": "exchange", "exchange": "x" * 256}}, "more than 255 bytes"),
        ({"destination": {"type": "exchange", "exchange": "\ud800"}}, "UTF-8"),
        ({"destination": {"type": "exchange", "exchange": "x", "key": "k"}}, "destination.key is not known"),
        ({"destination": {"type": "exchange", "exchange": "x", "mandatory": 1}}, "must be true or false"),
        ({"destination": {"type": "exchange", "exchange": "x"}}, "topic must be"),
        ({"destination": {"type": "exchange", "exchange": "x"}, "topic": "a/b"}, "Topic name is invalid"),
        ({"destination": {"type": "exchange", "exchange": "x"}, "topic": "__headrace_amqp"}, "server's own"),
        ({"destination": {"type": "exchange", "exchange": "x"}, "topic": "r.dead-letters"}, "its own dead letters"),
        ({"destination": {"type": "exchange", "exchange": "x"}, "topic": "t", "on_failure": "cry"}, "on_failure"),
        ({"destination": {"type": "exchange", "exchange": "x"}, "topic": "t", "paused": "no"}, "paused"),
        ({"destination": {"type": "exchange", "exchange": "x"}, "topic": "t", "pasued": True}, "pasued is not known"),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused_with_a_reason(given: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidRoute, match=text):
        RouteDefinition.of("r", given)


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 201, "..", "a/b"])
def test_a_name_that_no_topic_may_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidRoute, match="name of a route"):
        RouteDefinition.of(name, {"topic": "t", "destination": {"type": "exchange", "exchange": "x"}})


@pytest.mark.parametrize("place", [-(1 << 64), True, None, "soon", 1.5, 1 << 64, {}])
def test_a_place_that_makes_no_sense_is_refused(place: object) -> None:
    with pytest.raises(InvalidRoute, match="from must be"):
        Place.of(place)
