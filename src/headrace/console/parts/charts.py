"""Lines over time, of what is polled: the last `POINTS` values of each, kept in the page.

The library that draws them is large: a page is shown before it is loaded (`LATER_S`), with room for the chart.

They are drawn as SVG, whose colours are the variables of `look`: a chart is as light or as dark as the page that it is on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from headrace.console.look import COLOURS, series
from headrace.console.parts.unwatched import put

POINTS = 120
LATER_S = 0.05  # after the page is there
_FONT = "Roboto, Helvetica Neue, Helvetica, Arial, sans-serif"  # text is measured, so its name must be known
_INK, _SOFT, _LINE = "var(--hr-ink)", "var(--hr-soft)", "var(--hr-line)"
# Written by the browser, as `parts.values` writes them (see `keys`)
_WRITTEN = {"bytes/s": "value => headrace.size(value) + '/s'", "bytes": "headrace.size"}


_KNOWN = ui.echart  # so that every page says where the library is


def drawn(options: dict[str, Any], label: str, *, height: str, **more: Any) -> ui.echart:
    """A chart of any kind; `label` is what those hear who can't see it."""
    chart = ui.echart({**themed(), **options}, renderer="svg", **more).classes("w-full").style(f"height: {height}")
    chart.props["role"] = "img"
    chart.props["aria-label"] = label
    return chart


def themed() -> dict[str, Any]:
    """What every chart has. `aria` is ours: a label that changed with each value would be read out again and again."""
    return {
        "color": [series(number) for number in range(COLOURS)],
        "textStyle": {"color": _INK, "fontFamily": _FONT},
        "tooltip": tooltip(),
        "aria": {"enabled": False},
    }


def tooltip(trigger: str = "axis") -> dict[str, Any]:
    return {
        "trigger": trigger,
        "confine": True,
        "backgroundColor": "var(--hr-card)",
        "borderColor": _LINE,
        "textStyle": {"color": _INK},
        "axisPointer": {"lineStyle": {"color": _SOFT}},
    }


def axis(kind: str, unit: str = "", **more: Any) -> dict[str, Any]:
    """`category` or `value`; numbers with the unit that they have."""
    label: dict[str, Any] = {"color": _SOFT, "hideOverlap": True, "margin": 10 if kind == "value" else 12}
    if kind == "value":
        label[":formatter"] = _WRITTEN.get(unit, "headrace.count")
    return {
        "type": kind,
        "axisLabel": label,
        "axisLine": {"lineStyle": {"color": _LINE}},
        "axisTick": {"show": False},
        "splitLine": {"show": kind == "value", "lineStyle": {"color": _LINE}},
        **more,
    }


class TimeChart:
    """Add the values of one moment with `add`; what is not among them has a gap there."""

    def __init__(self, title: str, unit: str, names: Sequence[str] = (), *, height: str = "220px") -> None:
        self._times: deque[str] = deque(maxlen=POINTS)
        self._values: dict[str, deque[float | None]] = {}
        said = title if unit in _WRITTEN or unit in title.lower() else f"{title} ({unit})"
        hovered = {**tooltip(), **({":valueFormatter": _WRITTEN[unit]} if unit in _WRITTEN else {})}
        options = {
            "title": {"text": said, "left": 0, "top": 0, "textStyle": {"color": _INK, "fontSize": 13, "fontWeight": 500}},
            "tooltip": hovered,
            "legend": {
                "top": 22,
                "left": 0,
                "type": "scroll",
                "icon": "roundRect",
                "itemWidth": 12,
                "itemHeight": 4,
                "textStyle": {"color": _SOFT, "lineHeight": 16},
                "pageTextStyle": {"color": _SOFT},
                "pageIconColor": _SOFT,
                "pageIconInactiveColor": _LINE,
            },
            "grid": {"left": 64, "right": 24, "top": 56, "bottom": 28},
            "xAxis": axis("category", data=[], boundaryGap=False),
            "yAxis": axis("value", unit, min=0, minInterval=0 if unit == "ms" else 1),
            "animation": False,
            "series": [],
        }
        self._chart: ui.echart | None = None
        self._make: Callable[[], ui.echart] = lambda: drawn(options, f"{said}, over time", height=height)
        self._place = ui.element("div").classes("w-full").style(f"height: {height}")
        ui.timer(LATER_S, self._draw, once=True)
        for name in names:
            self._values[name] = deque(maxlen=POINTS)

    def add(self, moment: str, values: Mapping[str, float | None]) -> None:
        for name in values:
            if name not in self._values:
                self._values[name] = deque([None] * len(self._times), maxlen=POINTS)
        self._times.append(moment)
        for name, kept in self._values.items():
            kept.append(values.get(name))
        self._fill()

    def _draw(self) -> None:
        with self._place:
            self._chart = self._make()
        self._fill()

    def _fill(self) -> None:
        if self._chart is None:
            return
        options = self._chart.options
        lines = [
            {
                "type": "line",
                "name": name,
                "data": list(kept),
                "showSymbol": len(self._times) < 3,
                "connectNulls": False,
                "lineStyle": {"width": 2},
                "emphasis": {"disabled": True},
            }
            for name, kept in self._values.items()
        ]
        put(options["xAxis"], "data", list(self._times))
        put(options, "series", lines)
        self._chart.update()
