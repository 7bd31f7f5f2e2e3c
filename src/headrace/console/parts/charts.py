"""Lines over time, of what is polled: the last `POINTS` values of each, kept in the page."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from nicegui import ui

POINTS = 120


class TimeChart:
    """Add the values of one moment with `add`; what is not among them has a gap there."""

    def __init__(self, title: str, unit: str, names: Sequence[str] = (), *, height: str = "220px") -> None:
        self._times: deque[str] = deque(maxlen=POINTS)
        self._values: dict[str, deque[float | None]] = {}
        self._chart = (
            ui.echart(
                {
                    "title": {"text": title, "left": 0, "top": 0, "textStyle": {"fontSize": 13, "fontWeight": "normal"}},
                    "tooltip": {"trigger": "axis"},
                    "legend": {"top": 24, "left": 0, "type": "scroll"},
                    "grid": {"left": 56, "right": 12, "top": 72, "bottom": 24},
                    "xAxis": {"type": "category", "data": [], "boundaryGap": False},
                    "yAxis": {"type": "value", "name": unit, "min": 0},
                    "animation": False,
                    "aria": {"enabled": True},
                    "series": [],
                }
            )
            .classes("w-full")
            .style(f"height: {height}")
        )
        for name in names:
            self._values[name] = deque(maxlen=POINTS)

    def add(self, moment: str, values: Mapping[str, float | None]) -> None:
        for name in values:
            if name not in self._values:
                self._values[name] = deque([None] * len(self._times), maxlen=POINTS)
        self._times.append(moment)
        for name, kept in self._values.items():
            kept.append(values.get(name))
        options = self._chart.options
        options["xAxis"]["data"] = list(self._times)
        options["series"] = [
            {"type": "line", "name": name, "data": list(kept), "showSymbol": False, "connectNulls": False}
            for name, kept in self._values.items()
        ]
        self._chart.update()
