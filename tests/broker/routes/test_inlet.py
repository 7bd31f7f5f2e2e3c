"""Routes from outside into a topic: where events go, what is durable when, what can't be taken, and how they stop."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.routes.conftest import Site

from headrace.broker.routes import inlet as inlet_module
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.errors import RouteConflict, RouteNotStored
from headrace.broker.routes.ports import Inlet, Surroundings
from headrace.broker.routes.route import Route, State
from headrace.broker.topics import NewTopic
from headrace.log.errors import DiskFull, StorageError
from headrace.record import Event
from headrace.record.partitioner import partition_for_key

SOURCE = {"type": "zmq", "address": "tcp://127.0.0.1:5999"}


class Intake:
    """Puts what a test tells it to."""

    def __init__(self, inlet: Inlet) -> None:
        self.inlet = inlet
        self.error: str | None = None
        self.ended: list[str] = []

    def grown(self) -> None:
        self.ended.append("grown")

    async def stop(self) -> None:
        self.ended.append("stopped")

    def close(self) -> None:
        self.ended.append("closed")


class Inbound:
    """A site whose routes from ZeroMQ have such an intake."""

    def __init__(self, **settings: str) -> None:
        self.intakes: list[Intake] = []
        self.refusals: list[Exception] = []
        self.site = Site(settings={"num.partitions": "1", **settings})
        self._register()

    def _register(self) -> None:
        self.site.broker.routes.makers.intakes["zmq"] = self._make

    def _make(self, definition: RouteDefinition, inlet: Inlet, around: Surroundings) -> Intake:
        if self.refusals:
            raise self.refusals.pop()
        self.intakes.append(Intake(inlet))
        return self.intakes[-1]

    def route(self, **more: Any) -> Route:
        route = self.site.put("in", source=SOURCE, destination={"type": "topic", "topic": "t"}, **more)
        self.site.settle()
        return route

    def put(self, *events: Event | bytes) -> None:
        given = [event if isinstance(event, Event) else Event(None, event) for event in events]
        self.site.rig.call(lambda: self.intakes[-1].inlet.put(given))

    def durable(self) -> None:
        self.site.rig.run(self.intakes[-1].inlet.durable())


@pytest.fixture
def inbound() -> Any:
    inbound = Inbound()
    yield inbound
    inbound.site.rig.end()


def test_events_are_appended_as_they_are(inbound: Inbound) -> None:
    route = inbound.route()
    events = [
        Event(b"k", b"v", (("a", b"1"), ("a", None)), 1_600_000_000_000),
        Event(b"", None, (), 1_600_000_000_005),
        Event(None, b"", (), 1_599_999_999_999),
    ]
    inbound.put(*events)
    inbound.durable()
    assert [record.event for record in inbound.site.records("t")] == events
    assert (route.state, route.counts.delivered, route.standings()) == (State.RUNNING, 3, [])
    assert inbound.site.broker.traffic["zmq"].bytes_in["t"] > 0


def test_an_event_without_a_timestamp_gets_that_of_its_arrival(inbound: Inbound) -> None:
    inbound.route()
    now_ms = inbound.site.rig.clock.now_ms()
    inbound.put(Event(b"k", b"1"))
    inbound.durable()
    assert inbound.site.records("t")[0].timestamp_ms == now_ms


def test_keys_pick_the_partition_and_the_rest_is_spread_call_by_call() -> None:
    inbound = Inbound(**{"num.partitions": "3"})
    inbound.route()
    inbound.put(*(Event(b"%d" % number, b"%d" % number) for number in range(50)))
    inbound.durable()
    for partition in range(3):
        for record in inbound.site.records("t", partition):
            assert partition_for_key(record.key or b"", 3) == partition
    before = [len(inbound.site.values("t", partition)) for partition in range(3)]
    for _ in range(3):
        inbound.put(b"a", b"b")
    inbound.durable()
    assert [len(inbound.site.values("t", partition)) for partition in range(3)] == [count + 2 for count in before]
    inbound.site.rig.end()


def test_what_is_durable_survives_a_crash(inbound: Inbound) -> None:
    inbound.route()
    inbound.put(b"1", b"2")
    inbound.durable()
    inbound.put(b"3")
    inbound.site.rig.crash()
    inbound.site.rig.open()
    inbound.site.start()
    assert inbound.site.values("t")[:2] == [b"1", b"2"]


def test_filter_and_transform_apply_to_what_comes_in(inbound: Inbound) -> None:
    route = inbound.route(filter="value > 2", transform={"key": "text", "headers": "{'from': string(offset)}"})
    inbound.put(*(b"%d" % number for number in range(1000)))
    inbound.put(b"1", b"5000")
    inbound.durable()
    records = inbound.site.records("t")
    assert [record.value for record in records] == [b"%d" % number for number in range(3, 1000)] + [b"5000"]
    assert (records[0].key, records[0].headers) == (b"3", (("from", b"-1"),))
    assert (route.counts.delivered, route.counts.filtered) == (998, 4)


def test_what_can_not_be_evaluated_or_taken_is_a_dead_letter(inbound: Inbound) -> None:
    inbound.site.rig.create("t", max_message_bytes="500")
    route = inbound.route(filter="value > 2")
    inbound.put(Event(b"k", b"three", (("h", b"1"),)), b"5", b"1" * 600)
    inbound.durable()
    assert inbound.site.values("t") == [b"5"]
    second, first = inbound.site.records("in.dead-letters")
    assert (first.key, first.value, first.headers[0]) == (b"k", b"three", ("h", b"1"))
    facts = dict(first.headers)
    assert facts["__dlq.errors.source"] == route.definition.source.label.encode()
    assert (facts["__dlq.errors.message"] or b"").startswith(b"filter: ")
    assert "__dlq.errors.offset" not in facts
    assert (dict(second.headers)["__dlq.errors.message"] or b"").startswith(b"topic 't' does not take it")
    assert route.counts.dead_lettered == 2


def test_what_can_not_be_taken_is_skipped_if_that_was_asked_for(inbound: Inbound) -> None:
    route = inbound.route(filter="value > 2", on_failure="skip")
    inbound.put(b"three", b"5")
    inbound.durable()
    assert (route.counts.skipped, inbound.site.values("t")) == (1, [b"5"])
    assert "in.dead-letters" not in inbound.site.rig.log.topics()


def test_a_missing_topic_is_made_or_waited_for(inbound: Inbound) -> None:
    inbound.route()
    assert "t" in inbound.site.rig.log.topics()
    other = Inbound(**{"auto.create.topics.enable": "false"})
    route = other.route()
    assert (route.state, route.error) == (State.WAITING, "there is no topic 't'")
    other.site.rig.run(other.site.broker.topics.create(NewTopic("t")))
    other.site.settle()
    assert route.state is State.RUNNING
    other.site.rig.end()


def test_a_topic_that_can_not_be_made_now_is_made_later(inbound: Inbound) -> None:
    route = inbound.route(paused=True)
    inbound.site.broker.topics.create = _refuse(inbound.site.broker.topics.create)  # type: ignore[method-assign]
    inbound.site.rig.run(inbound.site.broker.routes.resume("in"))
    inbound.site.settle()
    assert (route.state, route.error) == (State.WAITING, "there is no topic 't'")
    inbound.site.wait_for(lambda: route.state is State.RUNNING)


def _refuse(create: Any) -> Any:
    """Twice."""
    refusals = [DiskFull("no room"), DiskFull("no room")]

    async def refused(*given: Any, **more: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return await create(*given, **more)

    return refused


def test_a_pause_ends_the_intake_and_a_resume_begins_another(inbound: Inbound) -> None:
    route = inbound.route()
    inbound.put(b"1")
    inbound.site.rig.run(inbound.site.broker.routes.pause("in"))
    assert (route.state, inbound.intakes[0].ended) == (State.PAUSED, ["stopped"])
    with pytest.raises(RouteConflict, match="takes nothing now"):
        inbound.put(b"2")
    inbound.site.rig.run(inbound.site.broker.routes.resume("in"))
    inbound.site.settle()
    inbound.put(b"3")
    inbound.durable()
    assert inbound.site.values("t") == [b"1", b"3"]


def test_a_topic_that_is_deleted_ends_the_intake_and_is_not_made_again_by_itself(inbound: Inbound) -> None:
    route = inbound.route()
    inbound.site.rig.run(inbound.site.broker.topics.delete("t"))
    inbound.site.settle()
    assert (route.state, inbound.intakes[0].ended) == (State.WAITING, ["closed"])
    with pytest.raises(RouteConflict):
        inbound.put(b"1")
    inbound.site.rig.run(inbound.site.broker.topics.create(NewTopic("t")))
    inbound.site.settle()
    inbound.put(b"2")
    inbound.durable()
    assert inbound.site.values("t") == [b"2"]


def test_the_topic_of_a_route_from_outside_can_be_another_later(inbound: Inbound) -> None:
    inbound.route()
    inbound.site.put("in", source=SOURCE, destination={"type": "topic", "topic": "other"})
    inbound.site.settle()
    inbound.put(b"1")
    inbound.durable()
    assert inbound.site.values("other") == [b"1"]


def test_an_intake_that_can_not_be_opened_is_tried_again(inbound: Inbound) -> None:
    inbound.refusals = [OSError("address already in use"), OSError("address already in use")]
    route = inbound.site.put("in", source=SOURCE, destination={"type": "topic", "topic": "t"})
    inbound.site.wait_for(lambda: route.state is State.BLOCKED)
    assert route.error == "address already in use"
    inbound.site.wait_for(lambda: route.state is State.RUNNING)
    inbound.put(b"1")
    inbound.durable()


def test_a_type_of_end_that_nobody_works_at_blocks_its_route(site: Site) -> None:
    route = site.put("in", source=SOURCE, destination={"type": "topic", "topic": "t"})
    site.wait_for(lambda: route.state is State.BLOCKED)
    assert "this server has nothing that works at" in (route.error or "")


def test_a_route_that_waits_for_its_topic_begins_as_it_was_changed(inbound: Inbound) -> None:
    inbound.site.broker.topics.create = _refuse(inbound.site.broker.topics.create)  # type: ignore[method-assign]
    inbound.route(filter="false")
    inbound.route(filter="true")  # which makes the topic
    inbound.put(b"1")
    inbound.durable()
    assert inbound.site.values("t") == [b"1"]
    assert len(inbound.intakes) == 1


def test_the_error_of_an_intake_is_that_of_its_route(inbound: Inbound) -> None:
    route = inbound.route()
    inbound.intakes[0].error = "nobody is there"
    assert (route.state, route.error) == (State.BLOCKED, "nobody is there")


def test_a_full_disk_is_told_to_whoever_puts(inbound: Inbound) -> None:
    inbound.route()
    disk = inbound.site.rig.disk
    disk.capacity_bytes = disk.used_bytes()

    def flood() -> None:
        for _ in range(100):
            inbound.put(b"x" * 100_000)
            inbound.durable()

    with pytest.raises((DiskFull, StorageError)):
        flood()


def test_more_than_filters_can_take_is_refused_and_there_is_room_again_later(
    inbound: Inbound, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inlet_module, "MAX_WAITING", 10)
    route = inbound.route(filter="true")

    def flood() -> None:
        for _ in range(20):
            inbound.intakes[-1].inlet.put([Event(None, b"1")])

    with pytest.raises(RouteNotStored, match="more comes in than it can take"):
        inbound.site.rig.call(flood)
    inbound.site.rig.run(inbound.intakes[-1].inlet.room())
    inbound.put(b"2")
    inbound.durable()
    assert inbound.site.values("t") == [b"1"] * 10 + [b"2"]
    assert route.counts.delivered == 11


def test_a_batch_that_is_too_long_for_the_topic_is_cut(inbound: Inbound) -> None:
    inbound.site.rig.create("t", max_message_bytes="2000")
    inbound.route()
    bodies = [b"%d" % number * 100 for number in range(10)] * 20
    inbound.put(*bodies)
    inbound.durable()
    assert inbound.site.values("t") == bodies


def test_a_direction_can_not_be_turned(inbound: Inbound) -> None:
    inbound.route()
    with pytest.raises(RouteConflict, match="goes the other way"):
        inbound.site.put("in", topic="t", destination={"type": "topic", "topic": "u"})
