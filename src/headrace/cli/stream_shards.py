"""`headrace stream shards`, `split`, `merge` and `scale`: which part of the hash keys each shard has, and how to change that.

Shards that are split or merged are closed: they take no more records and are read to their end before their children. Each
command waits until the stream can be changed again.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli.progress import Progress
from headrace.cli.session import CommandError, UsageError
from headrace.cli.streaming import Name, StreamSession, count_of, shard_id, stream_named
from headrace.client.kinesis.api import Kinesis
from headrace.client.kinesis.values import Shard

ShardArgument = Annotated[str, typer.Argument(metavar="SHARD", show_default=False)]


def shards(
    session: StreamSession,
    stream: Name,
    only_open: Annotated[bool, typer.Option("--open", help="Without those that are closed.")] = False,
) -> None:
    """List shards: state, share of the hash keys, parents, ranges of hash keys and sequence numbers."""
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        found = [shard for shard in kinesis.shards(stream) if shard.open or not only_open]
    if session.json:
        session.emit({"stream": stream, "shards": [_shard_object(shard) for shard in found]})
        return
    session.table(
        ("SHARD", "STATE", "SHARE", "PARENTS", "FIRST HASH KEY", "LAST HASH KEY", "FIRST SEQUENCE NUMBER", "LAST"),
        [
            (
                shard.shard_id,
                "open" if shard.open else "closed",
                f"{shard.share:.2%}",
                ",".join(shard.parents) or None,
                str(shard.first_hash),
                str(shard.last_hash),
                shard.first_sequence_number,
                shard.last_sequence_number,
            )
            for shard in found
        ],
    )


def split(
    session: StreamSession,
    stream: Name,
    shard: ShardArgument,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="HASH", help="Where the second child begins.", show_default="the middle"),
    ] = None,
) -> None:
    """Split a shard into two."""
    if at is not None and not (at.isascii() and at.isdigit()):
        raise UsageError(f"--at: {at!r} is not a hash key: use a decimal number below 2^128")
    wanted = shard_id(shard)
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        before = kinesis.shards(stream)
        found = _shard(stream, before, wanted)
        middle = (found.first_hash + found.last_hash + 1) // 2
        kinesis.split_shard(stream, wanted, middle if at is None else int(at))
        _report(session, kinesis, stream, before)


def merge(session: StreamSession, stream: Name, shard: ShardArgument, adjacent: ShardArgument) -> None:
    """Merge two shards whose hash keys are side by side."""
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        before = kinesis.shards(stream)
        one, other = (_shard(stream, before, shard_id(text)) for text in (shard, adjacent))
        if one.last_hash + 1 != other.first_hash and other.last_hash + 1 != one.first_hash:
            raise CommandError(f"{one.shard_id} and {other.shard_id} are not adjacent; see 'headrace stream shards {stream}'")
        kinesis.merge_shards(stream, one.shard_id, other.shard_id)
        _report(session, kinesis, stream, before)


def scale(
    session: StreamSession,
    stream: Name,
    count: Annotated[int, typer.Argument(metavar="COUNT", min=1, show_default=False)],
) -> None:
    """Split and merge until there are COUNT open shards with equal shares."""
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        before = kinesis.shards(stream)
        kinesis.set_shard_count(stream, count)
        _report(session, kinesis, stream, before)


def _shard(stream: str, known: list[Shard], wanted: str) -> Shard:
    for shard in known:
        if shard.shard_id == wanted:
            return shard
    raise CommandError(f"stream '{stream}' has no shard '{wanted}'; see 'headrace stream shards {stream}'")


def _report(session: StreamSession, kinesis: Kinesis, stream: str, before: list[Shard]) -> None:
    progress = Progress("Resharding", shown=not session.quiet, noun="open shards")
    try:
        kinesis.wait_until_active(stream, seen=progress.update)
    finally:
        progress.stop()
    now = kinesis.shards(stream)
    was_open = {shard.shard_id for shard in before if shard.open}
    closed = [shard.shard_id for shard in now if shard.shard_id in was_open and not shard.open]
    opened = [shard for shard in now if shard.shard_id not in {one.shard_id for one in before}]
    if session.json:
        rows = [_shard_object(shard) for shard in opened]
        session.emit({"stream": stream, "closed": closed, "opened": rows, "open_shards": sum(s.open for s in now)})
        return
    for shard in opened:
        state = "open" if shard.open else "closed"
        session.say(f"{shard.shard_id}: {state}, {shard.share:.2%} of the hash keys, from {' and '.join(shard.parents)}")
    session.say(f"{stream}: {count_of(sum(s.open for s in now), 'open shard')}, {len(closed)} closed by this")


def _shard_object(shard: Shard) -> dict[str, Any]:
    """Hash keys and sequence numbers are longer than what readers of JSON keep of a number, so they are text, as AWS has
    them."""
    return {
        "shard": shard.shard_id,
        "open": shard.open,
        "parent": shard.parent,
        "adjacent_parent": shard.adjacent_parent,
        "first_hash_key": str(shard.first_hash),
        "last_hash_key": str(shard.last_hash),
        "first_sequence_number": shard.first_sequence_number,
        "last_sequence_number": shard.last_sequence_number,
    }
