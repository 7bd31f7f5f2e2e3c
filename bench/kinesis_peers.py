"""Servers that speak the API of Kinesis: moto's, which comes with `make setup`, and kinesalite, which npm brings the first time
into `$HEADRACE_CACHE` (default `~/.cache/headrace`). Both keep everything in memory."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers import PeerError, Server, free_port
from bench.rig import LoadError

HOST = "127.0.0.1"
KINESALITE = "kinesalite@3.3.3"
ACTIVE_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API is served, and by which process."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def call(self, operation: str, /, **given: object) -> dict[str, Any]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", "/", json.dumps(given).encode(), dict(heads(operation)))
            answer = connection.getresponse()
            body = answer.read()
        if answer.status != 200:
            raise LoadError(f"{operation}: {body[:300]!r}")
        said: dict[str, Any] = json.loads(body) if body else {}
        return said

    def create_stream(self, name: str, shards: int) -> None:
        self.call("CreateStream", StreamName=name, ShardCount=shards)
        end = time.monotonic() + ACTIVE_DEADLINE_S
        while self.summary(name)["StreamStatus"] != "ACTIVE":
            if time.monotonic() > end:
                raise LoadError(f"{name} was not active after {ACTIVE_DEADLINE_S:.0f} s")
            time.sleep(0.05)

    def summary(self, name: str) -> dict[str, Any]:
        said: dict[str, Any] = self.call("DescribeStreamSummary", StreamName=name)["StreamDescriptionSummary"]
        return said


def heads(operation: str, content_type: str = "application/x-amz-json-1.1") -> list[tuple[str, str]]:
    """What an SDK sends, with a signature that nobody checks."""
    scope = "Credential=test/20240101/us-east-1/kinesis/aws4_request"
    return [
        ("Host", HOST),
        ("Content-Type", content_type),
        ("X-Amz-Target", f"Kinesis_20131202.{operation}"),
        ("X-Amz-Date", "20240101T000000Z"),
        ("Authorization", f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=content-type;host;x-amz-date, Signature={'0' * 64}"),
    ]


def start_moto(folder: Path) -> Server:
    port = free_port()
    return _started("moto", folder, port, [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)])


def start_kinesalite(folder: Path) -> Server:
    port = free_port()
    waits = [word for name in ("create", "delete", "update") for word in (f"--{name}StreamMs", "0")]
    program = kinesalite() / "node_modules" / "kinesalite" / "cli.js"
    return _started("kinesalite", folder, port, ["node", str(program), "--port", str(port), "--shardLimit", "100", *waits])


def kinesalite() -> Path:
    """The folder it is installed in."""
    cache = Path(os.environ.get("HEADRACE_CACHE", Path.home() / ".cache" / "headrace"))
    folder = cache / KINESALITE.replace("@", "-")
    if (folder / "node_modules").exists():
        return folder
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise PeerError("kinesalite needs Node.js and npm")
    partial = cache / f".kinesalite.{os.getpid()}"
    partial.mkdir(parents=True, exist_ok=True)
    # without its optional LevelDB, which is to be compiled; it then keeps everything in memory, as it does by default anyway
    command = ["npm", "install", "--no-audit", "--no-fund", "--omit=optional", "--prefix", str(partial), KINESALITE]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        raise PeerError(f"npm did not install kinesalite: {done.stderr.strip()[-300:]}")
    partial.rename(folder)
    return folder


def _started(name: str, folder: Path, port: int, command: Sequence[str], deadline_s: float = 30) -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"{name}.log"
    with output.open("ab") as log:
        spawned_at = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    server = Server(name, HOST, port, process, folder, output, spawned_at)
    end = time.monotonic() + deadline_s
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
            return server
        time.sleep(0.05)
    server.stop()
    raise PeerError(f"{name} was not ready: see {output}")
