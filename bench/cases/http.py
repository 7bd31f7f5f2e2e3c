"""Publishing over HTTP against what the same server stack does on an empty handler, and NDJSON in bulk."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import native
from bench.model import Case, Measured, Mode, Row
from bench.rig import LoadError, Rig, run

HOST = "127.0.0.1"
PARTITIONS = 4
CONNECTIONS = (16, 64)
EVENT = {"key": "account-0007", "value": {"id": 12345, "name": "abcdefghijklm", "amount": 12.5, "tags": ["a", "b"]}}
LINES = 1_000_000
BLOCK_LINES = 5000


def request(path: str) -> bytes:
    body = json.dumps(EVENT).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@contextmanager
def empty_server(*arguments: str) -> Iterator[tuple[int, int]]:
    """Its port and its process id."""
    command = [sys.executable, "-m", "bench.http_empty", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def load(folder: Path, port: int, pid: int, path: str, connections: int, seconds: float) -> dict[str, Any]:
    file = folder / "http-request"
    file.write_bytes(request(path))
    said = run([native.httpload(), HOST, port, connections, seconds, pid, file])
    if said["refused"]:
        raise LoadError(f"{said['refused']} requests to {path} were refused")
    return said


def bulk(port: int, topic: str, count: int) -> float:
    """Events a second, sent as one stream over one connection; all of them must have been stored."""
    block = b"".join(
        json.dumps({**EVENT, "key": f"account-{number % 1000:04}"}).encode() + b"\n" for number in range(BLOCK_LINES)
    )
    blocks = max(1, count // BLOCK_LINES)
    head = f"POST /v1/topics/{topic}/events HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/x-ndjson\r\n"
    with socket.create_connection((HOST, port)) as connection:
        begun = time.perf_counter()
        connection.sendall(f"{head}Content-Length: {blocks * len(block)}\r\n\r\n".encode())
        for _ in range(blocks):
            connection.sendall(block)
        answer = b""
        while b"}]}" not in answer:
            piece = connection.recv(65536)
            if not piece:
                raise LoadError("the stream was not answered")
            answer += piece
        took = time.perf_counter() - begun
    stored: int = json.loads(answer.partition(b"\r\n\r\n")[2])["count"]
    if stored != blocks * BLOCK_LINES:
        raise LoadError(f"{stored} of {blocks * BLOCK_LINES} lines were stored")
    return stored / took


def measure(rig: Rig) -> Measured:
    measured: Measured = {}
    server, seconds = rig.server, rig.effort.seconds
    for topic, durability in (("memory", "memory"), ("fsync", "fsync")):
        rig.create_topic(topic, PARTITIONS, {"durability": durability})
        load(rig.folder, server.http_port, server.pid, f"/v1/topics/{topic}/events", 4, rig.effort.warm_seconds / 4)
    with (
        empty_server() as (port, pid),
        empty_server("--collect") as (collecting_port, collecting_pid),
        empty_server("--starlette") as (starlette_port, starlette_pid),
    ):
        for connections in CONNECTIONS:
            for name, at, of, path in (
                ("empty", port, pid, "/"),
                ("collecting", collecting_port, collecting_pid, "/"),
                ("starlette", starlette_port, starlette_pid, "/v1/topics/memory/events"),
                ("memory", server.http_port, server.pid, "/v1/topics/memory/events"),
                ("fsync", server.http_port, server.pid, "/v1/topics/fsync/events"),
            ):
                said = load(rig.folder, at, of, path, connections, seconds)
                measured[f"{name}_{connections}"] = said["rate"]
                measured[f"{name}_{connections}_cpu"] = said["server_cpu_us"]
                measured[f"{name}_{connections}_p99"] = said["p99_us"]
            for name in ("memory", "fsync"):
                published = measured[f"{name}_{connections}"]
                measured[f"{name}_{connections}_ratio"] = published / measured[f"starlette_{connections}"]
                measured[f"{name}_{connections}_bare"] = published / measured[f"empty_{connections}"]
    for topic in ("memory", "fsync"):
        measured[f"bulk_{topic}"] = bulk(server.http_port, topic, rig.effort.count(LINES))
    return measured


def _rows(connections: int) -> tuple[Row, ...]:
    words = f"{connections} connections"
    return (
        Row(f"starlette_{connections}", f"{words}: empty endpoint of Starlette", "requests/s"),
        Row(f"empty_{connections}", f"{words}: empty handler of an exchange, no ASGI", "requests/s"),
        Row(f"collecting_{connections}", f"{words}: the same, and it takes the body", "requests/s"),
        Row(f"memory_{connections}", f"{words}: publish, memory", "requests/s"),
        Row(f"fsync_{connections}", f"{words}: publish, fsync", "requests/s"),
        Row(f"memory_{connections}_ratio", f"{words}: publish, memory / Starlette", "x", aim_value=0.5),
        Row(f"fsync_{connections}_ratio", f"{words}: publish, fsync / Starlette", "x", aim_value=0.5),
        Row(f"memory_{connections}_bare", f"{words}: publish, memory / empty handler", "x"),
        Row(f"fsync_{connections}_bare", f"{words}: publish, fsync / empty handler", "x"),
        Row(f"empty_{connections}_cpu", f"{words}: empty handler, CPU a request", "µs", better="less"),
        Row(f"memory_{connections}_cpu", f"{words}: publish, memory, CPU a request", "µs", better="less"),
        Row(f"fsync_{connections}_cpu", f"{words}: publish, fsync, CPU a request", "µs", better="less"),
        Row(f"fsync_{connections}_p99", f"{words}: publish, fsync, p99", "µs", better="less"),
    )


CASES = (
    Case(
        name="http",
        title="Publishing over HTTP",
        about="POST of one event as JSON (some 110 B, with a key, to a topic of 4 partitions) on so many connections, each "
        "with one request under way; against handlers that answer without a look at the request, on the same stack "
        "(headrace.web in an event loop of uvloop): an endpoint of Starlette, which is what the aim is about, and a bare "
        "handler that is called with the exchange and answers at once, without routing or ASGI. An answer means "
        "that the event is in memory, or on disk. NDJSON: one stream of a million such events over one connection, answered "
        "when all of them are.",
        ours=Mode.HEADRACE,
        measure=measure,
        rows=(
            *(row for connections in CONNECTIONS for row in _rows(connections)),
            Row("bulk_memory", "NDJSON, memory", "events/s", aim_value=100_000),
            Row("bulk_fsync", "NDJSON, fsync", "events/s", aim_value=100_000),
        ),
    ),
)
