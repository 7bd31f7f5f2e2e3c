"""What every command shares: which server, how long to wait, how to print, how to end.

A command is a plain function whose first parameter is the Session; `add_command` gives it the global options (they may
stand before or after the noun), turns errors into one sentence, and picks the exit code:

    0 done   1 error   2 wrong usage   130 interrupted (143 when terminated)

A reader of our output that goes away (`| head`) ends a command quietly, with 0.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Annotated, Any, BinaryIO, NoReturn

import typer

from headrace.client.kafka import ClientError, Cluster, Refused, Unreachable
from headrace.client.kinesis.errors import KinesisError
from headrace.client.management import ManagementError

DEFAULT_SERVER = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 30.0
_PANEL = "Everywhere"

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        metavar="HOST:PORT",
        rich_help_panel=_PANEL,
        help=f"Kafka address, or several with commas ($HEADRACE_SERVER, else {DEFAULT_SERVER}).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", "-J", rich_help_panel=_PANEL, help="Print JSON.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.001,
        max=86_400,
        rich_help_panel=_PANEL,
        help=f"Give up on a request after this long ({DEFAULT_TIMEOUT_S:g} unless given).",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=_PANEL, help="Print results and errors only.")]


class CommandError(Exception):
    """A command can't do what was asked; the text is one sentence that says why and what to do."""


class UsageError(CommandError):
    """The command line itself is wrong in a way that only the command can see; ends with 2."""


class OutputClosed(Exception):
    """Whoever read our output has gone away."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM. Commands that handle many records say how many before they let it pass."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


@dataclass(frozen=True, slots=True)
class Session:
    server: str = field(default_factory=lambda: os.environ.get("HEADRACE_SERVER") or DEFAULT_SERVER)
    json: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    quiet: bool = False

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        cluster = Cluster(self.server, timeout_s=self.timeout_s)
        try:
            yield cluster
        finally:
            cluster.close()

    def emit(self, value: dict[str, Any]) -> None:
        """One JSON object on a line of its own."""
        write_out(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n")

    def say(self, text: str) -> None:
        """A line of results for people."""
        write_out(text.encode("utf-8", "surrogateescape") + b"\n")

    def note(self, text: str) -> None:
        """A remark beside the results: on stderr, and not when asked to be quiet."""
        if not self.quiet:
            complain(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Columns aligned by spaces, never cut or wrapped, so that they can be read by eye and by awk. A column of numbers is
        set to the right."""
        cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
        numeric = [all(isinstance(row[i], int | None) for row in rows) and bool(rows) for i in range(len(columns))]
        widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
        lines = []
        for line in [list(columns), *cells]:
            padded = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, numeric, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
            lines[0] = f"\x1b[1m{lines[0]}\x1b[0m"
        self.say("\n".join(lines))


def write_out(data: bytes) -> None:
    """Writes to stdout and flushes. All output of results goes through here, so a closed pipe is noticed in one place and
    never confused with a broken connection to a server."""
    try:
        stdout = _binary_stdout()
        stdout.write(data)
        stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def _binary_stdout() -> BinaryIO:
    return sys.stdout.buffer


def human_bytes(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def complain(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        pass


def add_command(
    app: typer.Typer, name: str, function: Callable[..., None], *, speaks_kafka: bool = True, **settings: Any
) -> None:
    """Registers `function(session, …)` as a command that also takes the global options; `--server` only if it speaks Kafka."""
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())[1:]

    @functools.wraps(function)
    def command(ctx: typer.Context, **arguments: Any) -> None:
        base = ctx.find_object(Session) or Session()
        given = [arguments.pop(f"global_{option}", None) for option in ("server", "json", "timeout", "quiet")]
        session = override(base, *given)
        _run(session, lambda: function(session, **arguments))

    everywhere = [
        inspect.Parameter(f"global_{option}", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for option, default, annotation in (
            ("server", None, ServerOption),
            ("json", False, JsonOption),
            ("timeout", None, TimeoutOption),
            ("quiet", False, QuietOption),
        )
        if speaks_kafka or option != "server"
    ]
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *everywhere]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(name, **settings)(command)


def override(base: Session, server: str | None, as_json: bool, timeout_s: float | None, quiet: bool) -> Session:
    return replace(
        base,
        server=server or base.server,
        json=as_json or base.json,
        timeout_s=timeout_s or base.timeout_s,
        quiet=quiet or base.quiet,
    )


def _run(session: Session, body: Callable[[], None]) -> None:
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    try:
        body()
    except OutputClosed:
        _forget_stdout()
    except UsageError as error:
        _fail(session, error, 2)
    except (CommandError, ClientError, ManagementError, KinesisError) as error:
        _fail(session, error, 1)
    except Stopped as stopped:
        raise typer.Exit(stopped.exit_code) from None
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        _fail(session, CommandError(f"{name}{error.strerror or error}"), 1)


@dataclass(slots=True)
class _Held:
    """Signals belong to the process, so there is one of these."""

    sections: int = 0
    waiting: int | None = None


_HELD = _Held()


def _stop(number: int, frame: FrameType | None) -> None:
    if _HELD.sections and _HELD.waiting is None:
        _HELD.waiting = number
    else:
        raise Stopped(number)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """What is done in here is done together: an interrupt waits until the end of it. A second one does not wait, for the
    reader of our output may have stalled."""
    _HELD.sections += 1
    try:
        yield
    finally:
        _HELD.sections -= 1
        if not _HELD.sections and _HELD.waiting is not None:
            number, _HELD.waiting = _HELD.waiting, None
            raise Stopped(number)


def _fail(session: Session, error: Exception, code: int) -> NoReturn:
    text = str(error)
    if isinstance(error, Unreachable):
        text += "; is the server running there? 'headrace serve' starts one, --server names another"
    name = error.name if isinstance(error, Refused) else None
    if isinstance(error, ManagementError | KinesisError):
        name = error.code
    report_error(text, name, as_json=session.json)
    raise typer.Exit(code)


def report_error(text: str, code: str | None, *, as_json: bool) -> None:
    """`code` is the protocol's name for the error, when the server gave one."""
    if as_json:
        complain(json.dumps({"error": {"message": text, "code": code}}, ensure_ascii=False))
    else:
        complain(f"headrace: {text}")


def _forget_stdout() -> None:
    """Python flushes stdout when it ends and would complain about the closed pipe then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
