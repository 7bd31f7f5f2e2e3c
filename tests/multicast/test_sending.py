"""The end of a route that sends: what leaves, in what order, and what happens while the socket takes nothing."""

from __future__ import annotations

import errno
import random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.destination import Delivery
from headrace.log.port import Durability
from headrace.multicast.feed.datagrams import Datagram, Kind, decode
from headrace.multicast.sending import MAX_BEATS, FeedDestination
from headrace.record import Record
from headrace.testing.clock import SimulatedClock

TOPIC_ID = UUID("01234567-89ab-cdef-0123-456789abcdef")


class Wire:
    """A socket that takes what it is told to."""

    def __init__(self) -> None:
        self.datagrams: list[Datagram] = []
        self.refuses = 0  # so many sends from now on
        self.error = errno.EAGAIN

    def send(self, data: bytes) -> int:
        if self.refuses:
            self.refuses -= 1
            raise OSError(self.error, "not now")
        self.datagrams.append(decode(memoryview(data)))
        return len(data)

    def close(self) -> None:
        pass

    @property
    def events(self) -> list[int]:
        return [record[0] for one in self.datagrams if one.kind == Kind.EVENTS for record in one.records()]


class Fixture:
    def __init__(
        self, *, partitions: int = 1, positions: dict[int, int] | None = None, shape: dict[str, object] | None = None,
        durability: Durability = Durability.FSYNC, shared: dict[str, object] | None = None, **options: object,
    ) -> None:  # fmt: skip
        self.clock = SimulatedClock()
        known = positions or {}
        target = {"type": "udp", "group": "239.255.0.1", "port": 5007, **options}
        definition = RouteDefinition.of("out", {"topic": "prices", "destination": target, **(shape or {})})
        self.topic: Any = SimpleNamespace(name="prices", topic_id=TOPIC_ID, partitions=[])
        self.durability = durability
        self.grow(partitions)
        around: Any = SimpleNamespace(clock=self.clock, traffic={}, shared={} if shared is None else shared)
        places: Any = SimpleNamespace(get=lambda topic, partition: known.get(partition))
        target_end: Any = definition.target
        self.destination = FeedDestination(definition, target_end, self.topic, places, around)
        self.destination._socket.close()
        self.wire: Any = Wire()
        self.destination._socket = self.wire

    def grow(self, partitions: int) -> None:
        for index in range(len(self.topic.partitions), partitions):
            one = SimpleNamespace(index=index, start_offset=0, end_offset=1000, durability=self.durability)
            self.topic.partitions.append(one)

    def deliver(self, offsets: list[int], partition: int = 0, size: int = 10) -> Delivery:
        records = [Record(offset, 5, None, b"x" * size) for offset in offsets]
        return self.deliver_records(records, partition)

    def deliver_records(self, records: list[Record], partition: int = 0) -> Delivery:
        """It returns without waiting for anything."""
        with pytest.raises(StopIteration) as returned:
            self.destination.deliver(records, partition).send(None)
        return returned.value.value


def test_a_portion_is_packed_and_nothing_lingers() -> None:
    fixture = Fixture()
    assert fixture.deliver(list(range(200)), size=100) == Delivery(200, [])
    datagrams = fixture.wire.datagrams
    assert fixture.wire.events == list(range(200))
    assert [one.event_count for one in datagrams] == [12] * 16 + [8]
    assert [one.previous for one in datagrams] == [0, *(one.next for one in datagrams[:-1])]
    assert all(one.logged for one in datagrams)


def test_holes_are_known_by_where_the_one_before_ended() -> None:
    fixture = Fixture(positions={0: 40})
    fixture.deliver([42, 50])
    fixture.deliver([99])
    assert [(one.previous, one.first, one.next) for one in fixture.wire.datagrams] == [(40, 42, 51), (51, 99, 100)]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(0, 2**32))
def test_what_the_socket_did_not_take_is_sent_again_without_a_gap(portions: list[int], seed: int) -> None:
    chance = random.Random(seed)
    fixture = Fixture(mtu=256)
    offset = 0
    for count in portions:
        left = list(range(offset, offset + count))
        offset += count
        while left:
            if chance.random() < 0.5:
                fixture.wire.refuses = 1 if chance.random() < 0.5 else 0
            delivery = fixture.deliver(left)
            assert (delivery.wait is None) == (delivery.done == len(left))
            assert delivery.wait in (None, "")
            left = left[delivery.done :]
            fixture.wire.refuses = 0
    events = [one for one in fixture.wire.datagrams if one.kind == Kind.EVENTS]
    assert fixture.wire.events == list(range(offset))
    assert [one.previous for one in events] == [0, *(one.next for one in events[:-1])]


def test_a_network_that_is_away_is_told() -> None:
    fixture = Fixture()
    fixture.wire.refuses, fixture.wire.error = 1, errno.ENETUNREACH
    delivery = fixture.deliver([0, 1])
    assert delivery == Delivery(0, [], "nothing can be sent: not now", 1.0)
    assert fixture.deliver([0, 1]) == Delivery(2, [])


def test_a_replay_hides_no_gap() -> None:
    fixture = Fixture()
    fixture.deliver([0, 1, 2])
    fixture.deliver([3, 4])
    fixture.deliver([0, 1])  # again
    fixture.deliver([5])
    assert [(one.previous, one.first) for one in fixture.wire.datagrams] == [(0, 0), (3, 3), (0, 0), (5, 5)]
    fixture.deliver([4, 5, 6])  # what a disk has forgotten, and more
    fixture.deliver([7])
    assert [(one.previous, one.first) for one in fixture.wire.datagrams[4:]] == [(4, 4), (7, 7)]


def test_an_event_of_a_topic_that_no_datagram_holds_looks_like_a_gap() -> None:
    fixture = Fixture()
    records = [Record(0, 5, None, b"a"), Record(1, 5, None, b"x" * 2000), Record(2, 5, None, b"b")]
    assert fixture.deliver_records(records) == Delivery(3, [])
    assert [(one.kind, one.previous, one.next) for one in fixture.wire.datagrams] == [(0, 0, 1), (1, 2, 2), (0, 2, 3)]
    assert fixture.destination.facts() == {"datagrams": 3, "left_out": 1, "logged": True}


def test_where_no_log_has_it_an_event_that_is_too_large_fails() -> None:
    fixture = Fixture(shape={"filter": "true"})
    records = [Record(0, 5, None, b"a"), Record(1, 5, None, b"x" * 2000)]
    delivery = fixture.deliver_records(records)
    assert delivery.done == 2
    assert [failure.place for failure in delivery.failures] == [1]
    assert not fixture.wire.datagrams[0].logged


def test_a_pace_is_kept() -> None:
    fixture = Fixture(bytes_per_s=100_000)
    sent, waited = 0, 0.0
    while sent < 200:
        delivery = fixture.deliver(list(range(sent, 200)), size=1000)
        sent += delivery.done
        if delivery.wait is not None:
            assert delivery.wait == ""
            assert delivery.again_in_s is not None
            waited += delivery.again_in_s
            fixture.clock.advance(delivery.again_in_s)
    assert fixture.wire.events == list(range(200))
    assert waited == pytest.approx((200 * 1064 - 64 * 1024) / 100_000, rel=0.05)


def test_heartbeats_come_soon_and_then_less_and_less_often() -> None:
    fixture = Fixture(heartbeat_ms=200)
    fixture.clock.advance(10)
    fixture.wire.datagrams.clear()
    fixture.deliver([0])
    began, times = fixture.clock.monotonic(), []
    while len(times) < 6:
        due = fixture.clock.next_due_s
        assert due is not None
        before = len(fixture.wire.datagrams)
        fixture.clock.advance(due)
        if len(fixture.wire.datagrams) > before:
            assert fixture.wire.datagrams[-1].previous == 1
            times.append(round(fixture.clock.monotonic() - began, 3))
    assert times == [0.04, 0.06, 0.1, 0.18, 0.34, 0.54]


def test_heartbeats_of_many_partitions_come_a_few_at_a_time() -> None:
    fixture = Fixture(partitions=250, heartbeat_ms=60_000)
    fixture.wire.datagrams.clear()
    assert {one.partition for one in fixture.wire.datagrams} == set()
    fixture.clock.advance(0.0015)
    assert len(fixture.wire.datagrams) == MAX_BEATS
    fixture.clock.advance(0.01)
    assert {one.partition for one in fixture.wire.datagrams} >= set(range(MAX_BEATS, 250))


def test_partitions_that_come_later_are_streams_too() -> None:
    fixture = Fixture()
    fixture.grow(3)
    fixture.deliver([0], partition=2)
    assert fixture.wire.datagrams[-1].partition == 2
    fixture.clock.advance(2)
    assert {one.partition for one in fixture.wire.datagrams if one.kind == Kind.HEARTBEAT} == {0, 1, 2}


def test_the_end_is_told_to_each_partition() -> None:
    fixture = Fixture(partitions=3)
    fixture.destination.close()
    assert [(one.partition, one.ends) for one in fixture.wire.datagrams[-3:]] == [(0, True), (1, True), (2, True)]


def test_a_session_stands_for_the_log() -> None:
    def session(**given: Any) -> int:
        fixture = Fixture(**given)
        fixture.deliver([0])
        return int(fixture.wire.datagrams[-1].session)

    same_server: dict[str, object] = {}
    assert session() == session() == 0x0123456789ABCDEF
    in_memory = session(durability=Durability.MEMORY, shared=same_server)
    assert in_memory == session(durability=Durability.MEMORY, shared=same_server)
    assert in_memory != session(durability=Durability.MEMORY)
