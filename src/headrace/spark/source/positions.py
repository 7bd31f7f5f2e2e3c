"""Where reading starts and ends, as the options say it: the ends of the log, exact offsets, or times.

The order of preference is that of Spark's Kafka connector: one timestamp for all partitions, timestamps for each partition,
then offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.spark.options import BadOption, Options
from headrace.spark.source.offsets import Offsets, from_json, listed

EARLIEST = -2
LATEST = -1


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same end of every partition: EARLIEST or LATEST."""

    where: int


@dataclass(frozen=True, slots=True)
class Exact:
    """An offset for each partition; EARLIEST and LATEST stand for the ends."""

    offsets: Offsets = field(hash=False)


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after a time: one for all partitions, or one for each."""

    for_all: int | None = None
    for_each: Offsets = field(default_factory=dict, hash=False)
    or_latest: bool = False  # what a start is where no record is as late as that; otherwise it is an error


Position = Everywhere | Exact | AtTimes


def starting_position(options: Options, default: int) -> Position:
    strategy = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    return _position(options, "starting", default, or_latest=strategy == "latest")


def ending_position(options: Options) -> Position:
    return _position(options, "ending", LATEST, or_latest=True)


def _position(options: Options, side: str, default: int, *, or_latest: bool) -> Position:
    offsets = options.text(f"{side}Offsets")
    each = options.text(f"{side}OffsetsByTimestamp")
    everywhere = options.text(f"{side}Timestamp")
    if everywhere is not None:
        return AtTimes(for_all=options.whole(f"{side}Timestamp", least=0), or_latest=or_latest)
    if each is not None:
        return AtTimes(for_each=_read(options, f"{side}OffsetsByTimestamp", 0), or_latest=or_latest)
    if offsets is None:
        return Everywhere(default)
    if offsets.lower() in ("earliest", "latest"):
        return Everywhere(EARLIEST if offsets.lower() == "earliest" else LATEST)
    if not offsets.startswith("{"):
        raise BadOption(f'option {side}Offsets is \'{offsets}\': use earliest, latest or JSON as in {{"topic": {{"0": 23}}}}')
    return Exact(_read(options, f"{side}Offsets", EARLIEST))


def _read(options: Options, name: str, least: int) -> Offsets:
    try:
        found = from_json(options.parsed_json(name))
    except BadOption:
        raise
    except ValueError as error:
        raise BadOption(f"option {name}: {error}") from None
    wrong = {partition for partition, offset in found.items() if offset < least}
    if wrong:
        allowed = "an offset, -1 for the latest or -2 for the earliest" if least == EARLIEST else "milliseconds since 1970"
        raise BadOption(f"option {name}, {listed(wrong)}: use {allowed}")
    return found


def check_for_batch(start: Position, end: Position) -> None:
    """A batch is bounded: it can't start where nothing is yet, nor end where everything begins."""
    if start == Everywhere(LATEST) or (isinstance(start, Exact) and LATEST in start.offsets.values()):
        raise BadOption("option startingOffsets can't be latest in a batch query: it would read nothing")
    if end == Everywhere(EARLIEST) or (isinstance(end, Exact) and EARLIEST in end.offsets.values()):
        raise BadOption("option endingOffsets can't be earliest in a batch query: it would read nothing")
    both = None
    if isinstance(start, Exact) and isinstance(end, Exact):
        both = "Offsets", start.offsets, end.offsets
    elif isinstance(start, AtTimes) and isinstance(end, AtTimes) and start.for_each and end.for_each:
        both = "OffsetsByTimestamp", start.for_each, end.for_each
    if both is None:
        return
    name, first, last = both
    if first.keys() != last.keys():
        raise BadOption(
            f"starting{name} and ending{name} must name the same partitions: {listed(first.keys() ^ last.keys())} only in one"
        )
    for partition, offset in first.items():
        if 0 <= last[partition] < offset:
            raise BadOption(f"{partition}: starting{name} has {offset}, which is after {last[partition]} in ending{name}")
