"""What the commands about queues, exchanges and their like share: they are clients of the management HTTP API.

A command is a plain function whose first parameter is a ManagedSession: a Session that also knows where the API is, who asks
and about which virtual host. `add_managed_command` gives it the options for that.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from headrace.cli.session import CommandError, Session, UsageError, add_command
from headrace.client.management import Management, NotFound

DEFAULT_HTTP = "http://127.0.0.1:8080"
DEFAULT_VHOST = "/"
_GUEST = "guest"
_PANEL = "Server"
_CLEAR = "\x1b[2J\x1b[H"

HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="URL",
        rich_help_panel=_PANEL,
        help=f"The HTTP address ($HEADRACE_HTTP, else {DEFAULT_HTTP}).",
    ),
]
UserOption = Annotated[
    str | None, typer.Option("--user", rich_help_panel=_PANEL, help=f"($HEADRACE_USER, else {_GUEST})", show_default=False)
]
PasswordOption = Annotated[
    str | None,
    typer.Option("--password", rich_help_panel=_PANEL, help=f"($HEADRACE_PASSWORD, else {_GUEST})", show_default=False),
]
VhostOption = Annotated[str, typer.Option("--vhost", "-V", rich_help_panel=_PANEL, help="The virtual host.")]

Pattern = Annotated[
    str | None, typer.Argument(metavar="[REGEX]", help="Only those whose name has a match.", show_default=False)
]
ArgumentOption = Annotated[
    list[str],
    typer.Option("--argument", "-a", metavar="NAME=VALUE", help="An argument, such as x-max-length=1000; repeat for more."),
]
AllVhosts = Annotated[bool, typer.Option("--all-vhosts", help="Of every virtual host.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Again and again, until Ctrl-C.")]
Every = Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="How often with --watch.")]


@dataclass(frozen=True, slots=True)
class ManagedSession(Session):
    url: str = DEFAULT_HTTP
    user: str = _GUEST
    password: str = _GUEST
    vhost: str = DEFAULT_VHOST

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Clients give names to things, and may put anything into them."""
        Session.table(self, columns, [[printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows])

    @contextmanager
    def api(self) -> Iterator[Management]:
        with Management(self.url, user=self.user, password=self.password, timeout_s=self.timeout_s) as api:
            yield api


def add_managed_command(
    app: typer.Typer, name: str, function: Callable[..., None], *, vhost: bool = True, **settings: Any
) -> None:
    """Registers `function(session, …)`; without `vhost` it is about all virtual hosts or about none."""
    signature = inspect.signature(function, eval_str=True)
    session_parameter, *own = signature.parameters.values()

    @functools.wraps(function)
    def command(session: Session, **arguments: Any) -> None:
        given = {option: arguments.pop(f"managed_{option}", None) for option in ("http", "user", "password", "vhost")}
        managed = ManagedSession(
            server=session.server,
            json=session.json,
            timeout_s=session.timeout_s,
            quiet=session.quiet,
            url=given["http"] or os.environ.get("HEADRACE_HTTP") or DEFAULT_HTTP,
            user=given["user"] or os.environ.get("HEADRACE_USER") or _GUEST,
            password=given["password"] or os.environ.get("HEADRACE_PASSWORD") or _GUEST,
            vhost=given["vhost"] or DEFAULT_VHOST,
        )
        function(managed, **arguments)

    added = [
        inspect.Parameter(f"managed_{option}", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for option, default, annotation in (
            ("http", None, HttpOption),
            ("user", None, UserOption),
            ("password", None, PasswordOption),
            ("vhost", DEFAULT_VHOST, VhostOption),
        )
        if vhost or option != "vhost"
    ]
    parameters = [session_parameter, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *added]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    del command.__wrapped__  # the signature above is the one that counts
    add_command(app, name, command, speaks_kafka=False, **settings)


def matcher(pattern: str | None) -> Callable[[str], bool]:
    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None
    return lambda name: wanted.search(name) is not None


def typed_settings(given: Iterable[str], option: str) -> dict[str, Any]:
    """`x-max-length=1000 x-queue-type=quorum`: a value that reads as JSON is that, any other is text."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option}: {text!r} is not a setting: use name=value")
        found[name.strip()] = _typed(value)
    return found


def _typed(text: str) -> Any:
    def constant(name: str) -> Any:  # NaN and Infinity are no JSON, and no argument either
        raise ValueError(name)

    try:
        return json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError):
        return text


def settings_text(settings: Mapping[str, Any]) -> str:
    """The other way round, for tables and descriptions."""
    return " ".join(f"{name}={value_text(value)}" for name, value in settings.items())


def value_text(value: object) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def printable(text: str) -> str:
    """Text of strangers: what would move the cursor or change the terminal is shown as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def confirm(session: Session, question: str, *, yes: bool) -> None:
    """Asks a person at a terminal; a script has decided already."""
    if yes or session.json or not _at_a_terminal():
        return
    if not typer.confirm(question, err=True):
        raise CommandError("nothing was changed; --yes answers in advance")


def _at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def named(kind: str, name: str, session: ManagedSession, names: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Where a name may be mistyped: says so, and which one may have been meant."""
    try:
        yield
    except NotFound:
        where = f" in vhost '{session.vhost}'" if kind in ("queue", "exchange", "policy") else ""
        from difflib import get_close_matches  # only for mistakes

        text = f"there is no {kind} '{name}'{where}"
        close = get_close_matches(name, list(names()), n=1)  # NotFound from here is about the virtual host
        raise NotFound(f"{text}; did you mean '{close[0]}'?" if close else f"{text}; see 'headrace {kind} list'") from None


def again_and_again(session: Session, show: Callable[[], None], *, watch: bool, every: float) -> None:
    """Once, or until Ctrl-C on a screen that is cleared each time."""
    while True:
        if watch and sys.stdout.isatty() and not session.json:
            session.say(_CLEAR)
        show()
        if not watch:
            return
        time.sleep(every)
