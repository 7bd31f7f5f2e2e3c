"""PerfTest, RabbitMQ's own load generator in Java, on the server of a rig.

Its jars come through Maven, once, into `$HEADRACE_CACHE` (default `~/.cache/headrace`); `$PERF_TEST_LIBS` names a folder that
already holds them. It prints a line every second; the first ones, while its own JVM warms up, are left out of the rate and of
the CPU.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from bench.amqp_load import Shape, queue_type, url
from bench.peers import HERE, PeerError, fetched_jars
from bench.rig import LoadError, Rig

VERSION = "2.22.1"
DEADLINE_S = 600

_LINE = re.compile(r"sent: ([\d,.]+) msg/s.*?received: ([\d,.]+) msg/s")


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
    lines: list[tuple[float, float]] = []
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
    if running.returncode or len(lines) <= warm:
        raise LoadError(f"PerfTest ended with {running.returncode}: {said.strip()[-500:]}")
    steady = lines[warm:]
    return Tested(
        sent=mean(sent for sent, _ in steady),
        received=mean(received for _, received in steady),
        server_cpu_us=(cpu[-1] - cpu[warm - 1]) * 1e6 / max(1.0, sum(received for _, received in steady)),
    )


def rates(said: str) -> list[tuple[float, float]]:
    """Messages sent and received a second, of each line with both; a line covers one second."""
    return [(_number(sent), _number(received)) for sent, received in _LINE.findall(said)]


def _number(text: str) -> float:
    return float(text.replace(",", ""))
