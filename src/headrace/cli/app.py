"""The typer application: every noun but `serve`, which is listed here for its place in the help.

A noun's file is imported when its name is on the command line, or when none is and all of them are to be listed: building the
options of forty commands takes longer than most commands run.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Annotated

import typer

from headrace import __version__
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

VERBS = ("produce", "consume", "console", "demo")  # commands of their own
_OF_THE_SERVER = ("status", "top", "doctor")  # the same, over HTTP
_MANAGED = ("queue", "exchange", "binding", "policy", "vhost", "definitions", "connection", "route", "webhook")
NOUNS = ("topic", "produce", "consume", "group", *_MANAGED, "stream", "zmq", "pipeline", *_OF_THE_SERVER, "console", "demo")


def make_app(nouns: Collection[str] = NOUNS) -> typer.Typer:
    """The application with these nouns; each is a file here, with its commands in `app` or, for a verb, a function."""
    app = typer.Typer(
        name="headrace",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        help="Kafka, RabbitMQ and Kinesis clients on one log, in one Python process.",
    )
    app.callback()(everywhere)
    app.command(
        "serve",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(serve)
    for noun in NOUNS:
        if noun in nouns:
            module = import_module(f"headrace.cli.{noun}")
            if noun in VERBS:
                add_command(app, noun, getattr(module, noun), speaks_kafka=noun not in ("console", "demo"))
            elif noun in _OF_THE_SERVER:
                import_module("headrace.cli.managing").add_managed_command(app, noun, getattr(module, noun), vhost=False)
            else:
                app.add_typer(module.app, name=noun)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


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


def serve(ctx: typer.Context) -> None:
    """Start a server here ('headrace serve --help' shows its options)."""
    from headrace.cli.serve import run as start

    raise typer.Exit(start(ctx.args))


def run(argv: list[str]) -> int:
    try:
        named = [noun for noun in NOUNS if noun in argv]
        ended = make_app(named or NOUNS)(argv, prog_name="headrace", standalone_mode=False)
    except Exception as error:
        # Typer's own errors about the command line; it has had more than one base class for them over time.
        if not hasattr(error, "format_message"):
            raise
        text = str(error.format_message()).replace("Value error, ", "").rstrip(".")
        if text:  # a noun without a verb prints its help and leaves nothing to say
            where = getattr(getattr(error, "ctx", None), "command_path", "headrace")
            report_error(f"{text}; see '{where} --help'", None, as_json="--json" in argv or "-J" in argv)
        return int(getattr(error, "exit_code", 2))
    except typer.Abort:
        return 1
    return ended if isinstance(ended, int) else 0
