"""`headrace demo`: a server with its console, a bank and a shop that speak every protocol to it at once, and pipelines of the
gallery on Spark, the result of the first one in the terminal.

The server and the pipelines are processes of their own, started as anybody would start them; bank and shop are threads here
(`demo_feeds`). A Spark that starts takes all processors, so the first pipeline has them for itself until it is at work. Where
Java or PySpark is missing the rest runs all the same. Ctrl-C, SIGTERM or `--for` end those who write and read, then the
pipelines, then the server.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.children import Child
from headrace.cli.session import CommandError, Session, Stopped, complain

if TYPE_CHECKING:
    from headrace.cli.demo_feeds.background import Background
    from headrace.cli.demo_view import View
    from headrace.spark.runner.feeding import BackgroundFeed

PIPELINES = ("banking.balances", "shop.trending")  # one after the other
TABLE, TOP = "balances", 10  # of the first one
DOMAINS = ("banking", "shop")  # whose events are written over Kafka
READY_S = 30.0
PIPELINE_GRACE_S, SERVER_GRACE_S = 30.0, 20.0
LOOK_S, SHOW_S = 0.1, 1.0
QUICK = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"  # a demo is about the first minute, not about the last

_LISTENER = "HOST:PORT"


def demo(
    session: Session,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where everything is kept.")] = Path("data"),
    kafka: Annotated[str | None, typer.Option("--kafka", metavar=_LISTENER, help="As in 'headrace serve'.")] = None,
    amqp: Annotated[str | None, typer.Option("--amqp", metavar=_LISTENER, help="As in 'headrace serve'.")] = None,
    kinesis: Annotated[str | None, typer.Option("--kinesis", metavar=_LISTENER, help="As in 'headrace serve'.")] = None,
    http: Annotated[str | None, typer.Option("--http", metavar=_LISTENER, help="As in 'headrace serve'.")] = None,
    console: Annotated[
        str | None, typer.Option("--console", metavar=_LISTENER, help="As in 'headrace serve'; 'off' for none.")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Whether to run pipelines, where Java is there.")] = True,
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=0.1, max=10_000, help="Events a second of bank and shop over Kafka.")
    ] = 20.0,
    for_s: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0.001, help="End after this long.", show_default=False)
    ] = None,
) -> None:
    """Start a server with its console, a bank and a shop that use every protocol, and pipelines on Spark."""
    given = (("kafka", kafka), ("amqp", amqp), ("kinesis", kinesis), ("http", http), ("console", console))
    listeners = [part for name, at in given if at for part in (f"--{name}", at)]
    Demo(session, data, listeners, rate, for_s, spark=spark).run()


class Demo:
    def __init__(
        self, session: Session, data: Path, listeners: list[str], rate: float, for_s: float | None, *, spark: bool = True
    ) -> None:
        from headrace.cli.demo_view import view

        self._data = data
        self._listeners = listeners
        self._rate = rate
        self._deadline = float("inf") if for_s is None else time.monotonic() + for_s
        self._view: View = view(session)
        self._logs = data / "pipelines"
        self._server: Child | None = None
        self._kafka = ""  # where it speaks that
        self._pipelines: list[Child] = []  # in the order of their start
        self._waiting: list[str] = []  # for the one before to be at work
        self._spark = spark
        self._feeds: dict[str, BackgroundFeed] = {}  # by domain, over Kafka
        self._others: list[Background] = []
        self._tables: str | None = None
        self._failed: list[str] = []
        self._complained: dict[str, str] = {}  # by who: the last that was shown

    def run(self) -> None:
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))  # the terminal was closed
        try:
            self._run()
        finally:
            self._view.close()
            self._end()
        if self._failed:
            raise CommandError(f"{', '.join(self._failed)} did not run to the end; see {self._logs}")

    def _run(self) -> None:
        self._kafka = self._start_everything()
        self._find_spark()
        next_show = 0.0
        while time.monotonic() < self._deadline:
            self._look()
            if time.monotonic() >= next_show:
                self._show()
                next_show = time.monotonic() + SHOW_S
            time.sleep(LOOK_S)
        self._look()
        self._show(last=True)

    # Starting

    def _start_everything(self) -> str:
        """The server's Kafka address."""
        from headrace.cli.demo_feeds.webhooks import WarehouseWebhook

        hook = WarehouseWebhook()
        self._others.append(hook)
        ready = self._start_server("--set", f"headrace.webhooks.allow={hook.allowed}", "--set", "headrace.audit.enable=true")
        self._start_feeds(ready)
        hook.begin(_url(ready["http"]))
        self._view.feeds([other.name for other in self._others])
        return str(ready["kafka"])

    def _start_server(self, *settings: str) -> dict[str, Any]:
        arguments = ["serve", "--json", "--data", str(self._data), *self._listeners, *settings]
        self._server = Child("the server", arguments, self._logs / "serve.log")
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if ready := self._server.news():
                self._view.server(ready[0], self._data)
                return ready[0]
            if self._server.code is not None:
                raise CommandError(self._server.last_words().removeprefix("headrace serve: "))
            time.sleep(0.02)
        raise CommandError(f"the server was not ready after {READY_S:g} s; see {self._server.log}")

    def _start_feeds(self, ready: dict[str, Any]) -> None:
        from headrace.cli.demo_feeds.amqp import OrdersOverAmqp, PackingHall
        from headrace.cli.demo_feeds.kafka import FraudCheck
        from headrace.cli.demo_feeds.kinesis import ClicksOverKinesis
        from headrace.cli.demo_feeds.multicast import TransactionsOverMulticast
        from headrace.spark.runner.feeding import BackgroundFeed

        kafka, amqp, http = str(ready["kafka"]), _address(ready["amqp"]), _url(ready["http"])
        for domain in DOMAINS:
            self._feeds[domain] = BackgroundFeed(kafka, domain, self._rate)
            self._view.feed(domain, self._rate)
        started: list[Background] = [
            OrdersOverAmqp(amqp),
            PackingHall(amqp),
            ClicksOverKinesis(_url(ready["kinesis"])),
            TransactionsOverMulticast(kafka, http),
            FraudCheck(kafka),
        ]
        for other in started:
            self._others.append(other)
            other.start()

    def _find_spark(self) -> None:
        from headrace.spark.java import SparkUnavailable, require_spark

        if not self._spark:
            return
        try:
            require_spark()
        except SparkUnavailable as missing:
            from headrace.spark.runner.publishing import tell_unavailable

            self._view.without_spark(str(missing))
            for name in PIPELINES:
                tell_unavailable(self._kafka, name, str(missing))
            return
        self._waiting = list(PIPELINES)
        self._start_pipeline()

    def _start_pipeline(self) -> None:
        """The next one."""
        name = self._waiting.pop(0)
        arguments = ["pipeline", "run", name, "--data", str(self._data), "--server", self._kafka, "--json", "--conf", QUICK]
        self._pipelines.append(Child(name, arguments, self._logs / f"{name}.run.log"))
        self._view.pipeline(name)

    # While it runs

    def _look(self) -> None:
        assert self._server is not None
        for pipeline in tuple(self._pipelines):
            self._look_at(pipeline)
        for domain, feed in self._feeds.items():
            self._tell(domain, feed.trouble and f"the events of {domain} have stopped: {feed.trouble}")
        for other in self._others:
            self._tell(other.name, other.trouble)
        if self._server.code is not None:
            raise CommandError(f"the server has ended with code {self._server.code}: {self._server.last_words()}")

    def _look_at(self, pipeline: Child) -> None:
        newest, at_work = pipeline is self._pipelines[-1], False
        for line in pipeline.news():
            self._take(pipeline.name, line)
            at_work = at_work or line.get("progress", {}).get("batch") is not None
        if ended := pipeline.code is not None:
            self._failed.append(pipeline.name)
            self._view.trouble(f"{pipeline.name} has ended: {pipeline.last_words()}")
            self._pipelines.remove(pipeline)
        if self._waiting and newest and (at_work or ended):
            self._start_pipeline()

    def _tell(self, who: str, trouble: str | None) -> None:
        """Each trouble once."""
        if trouble is not None and self._complained.get(who) != trouble:
            self._complained[who] = trouble
            self._view.trouble(trouble)

    def _take(self, pipeline: str, line: dict[str, Any]) -> None:
        if "run" in line:
            if pipeline == PIPELINES[0]:
                self._tables = str(line["run"]["tables"])
            self._view.running(line["run"])
        elif "progress" in line:
            self._view.progress(pipeline, line["progress"])

    def _show(self, *, last: bool = False) -> None:
        self._view.result(self._rows(), self._sent, self._counts(), last=last)

    @property
    def _sent(self) -> int:
        return sum(feed.sent for feed in self._feeds.values())

    def _counts(self) -> dict[str, dict[str, int]]:
        """What was done over each protocol."""
        counts: dict[str, dict[str, int]] = {"kafka": {"written": self._sent}}
        for other in self._others:
            counts.setdefault(other.protocol, {}).update(other.told())
        return counts

    def _rows(self) -> list[dict[str, Any]]:
        """The greatest balances; nothing before the first batch has made the table."""
        if self._tables is None:
            return []
        from headrace.spark.tables import TableError, rows

        try:
            found = rows(self._tables, TABLE)
        except TableError:
            return []
        return sorted(found, key=lambda row: row["balance"], reverse=True)[:TOP]

    # Ending

    def _end(self) -> None:
        """In order: those who read and write, then the server. A second signal does not wait."""
        children = [(pipeline, PIPELINE_GRACE_S) for pipeline in self._pipelines]
        if self._server is not None:
            children.append((self._server, SERVER_GRACE_S))
        try:
            for other in self._others:
                other.close()
            for feed in self._feeds.values():
                feed.close()
            for other in self._others:
                other.join()
            for pipeline in self._pipelines:
                pipeline.ask_to_end()  # all of them at once
            for child, grace_s in children:
                if not child.end(grace_s):
                    complain(f"headrace: {child.name} did not end in {grace_s:g} s and was killed")
        except Stopped:
            for child, _ in children:
                if child.code is None:
                    child.kill()
            raise
        self._view.ended(self._sent)


def _address(text: object) -> str:
    """HOST:PORT of what the ready line says."""
    return str(text).rpartition("://")[2].rpartition("@")[2].rstrip("/")


def _url(text: object) -> str:
    return f"http://{_address(text)}"
