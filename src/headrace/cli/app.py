"""The typer application: every noun but `serve`, which is listed here for its place in the help."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace import __version__
from headrace.cli import (
    binding,
    connection,
    consume,
    definitions,
    exchange,
    group,
    policy,
    produce,
    queue,
    topic,
    vhost,
)
from headrace.cli.session import (
    JsonOption,
    QuietOption,
    ServerOption,
    Session,
    TimeoutOption,
    add_command,
    override,
    report_error,
)

app = typer.Typer(
    name="headrace",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Kafka, RabbitMQ and Kinesis clients on one log, in one Python process.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def everywhere(
    ctx: typer.Context,
    server: ServerOption = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = None,
    quiet: QuietOption = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    ctx.obj = override(Session(), server, as_json, timeout, quiet)


@app.command(
    "serve",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def serve(ctx: typer.Context) -> None:
    """Start a server here ('headrace serve --help' shows its options)."""
    from headrace.cli.serve import run as start

    raise typer.Exit(start(ctx.args))


app.add_typer(topic.app, name="topic")
add_command(app, "produce", produce.produce)
add_command(app, "consume", consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(queue.app, name="queue")
app.add_typer(exchange.app, name="exchange")
app.add_typer(binding.app, name="binding")
app.add_typer(policy.app, name="policy")
app.add_typer(vhost.app, name="vhost")
app.add_typer(definitions.app, name="definitions")
app.add_typer(connection.app, name="connection")


def run(argv: list[str]) -> int:
    try:
        ended = app(argv, prog_name="headrace", standalone_mode=False)
    except Exception as error:
        # Typer's own errors about the command line; it has had more than one base class for them over time.
        if not hasattr(error, "format_message"):
            raise
        text = str(error.format_message()).rstrip(".")
        if text:  # a noun without a verb prints its help and leaves nothing to say
            where = getattr(getattr(error, "ctx", None), "command_path", "headrace")
            report_error(f"{text}; see '{where} --help'", None, as_json="--json" in argv or "-J" in argv)
        return int(getattr(error, "exit_code", 2))
    except typer.Abort:
        return 1
    return ended if isinstance(ended, int) else 0
