"""How a run of a pipeline looks: a table that is kept up to date in a terminal, plain lines elsewhere, JSON for machines.

Without a terminal a line is written when a query starts and ends, and every ten seconds while it runs, not for each
micro-batch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.cli.session import Session, human_bytes
from headrace.spark.runner.home import RUNNING, RunRecord
from headrace.spark.runner.progress import QueryStatus
from headrace.spark.runner.running import RunSpectator

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

PLAIN_EVERY_S = 10.0
# Narrow enough for 80 characters. MS is how long the batch took, KEPT are the rows in state, LATE those dropped as too late.
COLUMNS = ("QUERY", "STATE", "ROWS/S", "ROWS", "LAG", "BATCH", "MS", "KEPT", "LATE", "WATERMARK")
_TEXT = ("QUERY", "STATE", "WATERMARK", "ACCOUNT", "CUSTOMER", "LAST")


def view(session: Session) -> RunSpectator:
    if session.json:
        return JsonView(session)
    return LiveView(session) if sys.stdout.isatty() and sys.stderr.isatty() else PlainView(session)


def cells(status: dict[str, Any]) -> tuple[object, ...]:
    """A status as a line of a table, in the order of COLUMNS."""
    return (
        status["query"],
        status["state"],
        round(status["rows_per_s"]),
        status["rows_total"],
        status["lag"],
        status["batch"],
        status["batch_ms"],
        status["state_rows"],
        status["late_rows"],
        status["watermark"] and status["watermark"][:19],
    )


class JsonView(RunSpectator):
    """One object a line: first the run, then each progress."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def starting(self, record: RunRecord) -> None:
        self._session.emit({"run": opening(record)})

    def progressed(self, changed: Sequence[QueryStatus]) -> None:
        for status in changed:
            self._session.emit({"progress": status.json()})


class PlainView(RunSpectator):
    def __init__(self, session: Session) -> None:
        self._session = session
        self._said: dict[str, tuple[str, float]] = {}
        self._complained: str | None = None

    def starting(self, record: RunRecord) -> None:
        announce(self._session, record)

    def fed(self, sent: int, trouble: str | None) -> None:
        if trouble is not None and trouble != self._complained:
            self._complained = trouble
            self._session.note(f"the feed has stopped: {trouble}")

    def progressed(self, changed: Sequence[QueryStatus]) -> None:
        now = time.monotonic()
        for status in changed:
            state, at = self._said.get(status.run_id, ("", 0.0))
            if state != status.state or (status.batch is not None and now - at >= PLAIN_EVERY_S):
                # The first batch is worth a line, too: until then there is nothing but a name.
                self._said[status.run_id] = (status.state, now if status.batch is not None else 0.0)
                self._session.say(line(status))


class LiveView(RunSpectator):
    """A table that stays in its place."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._latest: dict[str, QueryStatus] = {}
        self._feed = ""
        self._live: Live | None = None

    def starting(self, record: RunRecord) -> None:
        announce(self._session, record)

    def fed(self, sent: int, trouble: str | None) -> None:
        self._feed = f"feed: {sent} events" + (f", stopped: {trouble}" if trouble else "")

    def progressed(self, changed: Sequence[QueryStatus]) -> None:
        from rich.live import Live

        for status in changed:
            self._latest[status.run_id] = status
        if self._live is None:
            self._live = Live(auto_refresh=False)
            self._live.start()
        self._live.update(self._table(), refresh=True)
        if all(status.state != RUNNING for status in self._latest.values()):
            self._live.stop()

    def _table(self) -> Table:
        return rich_table(COLUMNS, [cells(status.json()) for status in self._latest.values()], caption=self._feed)


def rich_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "", caption: str = "") -> Table:
    from rich.table import Table

    table = Table(title=title or None, caption=caption or None, title_justify="left", caption_justify="left", box=None)
    for name in columns:
        table.add_column(name, justify="left" if name in _TEXT else "right", no_wrap=True)
    for row in rows:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    return table


def announce(session: Session, record: RunRecord) -> None:
    where = record.remote or record.master
    session.note(f"{record.pipeline} starts on Spark ({where}), reading {record.server}. Ctrl-C ends it.")
    session.note(f"tables: {record.tables}; log: {record.log}")


def opening(record: RunRecord) -> dict[str, Any]:
    names = ("pipeline", "state", "pid", "started", "server", "tables", "checkpoint", "log", "master", "remote", "settings")
    return {name: getattr(record, name) for name in names}


def line(status: QueryStatus) -> str:
    if status.batch is None:
        return f"{status.key}: {status.state}" + (f": {status.error}" if status.error else "")
    parts = [f"batch {status.batch} in {status.batch_ms} ms", f"{status.rows_total} rows", f"{status.rows_per_s:.0f} rows/s"]
    if status.lag is not None:
        parts.append(f"lag {status.lag}")
    if status.state_rows is not None:
        parts.append(f"state {status.state_rows} rows, {human_bytes(status.state_bytes or 0)}")
    if status.late_rows:
        parts.append(f"{status.late_rows} too late")
    if status.watermark is not None:
        parts.append(f"watermark {status.watermark}")
    if status.error is not None:
        parts.append(status.error)
    return f"{status.key}: {status.state}: {', '.join(parts)}"
