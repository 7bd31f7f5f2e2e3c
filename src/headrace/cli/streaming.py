"""What the commands about Kinesis streams share: they are clients of the Kinesis API.

A command is a plain function whose first parameter is a StreamSession: a Session that also knows the endpoint, the region and
whose credentials sign the requests. `add_stream_command` gives it the options for that. The environment variables are those of
AWS's own tools, so that a shell that is set up for them needs nothing more; a Headrace that verifies no signatures takes any
credentials, and so there are some when none are given.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from headrace.cli.managing import printable
from headrace.cli.session import Session, UsageError, add_command
from headrace.client.kinesis.api import Kinesis
from headrace.client.kinesis.errors import NotFound
from headrace.client.kinesis.signing import Credentials

DEFAULT_ENDPOINT = "http://127.0.0.1:4567"
DEFAULT_REGION = "us-east-1"
_ANY = "headrace"
_PANEL = "Server"

EndpointOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="URL",
        rich_help_panel=_PANEL,
        help=f"The Kinesis address ($HEADRACE_KINESIS, $AWS_ENDPOINT_URL_KINESIS, $AWS_ENDPOINT_URL, else {DEFAULT_ENDPOINT}).",
    ),
]
RegionOption = Annotated[
    str | None,
    typer.Option(
        "--region",
        rich_help_panel=_PANEL,
        help=f"($AWS_REGION, $AWS_DEFAULT_REGION, else {DEFAULT_REGION})",
        show_default=False,
    ),
]
AccessKeyOption = Annotated[
    str | None,
    typer.Option("--access-key", metavar="ID", rich_help_panel=_PANEL, help="($AWS_ACCESS_KEY_ID)", show_default=False),
]
SecretKeyOption = Annotated[
    str | None,
    typer.Option("--secret-key", metavar="SECRET", rich_help_panel=_PANEL, help="($AWS_SECRET_ACCESS_KEY)", show_default=False),
]

Name = Annotated[str, typer.Argument(metavar="STREAM", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="STREAM", show_default=False)]


@dataclass(frozen=True, slots=True)
class StreamSession(Session):
    endpoint: str = DEFAULT_ENDPOINT
    region: str = DEFAULT_REGION
    credentials: Credentials = field(default_factory=lambda: Credentials(_ANY, _ANY))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        Session.table(self, columns, [[printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows])

    @contextmanager
    def kinesis(self) -> Iterator[Kinesis]:
        with Kinesis(self.endpoint, self.credentials, region=self.region, timeout_s=self.timeout_s) as kinesis:
            yield kinesis


def add_stream_command(app: typer.Typer, name: str, function: Callable[..., None], **settings: Any) -> None:
    """Registers `function(session, …)`."""
    signature = inspect.signature(function, eval_str=True)
    session_parameter, *own = signature.parameters.values()

    @functools.wraps(function)
    def command(session: Session, **arguments: Any) -> None:
        given = {option: arguments.pop(f"stream_{option}", None) for option in _OPTIONS}
        found = StreamSession(
            server=session.server,
            json=session.json,
            timeout_s=session.timeout_s,
            quiet=session.quiet,
            endpoint=given["endpoint"]
            or _environment("HEADRACE_KINESIS", "AWS_ENDPOINT_URL_KINESIS", "AWS_ENDPOINT_URL")
            or DEFAULT_ENDPOINT,
            region=given["region"] or _environment("AWS_REGION", "AWS_DEFAULT_REGION") or DEFAULT_REGION,
            credentials=_credentials(given["access_key"], given["secret_key"]),
        )
        function(found, **arguments)

    added = [
        inspect.Parameter(f"stream_{option}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for option, annotation in _OPTIONS.items()
    ]
    parameters = [session_parameter, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *added]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    del command.__wrapped__  # the signature above is the one that counts
    add_command(app, name, command, speaks_kafka=False, **settings)


_OPTIONS: dict[str, Any] = {
    "endpoint": EndpointOption,
    "region": RegionOption,
    "access_key": AccessKeyOption,
    "secret_key": SecretKeyOption,
}


def _environment(*names: str) -> str | None:
    return next((found for name in names if (found := os.environ.get(name))), None)


def _credentials(access_key: str | None, secret_key: str | None) -> Credentials:
    """Both from the same place: a key of the command line is not signed for with a secret of the environment."""
    if access_key is not None or secret_key is not None:
        return Credentials(access_key or _ANY, secret_key or _ANY)
    environment = _environment("AWS_ACCESS_KEY_ID")
    if environment is None:
        return Credentials(_ANY, _ANY)
    return Credentials(environment, _environment("AWS_SECRET_ACCESS_KEY") or _ANY, _environment("AWS_SESSION_TOKEN"))


@contextmanager
def stream_named(session: StreamSession, kinesis: Kinesis, name: str) -> Iterator[None]:
    """Where the name of a stream may be mistyped: says so, and which one may have been meant."""
    try:
        yield
    except NotFound as error:
        if f"tream {name} " not in error.reason + " ":  # about a shard or a consumer, in the server's own words
            raise
        from difflib import get_close_matches  # only for mistakes

        close = get_close_matches(name, [stream.name for stream in kinesis.streams()], n=1)
        hint = f"did you mean '{close[0]}'?" if close else "see 'headrace stream list'"
        text = f"there is no stream '{name}' in region {session.region}; {hint}"
        error.args = (text,)
        raise


def shard_id(text: str) -> str:
    """`3` is enough for `shardId-000000000003`."""
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return f"shardId-{int(text):012d}"
    if not text.startswith("shardId-"):
        raise UsageError(f"{text!r} is not a shard: use its number or shardId-000000000003")
    return text


def count_of(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"
