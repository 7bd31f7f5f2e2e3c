"""A thousand webhook endpoints, one in ten of them dead: what the others notice.

Every endpoint has a route and a topic of its own. Events are published to all of them in turn, at a rate that the server is
far from; the delay of one is the time from its publication to its arrival. Then as many as possible, at once. Both are done
with all endpoints healthy and with a hundred bad ones, of which a fifth each refuse connections, never answer, drip their
answer byte by byte, flood, and fail. Only what healthy endpoints receive counts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from statistics import quantiles

from bench.model import Case, Measured, Mode, Row
from bench.peers import free_port
from bench.rig import LoadError, Rig
from bench.talking import Talking
from bench.webhook_load import address_of, is_bad
from headrace import Event
from headrace.client.kafka import Cluster, Producer
from headrace.client.routes import RoutesClient

ENDPOINTS = 1000
PER_S = 250
TICK_S = 0.02
SETTLE_S = 15.0  # until endpoints that are dead are known to be
BURST = 10  # events to each endpoint
DEADLINE_S = 180.0


class Endpoints(Talking):
    """One process of them: the healthy ones, or those that can be made bad."""

    def __init__(self, count: int, port: int, those: str) -> None:
        super().__init__("bench.webhook_load", str(count), str(port), those)


class Publisher:
    def __init__(self, bootstrap: str, count: int) -> None:
        self.cluster = Cluster(bootstrap)
        self._producer = Producer(self.cluster)
        self._count = count
        self._order = list(range(count))
        random.Random(1).shuffle(self._order)

    def pace(self, seconds: float) -> int:
        """At `PER_S`, to one after the other. Returns how many healthy endpoints were sent to."""
        each_tick = max(1, round(PER_S * TICK_S))
        begin, sent, healthy = time.perf_counter(), 0, 0
        while (at := begin + sent * TICK_S / each_tick) < begin + seconds:
            time.sleep(max(0.0, at - time.perf_counter()))
            for _ in range(each_tick):
                endpoint = self._order[sent % self._count]
                self._send(endpoint)
                sent += 1
                healthy += not is_bad(endpoint)
            self._producer.flush()
        return healthy

    def burst(self, each: int) -> int:
        for _ in range(each):
            for endpoint in self._order:
                self._send(endpoint)
        self._producer.flush()
        return each * sum(not is_bad(endpoint) for endpoint in self._order)

    def _send(self, endpoint: int) -> None:
        self._producer.send(f"hook-{endpoint}", Event(None, b"%d %b" % (time.time_ns(), b"x" * 200)))


@contextmanager
def site(rig: Rig) -> Iterator[tuple[Endpoints, Endpoints, Publisher]]:
    """The healthy endpoints, those that can be made bad, and who publishes to all of them."""
    count = max(50, int(ENDPOINTS * rig.effort.scale)) if rig.effort.scale < 1 else ENDPOINTS
    http, port = free_port(), free_port()
    arguments = ["--http", f"127.0.0.1:{http}", "--set", "headrace.webhooks.allow=127.0.0.0/8"]
    with (
        rig.serving(arguments=arguments) as server,
        closing(Endpoints(count, port, "healthy")) as healthy,
        closing(Endpoints(count, port, "bad")) as bad,
    ):
        publisher = Publisher(server.bootstrap, count)
        with RoutesClient(f"http://127.0.0.1:{http}") as routes:
            for endpoint in range(count):
                url = f"http://{address_of(endpoint)}:{port}/hook"
                routes.put(f"r{endpoint}", topic=f"hook-{endpoint}", destination={"type": "webhook", "url": url})
        publisher.cluster.topics([f"hook-{endpoint}" for endpoint in range(count)], create=True)
        yield healthy, bad, publisher


def wait_for(endpoints: Endpoints, count: int) -> None:
    end = time.monotonic() + DEADLINE_S
    while (there := endpoints.ask("count")["count"]) < count:
        if time.monotonic() > end:
            raise LoadError(f"{there} of {count} events have arrived")
        time.sleep(0.05)


def measure_delay(endpoints: Endpoints, publisher: Publisher, seconds: float) -> tuple[float, float]:
    endpoints.ask("begin")
    count = publisher.pace(seconds)
    wait_for(endpoints, count)
    delays = quantiles(endpoints.ask("report")["delays_ms"], n=100)
    return delays[49], delays[98]


def measure_rate(endpoints: Endpoints, publisher: Publisher, each: int) -> float:
    endpoints.ask("begin")
    begin = time.time()
    count = publisher.burst(each)
    wait_for(endpoints, count)
    return float(count / (endpoints.ask("report")["last"] - begin))


def measure(rig: Rig) -> Measured:
    measured: Measured = {}
    each = max(2, int(BURST * min(1.0, rig.effort.scale * 4)))
    with site(rig) as (healthy, bad, publisher):
        publisher.pace(rig.effort.warm_seconds)  # a connection to each of them
        for state in ("good", "bad"):
            bad.ask(state)
            publisher.pace(SETTLE_S)
            p50, p99 = measure_delay(healthy, publisher, 2 * rig.effort.seconds)
            measured |= {f"{state}_p50": p50, f"{state}_p99": p99}
            measured[f"{state}_rate"] = measure_rate(healthy, publisher, each)
        measured["memory"] = rig.server.rss_bytes() / 1e6
    for figure in ("p50", "p99", "rate"):
        measured[f"{figure}_ratio"] = measured[f"bad_{figure}"] / measured[f"good_{figure}"]
    return measured


CASES = (
    Case(
        name="webhooks",
        title="Webhooks: 1,000 endpoints, one in ten dead",
        about="Each endpoint has a route and a topic of its own, and 250 events a second are published to them in turn. A "
        "hundred of them refuse connections, never answer, drip their answers, flood or fail, twenty each. The delay is that "
        "from publication to arrival at the 900 others; the rate is that at which they get what was published at once. "
        "Every attempt is recorded and every event is signed.",
        ours=Mode.HEADRACE,
        measure=measure,
        serve=False,
        rows=(
            Row("good_p50", "all healthy: delay p50", "ms", better="less"),
            Row("bad_p50", "a tenth dead: delay p50", "ms", better="less"),
            Row("p50_ratio", "delay p50: a tenth dead / all healthy", "x", better="less", aim_value=1.1),
            Row("good_p99", "all healthy: delay p99", "ms", better="less"),
            Row("bad_p99", "a tenth dead: delay p99", "ms", better="less"),
            Row("p99_ratio", "delay p99: a tenth dead / all healthy", "x", better="less", aim_value=1.5),
            Row("good_rate", "all healthy: deliveries", "/s"),
            Row("bad_rate", "a tenth dead: deliveries to the others", "/s"),
            Row("rate_ratio", "deliveries: a tenth dead / all healthy", "x", aim_value=0.9),
            Row("memory", "memory of the server at the end", "MB", better="less"),
        ),
    ),
)
