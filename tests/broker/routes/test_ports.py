"""What works at the ends of routes, as the ports say: destinations, runs of their own, and how they are opened and closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.broker.routes.conftest import Site

from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.destination import Delivery, Failure
from headrace.broker.routes.errors import RouteConflict
from headrace.broker.routes.ports import Surroundings
from headrace.broker.routes.positions import Place
from headrace.broker.routes.route import Route, State
from headrace.record import Record

TARGET = {"type": "zmq", "address": "tcp://127.0.0.1:5999"}


class Recording:
    """A destination that says what a test wants it to say, and then that all is delivered."""

    def __init__(self, *answers: Delivery) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[int, list[bytes | None]]] = []
        self.closed = 0

    async def deliver(self, records: Sequence[Record], partition: int) -> Delivery:
        self.calls.append((partition, [record.value for record in records]))
        return self.answers.pop(0) if self.answers else Delivery(len(records))

    def close(self) -> None:
        self.closed += 1


class OwnRun:
    """A run that does it all by itself."""

    error: str | None = None

    def __init__(self) -> None:
        self.replayed: list[Mapping[int, tuple[int, int]]] = []
        self.ended: list[str] = []

    def facts(self) -> dict[str, object]:
        return {"mood": "fine"}

    async def replay(self, periods: Mapping[int, tuple[int, int]]) -> dict[str, object]:
        self.replayed.append(periods)
        return {"events": 17}

    def grown(self) -> None:
        self.ended.append("grown")

    async def stop(self) -> None:
        self.ended.append("stopped")

    def close(self) -> None:
        self.ended.append("closed")


@pytest.fixture
def topic(site: Site) -> Site:
    site.rig.create("t")
    return site


def begin(site: Site, destination: Recording, **more: object) -> Route:
    site.broker.routes.makers.destinations["zmq"] = lambda definition, around: destination
    return site.put("r", topic="t", destination=TARGET, **more)


def test_a_destination_gets_records_with_their_partition_and_is_closed_once(topic: Site) -> None:
    topic.rig.run(topic.broker.topics.add_partitions("t", 2))
    destination = Recording()
    begin(topic, destination)
    topic.append("t", b"1", b"2")
    topic.append("t", b"3", partition=1)
    topic.caught_up()
    assert sorted(destination.calls) == [(0, [b"1", b"2"]), (1, [b"3"])]
    topic.rig.run(topic.broker.routes.pause("r"))
    topic.rig.call(topic.broker.routes.close)
    assert destination.closed == 1


def test_what_waits_is_tried_again_when_the_destination_says(topic: Site) -> None:
    destination = Recording(Delivery(1, wait="nobody is there", again_in_s=30.0))
    topic.append("t", b"1", b"2", b"3")
    route = begin(topic, destination)
    topic.wait_for(lambda: route.state is State.BLOCKED)
    assert route.error == "partition 0, offset 1: nobody is there"
    topic.rig.advance(29.0)
    topic.rig.settle()
    assert len(destination.calls) == 1
    topic.rig.advance(1.5)
    topic.caught_up()
    assert destination.calls == [(0, [b"1", b"2", b"3"]), (0, [b"2", b"3"])]
    assert route.counts.delivered == 3


def test_a_pace_that_is_kept_is_no_trouble(topic: Site) -> None:
    destination = Recording(Delivery(1, wait="", again_in_s=5.0))
    topic.append("t", b"1", b"2")
    route = begin(topic, destination)
    topic.wait_for(lambda: topic.position() == 1)
    assert (route.state, route.error) == (State.RUNNING, None)
    topic.rig.advance(6.0)
    topic.caught_up()
    assert destination.calls[-1] == (0, [b"2"])


def test_failures_among_what_is_delivered_are_dead_letters_in_their_place(topic: Site) -> None:
    destination = Recording(Delivery(3, [Failure(0, "no"), Failure(2, "never")], wait="later", again_in_s=1.0))
    topic.append("t", b"1", b"2", b"3", b"4")
    route = begin(topic, destination)
    topic.caught_up()
    dead = [(record.value, dict(record.headers)["__dlq.errors.message"]) for record in topic.records("r.dead-letters")]
    assert dead == [(b"1", b"no"), (b"3", b"never")]
    assert (route.counts.delivered, route.counts.dead_lettered) == (2, 2)


def test_a_destination_may_be_made_later_and_is_tried_again_where_it_can_not_be(topic: Site) -> None:
    destination = Recording()
    refusals = [OSError("address already in use")]

    async def make(definition: RouteDefinition, around: Surroundings) -> Recording:
        if refusals:
            raise refusals.pop()
        return destination

    topic.broker.routes.makers.destinations["zmq"] = make
    topic.append("t", b"1")
    route = topic.put("r", topic="t", destination=TARGET)
    topic.wait_for(lambda: route.state is State.BLOCKED)
    assert (route.error, route.run) == ("address already in use", None)
    topic.caught_up()
    assert destination.calls == [(0, [b"1"])]


def test_a_mistake_of_a_maker_is_told_and_does_not_end_the_server(topic: Site) -> None:
    def make(definition: RouteDefinition, around: Surroundings) -> Any:
        raise ZeroDivisionError

    topic.broker.routes.makers.destinations["zmq"] = make
    route = topic.put("r", topic="t", destination=TARGET)
    topic.wait_for(lambda: route.state is State.BLOCKED)
    assert route.error == "an error of the server's own: ZeroDivisionError; see its log"


def test_a_run_of_its_own_is_asked_for_what_only_it_knows(topic: Site) -> None:
    run = OwnRun()
    topic.broker.routes.makers.runs["zmq"] = lambda *given: run
    topic.append("t", b"1", b"2", b"3")
    route = topic.put("r", topic="t", destination=TARGET)
    assert route.run is run
    told = topic.rig.run(topic.broker.routes.replay_period("r", Place(offset=1), Place(latest=True)))[1]
    assert (told, run.replayed) == ({"events": 17}, [{0: (1, 3)}])
    assert route.replay is None
    topic.rig.run(topic.broker.topics.add_partitions("t", 2))
    topic.rig.run(topic.broker.routes.pause("r"))
    assert (run.ended, route.run) == (["grown", "stopped"], None)
    with pytest.raises(RouteConflict, match="does not run: paused"):
        topic.rig.run(topic.broker.routes.replay_period("r", Place(), Place(latest=True)))
    topic.rig.run(topic.broker.routes.resume("r"))
    topic.rig.run(topic.broker.topics.delete("t"))
    assert run.ended == ["grown", "stopped", "closed"]


def test_a_route_can_get_another_type_of_destination_and_stays_where_it_is(topic: Site) -> None:
    first = Recording()
    begin(topic, first)
    topic.append("t", b"1")
    topic.caught_up()
    topic.to_topic("r")
    topic.append("t", b"2")
    topic.caught_up()
    assert (first.calls, first.closed, topic.values("u")) == ([(0, [b"1"])], 1, [b"2"])
