"""`headrace queue peek` and `get`: look at messages, or take them.

`peek` reads and leaves everything as it was: no consumer, no flag, no order changes. `get` takes messages off the queue for
good once the server has handed them over, so an interrupt waits until those have been printed. With `--requeue` they go back
to their places, flagged as redelivered.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from headrace.cli.managing import ManagedSession, named
from headrace.cli.messages import message_object, message_text
from headrace.cli.session import CommandError, UsageError, uninterrupted, write_out
from headrace.client.management import Management, Message, Refused, Unsupported

READ_AT_ONCE = 100
_GET = 1
_PEEKED = 10

Queue = Annotated[str, typer.Argument(metavar="QUEUE", show_default=False)]
All = Annotated[bool, typer.Option("--all", help="Every message there is.")]
Body = Annotated[bool, typer.Option("--body", "-b", help="Print the bodies and nothing else, each with a newline behind it.")]


def peek(
    session: ManagedSession,
    queue: Queue,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="How many.", show_default=str(_PEEKED))] = None,
    skip: Annotated[int, typer.Option("--skip", min=0, help="Leave out that many at the head.")] = 0,
    all_: All = False,
    body: Body = False,
) -> None:
    """Show the oldest messages and leave them as they are."""
    wanted = _wanted(count, all_, _PEEKED)
    with session.api() as api, named("queue", queue, session, lambda: _names(session, api)):
        try:
            _show_all(session, queue, _peeked(api, session.vhost, queue, wanted, skip), body=body)
        except Unsupported as error:
            raise Unsupported(
                f"{error}; 'headrace queue get {queue} --requeue' takes messages and puts them back, flagged as redelivered"
            ) from None
        except Refused as refused:
            raise _with_advice(refused, queue) from None


def get(
    session: ManagedSession,
    queue: Queue,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="How many.", show_default=str(_GET))] = None,
    all_: All = False,
    requeue: Annotated[bool, typer.Option("--requeue", help="Put them back where they were, flagged as redelivered.")] = False,
    body: Body = False,
) -> None:
    """Take the oldest messages off a queue, for good, and show them."""
    wanted = _wanted(count, all_, _GET)
    with session.api() as api, named("queue", queue, session, lambda: _names(session, api)):
        batches = _lent(api, session.vhost, queue, wanted) if requeue else _taken(api, session.vhost, queue, wanted)
        try:
            shown = _show_all(session, queue, batches, body=body)
        except Refused as refused:
            raise _with_advice(refused, queue) from None
    if shown:
        what = "shown and put back, flagged as redelivered" if requeue else "taken off the queue"
        session.note(f"{queue}: {_messages(shown)} {what}")


def _wanted(count: int | None, all_: bool, otherwise: int) -> int | None:
    if all_ and count is not None:
        raise UsageError("give --count or --all, not both")
    return None if all_ else count or otherwise


def _peeked(api: Management, vhost: str, queue: str, wanted: int | None, skip: int) -> Iterator[list[Message]]:
    done = 0
    while wanted is None or done < wanted:
        asked = READ_AT_ONCE if wanted is None else min(READ_AT_ONCE, wanted - done)
        found = api.peek_messages(vhost, queue, count=asked, skip=skip + done)
        yield found
        done += len(found)
        if len(found) < asked and not _more(found):
            return


def _lent(api: Management, vhost: str, queue: str, wanted: int | None) -> Iterator[list[Message]]:
    """In one request, for those put back are the next that another would get."""
    most = wanted if wanted is not None else api.queue(vhost, queue).ready or READ_AT_ONCE
    yield api.get_messages(vhost, queue, count=most, requeue=True)


def _taken(api: Management, vhost: str, queue: str, wanted: int | None) -> Iterator[list[Message]]:
    done = 0
    while wanted is None or done < wanted:
        asked = READ_AT_ONCE if wanted is None else min(READ_AT_ONCE, wanted - done)
        found = api.get_messages(vhost, queue, count=asked, requeue=False)
        yield found
        done += len(found)
        if len(found) < asked and not _more(found):
            return


def _more(found: list[Message]) -> bool:
    """A server may answer with fewer than asked for where they are large, and says then that more stand behind them."""
    return bool(found and found[-1].left)


def _with_advice(refused: Refused, queue: str) -> Exception:
    if "stream" not in refused.reason:
        return refused
    return CommandError(f"queue '{queue}' is a stream, which is a topic: 'headrace consume {queue} --exit' reads it")


def _show_all(session: ManagedSession, queue: str, batches: Iterator[list[Message]], *, body: bool) -> int:
    terminal = sys.stdout.isatty()
    shown = 0
    while True:
        with uninterrupted():  # what has been handed over is printed
            batch = next(batches, None)
            for message in batch or ():
                shown += 1
                if body:
                    write_out(message.body + b"\n")
                elif session.json:
                    session.emit(message_object(message, queue))
                else:
                    session.say(("\n" if shown > 1 else "") + message_text(message, shown, terminal=terminal))
        if batch is None:
            break
    if not shown:
        session.note(f"{queue}: no messages")
    return shown


def _names(session: ManagedSession, api: Management) -> list[str]:
    return [queue.name for queue in api.queues(session.vhost)]


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
