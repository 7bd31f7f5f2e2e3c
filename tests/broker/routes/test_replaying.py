"""A period that is delivered once more: beside what is delivered anyway, over a restart, and ended before its end."""

from __future__ import annotations

import pytest
from tests.broker.routes.conftest import Site

from headrace.broker.routes.errors import InvalidRoute, RouteConflict, RouteNotStored
from headrace.broker.routes.positions import Place
from headrace.broker.routes.replaying import Replay
from headrace.record import Event

GROUP = "headrace.replay.r"


@pytest.fixture
def topics(site: Site) -> Site:
    site.rig.create("t", 2)
    site.rig.create("u")
    for partition in range(2):
        site.append("t", *(Event(b"k", b"%d.%d" % (partition, number)) for number in range(10)), partition=partition)
    return site


def replay(site: Site, start: object, end: object, partition: int | None = None) -> dict[str, object]:
    return site.rig.run(site.broker.routes.replay_period("r", Place.of(start), Place.of(end), partition))[1]


def ended(site: Site) -> None:
    site.wait_for(lambda: site.broker.routes.get("r").replay is None)
    site.settle()


def test_just_the_period_is_delivered_again_and_the_position_stays(topics: Site) -> None:
    route = topics.to_topic()
    topics.caught_up()
    before = len(topics.values("u"))
    told = replay(topics, 3, 6)
    assert told == {
        "left": 6,
        "partitions": [
            {"partition": 0, "from": 3, "to": 6, "position": 3},
            {"partition": 1, "from": 3, "to": 6, "position": 3},
        ],
    }
    ended(topics)
    assert sorted(topics.values("u")[before:]) == [b"0.3", b"0.4", b"0.5", b"1.3", b"1.4", b"1.5"]
    assert (topics.position(), topics.position(partition=1)) == (10, 10)
    assert (route.counts.delivered, route.counts.replayed) == (20, 6)
    assert topics.broker.groups.positions(GROUP) == {}


def test_a_period_of_one_partition(topics: Site) -> None:
    topics.to_topic()
    topics.caught_up()
    replay(topics, "earliest", 2, 1)
    ended(topics)
    assert topics.values("u")[20:] == [b"1.0", b"1.1"]


def test_a_period_between_two_times(site: Site) -> None:
    site.rig.create("t")
    site.rig.create("u")
    site.append("t", *(Event(b"k", b"%d" % number, (), 1_672_531_200_000 + 60_000 * number) for number in range(10)))
    site.to_topic()
    site.caught_up()
    replay(site, "2023-01-01T00:02:00Z", "2023-01-01T00:04:00Z")
    ended(site)
    assert site.values("u")[10:] == [b"2", b"3"]


def test_filter_and_transform_apply_to_a_period_as_well(topics: Site) -> None:
    topics.to_topic(filter="text.endsWith('.4')", transform={"value": "text + '!'"})
    topics.caught_up()
    replay(topics, 2, 6)
    ended(topics)
    assert sorted(topics.values("u")[2:]) == [b"0.4!", b"1.4!"]


def test_a_period_goes_on_after_a_crash_and_nothing_of_it_is_left_out(topics: Site) -> None:
    topics.to_topic(paused=True)
    replay(topics, 0, 9)
    topics.crash()
    route = topics.broker.routes.get("r")
    assert route.replay is not None
    topics.rig.run(topics.broker.routes.resume("r"))
    topics.rig.turn()
    topics.crash()
    ended(topics)
    topics.caught_up()
    wanted = {b"%d.%d" % (partition, number) for partition in range(2) for number in range(10)}
    found = topics.values("u")
    assert set(found) == wanted
    assert all(found.count(value) >= (1 if value.endswith(b".9") else 2) for value in wanted)  # type: ignore[union-attr]


def test_a_period_that_was_at_its_end_when_the_server_crashed_is_over(topics: Site) -> None:
    topics.to_topic(paused=True)
    replay(topics, 0, 5)
    route = topics.broker.routes.get("r")
    assert route.replay is not None
    topic = topics.rig.log.topics()["t"]
    topics.rig.run(route.replay.positions.commit(topic, {0: 5, 1: 5}))
    topics.crash()
    topics.rig.run(topics.broker.routes.resume("r"))
    ended(topics)
    topics.caught_up()
    assert len(topics.values("u")) == 20


def test_the_end_of_a_period_is_written_down_as_soon_as_the_disk_has_room(topics: Site) -> None:
    topics.to_topic()
    topics.caught_up()
    table = topics.broker.routes._rows
    put, refusals = table.put_replay, [RouteNotStored("no room"), RouteNotStored("no room")]

    async def refused(name: str, row: Replay | None) -> None:
        if row is None and refusals:
            raise refusals.pop()
        await put(name, row)

    table.put_replay = refused  # type: ignore[method-assign]
    replay(topics, 0, 5)
    ended(topics)
    assert refusals == []


def test_a_period_waits_while_its_route_is_paused(topics: Site) -> None:
    topics.to_topic()
    topics.caught_up()
    topics.rig.run(topics.broker.routes.pause("r"))
    replay(topics, 0, 1)
    topics.settle()
    assert len(topics.values("u")) == 20
    topics.rig.run(topics.broker.routes.resume("r"))
    ended(topics)
    assert len(topics.values("u")) == 22


def test_there_is_one_period_at_a_time_and_it_can_be_ended_before_its_end(topics: Site) -> None:
    topics.to_topic(paused=True)
    replay(topics, 0, 5)
    with pytest.raises(RouteConflict, match="another period already"):
        replay(topics, 0, 1)
    topics.rig.run(topics.broker.routes.cancel_replay("r"))
    topics.rig.run(topics.broker.routes.cancel_replay("r"))  # nothing to end any more
    topics.rig.run(topics.broker.routes.resume("r"))
    topics.caught_up()
    assert len(topics.values("u")) == 20
    topics.crash()
    assert topics.broker.routes.get("r").replay is None


def test_a_period_without_records_is_over_at_once(topics: Site) -> None:
    topics.to_topic()
    assert replay(topics, 7, 7) == {"left": 0, "partitions": []}
    assert replay(topics, "latest", "earliest") == {"left": 0, "partitions": []}
    assert topics.broker.routes.get("r").replay is None


def test_a_period_that_retention_takes_is_over(topics: Site) -> None:
    topics.to_topic(paused=True)
    replay(topics, 0, 5, 0)
    topics.rig.run(topics.rig.partition("t", 0).trim(8))
    topics.rig.run(topics.broker.routes.resume("r"))
    ended(topics)
    assert [value for value in topics.values("u") if value and value.startswith(b"0")] == [b"0.8", b"0.9"]


def test_a_period_goes_with_its_topic_and_with_its_route(topics: Site) -> None:
    topics.to_topic(paused=True)
    replay(topics, 0, 5)
    topics.rig.run(topics.broker.topics.delete("t"))
    ended(topics)
    topics.rig.create("t")
    topics.append("t", b"1")
    replay(topics, 0, 1)
    topics.rig.run(topics.broker.routes.delete("r"))
    assert topics.broker.groups.positions(GROUP) == {}
    topics.to_topic(paused=True)
    assert topics.broker.routes.get("r").replay is None
    topics.restart()
    assert topics.broker.routes.get("r").replay is None


def test_a_period_makes_sense_or_is_refused(topics: Site) -> None:
    topics.to_topic()
    with pytest.raises(InvalidRoute, match="to must be"):
        Place.of("sometime", "to")
    with pytest.raises(InvalidRoute, match="partitions 0 to 1"):
        replay(topics, 0, 1, 2)
    topics.put("in", source={"type": "zmq", "address": "tcp://127.0.0.1:5999"}, destination={"type": "topic", "topic": "u"})
    with pytest.raises(RouteConflict, match="comes from outside"):
        topics.rig.run(topics.broker.routes.replay_period("in", Place(), Place(latest=True)))
