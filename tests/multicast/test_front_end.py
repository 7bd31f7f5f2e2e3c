"""The front end of a real server: topics as feeds, and feeds as topics."""

from __future__ import annotations

import json
import urllib.error

import pytest
from tests.multicast.network import LossyNetwork, free_url, group_of, stream
from tests.multicast.serving import ask, from_feed, make_topic, produce, to_feed

import headrace
from headrace import Event
from headrace.client.kafka import Cluster, Reader, TopicPartition, start_offsets
from headrace.client.multicast import Subscriber
from headrace.multicast.feed.datagrams import Kind, decode
from headrace.multicast.feed.sockets import receiving_socket, sending_socket
from headrace.testing import HeadraceServer, wait_until


@pytest.fixture
def topic(headrace_shared_server: HeadraceServer, request: pytest.FixtureRequest) -> str:
    name = "front-" + "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    make_topic(headrace_shared_server, name)
    return name


def take(subscriber: Subscriber, count: int) -> list[Event]:
    found: list[Event] = []
    while len(found) < count:
        received = subscriber.receive(20)
        assert received is not None, f"only {len(found)} of {count} came; {subscriber.counts}"
        found.append(received.event)
    return found


def in_topic(server: HeadraceServer, topic: str, count: int) -> list[Event]:
    """What a Kafka client reads, as soon as it is so many."""
    cluster = Cluster(server.kafka)
    reader = Reader(cluster, start_offsets(cluster, [TopicPartition(topic, 0)]))
    found: list[Event] = []

    def enough() -> bool:
        found.extend(Event(one.key, one.value, one.headers, one.timestamp_ms) for one in reader.poll(0.1))
        return len(found) >= count

    wait_until(enough, what=f"{count} records", timeout_s=20)
    reader.close()
    cluster.close()
    return found


def joined(server: HeadraceServer, url: str, topic: str, **options: object) -> None:
    """With a route from the feed to the topic, once it listens."""
    from_feed(server, url, topic, topic, **options)
    wait_until(lambda: ask(server, "GET", f"/v1/routes/{topic}")["state"] == "running", what="the route")


EVENTS = [
    Event(b"k", b"v", (("a", b"1"), ("a", None), ("", b"")), 1_700_000_000_000),
    Event(None, b"", (), 1_700_000_000_001),
    Event(b"", None, (), 1_700_000_000_005),
    Event(b"\xff\0", bytes(range(256)), (("ü", b"\0"),), 1_700_000_000_005),
]


def test_a_topic_is_a_feed_whose_sequence_is_the_offset(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    to_feed(headrace_shared_server, topic, url, topic)
    with headrace.connect(url) as channel:
        subscriber = channel.subscriber()
        wait_until(lambda: subscriber.receive(0.01) or subscriber.counts.heartbeats, what="a heartbeat")
        produce(headrace_shared_server, topic, EVENTS)
        assert take(subscriber, 4) == EVENTS
        produce(headrace_shared_server, topic, EVENTS)
        received = subscriber.receive(20)
        assert received is not None
        assert (received.topic, received.offset) == (topic, 4)
        assert list(subscriber.gaps) == []


def test_heartbeats_name_the_topic_and_say_where_partitions_stand(headrace_shared_server: HeadraceServer, topic: str) -> None:
    name = f"{topic}-3"
    make_topic(headrace_shared_server, name, 3)
    produce(headrace_shared_server, name, EVENTS, 1)
    url = free_url(name)
    with receiving_socket(group_of(url)) as plain:
        plain.setblocking(True)
        plain.settimeout(20)
        to_feed(headrace_shared_server, name, url, name, heartbeat_ms=50)
        stands: dict[int, int] = {}
        while stands != {0: 0, 1: 4, 2: 0}:
            datagram = decode(memoryview(plain.recv(2000)))
            if datagram.kind == Kind.HEARTBEAT:
                assert datagram.topic() == name
                assert datagram.logged
                stands[datagram.partition] = datagram.previous


def test_a_paused_route_ends_its_feed_and_goes_on_where_it_was(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    to_feed(headrace_shared_server, topic, url, topic)
    with headrace.connect(url, stop_at_end=True) as channel:
        subscriber = channel.subscriber()
        wait_until(lambda: subscriber.receive(0.01) or subscriber.counts.heartbeats, what="a heartbeat")
        produce(headrace_shared_server, topic, EVENTS[:2])
        assert take(subscriber, 2) == EVENTS[:2]
        ask(headrace_shared_server, "POST", f"/v1/routes/{topic}/pause")
        assert subscriber.receive(20) is None
        assert subscriber.ended
        produce(headrace_shared_server, topic, EVENTS[2:])
        ask(headrace_shared_server, "POST", f"/v1/routes/{topic}/resume")
        wait_until(lambda: subscriber.receive(0) and subscriber.counts.events == 4, what="the rest")
        assert subscriber.counts.restarts == 0
        assert list(subscriber.gaps) == []


def test_who_has_the_secret_hears_a_feed_that_has_one(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    shown = to_feed(headrace_shared_server, topic, url, topic, secret="known to both")
    assert "known to both" not in json.dumps(shown)
    with headrace.connect(url) as channel:
        friend, other = channel.subscriber(secret="known to both"), channel.subscriber(secret="another one")
        wait_until(lambda: friend.receive(0.01) or friend.counts.heartbeats, what="a heartbeat")
        produce(headrace_shared_server, topic, EVENTS)
        assert take(friend, 4) == EVENTS
        assert other.receive(0.05) is None
        assert other.counts.forged > 0


def test_a_pace_is_kept_and_is_no_trouble(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    to_feed(headrace_shared_server, topic, url, topic, bytes_per_s=100_000)
    with headrace.connect(url) as channel:
        subscriber = channel.subscriber()
        wait_until(lambda: subscriber.receive(0.01) or subscriber.counts.heartbeats, what="a heartbeat")
        produce(headrace_shared_server, topic, [Event.of("x" * 1000)] * 200)
        take(subscriber, 100)
        route = ask(headrace_shared_server, "GET", f"/v1/routes/{topic}")
        assert (route["state"], route["error"]) == ("running", None)
        assert route["delivered"] < 200
        assert route["details"]["left_out"] == 0
        assert route["details"]["logged"] is True
        take(subscriber, 100)
        assert list(subscriber.gaps) == []


def test_what_is_too_large_and_in_no_log_is_a_dead_letter(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    to_feed(headrace_shared_server, topic, url, topic, filter="true")
    with headrace.connect(url, reorder_ms=1) as channel:
        subscriber = channel.subscriber()
        wait_until(lambda: subscriber.receive(0.01) or subscriber.counts.heartbeats, what="a heartbeat")
        produce(headrace_shared_server, topic, [Event.of("1"), Event.of("x" * 2000), Event.of("3")])
        assert [event.text() for event in take(subscriber, 2)] == ["1", "3"]
        assert [(gap.first, gap.next) for gap in subscriber.gaps] == [(1, 2)]
    (letter,) = in_topic(headrace_shared_server, f"{topic}.dead-letters", 1)
    assert letter.value == b"x" * 2000
    reason = letter.header("__dlq.errors.message")
    assert reason is not None
    assert b"does not fit into a datagram" in reason


def test_an_interface_that_there_is_not_blocks_the_route_with_words(headrace_shared_server: HeadraceServer, topic: str) -> None:
    to_feed(headrace_shared_server, topic, free_url(topic), topic, interface="none77")
    route = wait_until(
        lambda: (one := ask(headrace_shared_server, "GET", f"/v1/routes/{topic}"))["error"] and one, what="an error"
    )
    assert route["state"] == "blocked"
    assert "there is no interface 'none77'" in route["error"]


def test_a_definition_that_makes_no_sense_is_answered_with_400(headrace_shared_server: HeadraceServer, topic: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        to_feed(headrace_shared_server, topic, f"udp://127.0.0.1:5007?feed={topic}", topic)
    assert caught.value.code == 400
    assert "multicast address" in json.loads(caught.value.read())["detail"]


def test_a_feed_becomes_a_topic(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    joined(headrace_shared_server, url, topic)
    with headrace.connect(url) as channel:
        channel.publisher().send_all(EVENTS)
        assert in_topic(headrace_shared_server, topic, 4) == EVENTS


def test_over_a_bad_network_a_topic_gets_each_event_once_in_order_and_gaps_are_counted(
    headrace_shared_server: HeadraceServer, topic: str
) -> None:
    near, far = free_url(topic), free_url(topic)
    joined(headrace_shared_server, far, topic, reorder_ms=1000, window=8192)
    with (
        LossyNetwork(near, far, 9, loss=0.05, double=0.05, delay=0.1) as network,
        headrace.connect(near) as channel,
    ):
        publisher = channel.publisher(mtu=300, bytes_per_s=3_000_000)
        wait_until(lambda: network.passed, what="a heartbeat to pass")
        publisher.send_all(Event.of(str(number)) for number in range(10_000))

        def lost() -> int:
            return sum(end - first for first, end in network.lost_ranges())

        def all_there() -> bool:
            route = ask(headrace_shared_server, "GET", f"/v1/routes/{topic}")
            assert route["details"]["events"] >= route["delivered"]
            return bool(route["delivered"] + lost() == 10_000 and route["details"]["lost"] == lost())

        wait_until(all_there, what="all but the lost ones", timeout_s=20)
        gone = {sequence for first, end in network.lost_ranges() for sequence in range(first, end)}
        found = [event.text() for event in in_topic(headrace_shared_server, topic, 10_000 - len(gone))]
        assert found == [str(number) for number in range(10_000) if number not in gone]


def test_strangers_reach_no_topic(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    joined(headrace_shared_server, url, topic, secret="known to both")
    with headrace.connect(url) as channel, sending_socket(group_of(url)) as stranger:
        plain, friend = channel.publisher(), channel.publisher(secret="known to both")
        for number in range(100):
            stranger.send(b"\0" * number)
            stranger.send(stream([[0]])[0][0].data)
            plain.send(Event.of("plain"))
            friend.send(Event.of(str(number)))
        found = in_topic(headrace_shared_server, topic, 100)
    assert [event.text() for event in found] == [str(number) for number in range(100)]


def test_a_topic_goes_out_by_a_feed_and_comes_in_again_the_same(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url, copy = free_url(topic), f"{topic}-copy"
    make_topic(headrace_shared_server, copy)
    joined(headrace_shared_server, url, copy)
    to_feed(headrace_shared_server, topic, url, topic)
    produce(headrace_shared_server, topic, EVENTS)
    assert in_topic(headrace_shared_server, copy, 4) == EVENTS


def test_a_topic_never_gets_its_own_feed_back(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url, out = free_url(topic), f"{topic}-out"
    joined(headrace_shared_server, url, topic)
    to_feed(headrace_shared_server, topic, url, out)
    with headrace.connect(url) as channel:
        subscriber = channel.subscriber()
        wait_until(lambda: subscriber.receive(0.01) or subscriber.counts.heartbeats, what="a heartbeat")
        produce(headrace_shared_server, topic, EVENTS)
        assert take(subscriber, 4) == EVENTS
    wait_until(lambda: ask(headrace_shared_server, "GET", f"/v1/routes/{topic}")["details"]["old"], what="what was ignored")
    assert in_topic(headrace_shared_server, topic, 4) == EVENTS
    assert ask(headrace_shared_server, "GET", f"/v1/routes/{topic}")["delivered"] == 0
