"""`headrace queue move` and `retry-dead`: messages from one queue to another place, inside the server.

Each request looks at a bounded number of messages, so that the server answers soon and there is progress to show. Without
`--count` a run is about as many as are ready at the beginning: what arrives meanwhile, or comes back because it died again, is
left for another run, so that a run ends.

What can't be moved (no queue takes it) keeps its place at the head of the queue, so the next request looks at it again: each
asks for as many more. With `STUCK_AT_MOST` of those a run gives up, before most of the work is looking at the same again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from headrace.cli.managing import ManagedSession, named
from headrace.cli.progress import Progress
from headrace.cli.session import CommandError, Stopped, UsageError
from headrace.client.management import Management, ManagementError

MOVED_AT_ONCE = 500
STUCK_AT_MOST = 10_000

Count = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="At most this many, the oldest.", show_default="all that are ready")
]


def move(
    session: ManagedSession,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", show_default=False)],
    destination: Annotated[str | None, typer.Argument(metavar="[TO]", help="A queue.", show_default=False)] = None,
    exchange: Annotated[
        str | None,
        typer.Option("--exchange", "-x", metavar="EXCHANGE", help="Publish them there instead.", show_default=False),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", "-k", metavar="KEY", help="With --exchange: instead of their own key.", show_default=False),
    ] = None,
    count: Count = None,
) -> None:
    """Move messages to another queue, or publish them to an exchange."""
    if (destination is None) == (exchange is None):
        raise UsageError("say where to: a queue, or --exchange")
    if key is not None and exchange is None:
        raise UsageError("--key goes with --exchange: a queue takes messages as they are")
    if destination == queue:
        raise UsageError("a queue can't be moved to itself")
    where = f"queue '{destination}'" if destination is not None else f"exchange '{exchange}'"
    with session.api() as api:
        with named("queue", queue, session, lambda: _names(session, api)):
            total = _planned(session, api, queue, count)
        if destination is not None:
            with named("queue", destination, session, lambda: _names(session, api)):
                api.queue(session.vhost, destination)
        elif exchange is not None:
            with named("exchange", exchange, session, lambda: [one.name for one in api.exchanges(session.vhost)]):
                api.exchange(session.vhost, exchange)

        def step(n: int) -> int:
            return api.move_messages(session.vhost, queue, count=n, queue=destination, exchange=exchange, routing_key=key)

        moved, stuck = _in_steps(session, api, queue, "Moving", total, step)
    if session.json:
        session.emit({"queue": queue, "destination": destination, "exchange": exchange, "moved": moved, "left": stuck})
    else:
        session.say(f"{queue}: {_messages(moved)} moved to {where}")
    if stuck:
        raise CommandError(f"{_messages(stuck)} stayed in queue '{queue}': nothing at {where} took them")


def retry_dead(
    session: ManagedSession,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The one with the dead letters.", show_default=False)],
    count: Count = None,
) -> None:
    """Send dead letters back to the queues in which they first died."""
    with session.api() as api:
        with named("queue", queue, session, lambda: _names(session, api)):
            total = _planned(session, api, queue, count)

        def step(n: int) -> int:
            return api.retry_dead(session.vhost, queue, count=n)

        moved, stuck = _in_steps(session, api, queue, "Retrying", total, step)
    if session.json:
        session.emit({"queue": queue, "retried": moved, "left": stuck})
    else:
        session.say(f"{queue}: {_messages(moved)} sent back")
    if stuck:
        raise CommandError(
            f"{_messages(stuck)} stayed in queue '{queue}': not a dead letter of another queue, or that queue is gone;"
            f" 'headrace queue move {queue} TO' moves them"
        )


def _planned(session: ManagedSession, api: Management, queue: str, count: int | None) -> int:
    """How many to move. RabbitMQ may not have counted them yet, but has no such calls either."""
    found = api.queue(session.vhost, queue)
    if found.kind == "stream":
        raise CommandError(f"queue '{queue}' is a stream, which is a topic: a route copies what is in it elsewhere")
    return min(MOVED_AT_ONCE if found.ready is None else found.ready, count or sys.maxsize)


def _in_steps(
    session: ManagedSession, api: Management, queue: str, verb: str, total: int, step: Callable[[int], int]
) -> tuple[int, int]:
    """How many were moved, and how many of the others could not be."""
    moved, stuck = 0, 0
    progress = Progress(verb, total, shown=not session.quiet, noun="messages")
    try:
        while moved + stuck < total and stuck < STUCK_AT_MOST:
            asked = stuck + min(MOVED_AT_ONCE, total - moved - stuck)
            now = step(asked)
            moved, stuck = moved + now, asked - now
            progress.update(moved, moved + stuck)
    except Stopped:
        session.note(f"Interrupted: {_messages(moved)} had been moved, up to {MOVED_AT_ONCE} more may have been.")
        raise
    except ManagementError as error:
        if moved:
            raise CommandError(f"{error}; {_messages(moved)} had been moved") from None
        raise
    finally:
        progress.stop()
    if stuck:  # or consumers were faster
        ready = api.queue(session.vhost, queue).ready
        stuck = stuck if ready is None else min(stuck, ready)
    return moved, stuck


def _names(session: ManagedSession, api: Management) -> list[str]:
    return [queue.name for queue in api.queues(session.vhost)]


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
