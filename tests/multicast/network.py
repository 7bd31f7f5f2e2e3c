"""A network that loses, doubles and disorders datagrams, by a plan."""

from __future__ import annotations

import random
import select
import socket
import threading
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from headrace.multicast.feed.datagrams import Datagram, decode, feed_number
from headrace.multicast.feed.packing import Packer
from headrace.multicast.feed.sockets import Group, receiving_socket, sending_socket

FEED = "prices"


@dataclass(frozen=True, slots=True)
class Sent:
    """A datagram, and the sequences that it has."""

    data: bytes
    previous: int
    next: int
    sequences: tuple[int, ...]


def stream(
    groups: list[list[int]], *, session: int = 1, start: int = 0, partition: int = 0, topic: str | None = None
) -> tuple[list[Sent], Packer]:
    """Datagrams with as many events as each list has numbers; a number is how many sequences are left out before the event."""
    packer = Packer(feed_number(FEED), partition, session, start=start, topic=topic)
    sent, sequence = [], start
    for holes in groups:
        sequences = []
        for hole in holes:
            sequence += hole
            assert packer.add(sequence, 0, None, b"%d" % sequence, ()) is None
            sequences.append(sequence)
            sequence += 1
        data = packer.flush()
        assert data is not None
        found = decode(memoryview(data))
        sent.append(Sent(data, found.previous, found.next, tuple(sequences)))
    return sent, packer


def free_url(feed: str = FEED) -> str:
    """A group that no other test uses, at a port that is free now, on loopback."""
    chance = random.SystemRandom()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return f"udp://239.255.{chance.randrange(256)}.{chance.randrange(1, 255)}:{port}?feed={feed}"


def group_of(url: str) -> Group:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return Group(parts.hostname, parts.port, dict(parse_qsl(parts.query)).get("interface"))


class LossyNetwork:
    """Between two groups: passes on what is sent to the one to the other, except what it loses, twice what it doubles, and
    later what it delays, by a seed. It knows what it did."""

    def __init__(
        self, source: str, target: str, seed: int, *, loss: float = 0.0, double: float = 0.0, delay: float = 0.0
    ) -> None:
        self.lost: list[Datagram] = []
        self.passed = 0
        self.doubled = 0
        self.delayed = 0
        self._chance = random.Random(seed)
        self._rates = (loss, double, delay)
        self._late: list[tuple[int, bytes]] = []  # how many datagrams pass before it does
        self._in = receiving_socket(group_of(source))
        self._out = sending_socket(group_of(target))
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def __enter__(self) -> LossyNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()
        self._in.close()
        self._out.close()

    def lost_ranges(self) -> list[tuple[int, int]]:
        """Of what was lost, datagrams behind each other together."""
        ranges: list[tuple[int, int]] = []
        for one in sorted(self.lost, key=lambda datagram: datagram.first):
            if ranges and ranges[-1][1] == one.previous:
                ranges[-1] = (ranges[-1][0], one.next)
            else:
                ranges.append((one.previous, one.next))
        return ranges

    def _work(self) -> None:
        while not self._closed.is_set():
            if not select.select([self._in], [], [], 0.02)[0]:
                self._release(len(self._late))
                continue
            self._pass(self._in.recv(65_536))
            self._late = [(left - 1, data) for left, data in self._late]
            self._late.sort(key=lambda late: late[0])
            self._release(sum(left <= 0 for left, _ in self._late))

    def _pass(self, data: bytes) -> None:
        loss, double, delay = self._rates
        chance = self._chance.random()
        if chance < loss:
            datagram = decode(memoryview(data))
            if datagram.event_count:
                self.lost.append(datagram)
            return
        if chance < loss + delay:
            self.delayed += 1
            self._late.append((self._chance.randint(1, 20), data))
            return
        self._out.send(data)
        self.passed += 1
        if chance < loss + delay + double:
            self.doubled += 1
            self._late.append((self._chance.randint(0, 20), data))

    def _release(self, count: int) -> None:
        for _, data in self._late[:count]:
            self._out.send(data)
        del self._late[:count]
