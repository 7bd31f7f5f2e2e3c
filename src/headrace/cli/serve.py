"""`headrace serve`: the server. Kept apart from the other commands, and off typer and rich, so that it starts in a moment."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ENVIRONMENT = "HEADRACE_"
_OPTIONS = ("data", "kafka", "amqp", "kinesis", "http", "console", "durability", "archive")
_DEFAULTS = {
    "data": "data",
    "kafka": "127.0.0.1:9092",
    "amqp": "",
    "kinesis": "",
    "http": "",
    "console": "",
    "durability": "fsync",
    "archive": "",
}


def run(argv: list[str]) -> int:
    arguments = _parser().parse_args(argv)
    try:
        values, settings = _configuration(arguments, os.environ)
        return _serve(arguments, values, settings)
    except _Wrong as error:
        print(f"headrace serve: {error}", file=sys.stderr)
        return 2


class _Wrong(Exception):
    """What the operator gave can't be used; the text says what to do."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headrace serve",
        description="Start the server. Everything listens on loopback unless told otherwise; port 0 takes a free one.",
        epilog="The command line wins over the environment (HEADRACE_DATA, HEADRACE_KAFKA, HEADRACE_AMQP, HEADRACE_KINESIS, "
        "HEADRACE_HTTP, HEADRACE_CONSOLE, HEADRACE_DURABILITY, HEADRACE_ARCHIVE), which wins over the file of --config.",
    )
    parser.add_argument("--data", metavar="DIR", help="where the log is kept (default: ./data)")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="the Kafka listener (default: 127.0.0.1:9092)")
    parser.add_argument(
        "--amqp",
        metavar="HOST:PORT",
        help="the listener for RabbitMQ's clients (default: 127.0.0.1:5672, or a free port if that is taken)",
    )
    parser.add_argument(
        "--kinesis",
        metavar="HOST:PORT",
        help="the listener for AWS SDKs that speak to Kinesis (default: 127.0.0.1:4567, or a free port if that is taken)",
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="the HTTP listener with /metrics, /health and /ready (default: 127.0.0.1:8080, or a free port if that is taken)",
    )
    parser.add_argument(
        "--durability",
        choices=["fsync", "flush", "memory"],
        help="what an acknowledgement promises where a topic sets nothing else: fsync survives power loss (default), "
        "flush survives kill -9, memory survives nothing",
    )
    parser.add_argument(
        "--archive",
        metavar="URL",
        help="where segments go that leave this disk, of topics that ask for it (remote.storage.enable=true): file:///path or "
        "s3://bucket/prefix, with credentials in the environment as AWS names them",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="a server setting under the name its protocol gives it, such as num.partitions=4; may be repeated",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a TOML file with data, kafka, amqp, kinesis, http, console, durability, archive and a table [settings]",
    )
    parser.add_argument(
        "--console",
        metavar="HOST:PORT",
        help="the web console (default: 127.0.0.1:8090, or a free port if that is taken; off: none)",
    )
    parser.add_argument("--no-console", action="store_const", const="off", dest="console", help="do not start the web console")
    parser.add_argument("--console-read-only", action="store_true", help="the console shows everything and changes nothing")
    parser.add_argument("--json", action="store_true", help="print the ready line as a JSON object")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    parser.add_argument(
        "--log-format",
        default="text",
        choices=["text", "json"],
        help="how the log is written to standard error (default: text)",
    )
    return parser


def _configuration(arguments: argparse.Namespace, environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options and the server settings, each from the first place that names it."""
    file: dict[str, Any] = {}
    if arguments.config:
        import tomllib  # here, because few starts need it

        try:
            file = tomllib.loads(Path(arguments.config).read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise _Wrong(f"{arguments.config} can't be read: {error}") from None
    unknown = set(file) - {*_OPTIONS, "settings"}
    if unknown:
        raise _Wrong(f"{arguments.config} has unknown names: {', '.join(sorted(unknown))}")
    values = {
        name: getattr(arguments, name) or environment.get(ENVIRONMENT + name.upper()) or str(file.get(name, _DEFAULTS[name]))
        for name in _OPTIONS
    }
    settings = {name: _text(value) for name, value in file.get("settings", {}).items()}
    for given in arguments.settings:
        name, equals, value = given.partition("=")
        if not equals or not name:
            raise _Wrong(f"--set takes NAME=VALUE, not {given!r}")
        settings[name.strip()] = value
    return values, settings


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise _Wrong(f"{text!r} is not an address: give HOST:PORT, such as 127.0.0.1:9092")
    return host.strip("[]") or "127.0.0.1", int(port)


def _console(where: str, data: Path, read_only: bool) -> Any:
    """The process that follows when the server is ready, or None."""
    if where == "off":
        return None
    from headrace.console.launch import ConsoleProcess, installed
    from headrace.server import refuse_public_bind

    if not installed():
        if where:
            raise _Wrong("the console is not installed: pip install 'headrace[console]'")
        logging.getLogger("headrace").info("there is no console: pip install 'headrace[console]' brings it")
        return None
    listen = _address(where) if where else None
    if listen is not None:
        refuse_public_bind(listen[0])
    return ConsoleProcess(listen, data, read_only=read_only)


def _serve(arguments: argparse.Namespace, values: dict[str, str], settings: dict[str, str]) -> int:
    from headrace import logs
    from headrace.event_loop import make_runner
    from headrace.log.errors import FolderInUse, InvalidConfig, LogError
    from headrace.server import Refused, Server, ServerOptions, run_until_signal

    logs.write_to(level=arguments.log_level, as_json=arguments.log_format == "json")
    if values["durability"] != "fsync":
        logging.getLogger("headrace").warning(
            "durability is %s: an acknowledged write may be lost with the %s",
            values["durability"],
            "process" if values["durability"] == "memory" else "power",
        )
    if values["archive"]:
        settings.setdefault("headrace.archive.url", values["archive"])
    http = _address(values["http"]) if values["http"] else None
    amqp = _address(values["amqp"]) if values["amqp"] else None
    kinesis = _address(values["kinesis"]) if values["kinesis"] else None
    kafka = _address(values["kafka"])
    options = ServerOptions(Path(values["data"]), kafka, values["durability"], settings, http, amqp, kinesis)

    def ready(line: dict[str, Any]) -> None:
        if arguments.json:
            print(json.dumps(line), flush=True)
        else:
            print(
                f"Headrace is ready. Kafka clients: {line['kafka']}. RabbitMQ clients: {line['amqp']}. "
                f"Kinesis clients: {line['kinesis']}. HTTP: {line['http']}."
                + (f" Console: {line['console']}." if "console" in line else "")
                + f" Data: {options.data}. Ctrl-C ends it.",
                flush=True,
            )

    try:
        with make_runner() as runner:
            console = _console(values["console"], options.data, arguments.console_read_only)
            runner.run(run_until_signal(Server(options), ready, console))
    except (Refused, InvalidConfig) as error:
        raise _Wrong(str(error)) from None
    except FolderInUse as error:
        raise _Wrong(f"{error}. Stop that server, or give this one another --data folder") from None
    except LogError as error:
        print(f"headrace serve: the data folder can't be opened: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        raise _Wrong(f"{values['kafka']}: {error.strerror or error}") from None
    return 0
