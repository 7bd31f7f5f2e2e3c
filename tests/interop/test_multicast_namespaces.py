"""Feeds between machines: network namespaces that the test makes for itself, and a bad network between them.

    sender ── 10.77.1.0/24 ── network ── 10.77.2.0/24 ── receiver

The one in the middle passes datagrams on with loss, duplication and disorder, and is a router for all else. Beside the
subscriber a plain socket hears the same datagrams: what that one has missed is what the subscriber must tell, no more and no
less.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.multicast.namespaces import Namespace, NotPermitted, Tunnel, connect, forwards_packets
from tests.multicast.network import LossyNetwork, group_of
from tests.multicast.serving import make_topic, produce, to_feed

import headrace
from headrace import Event
from headrace.client.multicast import Subscriber
from headrace.multicast.feed.datagrams import decode
from headrace.multicast.feed.sockets import receiving_socket
from headrace.testing import HeadraceServer, wait_until

SENDER, RECEIVER = "10.77.1.2", "10.77.2.2"
GROUP = "udp://239.77.0.1:5077?feed=prices&interface="
NETEM = "loss 3% duplicate 3% delay 2ms reorder 10% 50%"

pytestmark = pytest.mark.skipif(shutil.which("ip") is None, reason="iproute2 is not installed")


@dataclass(frozen=True, slots=True)
class Machines:
    sender: Namespace
    network: Namespace
    receiver: Namespace


@pytest.fixture
def machines() -> Iterator[Machines]:
    made: list[Namespace] = []
    try:
        made.extend(Namespace() for _ in range(3))
        sender, network, receiver = made
        connect(network, "left", "10.77.1.1/24", sender, "eth0", f"{SENDER}/24")
        connect(network, "right", "10.77.2.1/24", receiver, "eth0", f"{RECEIVER}/24")
        sender.ip("route add default via 10.77.1.1")
        receiver.ip("route add default via 10.77.2.1")
        forwards_packets(network)
    except (NotPermitted, OSError) as error:
        for one in made:
            one.close()
        pytest.skip(f"no network namespaces here: {error}")
    yield Machines(sender, network, receiver)
    for one in made:
        one.close()


class Plain:
    """All datagrams that a plain socket hears."""

    def __init__(self, url: str) -> None:
        self.ranges: dict[int, int] = {}
        self._socket = receiving_socket(group_of(url))
        self._socket.setblocking(True)
        self._socket.settimeout(0.05)
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._thread.join()
        self._socket.close()

    def missing(self, first: int, end: int) -> list[tuple[int, int]]:
        """The ranges that no datagram has accounted for."""
        found = []
        for previous, following in sorted(self.ranges.items()):
            if previous > first:
                found.append((first, previous))
            first = max(first, following)
        return [*found, (first, end)] if first < end else found

    def _work(self) -> None:
        while not self._closed:
            try:
                datagram = decode(memoryview(self._socket.recv(65_536)))
            except TimeoutError:
                continue
            if datagram.event_count:
                self.ranges[datagram.previous] = datagram.next


def numbered(first: int, count: int) -> list[Event]:
    return [Event.of(str(number)) for number in range(first, first + count)]


def receive_all(subscriber: Subscriber, count: int, timeout_s: float = 60.0) -> list[tuple[int | None, str]]:
    deadline = time.monotonic() + timeout_s
    found: list[tuple[int | None, str]] = []
    while len(found) < count:
        received = subscriber.receive(max(0.0, deadline - time.monotonic()))
        assert received is not None, f"only {len(found)} of {count} came; {subscriber.counts}"
        found.append((received.offset, received.event.text()))
    return found


def check_gaps(machines: Machines) -> None:
    """Sends 20,000 events, and compares what the subscriber tells with what a plain socket has missed."""
    count = 20_000
    with headrace.connect(GROUP + "eth0", reorder_ms=1500, window=8192, mtu=300, bytes_per_s=4_000_000) as channel:
        plain = machines.receiver.call(Plain, GROUP + "eth0")
        subscriber = machines.receiver.call(channel.subscriber)
        publisher = machines.sender.call(channel.publisher)
        wait_until(lambda: subscriber.receive(0.01) or subscriber.counts.heartbeats, what="a heartbeat")
        writer = threading.Thread(target=publisher.send_all, args=(numbered(0, count),))
        writer.start()
        found: list[int | None] = []
        deadline = time.monotonic() + 60
        while subscriber.counts.events + subscriber.counts.lost < count or len(found) < subscriber.counts.events:
            received = subscriber.receive(max(0.0, deadline - time.monotonic()))
            if received is None:
                assert time.monotonic() < deadline, subscriber.counts
                continue
            assert received.event.text() == str(received.offset)
            found.append(received.offset)
        writer.join()
        plain.close()
        missed = plain.missing(0, count)
        gone = {sequence for first, end in missed for sequence in range(first, end)}
        assert [(gap.first, gap.next) for gap in subscriber.gaps] == missed
        assert found == [sequence for sequence in range(count) if sequence not in gone]
        counts = subscriber.counts
        assert counts.lost == len(gone)
        assert min(len(missed), counts.duplicates, counts.reordered) > 5, counts


def test_gaps_are_exact_over_a_bad_network(machines: Machines) -> None:
    network = machines.network.call(LossyNetwork, GROUP + "left", GROUP + "right", 5, loss=0.04, double=0.04, delay=0.08)
    with network:
        check_gaps(machines)


def test_gaps_are_exact_over_a_bad_network_of_the_kernel(machines: Machines) -> None:
    """The same with `tc netem` in place of our own loss, where the kernel has it."""
    try:
        machines.network.call(_tc, f"qdisc add dev right root netem {NETEM}")
    except NotPermitted as error:
        pytest.skip(f"the kernel has no netem: {error}")
    with machines.network.call(LossyNetwork, GROUP + "left", GROUP + "right", 0):
        check_gaps(machines)


def test_everything_lost_is_fetched_back_over_tcp_through_a_crash_of_the_server(machines: Machines) -> None:
    server = HeadraceServer()
    tunnel = None
    try:
        machines.sender.call(server.start)
        tunnel = Tunnel(machines.receiver, machines.sender, SENDER, int(server.kafka.rpartition(":")[2]))
        machines.sender.call(make_topic, server, "prices")
        machines.sender.call(to_feed, server, "prices", GROUP + "eth0", mtu=300)
        network = machines.network.call(LossyNetwork, GROUP + "left", GROUP + "right", 6, loss=0.04, double=0.04, delay=0.08)
        with network, headrace.connect(GROUP + "eth0", recover=server.kafka, reorder_ms=5) as channel:
            subscriber = machines.receiver.call(channel.subscriber, start="earliest")
            machines.sender.call(produce, server, "prices", numbered(0, 10_000))
            found = receive_all(subscriber, 2000)
            machines.sender.call(server.crash)
            machines.sender.call(server.restart)
            machines.sender.call(produce, server, "prices", numbered(10_000, 10_000))
            found += receive_all(subscriber, 18_000)
            late = machines.receiver.call(channel.subscriber, start=15_000)
            assert receive_all(late, 5000) == [(number, str(number)) for number in range(15_000, 20_000)]
        assert found == [(number, str(number)) for number in range(20_000)]
        assert subscriber.counts.lost == 0
        assert subscriber.counts.recovered > 0
        assert len(network.lost) > 20
    finally:
        if tunnel is not None:
            tunnel.close()
        machines.sender.call(server.close)


@pytest.mark.parametrize("sender", [None, "fd77::2"])
def test_ipv6_groups_are_joined_by_interface_and_by_source(machines: Machines, sender: str | None) -> None:
    machines.sender.ip("addr add fd77::2/64 dev eth0 nodad")
    machines.network.ip("addr add fd77::1/64 dev left nodad")
    url = f"udp://[ff{'35' if sender else '15'}::4d]:5078?feed=prices&interface="
    with headrace.connect(url + "eth0") as sending, headrace.connect(url + "left", sender=sender) as receiving:
        subscriber = machines.network.call(receiving.subscriber)
        publisher = machines.sender.call(sending.publisher)
        wait_until(lambda: subscriber.receive(0.01) or subscriber.counts.heartbeats, what="a heartbeat", timeout_s=20)
        publisher.send_all(numbered(0, 1000))
        assert receive_all(subscriber, 1000) == [(number, str(number)) for number in range(1000)]
        if sender is not None:
            other = machines.network.call(receiving.subscriber, sender="fd77::9")
            publisher.send(Event.of("1000"))
            assert receive_all(subscriber, 1) == [(1000, "1000")]
            assert other.receive(0.05) is None


def test_a_feed_stays_on_its_link_and_on_its_interface(machines: Machines) -> None:
    """Nobody forwards it (the TTL is 1), and who named no interface sends to nobody but itself."""
    with headrace.connect("udp://239.77.0.1:5079?feed=prices") as channel:
        own = machines.sender.call(channel.subscriber)
        link = machines.network.call(channel.subscriber, interface="left")
        far = machines.receiver.call(channel.subscriber, interface="eth0")
        machines.sender.call(channel.publisher).send(Event.of("loopback"))
        assert receive_all(own, 1) == [(0, "loopback")]
        machines.sender.call(channel.publisher, interface="eth0").send(Event.of("link"))
        assert receive_all(link, 1) == [(0, "link")]
        assert far.receive(0.05) is None
        assert (link.counts.restarts, far.counts.heartbeats) == (0, 0)


def _tc(words: str) -> None:
    done = subprocess.run(["tc", *words.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPermitted(done.stderr.strip())
