"""`headrace stream consumers`: list, register, deregister. A registered consumer has enhanced fan-out: records are pushed to
it, with throughput of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli.moments import iso
from headrace.cli.streaming import Name, StreamSession, add_stream_command, stream_named
from headrace.client.kinesis.values import Consumer

app = typer.Typer(no_args_is_help=True, help="Consumers with enhanced fan-out: list, register, deregister.")

ConsumerNames = Annotated[list[str], typer.Argument(metavar="CONSUMER", show_default=False)]


def list_(session: StreamSession, stream: Name) -> None:
    """List the consumers that are registered with a stream."""
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        found = kinesis.consumers(kinesis.stream(stream).arn)
    if session.json:
        session.emit({"stream": stream, "consumers": [consumer_object(one) for one in found]})
    elif found:
        print_consumers(session, found)
    else:
        session.note(f"{stream}: no consumers")


def register(session: StreamSession, stream: Name, consumers: ConsumerNames) -> None:
    """Register consumers, and wait until they can subscribe."""
    done: list[dict[str, Any]] = []
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        arn = kinesis.stream(stream).arn
        try:
            for name in consumers:
                kinesis.register_consumer(arn, name)
                found = kinesis.wait_until_registered(arn, name)
                done.append(consumer_object(found))
                if not session.json:
                    session.say(f"{name}: registered as {found.arn}")
        finally:
            if session.json:
                session.emit({"stream": stream, "consumers": done})


def deregister(session: StreamSession, stream: Name, consumers: ConsumerNames) -> None:
    """Deregister consumers; their subscriptions end."""
    done: list[dict[str, Any]] = []
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        arn = kinesis.stream(stream).arn
        try:
            for name in consumers:
                kinesis.deregister_consumer(arn, name)
                done.append({"name": name, "deregistered": True})
                if not session.json:
                    session.say(f"{name}: deregistered")
        finally:
            if session.json:
                session.emit({"stream": stream, "consumers": done})


def consumer_object(consumer: Consumer) -> dict[str, Any]:
    return {"name": consumer.name, "arn": consumer.arn, "status": consumer.status, "created": consumer.created_ms}


def print_consumers(session: StreamSession, consumers: list[Consumer]) -> None:
    session.table(
        ("CONSUMER", "STATUS", "CREATED", "ARN"),
        [(one.name, one.status, None if one.created_ms is None else iso(one.created_ms), one.arn) for one in consumers],
    )


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "register": register, "deregister": deregister}
for _name, _function in _COMMANDS.items():
    add_stream_command(app, _name, _function)
