"""PerfTest, RabbitMQ's own load generator in Java, on the server of a rig.

Its jars come through Maven, once, into `$HEADRACE_CACHE` (default `~/.cache/headrace`); `$PERF_TEST_LIBS` names a folder that
already holds them. It prints a line about every second; the first ones, while its own JVM warms up, are left out of the rate
and of the CPU.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.amqp_load import Shape, queue_type, url
from bench.peers import HERE, PeerError, fetched_jars
from bench.rig import LoadError, Rig

VERSION = "2.22.1"
DEADLINE_S = 600
SHORTEST_S = 0.05  # that a line must cover: below that its rates are rounding errors

_LINE = re.compile(r"time ([\d.]+) s, sent: ([\d,.]+) msg/s.*?received: ([\d,.]+) msg/s")


@dataclass(frozen=True, slots=True)
class Tested:
    """What a run of PerfTest reports."""

    sent: float  # a second
    received: float  # a second
    server_cpu_us: float  # for each message received


def libs() -> Path:
    if named := os.environ.get("PERF_TEST_LIBS"):
        return Path(named)
    return fetched_jars(HERE / "amqp" / "perf-test-pom.xml", f"perf-test-{VERSION}", "PERF_TEST_LIBS")


def arguments(shape: Shape, queue: str, kind: str) -> list[str]:
    """The options of PerfTest for a shape, apart from where and for how long."""
    words = ["--size", str(shape.size), "--producers", str(shape.producers), "--consumers", str(shape.consumers)]
    words += ["--auto-delete", "false"]
    if shape.queues == 1:
        words += ["--queue", queue]
    else:
        last = str(shape.queues)
        words += ["--queue-pattern", f"{queue}-%d", "--queue-pattern-from", "1", "--queue-pattern-to", last]
    if shape.transient:
        words += ["--autoack"]
    else:
        words += ["--flag", "persistent", "--confirm", str(shape.window), "--qos", str(shape.window)]
    words += ["--quorum-queue"] if kind == "quorum" else []
    return words


def perf_test(rig: Rig, queue: str, shape: Shape) -> Tested:
    if shutil.which("java") is None:
        raise PeerError("Java 11 or newer is needed to run PerfTest")
    warm = max(2, int(rig.effort.warm_seconds))
    seconds = warm + max(2, int(rig.effort.seconds)) + 1
    command = ["java", "-cp", f"{libs()}/*", "com.rabbitmq.perf.PerfTest", "--uri", url(rig), "--time", str(seconds)]
    command += arguments(shape, queue, queue_type(rig))
    os.sync()
    lines: list[tuple[float, float, float]] = []
    cpu: list[float] = []  # of the server when each of the lines came
    said = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        over = threading.Timer(DEADLINE_S, running.kill)
        over.start()
        try:
            for line in running.stdout or ():
                said += line
                if found := rates(line):
                    lines += found
                    cpu.append(rig.server.cpu_seconds())
        finally:
            over.cancel()
    if running.returncode:
        raise LoadError(f"PerfTest ended with {running.returncode}: {said.strip()[-500:]}")
    return steady(lines, cpu, warm, seconds)


def steady(lines: Sequence[tuple[float, float, float]], cpu: Sequence[float], warm: float, seconds: float) -> Tested:
    """From what was said after the warm-up and while producers were at work; from everything, if the machine is so busy that
    this was hardly a line. Then a line may cover much more than a second, or nothing at all, so each counts by the time it
    covers."""
    within = [index for index, (at, _, _) in enumerate(lines) if warm - 0.5 <= at <= seconds + 0.5]
    within = within if len(within) > 1 else list(range(len(lines)))
    if len(within) < 2:
        raise LoadError(f"PerfTest said too little: {list(lines)}")
    sent = received = 0.0
    for before, index in pairwise(within):
        covered = lines[index][0] - lines[before][0]
        if covered < SHORTEST_S:
            continue
        sent += lines[index][1] * covered
        received += lines[index][2] * covered
    took = lines[within[-1]][0] - lines[within[0]][0]
    used = cpu[within[-1]] - cpu[within[0]]
    return Tested(sent=sent / took, received=received / took, server_cpu_us=used * 1e6 / max(1.0, received))


def rates(said: str) -> list[tuple[float, float, float]]:
    """When, and how many messages were sent and received a second since the line before, of each line that says both."""
    return [(float(at), _number(sent), _number(received)) for at, sent, received in _LINE.findall(said)]


def _number(text: str) -> float:
    return float(text.replace(",", ""))
