"""Gaps fetched back from the log over TCP, from a real server whose topic is the feed."""

from __future__ import annotations

import threading
import time

import pytest
from tests.multicast.network import LossyNetwork, free_url
from tests.multicast.serving import ask, make_topic, produce, to_feed

import headrace
from headrace import Event
from headrace.client.kafka import Cluster, TopicPartition
from headrace.client.kafka.topics import delete_records, delete_topic
from headrace.client.multicast import Subscriber
from headrace.testing import HeadraceServer, wait_until


def numbered(first: int, count: int) -> list[Event]:
    return [Event.of(str(number), key=str(number % 7)) for number in range(first, first + count)]


def take(subscriber: Subscriber, count: int, timeout_s: float = 30.0) -> list[tuple[int | None, str]]:
    deadline = time.monotonic() + timeout_s
    found: list[tuple[int | None, str]] = []
    while len(found) < count:
        received = subscriber.receive(max(0.0, deadline - time.monotonic()))
        assert received is not None, f"only {len(found)} of {count} came; {subscriber.counts}"
        found.append((received.offset, received.event.text()))
    return found


def in_order(count: int, first: int = 0) -> list[tuple[int | None, str]]:
    return [(number, str(number)) for number in range(first, first + count)]


def wait_for_feed(subscriber: Subscriber) -> None:
    """Until a heartbeat has said where the feed stands."""
    wait_until(lambda: subscriber.receive(0.01) is not None or subscriber.counts.heartbeats, what="a heartbeat")


@pytest.fixture
def topic(headrace_shared_server: HeadraceServer, request: pytest.FixtureRequest) -> str:
    name = "feed-" + "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    make_topic(headrace_shared_server, name)
    return name


def test_what_the_network_loses_is_fetched_back(headrace_shared_server: HeadraceServer, topic: str) -> None:
    near, far = free_url(topic), free_url(topic)
    to_feed(headrace_shared_server, topic, near, topic, mtu=300)
    with (
        LossyNetwork(near, far, 7, loss=0.05, double=0.03, delay=0.05) as network,
        headrace.connect(far, recover=headrace_shared_server.kafka, reorder_ms=5) as channel,
    ):
        subscriber = channel.subscriber()
        wait_for_feed(subscriber)
        threading.Thread(target=produce, args=(headrace_shared_server, topic, numbered(0, 20_000))).start()
        assert take(subscriber, 20_000) == in_order(20_000)
        counts = subscriber.counts
        assert counts.lost == 0
        assert counts.events == 20_000
        assert list(subscriber.gaps) == []
        assert len(network.lost) > 20
        assert counts.recovered >= sum(one.event_count for one in network.lost)
        assert counts.gaps > 0


def test_who_comes_late_reads_the_log_first_and_goes_on_live(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    to_feed(headrace_shared_server, topic, url, topic)
    produce(headrace_shared_server, topic, numbered(0, 5000))
    stop = threading.Event()
    written = [5000]

    def write() -> None:
        while not stop.is_set():
            produce(headrace_shared_server, topic, numbered(written[0], 200))
            written[0] += 200

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with headrace.connect(url, recover=headrace_shared_server.kafka) as channel:
            subscriber = channel.subscriber(start="earliest", window=4)
            found = take(subscriber, 5000)
            while subscriber.counts.recovered == subscriber.counts.events:  # until it is live
                found += take(subscriber, 1)
            stop.set()
            writer.join()
            found += take(subscriber, written[0] - len(found))
            assert found == in_order(written[0])
            assert subscriber.counts.lost == 0
            assert channel.subscriber(start=written[0] - 10).receive(10).offset == written[0] - 10  # type: ignore[union-attr]
            assert channel.subscriber(start=10**9).receive(0.05) is None
    finally:
        stop.set()
        writer.join()


def test_what_retention_took_is_told_and_the_rest_is_fetched_back(headrace_shared_server: HeadraceServer, topic: str) -> None:
    near, far = free_url(topic), free_url(topic)
    to_feed(headrace_shared_server, topic, near, topic)
    with headrace.connect(far, recover=headrace_shared_server.kafka) as channel:
        subscriber = channel.subscriber()
        with LossyNetwork(near, far, 1):
            produce(headrace_shared_server, topic, numbered(0, 1))
            assert take(subscriber, 1) == in_order(1)
        produce(headrace_shared_server, topic, numbered(1, 100))  # nobody passes them on
        cluster = Cluster(headrace_shared_server.kafka)
        delete_records(cluster, {TopicPartition(topic, 0): 60})
        cluster.close()
        with LossyNetwork(near, far, 1):
            assert take(subscriber, 41) == in_order(41, 60)
        (gap,) = subscriber.gaps
        assert (gap.feed, gap.partition, gap.first, gap.next, gap.reason) == (topic, 0, 1, 60, "not in the log any more")
        assert subscriber.counts.lost == 59


def test_an_event_that_no_datagram_holds_is_read_from_the_log(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    to_feed(headrace_shared_server, topic, url, topic)
    with headrace.connect(url) as channel:
        whole, alone = channel.subscriber(recover=headrace_shared_server.kafka, reorder_ms=1), channel.subscriber(reorder_ms=1)
        wait_for_feed(whole)
        wait_for_feed(alone)
        words = ["small", "x" * 5000, "y" * 6000, "small again"]
        produce(headrace_shared_server, topic, [Event.of(word) for word in words])
        assert take(whole, 4) == list(enumerate(words))
        assert take(alone, 2) == [(0, "small"), (3, "small again")]
        assert sum(gap.next - gap.first for gap in alone.gaps) == 2
        assert whole.counts.lost == 0


def test_each_partition_is_a_stream_and_all_are_recovered(headrace_shared_server: HeadraceServer, topic: str) -> None:
    name = f"{topic}-many"
    make_topic(headrace_shared_server, name, 4)
    near, far = free_url(name), free_url(name)
    to_feed(headrace_shared_server, name, near, name, mtu=256)
    with (
        LossyNetwork(near, far, 3, loss=0.1, delay=0.05),
        headrace.connect(far, recover=headrace_shared_server.kafka, reorder_ms=5) as channel,
    ):
        subscriber = channel.subscriber(start="earliest")
        for partition in range(4):
            produce(headrace_shared_server, name, [Event.of(f"{partition}/{n}") for n in range(1000)], partition)
        found: dict[str, list[tuple[int | None, str]]] = {}
        for offset, text in take(subscriber, 4000):
            found.setdefault(text.partition("/")[0], []).append((offset, text))
        for partition in range(4):
            assert found[str(partition)] == [(n, f"{partition}/{n}") for n in range(1000)]


def test_a_feed_that_is_filtered_has_exact_gaps_and_no_log(headrace_shared_server: HeadraceServer, topic: str) -> None:
    near, far = free_url(topic), free_url(topic)
    to_feed(headrace_shared_server, topic, near, topic, mtu=256, filter="int(value) % 3 == 0")
    with (
        LossyNetwork(near, far, 5, loss=0.1) as network,
        headrace.connect(far, recover=headrace_shared_server.kafka, reorder_ms=200, window=10_000) as channel,
    ):
        subscriber = channel.subscriber()
        wait_for_feed(subscriber)
        produce(headrace_shared_server, topic, numbered(0, 6000))
        produce(headrace_shared_server, topic, [Event.of("6000")])
        found: list[int | None] = []
        while not found or found[-1] != 6000:
            received = subscriber.receive(20)
            assert received is not None
            found.append(received.offset)
            if len(network.lost) and network.lost[-1].next == 6001:
                break
        lost = [one for one in network.lost_ranges() if one[0] <= (found[-1] or 0)]
        assert [(gap.first, gap.next) for gap in subscriber.gaps] == lost
        gone = {offset for first, end in lost for offset in range(first, end)}
        assert found == [offset for offset in range(0, (found[-1] or 0) + 1, 3) if offset not in gone]
        assert subscriber.counts.recovered == 0


def test_a_topic_that_was_made_anew_is_a_new_sequence(headrace_shared_server: HeadraceServer, topic: str) -> None:
    url = free_url(topic)
    to_feed(headrace_shared_server, topic, url, topic)
    with headrace.connect(url, recover=headrace_shared_server.kafka) as channel:
        subscriber = channel.subscriber(start="earliest")
        produce(headrace_shared_server, topic, numbered(0, 50))
        assert take(subscriber, 50) == in_order(50)
        cluster = Cluster(headrace_shared_server.kafka)
        delete_topic(cluster, topic)
        cluster.close()
        wait_until(lambda: ask(headrace_shared_server, "GET", f"/v1/routes/{topic}")["state"] == "waiting", what="no topic")
        make_topic(headrace_shared_server, topic)
        produce(headrace_shared_server, topic, numbered(0, 20))
        assert take(subscriber, 20) == in_order(20)
        assert subscriber.counts.restarts == 1


@pytest.mark.parametrize("durability", ["fsync", "memory"])
def test_a_server_that_is_killed_comes_back_and_nothing_is_missing(headrace_server: HeadraceServer, durability: str) -> None:
    make_topic(headrace_server, "prices", durability=durability)
    near, far = free_url("prices"), free_url("prices")
    to_feed(headrace_server, "prices", near, mtu=300)
    with (
        LossyNetwork(near, far, 11, loss=0.1, delay=0.05),
        headrace.connect(far, recover=headrace_server.kafka, reorder_ms=5) as channel,
    ):
        subscriber = channel.subscriber(start="earliest")
        produce(headrace_server, "prices", numbered(0, 3000))
        if durability == "memory":  # what was lost in the network is lost in the crash, too
            assert take(subscriber, 3000) == in_order(3000)
        headrace_server.crash()
        headrace_server.restart()
        first = 0 if durability == "memory" else 3000
        produce(headrace_server, "prices", numbered(first, 3000))
        if durability == "fsync":
            assert take(subscriber, 6000) == in_order(6000)
            assert subscriber.counts.restarts == 0
        else:
            assert take(subscriber, 3000) == in_order(3000)
            assert subscriber.counts.restarts == 1
        assert subscriber.counts.lost == 0


def test_a_log_that_is_away_is_waited_for_and_then_given_up(headrace_server: HeadraceServer) -> None:
    make_topic(headrace_server, "prices")
    near, far = free_url("prices"), free_url("prices")
    to_feed(headrace_server, "prices", near)
    with (
        LossyNetwork(near, far, 1) as network,
        headrace.connect(far, recover="127.0.0.1:1", give_up_s=0.5, reorder_ms=1) as channel,
    ):
        subscriber = channel.subscriber()
        produce(headrace_server, "prices", numbered(0, 5))
        assert take(subscriber, 5) == in_order(5)
        network._rates = (1.0, 0.0, 0.0)
        produce(headrace_server, "prices", numbered(5, 5))
        wait_until(lambda: network.lost, what="the loss")
        network._rates = (0.0, 0.0, 0.0)
        produce(headrace_server, "prices", numbered(10, 5))
        assert take(subscriber, 5) == in_order(5, 10)
        (gap,) = subscriber.gaps
        assert (gap.first, gap.next) == (5, 10)
        assert subscriber.counts.lost == 5
