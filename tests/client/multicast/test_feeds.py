"""Feeds between programs, with no server: over real sockets on loopback."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from tests.multicast.network import LossyNetwork, free_url, group_of

import headrace
from headrace import Event, Received
from headrace.client.multicast import Channel, Gap, Subscriber, TooLarge
from headrace.multicast.feed.datagrams import Kind, decode
from headrace.multicast.feed.sockets import receiving_socket
from headrace.testing import wait_until

EVENTS = [
    Event(b"k", b"v", (("a", b"1"), ("a", None), ("", b"")), 1_700_000_000_000),
    Event(None, b"", (), 0),
    Event(b"", None, (), 5),
    Event(b"\xff\0", bytes(range(256)), (("ü", b"\0"),), 2**45),
]


@pytest.fixture
def url() -> str:
    return free_url()


@pytest.fixture
def channel(url: str) -> Iterator[Channel]:
    with headrace.connect(url) as channel:
        yield channel


def take(subscriber: Subscriber, count: int, timeout_s: float = 10.0) -> list[Received]:
    deadline = time.monotonic() + timeout_s
    found: list[Received] = []
    while len(found) < count:
        received = subscriber.receive(max(0.0, deadline - time.monotonic()))
        assert received is not None, f"only {len(found)} of {count} came; {subscriber.counts}"
        found.append(received)
    return found


def test_events_arrive_as_they_were_sent(channel: Channel) -> None:
    subscriber, publisher = channel.subscriber(), channel.publisher()
    assert [publisher.send(event) for event in EVENTS] == [0, 1, 2, 3]
    received = take(subscriber, 4)
    assert [one.event for one in received] == EVENTS
    assert [one.offset for one in received] == [0, 1, 2, 3]
    assert {one.topic for one in received} == {"prices"}
    assert subscriber.receive(0) is None


def test_an_event_without_a_time_gets_that_of_its_sending(channel: Channel) -> None:
    subscriber, publisher = channel.subscriber(), channel.publisher()
    before_ms = time.time_ns() // 1_000_000
    publisher.send(Event.of("now"))
    (received,) = take(subscriber, 1)
    assert received.event.timestamp_ms is not None
    assert before_ms <= received.event.timestamp_ms <= time.time_ns() // 1_000_000


def test_every_subscriber_of_a_machine_gets_everything(channel: Channel) -> None:
    subscribers = [channel.subscriber() for _ in range(3)]
    channel.publisher().send_all(EVENTS)
    for subscriber in subscribers:
        assert [one.event for one in take(subscriber, 4)] == EVENTS


def test_many_events_share_a_datagram(channel: Channel) -> None:
    subscriber, publisher = channel.subscriber(), channel.publisher()
    assert publisher.send_all(Event.of(f"{number:050}") for number in range(1000)) == 1000
    assert [one.event.text() for one in take(subscriber, 1000)] == [f"{number:050}" for number in range(1000)]
    # 58 bytes of record for 50 of value; the first 64 of a datagram have a number of one byte
    assert subscriber.counts.datagrams == 1000 // ((1400 - 56) // 58) + 1


def test_events_that_linger_leave_together_and_soon(channel: Channel) -> None:
    subscriber, publisher = channel.subscriber(), channel.publisher(linger_us=50_000)
    for number in range(5):
        publisher.send(Event.of(str(number)))
    assert [one.event.text() for one in take(subscriber, 5)] == list("01234")
    assert subscriber.counts.datagrams < 5
    publisher.send(Event.of("last"))
    publisher.flush()
    assert take(subscriber, 1)[0].event.text() == "last"


def test_receive_many_gives_what_is_there(channel: Channel) -> None:
    subscriber, publisher = channel.subscriber(), channel.publisher()
    assert subscriber.receive_many(0) == []
    publisher.send_all(EVENTS)
    assert [one.event for one in subscriber.receive_many(10)] == EVENTS


def test_feeds_of_one_group_do_not_mix(channel: Channel) -> None:
    one, other, both = channel.subscriber(), channel.subscriber("other"), channel.subscriber("prices", "other")
    publisher = channel.publisher()
    publisher.send(Event.of("1"))
    assert publisher.send(Event.of("2"), "other") == 0
    publisher.send(Event.of("3"))
    assert [(r.topic, r.event.text(), r.offset) for r in take(one, 2)] == [("prices", "1", 0), ("prices", "3", 1)]
    assert [(r.topic, r.event.text(), r.offset) for r in take(other, 1)] == [("other", "2", 0)]
    assert [r.event.text() for r in take(both, 3)] == ["1", "2", "3"]
    assert one.counts.other_feed > 0


def test_the_largest_datagrams_work_on_loopback(channel: Channel) -> None:
    subscriber, publisher = channel.subscriber(), channel.publisher(mtu=65_507)
    publisher.send(Event(None, b"x" * 65_000, (), 0))
    assert take(subscriber, 1)[0].event.value == b"x" * 65_000


def test_an_event_that_is_too_large_is_refused_and_takes_no_number(channel: Channel) -> None:
    subscriber, publisher = channel.subscriber(), channel.publisher()
    with pytest.raises(TooLarge, match="does not fit into a datagram"):
        publisher.send(Event.of("x" * 1400))
    assert publisher.send(Event.of("small")) == 0
    assert take(subscriber, 1)[0].offset == 0
    assert subscriber.receive(0.05) is None
    assert list(subscriber.gaps) == []


def test_only_who_has_the_secret_is_heard(url: str) -> None:
    with headrace.connect(url) as channel:
        subscriber = channel.subscriber(secret="known to both")
        stranger, friend = channel.publisher(secret="another one"), channel.publisher(secret="known to both")
        plain = channel.publisher()
        for number in range(10):
            stranger.send(Event.of("stranger"))
            plain.send(Event.of("plain"))
            friend.send(Event.of(str(number)))
        assert [one.event.text() for one in take(subscriber, 10)] == [str(number) for number in range(10)]
        assert subscriber.counts.forged >= 20


def test_only_the_sender_that_was_named_is_heard(url: str) -> None:
    with headrace.connect(url) as channel:
        right, wrong = channel.subscriber(sender="127.0.0.1"), channel.subscriber(sender="127.0.0.9")
        channel.publisher().send(Event.of("1"))
        assert take(right, 1)[0].event.text() == "1"
        assert wrong.receive(0.05) is None
        assert wrong.counts.datagrams == 0


def test_another_group_at_the_same_port_is_not_heard(url: str) -> None:
    group = group_of(url)
    elsewhere = f"udp://239.254.7.7:{group.port}?feed=prices"
    with headrace.connect(url) as channel, headrace.connect(elsewhere) as other:
        subscriber, also = channel.subscriber(), other.subscriber()
        other.publisher().send(Event.of("1"))
        assert take(also, 1)[0].event.text() == "1"
        assert subscriber.receive(0.05) is None
        assert subscriber.counts == type(subscriber.counts)()


def test_the_end_is_told(channel: Channel) -> None:
    subscriber = channel.subscriber(stop_at_end=True)
    with channel.publisher() as publisher:
        publisher.send_all(EVENTS)
    assert [one.event for one in subscriber] == EVENTS
    assert subscriber.ended
    with pytest.raises(ValueError, match="the publisher is closed"):
        publisher.send(EVENTS[0])


def test_a_publisher_that_starts_again_begins_a_new_sequence(channel: Channel) -> None:
    subscriber = channel.subscriber()
    for word in ("before", "after"):
        with channel.publisher() as publisher:
            publisher.send_all([Event.of(word), Event.of(word)])
    assert [(one.event.text(), one.offset) for one in take(subscriber, 4)] == [
        ("before", 0), ("before", 1), ("after", 0), ("after", 1),
    ]  # fmt: skip
    assert subscriber.counts.restarts == 1


def test_heartbeats_come_soon_after_the_last_event_and_then_rarely(url: str) -> None:
    with headrace.connect(url, heartbeat_ms=80) as channel, receiving_socket(group_of(url)) as plain:
        plain.setblocking(True)
        plain.settimeout(10)
        channel.publisher().send(Event.of("1"))
        times: list[float] = []
        while len(times) < 5:
            datagram = decode(memoryview(plain.recv(2000)))
            if datagram.kind == Kind.HEARTBEAT and datagram.previous == 1:
                times.append(time.monotonic())
        # never closer together than they should be; how much later they come is the machine's matter
        pauses = [after - before for before, after in pairwise(times)]
        assert sum(pauses) >= 0.02 + 0.04 + 0.08 + 0.08 - 0.03


def test_a_pace_is_kept(url: str) -> None:
    with headrace.connect(url) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher(bytes_per_s=1_000_000)
        began = time.monotonic()
        publisher.send_all(Event(None, b"x" * 1000, (), 0) for _ in range(200))
        assert time.monotonic() - began >= (200 * 1000 - 64 * 1024) / 1_000_000
        take(subscriber, 200)
        assert list(subscriber.gaps) == []


def test_datagrams_from_strangers_disturb_nobody(channel: Channel, url: str) -> None:
    group = group_of(url)
    subscriber, publisher = channel.subscriber(), channel.publisher()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        for number in range(50):
            for junk in (
                b"",
                b"GET / HTTP/1.1\r\n\r\n",
                b"HRF\x01" + b"\xff" * 100,
                struct.pack(">3sBI", b"HRF", 1, 0) + b"\0" * 60,
            ):
                stranger.sendto(junk, (group.address, group.port))
            publisher.send(Event.of(str(number)))
    assert [one.event.text() for one in take(subscriber, 50)] == [str(number) for number in range(50)]
    counts = subscriber.counts
    assert (counts.strange, counts.other_feed, counts.events, counts.gaps) == (100, 100, 50, 0)


@pytest.mark.parametrize("seed", range(3))
def test_over_a_bad_network_gaps_are_exact_and_all_else_is_in_order(seed: int) -> None:
    near, far = free_url(), free_url()
    told: list[Gap] = []
    with (
        headrace.connect(near) as sending,
        headrace.connect(far, reorder_ms=3000, window=4096, stop_at_end=True, on_gap=told.append) as receiving,
        LossyNetwork(near, far, seed, loss=0.05, double=0.05, delay=0.1) as network,
    ):
        subscriber = receiving.subscriber()
        with sending.publisher(mtu=300, bytes_per_s=5_000_000) as publisher:
            publisher.send_all([Event.of("begin")] * 3)
            first = subscriber.receive(10)
            assert first is not None
            assert first.offset is not None
            publisher.send_all(Event.of(f"{number}") for number in range(20_000))
        offsets = [first.offset, *(one.offset for one in subscriber)]
        expected = [one for one in network.lost_ranges() if one[1] > first.offset]
        lost = {sequence for start, end in expected for sequence in range(start, end)}
        assert [(gap.first, gap.next) for gap in subscriber.gaps] == expected
        assert list(subscriber.gaps) == told
        assert offsets == [sequence for sequence in range(first.offset, 20_003) if sequence not in lost]
        counts = subscriber.counts
        assert counts.lost == len(lost)
        assert counts.gaps == len(expected)
        assert counts.events == len(offsets)
        assert min(len(network.lost), network.doubled, network.delayed, counts.duplicates, counts.reordered) > 20


def test_a_subscriber_that_was_closed_says_so(channel: Channel) -> None:
    subscriber = channel.subscriber()
    subscriber.close()
    with pytest.raises(ValueError, match="the subscriber is closed"):
        subscriber.receive(0)


def test_a_channel_closes_what_was_made_of_it(url: str) -> None:
    with headrace.connect(url) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
    assert publisher.closed
    assert subscriber.closed


def test_a_slow_subscriber_loses_what_its_buffer_does_not_hold_and_knows_it(channel: Channel) -> None:
    subscriber, publisher = channel.subscriber(buffer_bytes=4096), channel.publisher()
    publisher.send_all(Event.of("x" * 1000) for _ in range(200))
    publisher.send(Event.of("last"))
    found: list[int | None] = []
    wait_until(lambda: (one := subscriber.receive(0)) is None or found.append(one.offset), what="what the buffer held")
    publisher.send(Event.of("end"))
    while not found or found[-1] != 201:
        one = subscriber.receive(10)
        assert one is not None
        found.append(one.offset)
    assert subscriber.counts.lost == 202 - len(found) > 0
