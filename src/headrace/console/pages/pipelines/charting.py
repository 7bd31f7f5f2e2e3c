"""How a drawing of `pipeline_plots` looks. Names and values are texts of a chart and never keys of its options, some of which
NiceGUI takes for programs."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.parts.charts import axis, drawn
from headrace.console.pipeline_plots import Drawing

_BAR_PX, _AROUND_PX = 22, 90  # of a ranking
_TITLE = {"left": 0, "top": 0, "textStyle": {"color": "var(--hr-ink)", "fontSize": 13, "fontWeight": 500}}
_LEGEND = {
    "top": 22,
    "left": 0,
    "type": "scroll",
    "icon": "roundRect",
    "textStyle": {"color": "var(--hr-soft)"},
    "itemWidth": 12,
    "itemHeight": 8,
    "pageTextStyle": {"color": "var(--hr-soft)"},
}


class Chart:
    """Drawn again when what it shows has changed; hidden while there is nothing to show."""

    def __init__(self, *, height: str = "260px") -> None:
        self._height = height
        self._shown: Drawing | None = None
        self._chart: ui.echart | None = None
        self._card = ui.card().classes("w-full")
        self._card.visible = False

    def show(self, drawing: Drawing | None) -> None:
        if drawing == self._shown:
            return
        self._shown = drawing
        self._card.visible = drawing is not None
        if drawing is None:
            return
        height = f"{_AROUND_PX + _BAR_PX * len(drawing.labels)}px" if drawing.kind == "ranking" else self._height
        made = _options(drawing)
        if self._chart is None:
            with self._card:
                self._chart = drawn(made, drawing.title, height=height)
            return
        self._chart.options.update(made)
        self._chart.style(f"height: {height}")
        self._chart.update()


def _options(drawing: Drawing) -> dict[str, Any]:
    told = not drawing.unit or drawing.unit == "bytes" or drawing.unit in drawing.title.lower()  # or by the axis
    said = drawing.title if told else f"{drawing.title} ({drawing.unit})"
    options: dict[str, Any] = {
        "title": {"text": said, **_TITLE},
        "legend": {"show": drawing.legend, **_LEGEND},
        "grid": {"left": 64, "right": 16, "top": 56 if drawing.legend else 40, "bottom": 24},
        "animation": False,
        "useUTC": True,
    }
    if drawing.kind == "ranking":
        options["grid"] = {"left": 8, "right": 24, "top": 32, "bottom": 8, "containLabel": True}
        options["xAxis"] = axis("value")
        options["yAxis"] = axis("category", data=drawing.labels, inverse=True)
    elif drawing.kind == "times":
        options["xAxis"] = axis("time")
        options["yAxis"] = axis("value", drawing.unit, min=0)
    else:
        options["xAxis"] = axis("category", data=drawing.labels, boundaryGap=drawing.kind == "bars")
        options["yAxis"] = axis("value", drawing.unit)
    bars = drawing.kind in ("bars", "ranking")
    options["series"] = [
        {
            "type": "bar" if bars else "line",
            "name": line.name,
            "data": line.values,
            "emphasis": {"disabled": True},
            **({"stack": "all"} if drawing.kind == "bars" else {}),
            **({} if bars else {"showSymbol": len(line.values) < 3, "lineStyle": {"width": 2}}),
        }
        for line in drawing.lines
    ]
    return options
