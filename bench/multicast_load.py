"""Loads on UDP multicast over loopback. A process of its own for each end; the receiving one prints one JSON object.

    latency    one event at a time from the call that sends it until the receiver has it: by bare sockets, or by our client
    rate       a publisher packs events as fast as its pace allows, a subscriber counts them
    listen     a subscriber of a feed that somebody else sends: how many came, how fast, and how late
    forward    passes a group's datagrams on to another one, and loses some

Times are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from statistics import median, quantiles
from struct import Struct
from typing import Any

from headrace.client.multicast import connect
from headrace.multicast.feed.sockets import Group, receiving_socket, sending_socket
from headrace.record import Event

STAMP = Struct(">q")
PAUSE_S = 0.0005  # between events whose latency is measured
WARM = 200  # events that do not count
BARE = Group("239.255.77.1", 15_077)
OURS = "udp://239.255.77.2:15077?feed=bench"
PATIENCE_S = 20.0


def latency(kind: str, count: int, size: int) -> dict[str, float]:
    taken: list[int] = []
    if kind == "bare":
        with receiving_socket(BARE) as socket:
            socket.setblocking(True)
            with sender("send", "--kind", kind, "--count", count, "--size", size):
                for _ in range(count):
                    stamp = STAMP.unpack_from(socket.recv(2048))[0]
                    taken.append(time.perf_counter_ns() - stamp)
    else:
        with connect(OURS) as channel:
            subscriber = channel.subscriber()
            with sender("send", "--kind", kind, "--count", count, "--size", size):
                for _ in range(count):
                    received = subscriber.receive()
                    assert received is not None
                    assert received.event.value is not None
                    taken.append(time.perf_counter_ns() - STAMP.unpack_from(received.event.value)[0])
    return spread(taken[WARM:])


def send(kind: str, count: int, size: int) -> None:
    rest = bytes(size - STAMP.size)
    time.sleep(0.2)  # whoever listens is ready
    if kind == "bare":
        with sending_socket(BARE) as socket:
            for _ in range(count):
                socket.send(STAMP.pack(time.perf_counter_ns()) + rest)
                time.sleep(PAUSE_S)
        return
    with connect(OURS) as channel:
        publisher = channel.publisher()
        for _ in range(count):
            publisher.send(Event(None, STAMP.pack(time.perf_counter_ns()) + rest, (), 0))
            time.sleep(PAUSE_S)


def rate(count: int, size: int, bytes_per_s: int) -> dict[str, float]:
    with connect(OURS) as channel:
        subscriber = channel.subscriber(stop_at_end=True)
        with sender("publish", "--count", count, "--size", size, "--bytes-per-s", bytes_per_s):
            return counted(subscriber, count)


def publish(count: int, size: int, bytes_per_s: int) -> None:
    event = Event(None, bytes(size), (), 0)
    time.sleep(0.2)
    with connect(OURS) as channel, channel.publisher(bytes_per_s=bytes_per_s, linger_us=200) as publisher:
        publisher.send_all(event for _ in range(count))


def listen(url: str, count: int, recover: str | None, start: str, stamped: bool) -> dict[str, float]:
    with connect(url) as channel:
        subscriber = channel.subscriber(recover=recover, start=start) if recover else channel.subscriber()
        while not subscriber.counts.heartbeats and not recover:
            subscriber.receive(0.05)
        print("ready", flush=True)
        if not stamped:
            return counted(subscriber, count)
        taken = []
        for _ in range(count):
            received = subscriber.receive(PATIENCE_S)
            assert received is not None
            assert received.event.value is not None
            taken.append(time.perf_counter_ns() - STAMP.unpack_from(received.event.value)[0])
        return spread(taken[WARM:])


def counted(subscriber: Any, count: int) -> dict[str, float]:
    """Until all have come, or the rest is known to be lost."""
    came, began, ended = 0, 0.0, 0.0
    while came + subscriber.counts.lost < count:
        many = subscriber.receive_many(PATIENCE_S)
        if not many:
            break
        ended = time.perf_counter()
        began = began or ended
        came += len(many)
    counts = subscriber.counts
    took = max(ended - began, 1e-9)
    return {"rate": came / took, "missing": count - came, "datagrams": counts.datagrams, "recovered": counts.recovered}


def forward(source: str, target: str, loss: float) -> None:
    chance = random.Random(1)
    with receiving_socket(group(source)) as taking, sending_socket(group(target)) as giving:
        taking.setblocking(True)
        print("ready", flush=True)
        while True:
            datagram = taking.recv(65_536)
            if chance.random() >= loss:
                giving.send(datagram)


def group(text: str) -> Group:
    address, _, port = text.rpartition(":")
    return Group(address, int(port))


def sender(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.multicast_load", *map(str, words)])


def spread(taken_ns: list[int]) -> dict[str, float]:
    return {"p50_us": median(taken_ns) / 1000, "p99_us": quantiles(taken_ns, n=100)[98] / 1000}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["latency", "send", "rate", "publish", "listen", "forward"])
    parser.add_argument("--kind", default="ours")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--bytes-per-s", type=int, default=0)
    parser.add_argument("--url", default=OURS)
    parser.add_argument("--recover")
    parser.add_argument("--start", default="latest")
    parser.add_argument("--stamped", action="store_true")
    parser.add_argument("--source")
    parser.add_argument("--target")
    parser.add_argument("--loss", type=float, default=0.0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    said: dict[str, float] | None = None
    match given.verb:
        case "latency":
            said = latency(given.kind, given.count, given.size)
        case "send":
            send(given.kind, given.count, given.size)
        case "rate":
            said = rate(given.count, given.size, given.bytes_per_s)
        case "publish":
            publish(given.count, given.size, given.bytes_per_s)
        case "listen":
            said = listen(given.url, given.count, given.recover, given.start, given.stamped)
        case "forward":
            forward(given.source, given.target, given.loss)
    if said is not None:
        print(json.dumps(said))


if __name__ == "__main__":
    main()
