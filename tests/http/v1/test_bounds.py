"""Many streams, peers that don't read and peers that don't speak: others are served, and memory stays what it was."""

from __future__ import annotations

import base64
import json
import os
import selectors
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer, wait_until
from headrace.testing.plugin import HeadraceFactory

MIB = 2**20
HEAD = b" HTTP/1.1\r\nHost: localhost\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n"


def begun(server: HeadraceServer, path: bytes, more: bytes = b"", receive_bytes: int | None = None) -> socket.socket:
    """A request that was sent, and whose answer nobody reads yet."""
    address = urlsplit(server.http)
    peer = socket.socket()
    if receive_bytes is not None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    peer.settimeout(30)
    peer.connect((address.hostname, address.port))
    peer.sendall(b"GET " + path + HEAD + more + b"\r\n")
    return peer


def held(server: HeadraceServer, peers: list[socket.socket]) -> int:
    """How many of these connections the server has, as the kernel sees it: a peer that was cut off may not know yet."""
    port, ours = urlsplit(server.http).port, {peer.getsockname()[1] for peer in peers}
    count = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        if state == "01" and int(local.split(":")[1], 16) == port and int(remote.split(":")[1], 16) in ours:
            count += 1
    return count


@pytest.mark.timeout(180)
def test_publishing_goes_on_while_five_hundred_pages_wait_and_all_of_them_hear_of_it(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory(num_partitions=1)
    v1 = V1(server)
    v1.publish("t", "first")
    before = server.memory_bytes()
    streams = [begun(server, b"/v1/topics/t/stream") for _ in range(500)]
    heard: dict[socket.socket, bytes] = {}
    for stream in streams:
        heard[stream] = stream.recv(4096)
    assert server.memory_bytes() - before < 100 * MIB
    for number in range(5):
        v1.publish("t", f"event-{number}")
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        deadline = time.monotonic() + 120
        while any(b"event-4" not in each for each in heard.values()):
            assert time.monotonic() < deadline
            for key, _ in selector.select(1):
                assert isinstance(key.fileobj, socket.socket)
                heard[key.fileobj] += key.fileobj.recv(65536)
    for each in heard.values():
        assert [f"event-{number}".encode() in each for number in range(5)] == [True] * 5
        assert each.count(b"data: ") == 5
    for stream in streams:
        stream.close()


def test_streams_beyond_the_bound_are_told_and_others_are_served(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory(settings={"headrace.http.max.streams.per.host": 3})
    v1 = V1(server)
    v1.publish("t", 1)
    held = [v1.stream("t").opened() for _ in range(3)]
    answer = v1.ask("GET", "/v1/topics/t/stream")
    assert_problem(answer, 503, "too_many_streams", "headrace.http.max.streams.per.host")
    assert answer.headers["retry-after"] == "5"
    v1.publish("t", 2)
    held.pop().close()
    wait_until(lambda: v1.ask("HEAD", "/v1/topics/t/stream").status == 200, what="the place to be free")
    for stream in held:
        stream.close()


@pytest.fixture(scope="module")
def impatient() -> Iterator[HeadraceServer]:
    """A server that cuts peers off after a second, with ten megabytes to read."""
    with HeadraceServer(settings={"headrace.http.stalled.ms": 1000, "num.partitions": 1}) as server:
        v1 = V1(server)
        for _ in range(10):
            v1.publish("t", *("x" * 100_000 for _ in range(10)))
        yield server


@pytest.mark.parametrize(
    ("path", "more"),
    [
        (b"/v1/topics/t/stream?from=earliest", b""),
        (b"/v1/topics/t/socket?from=earliest", UPGRADE % base64.b64encode(b"0123456789abcdef")),
        (b"/v1/topics/t/events?from=earliest&limit=10000", b"Accept: application/x-ndjson\r\n"),
    ],
    ids=["server-sent events", "WebSocket", "lines"],
)
def test_readers_that_never_read_cost_little_and_are_cut_off(impatient: HeadraceServer, path: bytes, more: bytes) -> None:
    v1 = V1(impatient)
    v1.get("/v1/topics")
    before = impatient.memory_bytes()
    peers = [begun(impatient, path, more, receive_bytes=4096) for _ in range(30)]
    most = 0

    def all_gone() -> bool:
        nonlocal most
        most = max(most, impatient.memory_bytes() - before)
        v1.get("/v1/topics/t")  # others are served
        return held(impatient, peers) == 0

    wait_until(all_gone, timeout_s=60, what="all of them to be cut off")
    assert most < 40 * MIB  # each: a page while it is written, and what is unsent of it
    for peer in peers:
        peer.close()


def test_an_answer_that_nobody_fetches_goes_with_its_connection(impatient: HeadraceServer) -> None:
    path = b"/v1/topics/t/events?from=earliest&max_bytes=4000000"
    peers = [begun(impatient, path, receive_bytes=4096) for _ in range(5)]
    wait_until(lambda: held(impatient, peers) == 0, timeout_s=60, what="the kernel to end them")
    for peer in peers:
        peer.close()


def test_a_server_with_open_streams_ends_in_time(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory(num_partitions=1)
    v1 = V1(server)
    v1.publish("t", *("x" * 100_000 for _ in range(20)))
    v1.publish("quiet", 1)
    open_ones = [v1.stream("t").opened() for _ in range(20)]
    sockets = [begun(server, b"/v1/socket", UPGRADE % base64.b64encode(os.urandom(16))) for _ in range(20)]
    stalled = [begun(server, b"/v1/topics/t/stream?from=earliest", receive_bytes=4096) for _ in range(5)]
    polls = [begun(server, b"/v1/topics/quiet/events?from=latest&wait_s=50") for _ in range(5)]
    for each in sockets:
        assert each.recv(12) == b"HTTP/1.1 101"
    server.stop()  # fails unless it exits with 0 in good time
    for stream in open_ones:
        assert stream.next() is None
        stream.close()
    for each in (*sockets, *stalled, *polls):
        each.close()


# --- HTTP/2 without TLS


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_streams_and_publishing_share_one_connection_of_http2(headrace_shared_server: HeadraceServer, tmp_path: Path) -> None:
    v1 = V1(headrace_shared_server)
    topic = f"h2-{os.urandom(4).hex()}"
    v1.publish(topic, "first")
    out = tmp_path / "out"
    curl = ["curl", "-s", "--http2-prior-knowledge", "--max-time", "60"]
    url = f"{headrace_shared_server.http}/v1/topics/{topic}"
    with out.open("wb") as file:
        stream = subprocess.Popen([*curl, "-N", f"{url}/stream?from=earliest"], stdout=file)
    try:
        wait_until(lambda: b"first" in out.read_bytes(), what="the first event")
        body = json.dumps({"value": "second"})
        said = [*curl, "-w", "%{http_version}", "-H", "content-type: application/json", "-d", body, f"{url}/events"]
        assert subprocess.run(said, capture_output=True, check=True, timeout=60).stdout.endswith(b"}2")
        wait_until(lambda: b"second" in out.read_bytes(), what="the second event")
    finally:
        stream.terminate()
        stream.wait(30)


def test_requests_wait_for_their_turn_and_all_are_answered(headrace_shared_server: HeadraceServer) -> None:
    v1 = V1(headrace_shared_server)
    topic = f"turns-{os.urandom(4).hex()}"
    v1.publish(topic, "x")
    statuses: list[int] = []

    def many() -> None:
        connection = v1.connect()
        for _ in range(20):
            connection.request("POST", f"/v1/topics/{topic}/events", '{"value":1}', {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()

    threads = [threading.Thread(target=many) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 1000
