"""`headrace top`: a server, live, in a terminal. Ends with q or Ctrl-C; where the output is no terminal, it is printed once.

Rates of topics are the differences between two looks at the ends of partitions. What needs attention stands on top, so that it
is seen in a small terminal, too. Bounds: `MOST_TOPICS` topics are looked at, and as many rows are shown as there is room for.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.managing import ManagedSession, printable
from headrace.cli.session import human_bytes
from headrace.cli.status import PROTOCOLS, RATES_S, headline, protocol_rows, reader, server_of
from headrace.client.management import ManagementError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headrace.client.server import ServerClient

MOST_TOPICS = 1000
MOST_ATTENTION = 3
_FEWEST_ROWS, _ROWS = 2, 10  # of topics, groups and queues; the second where there is no terminal
_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


@dataclass(slots=True)
class Look:
    """What was seen at one moment."""

    overview: dict[str, Any]
    topics: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    rates: dict[str, float] = field(default_factory=dict)  # records a second, by topic
    at_s: float = field(default_factory=time.monotonic)

    def since(self, before: Look | None) -> Look:
        if before is not None and self.at_s > before.at_s:
            known = {topic["name"]: topic["records"] for topic in before.topics}
            for topic in self.topics:
                name = topic["name"]
                # retention and deletion make it fewer: no rate is below 0
                self.rates[name] = max(0, topic["records"] - known.get(name, 0)) / (self.at_s - before.at_s)
        return self


def take(server: ServerClient, session: ManagedSession) -> Look:
    overview = server.get("/overview")
    topics = server.all("/topics?sizes=true", "topics", MOST_TOPICS)
    with session.api() as api:
        listed = api.queues(None) if overview["totals"]["queues"] else []
    queues = [
        {"vhost": queue.vhost, "name": queue.name, "messages": queue.messages or 0, "consumers": queue.consumers or 0}
        for queue in listed
    ]
    return Look(overview, [topic for topic in topics if not topic["internal"]], queues)


def top(
    session: ManagedSession,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.5, help="How often it looks.")] = 2.0,
) -> None:
    """Watch the server live: protocols, topics by rate, groups by lag, queues, attention. q ends it."""
    with server_of(session) as server:
        if session.json or not sys.stdout.isatty():
            _once(session, server)
        else:
            _live(session, server, every)


def _once(session: ManagedSession, server: ServerClient) -> None:
    """Two looks: one alone has no rates."""
    before = take(server, session)
    time.sleep(RATES_S)
    look = take(server, session).since(before)
    if session.json:
        topics = [{**topic, "records_per_s": look.rates[topic["name"]]} for topic in look.topics]
        session.emit({"overview": look.overview, "topics": topics, "queues": look.queues})
        return
    from rich.console import Console

    console = Console(width=120, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(drawn(server.address, look))
    session.say("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _live(session: ManagedSession, server: ServerClient, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, no_color=True if "NO_COLOR" in os.environ else None)
    look = take(server, session)
    error = ""
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(drawn(server.address, look, error, height=console.height), refresh=True)
            if pressed(every) in ("q", "Q", "\x1b"):
                return
            try:
                look, error = take(server, session).since(look), ""
            except ManagementError as gone:  # it may come back
                error = str(gone)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits for a key, at most so many seconds."""
    if not sys.stdin.isatty():
        yield _nothing_pressed
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode("latin-1") if ready else ""

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _nothing_pressed(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def drawn(address: str, look: Look, error: str = "", *, height: int | None = None) -> RenderableType:
    """Topics below all that is about the whole server, groups and queues side by side below them."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    overview = look.overview
    attention = overview["attention"][: MOST_ATTENTION if height is not None else None]
    lines = [Text(line) for line in headline(address, overview)]
    if error:
        lines.append(Text(printable(error), "bold red"))
    for item in attention:
        text = f"{item['severity']:<8} {printable(item['text'])}"
        lines.append(Text(text, _STYLES.get(item["severity"], ""), no_wrap=True, overflow="ellipsis"))
    protocols = protocol_rows(overview)
    used = len(lines) + len(protocols) + 6  # empty lines and headings
    rows = _ROWS if height is None else max(_FEWEST_ROWS, (height - used) // 2)
    below = Table.grid(padding=(0, 4, 0, 0))
    below.add_row(
        _table(("GROUP", "LAG", "MEMBERS"), _groups(look)[:rows]),
        _table(("QUEUE", "MESSAGES", "CONSUMERS"), _queues(look)[:rows]),
    )
    topics = _table(("TOPIC", "RECORDS/S", "RECORDS", "SIZE", "PARTITIONS"), _topics(look)[:rows])
    return Group(*lines, Text(""), _table(PROTOCOLS, protocols), Text(""), topics, Text(""), below)


def _topics(look: Look) -> list[Any]:
    busiest = sorted(look.topics, key=lambda topic: (-look.rates.get(topic["name"], 0.0), -topic["records"], topic["name"]))
    return [
        (
            topic["name"],
            f"{look.rates[topic['name']]:,.0f}" if topic["name"] in look.rates else "-",
            f"{topic['records']:,}",
            human_bytes(topic["size_bytes"]),
            topic["partitions"],
        )
        for topic in busiest
    ]


def _groups(look: Look) -> list[Any]:
    return [(reader(each), f"{each['lag']:,}", each["members"]) for each in look.overview["lag"]]


def _queues(look: Look) -> list[Any]:
    fullest = sorted(look.queues, key=lambda queue: (-queue["messages"], queue["vhost"], queue["name"]))
    return [(f"{queue['vhost']} {queue['name']}", f"{queue['messages']:,}", queue["consumers"]) for queue in fullest]


def _table(columns: tuple[str, ...], rows: list[Any]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number and column != "ADDRESS" else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text("-" if cell is None else printable(str(cell))) for cell in row))  # names may look like markup
    return table
