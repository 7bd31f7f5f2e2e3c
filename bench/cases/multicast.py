"""Feeds over UDP multicast on loopback: between programs with no server, and of a topic.

Latency is measured against bare sockets that carry the same bytes between two Python processes. What leaves faster than
receivers take it is lost in their buffers, so rates are those of a pace that leaves nothing behind.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.multicast_load import PAUSE_S, STAMP, WARM
from bench.rig import LoadError, Rig, run
from headrace.client.kafka import Cluster, Producer
from headrace.multicast.feed.packing import DEFAULT_MTU
from headrace.record import Event
from headrace.record.batch import encode_batch

SIZE = 100
EVENTS = 1_000_000
TIMED = 4000
PACE = 15_000_000  # bytes a second, some 130,000 events of 100 B
BATCH = 100
NEAR, FAR = "239.255.77.3:15078", "239.255.77.4:15078"
_LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
_LOAD = [sys.executable, "-m", "bench.multicast_load"]


def measure_direct(rig: Rig) -> Measured:
    timed = rig.effort.count(TIMED) + WARM
    measured: Measured = {}
    for kind in ("bare", "ours"):
        said = run([*_LOAD, "latency", "--kind", kind, "--count", timed, "--size", SIZE])
        measured[f"{kind}_p50"], measured[f"{kind}_p99"] = said["p50_us"], said["p99_us"]
    measured["ratio"] = measured["ours_p50"] / measured["bare_p50"]
    said = run([*_LOAD, "rate", "--count", rig.effort.count(EVENTS), "--size", SIZE, "--bytes-per-s", PACE])
    measured["rate"], measured["missing"] = said["rate"], said["missing"]
    measured["packed"] = said["rate"] and rig.effort.count(EVENTS) / max(1, said["datagrams"])
    return measured


def measure_topic(rig: Rig) -> Measured:
    measured: Measured = {}
    with rig.serving():
        _feed(rig, "timed", NEAR, 0)
        with _listening("--url", _url(NEAR, "timed"), "--count", rig.effort.count(TIMED) + WARM, "--stamped") as listener:
            acks = _send_one_by_one(rig, "timed", rig.effort.count(TIMED) + WARM)
            said = _said(listener)
        measured["p50"], measured["p99"], measured["ack_p50"] = said["p50_us"] / 1e3, said["p99_us"] / 1e3, acks
        count = rig.effort.count(EVENTS) // BATCH * BATCH
        _feed(rig, "fast", NEAR, PACE)
        with _listening("--url", _url(NEAR, "fast"), "--count", count) as listener:
            _fill(rig, "fast", count)
            said = _said(listener)
        measured["rate"], measured["missing"] = said["rate"], said["missing"]
    return measured


def measure_loss(rig: Rig) -> Measured:
    with rig.serving():
        count = rig.effort.count(EVENTS) // BATCH * BATCH
        _feed(rig, "lossy", NEAR, PACE)
        forwarding = subprocess.Popen(
            [*_LOAD, "forward", "--source", NEAR, "--target", FAR, "--loss", "0.01"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert forwarding.stdout is not None
            forwarding.stdout.readline()
            words = ["--url", _url(FAR, "lossy"), "--count", count, "--recover", rig.server.bootstrap, "--start", "earliest"]
            with _listening(*words) as listener:
                _fill(rig, "lossy", count)
                said = _said(listener)
        finally:
            forwarding.kill()
            forwarding.wait()
    return {"rate": said["rate"], "missing": said["missing"], "recovered": 100 * said["recovered"] / count}


def _feed(rig: Rig, topic: str, address: str, bytes_per_s: int) -> None:
    rig.create_topic(topic, config={"durability": "flush"})
    group, _, port = address.rpartition(":")
    target = {"type": "udp", "group": group, "port": int(port), "bytes_per_s": bytes_per_s}
    request = urllib.request.Request(
        f"http://{rig.server.host}:{rig.server.http_port}/v1/routes/{topic}",
        method="PUT",
        data=json.dumps({"topic": topic, "destination": target}).encode(),
        headers={"authorization": _LOGIN, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30):
        pass


def _url(address: str, feed: str) -> str:
    return f"udp://{address}?feed={feed}"


@contextmanager
def _listening(*words: object) -> Iterator[subprocess.Popen[str]]:
    """A subscriber that is ready."""
    listener = subprocess.Popen([*_LOAD, "listen", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert listener.stdout is not None
        listener.stdout.readline()
        yield listener
    finally:
        if listener.poll() is None:
            listener.kill()
        listener.wait()


def _said(listener: subprocess.Popen[str]) -> dict[str, float]:
    output, complaint = listener.communicate(timeout=300)
    if listener.returncode:
        raise LoadError(complaint.strip()[-500:])
    said: dict[str, float] = json.loads(output.splitlines()[-1])
    return said


def _send_one_by_one(rig: Rig, topic: str, count: int) -> float:
    """The median milliseconds until the server has acknowledged one."""
    cluster = Cluster(rig.server.bootstrap)
    producer = Producer(cluster)
    taken = []
    for _ in range(count):
        began = time.perf_counter_ns()
        producer.send(topic, Event(None, STAMP.pack(began) + bytes(SIZE - STAMP.size)))
        producer.flush()
        taken.append(time.perf_counter_ns() - began)
        time.sleep(PAUSE_S)
    cluster.close()
    return sorted(taken)[len(taken) // 2] / 1e6


def _fill(rig: Rig, topic: str, count: int) -> None:
    data = bytes(encode_batch([Event(None, bytes(SIZE), (), 0)] * BATCH))
    rig.produce(topic, [frames.produce(topic, frames.Batch(data, BATCH))], window=4, count=count // BATCH)


CASES = (
    Case(
        name="multicast",
        title="A feed over UDP multicast, with no server",
        about=f"Events of {SIZE} B on loopback, between two Python processes. Latency: one event every half a millisecond, "
        "each in a datagram of its own, from the call that sends it until the receiver has it, against bare sockets that carry "
        f"as many bytes. Rate: packed into datagrams of {DEFAULT_MTU} B, at a pace of {PACE // 10**6} MB a second.",
        ours=Mode.HEADRACE,
        measure=measure_direct,
        serve=False,
        rows=(
            Row("bare_p50", "bare sockets, p50", "µs", better="less"),
            Row("bare_p99", "bare sockets, p99", "µs", better="less"),
            Row("ours_p50", "publisher to subscriber, p50", "µs", better="less"),
            Row("ours_p99", "publisher to subscriber, p99", "µs", better="less"),
            Row("ratio", "p50: ours / bare", "x", better="less", aim_value=2.0),
            Row("rate", "packed events", "events/s", aim_value=100_000),
            Row("packed", "events in a datagram", "events"),
            Row("missing", "missing at the end", "events", better="less", aim_value=0),
        ),
    ),
    Case(
        name="multicast-topic",
        title="A topic as a feed over UDP multicast",
        about=f"Events of {SIZE} B in a topic with durability=flush, which a route sends as a feed. Latency: from the call "
        "that produces an event over the Kafka protocol until a subscriber has it, beside the time until the producer has its "
        f"acknowledgement. Rate: at a pace of {PACE // 10**6} MB a second, no recovery.",
        ours=Mode.HEADRACE,
        measure=measure_topic,
        serve=False,
        rows=(
            Row("p50", "produced to received, p50", "ms", better="less"),
            Row("p99", "produced to received, p99", "ms", better="less"),
            Row("ack_p50", "produced to acknowledged, p50", "ms", better="less"),
            Row("rate", "packed events", "events/s", aim_value=100_000),
            Row("missing", "missing at the end", "events", better="less", aim_value=0),
        ),
    ),
    Case(
        name="multicast-loss",
        title="A feed that loses one datagram in a hundred",
        about="The same, through a network that loses 1 % of the datagrams; the subscriber fetches them back from the log.",
        ours=Mode.HEADRACE,
        measure=measure_loss,
        serve=False,
        rows=(
            Row("rate", "events in order", "events/s"),
            Row("recovered", "of them fetched back", "%", better="less"),
            Row("missing", "missing at the end", "events", better="less", aim_value=0),
        ),
    ),
)
