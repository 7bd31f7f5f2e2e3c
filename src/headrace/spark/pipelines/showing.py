"""How a console shows what a pipeline writes: which topics, as which table, drawn how. Data alone, beside the computation:

    SHOWS = [
        Shown(
            "bank.dashboard",
            "Card payments",
            key=("panel", "start", "name", "currency"),
            plots=(Plot("Volume each minute", "bars", x="start", y="volume", series="name", where={"panel": "minute"}),),
        )
    ]

A run publishes it with its state (`runner.publishing`), and the console draws what it is told: it knows no pipeline, so a new
one gets its tables and plots by saying what they are. Members of a value are named as they stand in its JSON; `a.b` is b inside
of a, `a.0` the first of a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

MINUTE, HOUR, DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Plot:
    """`bars` and `lines` go along `x`, one for each value of `series`; `ranking` has the greatest, one below the other."""

    title: str
    kind: Literal["bars", "lines", "ranking"]
    x: str  # a time, or anything else
    y: str = ""  # a number, or text that is one; added up where several rows have the same x. Without it rows are counted
    series: str = ""
    unit: str = ""
    scale: float = 1.0  # y is multiplied by it: 0.01 for cents
    each_s: int = 0  # times are counted together by so many seconds
    order: str = ""  # what the values of x are sorted by, where not by themselves
    where: Mapping[str, str] = field(default_factory=dict)  # only rows with these values
    newest: str = ""  # only rows with the greatest value of this member: the last window
    back: int = 0  # or with the so manieth before it, for windows that are still filling
    top: int = 20  # so many of a ranking


@dataclass(frozen=True, slots=True)
class Shown:
    """A topic of JSON objects as a table: the last value of each key holds."""

    topic: str
    title: str
    key: Sequence[str] = ()  # members that make a row; without any it is the key of the record
    columns: Sequence[str] = ()  # in this order; without any all of them, as they come
    sort: str = ""  # a column; `-amount` has the greatest first. Without it what has changed last comes first
    plots: Sequence[Plot] = ()

    def json(self) -> dict[str, Any]:
        return asdict(self)
