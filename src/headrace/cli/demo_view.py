"""How the demo looks: two tables in a terminal, plain lines every few seconds elsewhere, JSON for machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.pipeline_view import COLUMNS, cells, rich_table
from headrace.cli.session import Session

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_EVERY_S = 5.0
Counts = Mapping[str, Mapping[str, int]]  # what was done over each protocol, by what it is called
HEADINGS = ("ACCOUNT", "CUSTOMER", "BALANCE", "TRANSACTIONS", "LAST")


class View:
    """Plain lines; the others differ in what changes all the time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._queries: dict[tuple[str, str], dict[str, Any]] = {}  # by pipeline and name
        self._next = 0.0

    def server(self, ready: dict[str, Any], data: Path) -> None:
        if "console" in ready:
            self._session.say(f"The console, to open in a browser: {ready['console']}")
        self._session.say(
            f"Headrace is ready. Kafka clients: {ready['kafka']}. RabbitMQ clients: {ready['amqp']}. "
            f"Kinesis clients: {ready['kinesis']}. HTTP: {ready['http']}. Data: {data}. Ctrl-C ends it."
        )

    def feed(self, domain: str, rate: float) -> None:
        self._session.say(f"Events of {domain} over Kafka: {rate:g} a second, live.")

    def feeds(self, names: list[str]) -> None:
        self._session.say(f"Besides: {', '.join(names)}.")

    def without_spark(self, words: str) -> None:
        self._session.say(f"No pipeline: {words}")

    def pipeline(self, name: str) -> None:
        self._session.say(f"Pipeline {name}: starting on Spark, which takes a while.")

    def running(self, run: dict[str, Any]) -> None:
        self._session.say(f"Its tables: {run['tables']}. Its log: {run['log']}")

    def progress(self, pipeline: str, status: dict[str, Any]) -> None:
        self._queries[pipeline, status["query"]] = status

    def trouble(self, text: str) -> None:
        self._session.say(text)

    def result(self, rows: list[dict[str, Any]], sent: int, counts: Counts, *, last: bool) -> None:
        if not last and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PLAIN_EVERY_S
        self._session.say("; ".join(_spoken(protocol, done) for protocol, done in counts.items()))
        if not rows:
            return
        self._session.say("")
        self._session.say(f"{sent} events; {self._pace()}. The greatest balances:")
        self._session.table(HEADINGS, [_line(row) for row in rows])

    def ended(self, sent: int) -> None:
        self._session.say(f"Ended in good order after {sent} events.")

    def close(self) -> None:
        pass

    def _pace(self) -> str:
        """Of the query that reads the events: it is the first one."""
        first = next(iter(self._queries.values()), None)
        if first is None:
            return "nothing read yet"
        return f"{first['rows_total']} read, {first['rows_per_s']:.0f} a second, lag {first['lag']}"


class JsonView(View):
    def server(self, ready: dict[str, Any], data: Path) -> None:
        self._session.emit({"server": {**ready, "data": str(data)}})

    def feed(self, domain: str, rate: float) -> None:
        self._session.emit({"feed": {"domain": domain, "rate": rate}})

    def feeds(self, names: list[str]) -> None:
        self._session.emit({"feeds": names})

    def without_spark(self, words: str) -> None:
        self._session.emit({"pipeline": None, "reason": words})

    def pipeline(self, name: str) -> None:
        self._session.emit({"pipeline": name})

    def running(self, run: dict[str, Any]) -> None:
        self._session.emit({"run": run})

    def progress(self, pipeline: str, status: dict[str, Any]) -> None:
        self._session.emit({"progress": {"pipeline": pipeline, **status}})

    def trouble(self, text: str) -> None:
        self._session.emit({"trouble": text})

    def result(self, rows: list[dict[str, Any]], sent: int, counts: Counts, *, last: bool) -> None:
        if last or time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_EVERY_S
            plain = [{name: value if isinstance(value, int) else str(value) for name, value in row.items()} for row in rows]
            self._session.emit({"events": sent, "rows": plain, "protocols": counts})

    def ended(self, sent: int) -> None:
        self._session.emit({"ended": True, "events": sent})


class LiveView(View):
    """The tables stay in their place; lines of text go above them."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._live: Live | None = None

    def trouble(self, text: str) -> None:
        if self._live is None:
            super().trouble(text)
        else:
            self._live.console.print(text)

    def result(self, rows: list[dict[str, Any]], sent: int, counts: Counts, *, last: bool) -> None:
        from rich.console import Group
        from rich.live import Live

        if self._live is None:
            self._live = Live(auto_refresh=False)
            self._live.start()
        shown = [rich_table(("PROTOCOL", "DONE"), [(protocol, _done(done)) for protocol, done in counts.items()])]
        if self._queries:
            shown.append(rich_table(COLUMNS, [cells(one) for one in self._queries.values()], title=f"{sent} events"))
        if rows:
            shown.append(rich_table(HEADINGS, [_line(row) for row in rows], title="The greatest balances"))
        self._live.update(Group(*shown), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def view(session: Session) -> View:
    if session.json:
        return JsonView(session)
    return LiveView(session) if sys.stdout.isatty() else View(session)


def _done(done: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {what}" for what, number in done.items()) or "nothing yet"


def _spoken(protocol: str, done: Mapping[str, int]) -> str:
    return f"{protocol}: {_done(done)}"


def _line(row: dict[str, Any]) -> tuple[object, ...]:
    return row["account"], row["customer"], f"{row['balance']} {row['currency']}", row["transactions"], str(row["last"])
