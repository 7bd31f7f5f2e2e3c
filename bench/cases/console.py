"""What the console costs the server, and how fast its pages are, with ten thousand topics.

The cost is that of every page being open at once and polling. Two cores are shared by the server, the load, the console and
whoever looks, so a browser that draws thirty pages would be most of what is measured, and it would be on another machine: the
pages are kept open by `console_pages`, which reads what the console sends and draws nothing. The same server is measured with
the console running and with it stopped (SIGSTOP: it asks nothing and takes no time, as if it were not there), in turns while
one load runs, so that what changes on the machine meanwhile meets both (`slices`).

Throughput is that of a load that goes as fast as it can; p99 is that, and that of a load of `RATE` requests a second, whose
requests are due at their moments whatever the server does: there it is the server's delay and not the length of a queue. A p99
that waits for a disk swings with it, so the loads are long, and the bounds of a ratio are told beside it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Literal

from bench import frames, native
from bench.model import Case, Measured, Mode, Row
from bench.rig import LoadError, Rig
from bench.slices import SETTLE_ON_S, SLICE_S, Side, pooled, ratio, slices
from headrace.record.batch import encode_batch
from headrace.record.compression import Compression
from headrace.record.event import Event

HOST = "127.0.0.1"
TOPIC, GROUP, QUEUE, ROUTE = "load", "readers", "work", "copy"
TOPICS = 10_000
BIG, BIG_RECORDS, BATCH = "big", 100_000_000, 2000
AT_ONCE = 500  # topics made by one request
CONNECTIONS = 8
WINDOW = 32  # for the load with a rate: what is late waits here
RATE, LIGHT_RATE = 2000, 200
LOAD = 80  # times as long as other loads: there are many slices in it
READY_S = 60.0
VISITS, VISITED_S = 3, 300.0
MODULE = "headrace.console.process"
CHROMIUM = Path("/usr/bin/chromium")

_TITLE = "[role=heading][aria-level='1']"
_ROWS, _EVENTS = ".headrace-list tbody tr", ".headrace-events tbody tr"
PAGES = {
    "/topics": _ROWS,
    f"/topics/{TOPIC}": _ROWS,
    f"/topics/{TOPIC}?tab=messages": _EVENTS,
    f"/topics/{TOPIC}?tab=live": "#app *:::Pause",
    f"/topics/{TOPIC}?tab=consumers": _ROWS,
    f"/topics/{TOPIC}?tab=settings": "#app *:::retention.ms",
    "/groups": _ROWS,
    f"/groups/{GROUP}": _ROWS,
    "/queues": _ROWS,
    f"/queues/%2F/{QUEUE}": _TITLE,
    "/exchanges": _ROWS,
    "/exchanges/%2F/amq.topic": _TITLE,
    "/graph": _TITLE,
    "/dead-letters": _TITLE,
    "/streams": _ROWS,
    f"/streams/{TOPIC}": _TITLE,
    "/routes": _ROWS,
    f"/routes/{ROUTE}": _TITLE,
    "/pipelines": _TITLE,
    "/connections": _ROWS,
    "/storage": _ROWS,
    f"/storage/{TOPIC}": _ROWS,
    "/settings": _TITLE,
    "/health": _TITLE,
    "/audit": _TITLE,
    f"/find?q={TOPIC}": _TITLE,
}  # beside the overview, with what each is about


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


# --- the server, with something to show on each page


def fill(rig: Rig, url: str) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    admin = rig.admin()
    names = [f"topic-{number:05}" for number in range(rig.effort.count(TOPICS))]
    for start in range(0, len(names), AT_ONCE):
        made = admin.create_topics([NewTopic(name, 1) for name in names[start : start + AT_ONCE]], request_timeout=60)
        for each in made.values():
            each.result()
    rig.create_topic(TOPIC)
    rig.produce(TOPIC, [frames.produce(TOPIC, frames.batch(100), acks=-1)], count=1000)
    moved = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0, 0)])
    for group in admin.alter_consumer_group_offsets([moved]).values():
        group.result()
    ask(url, "PUT", f"/v1/vhosts/%2F/queues/{QUEUE}", {"durable": True})
    ends = {"source": {"type": "topic", "topic": names[0]}, "destination": {"type": "topic", "topic": names[1]}}
    ask(url, "PUT", f"/v1/routes/{ROUTE}", ends)
    fill_big(rig)


def fill_big(rig: Rig) -> None:
    """Records that compress well, in batches as a client under load sends them; each has the time when it came."""
    rig.create_topic(BIG, config={"message.timestamp.type": "LogAppendTime"})
    events = [Event(key=b"%d" % (number % 97), value=b'{"order": %d, "total": 12.5}' % number) for number in range(BATCH)]
    data = bytes(encode_batch(events, compression=Compression.ZSTD, now_ms=int(time.time() * 1000)))
    request = frames.produce(BIG, frames.Batch(data, BATCH))
    rig.produce(BIG, [request], connections=4, window=8, count=rig.effort.count(BIG_RECORDS) // BATCH)


def ask(url: str, method: str, path: str, body: object = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, content, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=READY_S) as answer:
        said = answer.read()
    return json.loads(said) if said else None


def polled(url: str) -> int:
    """Requests over HTTP and Kinesis since the start."""
    protocols = ask(url, "GET", "/v1/overview")["protocols"]
    return sum(protocols[name]["requests"] for name in ("http", "kinesis") if name in protocols)


# --- who looks


@contextmanager
def light_load(rig: Rig) -> Iterator[None]:
    """As long as it takes."""
    path = rig.folder / "light"
    path.write_bytes(frames.produce(TOPIC, frames.batch(1), acks=-1).data)
    command = [native.loadgen(), "--port", rig.server.port, "--frames", path, "--kind", "produce", "--rate", LIGHT_RATE]
    words = [str(word) for word in [*command, "--connections", 2, "--window", WINDOW, "--seconds", 600]]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def big_pages(rig: Rig, url: str) -> dict[str, tuple[str, str]]:
    """Places in the long topic: by row, a path and what it is about."""
    middle = rig.effort.count(BIG_RECORDS) // 2
    there = ask(url, "GET", f"/v1/topics/{BIG}/partitions/0/events/{middle}")["timestamp"]
    when = datetime.fromtimestamp(there / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    events = f"/topics/{BIG}?tab=messages"
    return {
        "big_s": (f"/topics/{BIG}", _ROWS),
        "big_newest_s": (events, _EVENTS),
        "big_offset_s": (f"{events}&from={middle}", _EVENTS),
        "big_time_s": (f"{events}&from={when}", _EVENTS),
        "big_search_s": (f"{events}&q=nothing-like-that", "#app *:::found in"),
    }


def opened(rig: Rig, url: str, console: str) -> Measured:
    """How long pages take to appear."""
    big = big_pages(rig, url)
    shown = [f"{path}=>{what}" for path, what in [*PAGES.items(), *big.values()]]
    command = [sys.executable, "-m", "bench.console_browser", console, str(VISITS if rig.effort.scale >= 1 else 1), *shown]
    try:
        with light_load(rig):
            done = subprocess.run(command, capture_output=True, text=True, timeout=VISITED_S)
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"the browser took longer than {VISITED_S:.0f} s for the pages of the console") from error
    if done.returncode:
        raise LoadError(f"the browser did not open the console: {done.stderr.strip()[-500:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    later: Mapping[str, float] = said["later_s"]
    every = [later[path] for path in PAGES]
    of_big = {row: later[path] for row, (path, _) in big.items()}
    return {"first_s": median(said["first_s"]), "later_s": median(every), "worst_s": max(every), **of_big}


@contextmanager
def every_page(rig: Rig, console: str) -> Iterator[None]:
    """Open, and polling."""
    command = [sys.executable, "-m", "bench.console_pages", str(rig.folder), console, "/", *PAGES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise LoadError("not every page of the console could be opened")
            yield
            process.stdin.close()
            said = json.loads(process.stdout.readline())
            if said["failed"] or said["broken"] or not said["messages"]:  # to open one again costs more than to have it open
                raise LoadError(f"pages of the console did not stay open: {said}")
        finally:
            process.kill()


# --- the cost


@dataclass(frozen=True, slots=True)
class Kind:
    """Of load."""

    window: int
    rate: float | None
    figures: Mapping[str, Callable[[Side], float]]


KINDS = (
    Kind(1, None, {"rate": lambda side: side.rate, "p99": lambda side: side.us(0.99), "cpu": lambda side: side.cpu_us}),
    Kind(
        WINDOW,
        RATE,
        {
            "paced_p50": lambda side: side.us(0.5),
            "paced_p99": lambda side: side.us(0.99),
            "paced_cpu": lambda side: side.cpu_us,
        },
    ),
)


def cost(rig: Rig, url: str, console: int) -> Measured:
    measured: Measured = {}
    console_s = console_cpu_s = 0.0
    asked = 0

    def switch(on: bool) -> None:
        os.kill(console, signal.SIGCONT if on else signal.SIGSTOP)

    for kind in KINDS:
        produce(rig, kind, rig.effort.warm_seconds / 4)
        requests, busy = polled(url), cpu_seconds(console)
        answers = rig.folder / "answers"
        with slices(switch, rig.server.cpu_seconds) as running:
            produce(rig, kind, rig.effort.seconds * LOAD, answers)
        switch(True)
        found = running.each(answers)
        console_cpu_s += cpu_seconds(console) - busy
        console_s += running.on_seconds
        asked += polled(url) - requests - 1
        for key, value in kind.figures.items():
            measured[f"without_{key}"], measured[f"open_{key}"] = value(pooled(found, False)), value(pooled(found, True))
            compared = ratio(found, value)
            measured[f"{key}_ratio"] = compared.median
            measured[f"{key}_least"], measured[f"{key}_most"] = compared.least, compared.most
    return {**measured, "console_cpu": 100 * console_cpu_s / console_s, "polls": asked / console_s}


def produce(rig: Rig, kind: Kind, seconds: float, answers: Path | None = None) -> None:
    request = frames.produce(TOPIC, frames.batch(1), acks=-1)
    rig.produce(
        TOPIC,
        [request],
        connections=CONNECTIONS,
        window=kind.window,
        seconds=seconds,
        rate=kind.rate,
        answers=answers,
    )


def measure(rig: Rig) -> Measured:
    measured: Measured = {}
    console_url = f"http://{HOST}:{free_port()}"
    with rig.serving(arguments=["--console", console_url.removeprefix("http://")]) as server:
        url = f"http://{HOST}:{server.http_port}"
        fill(rig, url)
        wait_for_console(console_url)
        console = console_pid(server.pid)
        measured["idle_mb"] = resident_mb(console)
        if CHROMIUM.exists():
            measured |= opened(rig, url, console_url)
        with every_page(rig, console_url):
            try:
                measured |= cost(rig, url, console)
            finally:
                os.kill(console, signal.SIGCONT)
            measured["open_mb"] = resident_mb(console)
    return measured


def wait_for_console(console: str) -> None:
    """Until it answers: the socket was there from the start."""
    with urllib.request.urlopen(f"{console}/login", timeout=READY_S) as answer:
        answer.read()


_BIG = f"a topic of {BIG_RECORDS:,} records"


def _rows(name: str, words: str) -> tuple[Row, ...]:
    return (
        Row(f"{name}_rate", f"{words}: produce", "requests/s"),
        Row(f"{name}_p99", f"{words}: produce, p99", "µs", better="less"),
        Row(f"{name}_cpu", f"{words}: CPU of the server a request", "µs", better="less"),
        Row(f"{name}_paced_p50", f"{words}: {RATE:,} requests/s, median", "µs", better="less"),
        Row(f"{name}_paced_p99", f"{words}: {RATE:,} requests/s, p99", "µs", better="less"),
        Row(f"{name}_paced_cpu", f"{words}: {RATE:,} requests/s, CPU of the server a request", "µs", better="less"),
    )


def _compared(key: str, words: str, *, better: Literal["more", "less"], aim: float) -> tuple[Row, ...]:
    label = f"every page open / no console: {words}"
    return (
        Row(f"{key}_ratio", label, "x", better=better, aim_value=aim),
        Row(f"{key}_least", f"{label}, at least", "x", better=better),
        Row(f"{key}_most", f"{label}, at most", "x", better=better),
    )


CASES = (
    Case(
        name="console",
        title="What the console costs",
        about=f"A server with {TOPICS:,} topics. Produce requests of one record, acks=all and fsync, on {CONNECTIONS} "
        f"connections: as fast as they are answered, and {RATE:,} in a second, each due at its moment whatever the server does "
        f"(its time counts from then). The console is open on all of its {len(PAGES) + 1} pages at once, each of them polling, "
        f"or stopped as a process, in slices of {SLICE_S} s of one load, by turns; a ratio is the median of the ratios of "
        "neighbouring slices, with the bounds of nine in ten medians of pairs drawn again; figures are those of all slices "
        f"together. The first {SETTLE_ON_S} s after it went on do not count, when pages make up for the time that it was "
        "stopped. Pages are kept open by a program that reads what they are sent and draws nothing, for a browser would be on "
        f"another machine than the server, and here it would take its cores. Pages in headless Chromium, with {LIGHT_RATE} "
        "requests a second: from the request for the address to the frame that shows what the page is about; the overview with "
        f"an empty cache, then every page {VISITS} times.",
        ours=Mode.HEADRACE,
        serve=False,
        measure=measure,
        most_rounds=1,
        rows=(
            *_rows("without", "no console"),
            *_rows("open", "every page open"),
            *_compared("rate", "produce", better="more", aim=0.95),
            *_compared("p99", "produce, p99", better="less", aim=1.05),
            *_compared("paced_p99", f"{RATE:,}/s, p99", better="less", aim=1.05),
            *_compared("cpu", "CPU a request", better="less", aim=1.05),
            Row("polls", "requests of the console to the server, every page open", "1/s", better="less"),
            Row("console_cpu", "CPU of the console, every page open, of a core", "%", better="less"),
            Row("idle_mb", "memory of the console, nobody looking", "MB", better="less", aim_value=150),
            Row("open_mb", "memory of the console, every page open", "MB", better="less", aim_value=150),
            Row("first_s", "the overview, first time", "s", better="less", aim_value=3.0),
            Row("later_s", "a page after it, median of all", "s", better="less", aim_value=1.0),
            Row("worst_s", "a page after it, the slowest", "s", better="less", aim_value=1.0),
            Row("big_s", _BIG, "s", better="less", aim_value=1.0),
            Row("big_newest_s", f"{_BIG}, the newest", "s", better="less", aim_value=1.0),
            Row(
                "big_offset_s",
                f"{_BIG}, an offset in the middle",
                "s",
                better="less",
                aim_value=1.0,
            ),
            Row("big_time_s", f"{_BIG}, a time in the middle", "s", better="less", aim_value=1.0),
            Row("big_search_s", f"{_BIG}, a search under way", "s", better="less", aim_value=1.0),
        ),
    ),
)
