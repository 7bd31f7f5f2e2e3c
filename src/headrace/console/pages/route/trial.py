"""A filter and a transform tried on the last events of a topic, by the server's own evaluator. Nothing is changed."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import View
from headrace.console.parts.pieces import as_json, plain, state_badge
from headrace.console.parts.states import show_empty

MOST_SHOWN = 50
_EXPRESSIONS = ("value", "key", "headers")


def panel(view: View, found: dict[str, Any]) -> None:
    transform = found["transform"] or {}
    with ui.column().classes("w-full gap-2"):
        ui.label("Expressions are CEL, over topic, partition, offset, timestamp, key, value, headers, text and raw.").classes(
            "headrace-soft"
        )
        expression = ui.textarea("Filter", value=found["filter"] or "").classes("w-full font-mono")
        expression.props("outlined autogrow spellcheck=false rows=2")
        shapes = {
            member: ui.input(f"Transform of the {member}", value=transform.get(member, ""))
            .classes("w-full font-mono")
            .props("outlined dense spellcheck=false")
            for member in _EXPRESSIONS
        }
        with ui.row().classes("items-end gap-2"):
            topic = ui.input("Topic", value=found["topic"]).props("outlined dense")
            last = (
                ui.number("Last events", value=10, min=1, max=MOST_SHOWN, precision=0).props("outlined dense").classes("w-32")
            )
            ui.button("Try", icon="science", on_click=lambda: run())
        results = ui.column().classes("w-full gap-2")

    async def run() -> None:
        given = {member: field.value for member, field in shapes.items() if field.value}
        body = {
            "filter": expression.value or None,
            "transform": given or None,
            "topic": topic.value or "",
            "last": min(MOST_SHOWN, int(last.value or 10)),
        }
        try:
            said = await view.access.post("/v1/routes/test", body)
        except ServerError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        results.clear()
        with results:
            _show(said["results"])


def _show(results: list[dict[str, Any]]) -> None:
    if not results:
        show_empty("The topic has no events")
        return
    counts = {outcome: sum(1 for one in results if one["outcome"] == outcome) for outcome in ("passed", "dropped", "failed")}
    ui.label(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    for one in reversed(results[-MOST_SHOWN:]):
        with ui.card().classes("w-full gap-1"):
            with ui.row().classes("items-center gap-2"):
                state_badge(one["outcome"])
                before = one["before"]
                ui.label(f"partition {before.get('partition')}, offset {before.get('offset')}").classes("headrace-soft")
                if one.get("reason"):
                    ui.label(one["reason"]).classes("text-negative break-all")
            with ui.element("div").classes("grid grid-cols-1 md:grid-cols-2 gap-2 w-full"):
                plain(as_json(before)[:20_000])
                if one.get("after"):
                    plain(as_json(one["after"])[:20_000])
