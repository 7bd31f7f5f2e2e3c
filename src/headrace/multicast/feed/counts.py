"""What a receiver has seen, and what of that was of no use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """Sequences `first` up to, and without, `next` that did not arrive. In a feed without a topic each of them is an event; in
    one with a topic some of the offsets may never have had one."""

    feed: str
    partition: int
    first: int
    next: int
    reason: str = "not received"


@dataclass(slots=True)
class Counts:
    """Since the receiver was made. A datagram is counted once: as one with events, as a heartbeat, or as one of those that are
    of no use."""

    datagrams: int = 0  # with events, of a feed that is listened to; those below are among them
    duplicates: int = 0  # that brought nothing new
    reordered: int = 0  # that came after one behind them
    overrun: int = 0  # that there was no room for while a gap was fetched back
    heartbeats: int = 0
    events: int = 0  # handed on, in order, each once
    gaps: int = 0  # that were found
    recovered: int = 0  # events that were fetched back
    lost: int = 0  # sequences that were given up
    restarts: int = 0  # how often a sequence began anew
    old: int = 0  # datagrams of a session that is over
    other_feed: int = 0
    strange: int = 0  # another format, or another version
    damaged: int = 0
    forged: int = 0
    malformed: int = 0
