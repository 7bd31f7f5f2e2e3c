"""ZeroMQ sockets as ends of routes, against two programs with pyzmq and nothing in between."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import LoadError, Rig
from headrace.client.kafka import Cluster, TopicPartition, end_offsets
from headrace.record import Event
from headrace.record.batch import encode_batch

SIZE = 100
MESSAGES = 3_000_000
BATCH = 100
DEADLINE_S = 300.0
LOOK_S = 0.01
_LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
_LOAD = [sys.executable, "-m", "bench.zeromq_load"]


def measure(rig: Rig) -> Measured:
    count = rig.effort.count(MESSAGES) // BATCH * BATCH
    measured: Measured = {"raw": _raw(count)}
    with rig.serving():
        measured["into"] = _into(rig, count)
        measured["out"] = _out(rig, count)
    measured["into_ratio"] = measured["into"] / measured["raw"]
    measured["out_ratio"] = measured["out"] / measured["raw"]
    return measured


def _raw(count: int) -> float:
    address = _free_address()
    with _pulling(address, count, "--bind") as puller, _pushing(address, count):
        return _said(puller)


def _into(rig: Rig, count: int) -> float:
    """From the first record in the topic until all are there, as the raw rate is from the first message to the last."""
    rig.create_topic("into", config={"durability": "memory"})
    address = _free_address()
    source = {"type": "zmq", "address": address, "socket": "pull"}
    _route(rig, "into", {"source": source, "destination": {"type": "topic", "topic": "into"}})
    cluster, place = Cluster(rig.server.bootstrap), TopicPartition("into", 0)
    deadline = time.monotonic() + DEADLINE_S
    with _pushing(address, count):
        while not (first := end_offsets(cluster, [place])[place]):
            time.sleep(LOOK_S)
        began = time.perf_counter()
        while (there := end_offsets(cluster, [place])[place]) < count:
            if time.monotonic() > deadline:
                raise LoadError(f"{there} of {count} messages are in the topic")
            time.sleep(LOOK_S)
        return (count - first) / (time.perf_counter() - began)


def _out(rig: Rig, count: int) -> float:
    rig.create_topic("out", config={"durability": "memory"})
    data = bytes(encode_batch([Event(None, bytes(SIZE), (), 0)] * BATCH))
    rig.produce("out", [frames.produce("out", frames.Batch(data, BATCH))], window=4, count=count // BATCH)
    address = _free_address()
    with _pulling(address, count, "--bind") as puller:
        target = {"type": "zmq", "address": address, "socket": "push", "bind": False, "content": "bare"}
        _route(rig, "out", {"topic": "out", "destination": target})
        return _said(puller)


def _free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def _route(rig: Rig, name: str, definition: dict[str, object]) -> None:
    request = urllib.request.Request(
        f"http://{rig.server.host}:{rig.server.http_port}/v1/routes/{name}",
        method="PUT",
        data=json.dumps(definition).encode(),
        headers={"authorization": _LOGIN, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30):
        pass


@contextmanager
def _pushing(address: str, count: int) -> Iterator[None]:
    with subprocess.Popen([*_LOAD, "push", "--address", address, "--count", str(count), "--size", str(SIZE)]) as pusher:
        try:
            yield
            if pusher.wait(DEADLINE_S):
                raise LoadError("the program that pushes has failed")
        finally:
            pusher.kill()


@contextmanager
def _pulling(address: str, count: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [*_LOAD, "pull", "--address", address, "--count", str(count), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as puller:
        try:
            assert puller.stdout is not None
            puller.stdout.readline()
            yield puller
        finally:
            puller.kill()


def _said(puller: subprocess.Popen[str]) -> float:
    output, complaint = puller.communicate(timeout=DEADLINE_S)
    if puller.returncode:
        raise LoadError(complaint.strip()[-500:])
    rate: float = json.loads(output.splitlines()[-1])["rate"]
    return rate


CASES = (
    Case(
        name="zeromq",
        title="ZeroMQ into a topic and out of it",
        about=f"Messages of one frame of {SIZE} B over TCP on loopback. Raw: one program with pyzmq pushes, another pulls in a "
        "bare loop. Into: the same program pushes to a route that fills a topic with durability=memory. Out: a route pushes "
        "what such a topic holds to the same bare loop.",
        ours=Mode.HEADRACE,
        measure=measure,
        serve=False,
        rows=(
            Row("raw", "pyzmq to pyzmq", "messages/s"),
            Row("into", "pyzmq to a topic", "messages/s"),
            Row("into_ratio", "into a topic / raw", "x", aim_value=0.5),
            Row("out", "a topic to pyzmq", "messages/s"),
            Row("out_ratio", "out of a topic / raw", "x"),
        ),
    ),
)
