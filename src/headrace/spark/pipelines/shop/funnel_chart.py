"""The funnel as a picture: one HTML file with SVG in it, drawn from the table by plain Python.

    python -m headrace.spark.pipelines.shop.funnel_chart sqlite:tables.db funnel.html

On top the newest window as a funnel, below it the part of those who entered that paid, window by window.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

WINDOWS = 48
WIDTH, ROW, LEFT = 900, 44, 110
HEIGHT = 180
COLOUR, LINE = "#4e79a7", "#e15759"

Rows = Sequence[Mapping[str, Any]]


def write_chart(tables: str, path: str) -> None:
    """Draws what the table holds now. The file is written beside and then moved, so it is never half there."""
    from headrace.spark.tables import rows

    draft = Path(f"{path}.new")
    draft.write_text(chart(rows(tables, "shop_funnel")), encoding="utf-8")
    draft.replace(path)


def chart(rows: Rows) -> str:
    """The page for the rows of the table, in any order."""
    windows: dict[Any, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["began"], row["place"])):
        windows.setdefault(row["began"], []).append(row)
    shown = list(windows.values())[-WINDOWS:]
    if not shown:
        return _PAGE.replace("BODY", "<p>No window is complete yet.</p>")
    newest = shown[-1]
    title = f"{newest[0]['began']:%d.%m.%Y %H:%M} to {newest[0]['ended']:%H:%M}"
    return _PAGE.replace("BODY", f"<h2>{title}</h2>{_funnel(newest)}<h2>Paid, of those who entered</h2>{_history(shown)}")


def _funnel(steps: Rows) -> str:
    most = max(steps[0]["visitors"], 1)
    drawn = []
    for number, step in enumerate(steps):
        width = (WIDTH - 2 * LEFT) * step["visitors"] / most
        y = number * ROW
        drawn.append(f'<rect x="{(WIDTH - width) / 2:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 6}" fill="{COLOUR}"/>')
        drawn.append(_text(LEFT - 10, y + 24, step["step"], "end"))
        drawn.append(_text(WIDTH - LEFT + 10, y + 24, f"{step['visitors']} ({step['of_entered']:.1%})", "start"))
    return f'<svg viewBox="0 0 {WIDTH} {ROW * len(steps)}">{"".join(drawn)}</svg>'


def _history(windows: Sequence[Rows]) -> str:
    shares = [window[-1]["of_entered"] for window in windows]
    most = max(shares) or 1.0
    apart = (WIDTH - LEFT - 20) / max(len(shares) - 1, 1)
    points = [(LEFT + number * apart, HEIGHT - (HEIGHT - 20) * share / most) for number, share in enumerate(shares)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    drawn = [f'<polyline points="{line}" fill="none" stroke="{LINE}" stroke-width="2"/>']
    for (x, y), window, share in zip(points, windows, shares, strict=True):
        about = f"<title>{window[0]['began']:%d.%m. %H:%M} {share:.1%}</title>"
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{LINE}">{about}</circle>')
    drawn += [_text(LEFT - 10, 24, f"{most:.1%}", "end"), _text(LEFT - 10, HEIGHT, "0", "end")]
    for place in sorted({0, len(windows) - 1}):
        drawn.append(_text(points[place][0], HEIGHT + 18, f"{windows[place][0]['began']:%d.%m. %H:%M}", "middle"))
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 24}">{"".join(drawn)}</svg>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>Funnel</title>
<style>body{font:14px sans-serif;max-width:960px;margin:2em auto}text{font:12px sans-serif}h2{font-size:16px}</style></head>
<body><h1>From the door to the till</h1>
BODY
</body></html>
"""

if __name__ == "__main__":
    write_chart(sys.argv[1], sys.argv[2])
