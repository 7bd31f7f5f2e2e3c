"""What the console costs the server: nobody, its process, and a browser that has it open, one after the other.

Each has a server of its own, under the same load. On a machine with few cores the load, the console and the browser take each
other's time, so that rates tell more about the machine than about the server; its CPU time for each request does not depend on
that.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import LoadError, Rig

HOST = "127.0.0.1"
TOPIC = "load"
CONNECTIONS = 8
READY_S = 60.0
SETTLE_S = 3.0
MODULE = "headrace.console.process"
CHROMIUM = Path("/usr/bin/chromium")
STATES = {"started": "console started", "open": "overview open", "tail": "overview and tail open"}


def free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


def console_pid(parent: int) -> int:
    """The child of the server that is the console."""
    for task in Path(f"/proc/{parent}/task").iterdir():
        for child in (task / "children").read_text().split():
            if MODULE in Path(f"/proc/{child}/cmdline").read_text():
                return int(child)
    raise LoadError("the server has no console: pip install 'headrace[console]'")


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LoadError("the console has ended")


def cpu_seconds(pid: int) -> float:
    """User and system time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_console(url: str) -> None:
    """Until it answers: the socket was there from the start."""
    with urllib.request.urlopen(f"{url}/login", timeout=READY_S) as answer:
        answer.read()


@contextmanager
def browser(url: str, *paths: str) -> Iterator[dict[str, Any]]:
    """How long its pages took, while the overview and these stay open."""
    command = [sys.executable, "-m", "bench.console_browser", url, *paths]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise LoadError("the browser did not open the console")
            yield json.loads(line)
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def under_load(rig: Rig, name: str) -> Measured:
    """The same load in each state, after a short one that warms up."""
    requests = [frames.produce(TOPIC, frames.batch(1), acks=-1)]
    rig.produce(TOPIC, requests, connections=CONNECTIONS, seconds=rig.effort.warm_seconds / 4)
    load = rig.produce(TOPIC, requests, connections=CONNECTIONS)
    return {name: load.rate, f"{name}_p99": load.p99_us, f"{name}_cpu": load.server_cpu_us}


def measure(rig: Rig) -> Measured:
    measured: Measured = {}
    with rig.serving(arguments=["--no-console"]):
        rig.create_topic(TOPIC)
        measured |= under_load(rig, "without")
    port = free_port()
    url = f"http://{HOST}:{port}"
    with rig.serving(arguments=["--console", f"{HOST}:{port}"]) as server:
        wait_for_console(url)
        measured["idle_mb"] = resident_mb(console_pid(server.pid))
        measured |= under_load(rig, "started")
        if CHROMIUM.exists():
            for name, paths in (("open", ()), ("tail", (f"/topics/{TOPIC}?tab=live",))):
                with browser(url, *paths) as pages:
                    measured["first_s"], measured["later_s"] = pages["first_s"], pages["later_s"]
                    time.sleep(SETTLE_S)  # opening a page is not having it open
                    busy, begun = cpu_seconds(console_pid(server.pid)), time.monotonic()
                    measured |= under_load(rig, name)
                    used = cpu_seconds(console_pid(server.pid)) - busy
                    measured[f"{name}_console"] = 100 * used / (time.monotonic() - begun)
                    measured["open_mb"] = resident_mb(console_pid(server.pid))
    for name in STATES:
        if name in measured:
            measured[f"{name}_ratio"] = measured[name] / measured["without"]
            measured[f"{name}_p99_ratio"] = measured[f"{name}_p99"] / measured["without_p99"]
            measured[f"{name}_cpu_ratio"] = measured[f"{name}_cpu"] / measured["without_cpu"]
    return measured


def _rows(name: str, words: str) -> tuple[Row, ...]:
    return (
        Row(name, f"{words}: produce", "requests/s"),
        Row(f"{name}_p99", f"{words}: produce, p99", "µs", better="less"),
        Row(f"{name}_cpu", f"{words}: CPU of the server a request", "µs", better="less"),
    )


def _ratios(name: str, words: str) -> tuple[Row, ...]:
    return (
        Row(f"{name}_ratio", f"{words} / without: produce", "x", aim_value=0.95),
        Row(f"{name}_p99_ratio", f"{words} / without: p99", "x", better="less", aim_value=1.05),
        Row(f"{name}_cpu_ratio", f"{words} / without: CPU a request", "x", better="less", aim_value=1.05),
    )


CASES = (
    Case(
        name="console",
        title="What the console costs",
        about="Produce requests of one record, acks=all and fsync, on 8 connections, each with one request under way: without "
        "a console, with its process started and nobody looking, with a browser (headless Chromium, lowest priority) that has "
        "the overview open, and that has the tail of the topic under load open, too. All of it runs on one machine. Pages: "
        "from the request to what the page is about; the first one with an empty cache, the median of four others after it.",
        ours=Mode.HEADRACE,
        serve=False,
        measure=measure,
        rows=(
            *_rows("without", "no console"),
            *(row for name, words in STATES.items() for row in _rows(name, words)),
            *(row for name, words in STATES.items() for row in _ratios(name, words)),
            Row("open_console", "CPU of the console, overview open, of a core", "%", better="less"),
            Row("tail_console", "CPU of the console, overview and tail open, of a core", "%", better="less"),
            Row("idle_mb", "memory of the console, nobody looking", "MB", better="less", aim_value=150),
            Row("open_mb", "memory of the console, open in a browser", "MB", better="less", aim_value=150),
            Row("first_s", "the overview, first time", "s", better="less", aim_value=3.0),
            Row("later_s", "a page after it", "s", better="less", aim_value=1.0),
        ),
    ),
)
