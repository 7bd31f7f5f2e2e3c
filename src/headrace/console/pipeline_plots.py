"""What a pipeline says about its results, and what a plot of them shows. Nothing of NiceGUI is here.

A run publishes which topics it writes, what makes a row of each, and how they are drawn (docs/pipelines, "Tables and plots");
no pipeline is known here. Since anybody may write to a topic, a description is read with suspicion: what does not have the form
is left out, and numbers are held within bounds. Names and values become texts of a chart.

Bounds: `MOST_SHOWN` topics with `MOST_PLOTS` plots each; `MOST_X` places along x, the last ones; `MOST_SERIES` lines or
colours, the largest ones; `MOST_TOP` bars of a ranking.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.console.parts.values import one_line
from headrace.console.pipeline_results import Row, as_number, cell, member, order_of
from headrace.console.pipeline_states import MEASURES, QueryState

MOST_SHOWN, MOST_PLOTS, MOST_COLUMNS = 12, 6, 20
MOST_X, MOST_SERIES, MOST_TOP = 60, 12, 30
LABEL = 40  # characters
KINDS = ("bars", "lines", "ranking")
OTHERS, NOTHING = "others", "(none)"


@dataclass(frozen=True, slots=True)
class Line:
    """A line, or bars of one colour."""

    name: str
    values: list[Any]  # one for each label; of `times` pairs of a time and a number


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a chart shows; `parts.charts` says how it looks."""

    title: str
    unit: str
    kind: str  # bars, lines, ranking or times
    labels: list[str]
    lines: list[Line]
    legend: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """As headrace.spark.pipelines.showing.Plot."""

    title: str
    kind: str
    x: str
    y: str
    series: str
    unit: str
    scale: float
    each_s: int
    order: str
    where: tuple[tuple[str, str], ...]
    newest: str
    back: int
    top: int


@dataclass(frozen=True, slots=True)
class Shown:
    """As headrace.spark.pipelines.showing.Shown."""

    topic: str
    title: str
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    sort: str = ""
    plots: tuple[Plot, ...] = ()


def shown_of(value: object) -> list[Shown]:
    """The member `shows` of what a run says."""
    found = [] if not isinstance(value, list) else [_shown(one) for one in value[:MOST_SHOWN] if isinstance(one, dict)]
    return [one for one in found if one is not None]


def _shown(said: Mapping[str, Any]) -> Shown | None:
    topic = _text(said, "topic")
    if not topic:
        return None
    plots = said.get("plots")
    given = [one for one in plots[:MOST_PLOTS] if isinstance(one, dict)] if isinstance(plots, list) else []
    return Shown(
        topic,
        _text(said, "title") or topic,
        _texts(said, "key"),
        _texts(said, "columns"),
        _text(said, "sort"),
        tuple(plot for one in given if (plot := _plot(one)) is not None),
    )


def _plot(said: Mapping[str, Any]) -> Plot | None:
    kind, x, scale = _text(said, "kind"), _text(said, "x"), as_number(said.get("scale"))
    where = said.get("where")
    if kind not in KINDS or not x:
        return None
    return Plot(
        title=_text(said, "title"),
        kind=kind,
        x=x,
        y=_text(said, "y"),
        series=_text(said, "series"),
        unit=_text(said, "unit"),
        scale=1.0 if scale is None else scale,
        each_s=_count(said, "each_s", 0, 31_536_000),
        order=_text(said, "order"),
        where=tuple((str(name), str(value)) for name, value in list(where.items())[:10]) if isinstance(where, dict) else (),
        newest=_text(said, "newest"),
        back=_count(said, "back", 0, 1000),
        top=_count(said, "top", 20, MOST_TOP) or MOST_TOP,
    )


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    return value[:200] if isinstance(value, str) else ""


def _texts(said: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = said.get(name)
    return tuple(one[:200] for one in value[:MOST_COLUMNS] if isinstance(one, str)) if isinstance(value, list) else ()


def _count(said: Mapping[str, Any], name: str, otherwise: int, most: int) -> int:
    value = said.get(name)
    return otherwise if not isinstance(value, int) or isinstance(value, bool) else min(max(0, value), most)


def drawn(plot: Plot, rows: Iterable[Row]) -> Drawing | None:
    """None where there is nothing to draw yet."""
    chosen = _chosen(plot, rows)
    return _ranking(plot, chosen) if plot.kind == "ranking" else _along(plot, chosen)


def _chosen(plot: Plot, rows: Iterable[Row]) -> list[Row]:
    found = [row for row in rows if all(_is(member(row, name), value) for name, value in plot.where)]
    if not plot.newest:
        return found
    windows = sorted({order_of(member(row, plot.newest)) for row in found}, reverse=True)
    if not windows:
        return []
    wanted = windows[min(plot.back, len(windows) - 1)]
    return [row for row in found if order_of(member(row, plot.newest)) == wanted]


def _is(value: object, wanted: str) -> bool:
    return value == wanted if isinstance(value, str) else cell(value) == wanted


def _amount(plot: Plot, row: Row) -> float | None:
    if not plot.y:
        return 1.0
    value = as_number(member(row, plot.y))
    return None if value is None else value * plot.scale


def _ranking(plot: Plot, rows: list[Row]) -> Drawing | None:
    sums: dict[str, float] = defaultdict(float)
    for row in rows:
        name, amount = member(row, plot.x), _amount(plot, row)
        if name is not None and amount is not None:
            sums[_label(name)] += amount
    best = sorted(sums.items(), key=lambda one: (-one[1], one[0]))[: plot.top]
    if not best:
        return None
    line = Line(_label(plot.title), [round(amount, 4) for _, amount in best])
    return Drawing(_label(plot.title), _label(plot.unit), "ranking", [name for name, _ in best], [line])


def _along(plot: Plot, rows: list[Row]) -> Drawing | None:
    places: dict[Any, tuple[Any, str]] = {}  # of x: what it is sorted by, and its label
    sums: dict[tuple[Any, str], float] = defaultdict(float)
    totals: dict[str, float] = defaultdict(float)
    known: dict[str, tuple[tuple[int, float, str], str]] = {}  # many rows have the same x
    for row in rows:
        x, amount = member(row, plot.x), _amount(plot, row)
        if x is None or amount is None:
            continue
        place, label = known.get(x) or known.setdefault(x, _place(plot, x)) if isinstance(x, str) else _place(plot, x)
        places[place] = (order_of(member(row, plot.order)) if plot.order else place, label)
        series = (_label(member(row, plot.series)) or NOTHING) if plot.series else _label(plot.title)
        sums[place, series] += amount
        totals[series] += abs(amount)
    if not places:
        return None
    order = _without_gaps(plot, sorted(places, key=lambda place: places[place][0])[-MOST_X:], places)
    largest = sorted(totals, key=lambda name: (-totals[name], name))[:MOST_SERIES]
    names = sorted(largest) + ([OTHERS] if len(totals) > len(largest) else [])
    found: dict[str, dict[Any, float]] = {name: defaultdict(float) for name in names}
    for (place, series), amount in sums.items():
        found[series if series in found else OTHERS][place] += amount
    nothing = 0 if plot.kind == "bars" else None
    lines = [
        Line(name, [round(found[name][place], 4) if place in found[name] else nothing for place in order]) for name in names
    ]
    labels = [places[place][1] for place in order]
    return Drawing(_label(plot.title), _label(plot.unit), plot.kind, labels, lines, legend=bool(plot.series))


def _without_gaps(plot: Plot, order: list[Any], places: dict[Any, tuple[Any, str]]) -> list[Any]:
    """Hours in which nothing happened have their place, unless they are too many."""
    if not plot.each_s or plot.order or not all(kind == 1 for kind, _, _ in order):
        return order
    first, last = order[0][1], order[-1][1]
    count = round((last - first) / plot.each_s) + 1
    if count > MOST_X:
        return order
    every: list[Any] = [(1, first + number * plot.each_s, "") for number in range(count)]
    for place in every:
        places.setdefault(place, (place, _time_label(place[1], plot.each_s)))
    return every


def _place(plot: Plot, x: object) -> tuple[tuple[int, float, str], str]:
    """Where it stands along x, and what is written there."""
    moment_s = _moment_s(x)
    if moment_s is None:
        return order_of(x), _label(x)
    if plot.each_s:
        moment_s = math.floor(moment_s / plot.each_s) * plot.each_s
    return (1, moment_s, ""), _time_label(moment_s, plot.each_s)


def _moment_s(value: object) -> float | None:
    if not isinstance(value, str) or not 16 <= len(value) <= 40 or not value[:4].isdecimal():
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _time_label(moment_s: float, each_s: int) -> str:
    moment = datetime.fromtimestamp(moment_s, UTC)
    if each_s and each_s % 86_400 == 0:
        return moment.strftime("%Y-%m-%d")
    return moment.strftime("%m-%d %H:%M" if moment_s % 60 == 0 else "%m-%d %H:%M:%S")


def _label(value: object) -> str:
    if isinstance(value, str) and len(value) <= LABEL and value.isprintable():
        return value  # as nearly all are
    return one_line(cell(value), LABEL)


def history(title: str, unit: str, measure: str, queries: Sequence[QueryState]) -> Drawing | None:
    """What was measured in the last micro-batches, a line for each query; None where nothing was."""
    place = MEASURES.index(measure)
    lines = [
        Line(_label(query.name), [[point.at, point.values[place]] for point in query.points if point.values[place] is not None])
        for query in queries[:MOST_SERIES]
    ]
    known = [line for line in lines if line.values]
    return Drawing(title, unit, "times", [], known, legend=len(known) > 1) if known else None
