"""`headrace connection`: list, close. Connections of RabbitMQ's clients, over AMQP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli.managing import (
    Every,
    ManagedSession,
    Pattern,
    Watch,
    add_managed_command,
    again_and_again,
    matcher,
    named,
    printable,
)
from headrace.cli.moments import iso
from headrace.cli.session import UsageError

app = typer.Typer(no_args_is_help=True, help="AMQP connections: list, close.")


def list_(session: ManagedSession, pattern: Pattern = None, watch: Watch = False, every: Every = 2.0) -> None:
    """List the connections of AMQP clients."""
    wanted = matcher(pattern)
    with session.api() as api:

        def show() -> None:
            found = sorted((one for one in api.connections() if wanted(one.name)), key=lambda one: one.name)
            if session.json:
                rows = [
                    {
                        "name": one.name,
                        "user": one.user,
                        "vhost": one.vhost,
                        "state": one.state,
                        "channels": one.channels,
                        "protocol": one.protocol,
                        "client": one.client,
                        "connected_at": one.connected_at_ms,
                    }
                    for one in found
                ]
                session.emit({"connections": rows})
            elif found:
                session.table(
                    ("CONNECTION", "USER", "VHOST", "STATE", "CHANNELS", "CLIENT", "SINCE"),
                    [
                        (
                            one.name,
                            one.user,
                            one.vhost,
                            one.state,
                            one.channels,
                            printable(one.client) or None,
                            None if one.connected_at_ms is None else iso(one.connected_at_ms),
                        )
                        for one in found
                    ],
                )
            else:
                session.note("No connections.")

        again_and_again(session, show, watch=watch, every=every)


def close(
    session: ManagedSession,
    connections: Annotated[list[str], typer.Argument(metavar="CONNECTION", show_default=False)],
    reason: Annotated[str, typer.Option("--reason", help="What the client is told.")] = "Closed via headrace",
) -> None:
    """Close connections; what their clients had not acknowledged goes back to the queues."""
    if not (reason.isascii() and reason.isprintable()):
        raise UsageError("--reason travels in a header of HTTP, so it is one line of ASCII")
    done: list[dict[str, Any]] = []
    with session.api() as api:
        try:
            for name in connections:
                with named("connection", name, session, lambda: [one.name for one in api.connections()]):
                    api.close_connection(name, reason)
                done.append({"name": name, "closed": True})
                if not session.json:
                    session.say(f"{name}: closed")
        finally:
            if session.json:
                session.emit({"connections": done})


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "close": close}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function, vhost=False)
