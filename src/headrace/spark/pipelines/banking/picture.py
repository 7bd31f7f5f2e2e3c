"""The dashboard as a picture: one HTML file with SVG in it, drawn from the table by plain Python.

    python -m headrace.spark.pipelines.banking.picture sqlite:tables.db dashboard.html

A browser that has it open loads it again every two seconds. It is written beside and then moved, so it is never half there.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

MINUTES = 60
MERCHANTS = 10
WIDTH, HEIGHT, LEFT = 900, 260, 60
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac")

Rows = Sequence[Mapping[str, Any]]


class Picture:
    """A file drawn again and again. It remembers the rows of the last hour, so that the table is read once, at the start."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._rows: dict[tuple[Any, ...], Mapping[str, Any]] = {}

    @property
    def begun(self) -> bool:
        return bool(self._rows)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """New rows, and rows that replace known ones because they have counted more."""
        for row in rows:
            key = (row["panel"], row["start"], row["name"], row["currency"])
            if key not in self._rows or self._rows[key]["payments"] <= row["payments"]:
                self._rows[key] = row
        if self._rows:
            oldest = max(row["start"] for row in self._rows.values()) - timedelta(minutes=MINUTES)
            self._rows = {key: row for key, row in self._rows.items() if row["start"] >= oldest}

    def draw(self) -> None:
        draft = self._path.with_name(f"{self._path.name}.new")
        draft.write_text(picture(list(self._rows.values())), encoding="utf-8")
        draft.replace(self._path)


def write_picture(tables: str, path: str) -> None:
    """Draws what the table holds now."""
    from headrace.spark.tables import rows

    drawn = Picture(path)
    drawn.add(rows(tables, "dashboard"))
    drawn.draw()


def picture(rows: Rows) -> str:
    """The page: the last hour by category, the top merchants of the newest window, and how many payments came late."""
    minute = [row for row in rows if row["panel"] == "minute"]
    sliding = [row for row in rows if row["panel"] == "five minutes"]
    late = sum(row["payments"] for row in rows if row["panel"] == "late")
    newest = max((row["start"] for row in minute), default=None)
    parts = [f"<p>{sum(row['payments'] for row in minute)} card payments in the last hour, {late} booked late.</p>"]
    if newest is not None:
        parts += ["<h2>Volume by category, each minute</h2>", _bars(minute, newest)]
        parts += ["<h2>Top merchants, five minutes</h2>", _top(sliding, newest)]
    return _PAGE.replace("BODY", "\n".join(parts))


def _bars(rows: Rows, newest: datetime) -> str:
    first = newest - timedelta(minutes=MINUTES - 1)
    shown = [row for row in rows if row["start"] >= first]
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(sorted({row["name"] for row in rows}))}
    columns: dict[datetime, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in shown:
        columns[row["start"]][row["name"]] += float(row["volume"])
    highest = max(sum(column.values()) for column in columns.values()) or 1.0
    step = (WIDTH - LEFT) / MINUTES
    drawn = [_text(LEFT - 6, 14, f"{highest:.0f}", "end"), _text(LEFT - 6, HEIGHT, "0", "end")]
    for start, column in sorted(columns.items()):
        x = LEFT + step * round((start - first) / timedelta(minutes=1))
        y = float(HEIGHT)
        for name, volume in sorted(column.items()):
            height = (HEIGHT - 4) * volume / highest
            y -= height
            title = f"<title>{start:%d.%m. %H:%M} {escape(name)} {volume:.2f}</title>"
            drawn.append(_bar(x, y, step - 1, height, colours[name], title))
    for ago in range(0, MINUTES, 10):
        drawn += [_text(WIDTH - step * (ago + 0.5), HEIGHT + 16, f"{newest - timedelta(minutes=ago):%H:%M}", "middle")]
    legend = " ".join(f'<span style="color:{colour}">■</span> {escape(name)}' for name, colour in colours.items())
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 22}">{"".join(drawn)}</svg><p>{legend}</p>'


def _top(rows: Rows, newest: datetime) -> str:
    """The newest window that is full: it ends with the newest minute."""
    window = [row for row in rows if row["end"] == newest + timedelta(minutes=1)]
    best = sorted(window, key=lambda row: (-float(row["volume"]), row["name"]))[:MERCHANTS]
    most = max((float(row["volume"]) for row in best), default=1.0) or 1.0
    drawn = []
    for number, row in enumerate(best):
        y = number * 24
        drawn.append(_text(150, y + 16, row["name"], "end"))
        drawn.append(_bar(158, y + 3, (WIDTH - 320) * float(row["volume"]) / most, 18, COLOURS[0]))
        drawn.append(_text(WIDTH - 6, y + 16, f"{row['volume']} {row['currency']} in {row['payments']}", "end"))
    return f'<svg viewBox="0 0 {WIDTH} {24 * max(1, len(best))}">{"".join(drawn)}</svg>'


def _bar(x: float, y: float, width: float, height: float, colour: str, inside: str = "") -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}">{inside}</rect>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>Card payments</title>
<style>body{font:14px sans-serif;max-width:960px;margin:2em auto}text{font:12px sans-serif}h2{font-size:16px}</style></head>
<body><h1>Card payments</h1>
BODY
</body></html>
"""

if __name__ == "__main__":
    write_picture(sys.argv[1], sys.argv[2])
