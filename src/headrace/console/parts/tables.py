"""What all tables have in common: what of a row can be clicked is reached by the keyboard, too; states have their colour; on a
phone a row becomes a card of names and values.

A row with a member `link` leads there, one with a member `opens` is opened where it stands (the event `open`). A column with
`state` is the word of a state. What stands in a cell is put in as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from headrace.console.look import MOST_COLUMNS, tone

Row = dict[str, Any]

_FIRST = """
<q-td :props="props">
  <a v-if="props.row.link" :href="props.row.link" @click.stop>{{ props.value }}</a>
  <button v-else-if="props.row.opens" type="button" class="headrace-open"
    @click.stop="$parent.$emit('open', props.row)">{{ props.value }}</button>
  <span v-else>{{ props.value }}</span>
</q-td>
"""
_STATE = """
<q-td :props="props">
  <span v-if="props.value" class="headrace-state" :data-tone="props.row[props.col.name + '_tone']">{{ props.value }}</span>
</q-td>
"""
_ODD = re.compile(r"[^\w ,.:%/()–-]")


def dressed(found: ui.table, label: str = "") -> ui.table:
    """Called once, when the table has its columns."""
    found.classes("w-full headrace-cards").props("flat bordered dense wrap-cells hide-no-data")
    if label:
        found.props["aria-label"] = label
    columns = found.columns
    for number, column in enumerate(columns[:MOST_COLUMNS], 1):
        found.style[f"--name-{number}"] = f'"{_ODD.sub(" ", str(column["label"]))[:40]}"'
    for column in columns:
        if column.get("state"):
            found.add_slot(f"body-cell-{column['name']}", _STATE)
    return found


def leads(found: ui.table, go: Callable[[str], object], opened: Callable[[Row], object] | None = None) -> ui.table:
    """Rows are clicked, or the first cell of one with the keyboard."""

    def clicked(row: Row) -> object:
        if row.get("link"):
            return go(row["link"])
        return opened(row) if opened is not None and row.get("opens") else None

    found.classes("headrace-opens")
    found.add_slot(f"body-cell-{found.columns[0]['name']}", _FIRST)
    found.on("row-click", lambda event: clicked(event.args[1]))
    found.on("open", lambda event: clicked(event.args))
    return found


def toned(columns: Sequence[dict[str, Any]], rows: Sequence[Row]) -> list[Row]:
    """The rows with the tones of their states."""
    states = [column["name"] for column in columns if column.get("state")]
    if not states:
        return list(rows)
    return [row | {f"{name}_tone": tone(str(row.get(name) or "")) for name in states} for row in rows]
