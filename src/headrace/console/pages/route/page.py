"""One route: state, counts, positions and definition, looked at again every `POLL_S`; the rest is behind tabs, and is asked for
when somebody opens them. The tab is in the address."""

from __future__ import annotations

import re
import time
from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import View
from headrace.console.pages.route import acting, attempts, secrets, trial
from headrace.console.parts.charts import TimeChart
from headrace.console.parts.pieces import (
    Redrawn,
    as_json,
    as_word,
    facts,
    heading,
    members,
    plain,
    state_badge,
    table,
)
from headrace.console.parts.values import count_text, moment_text

POLL_S = 2.0
_POSITIONS = (
    ("partition", "Partition", "right"),
    ("position", "Position", "right"),
    ("end", "End", "right"),
    ("lag", "Lag", "right"),
)
_COUNTS = ("delivered", "replayed", "filtered", "dead_lettered", "skipped", "lost")
MOST_POSITIONS = 200  # shown
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


async def route(view: View) -> None:
    name = view.params["route"]
    path = f"/v1/routes/{part(name)}"
    first = await view.access.get(path)
    sends = first["destination"].get("type") == "webhook"
    receives = first["source"].get("type") == "webhook"
    view.title(name, back="/routes")
    head = Redrawn("w-full gap-2 min-h-8")  # what comes late does not push away what somebody is about to click
    buttons = acting.Buttons(view, path, first)

    labels = {"state": "State", "definition": "Definition", "trial": "Try filter"}
    if sends:
        labels["attempts"] = "Attempts"
    if sends or receives:
        labels["secrets"] = "Secrets"
    chosen = view.query.get("tab", "state")
    with ui.tabs().classes("w-full").props("align=left no-caps") as tabs:
        for key, label in labels.items():
            ui.tab(key, label)
    with (
        ui.tab_panels(tabs, value=chosen if chosen in labels else "state").classes("w-full bg-transparent").props("keep-alive")
    ):
        with ui.tab_panel("state").classes("p-0 gap-4"):
            state = _State()
        with ui.tab_panel("definition").classes("p-0"):
            _definition(view, path, first)
        with ui.tab_panel("trial").classes("p-0"):
            trial.panel(view, first)
        if sends:
            with ui.tab_panel("attempts").classes("p-0"):
                attempts.Panel(view, path, lambda: tabs.value == "attempts")
        if sends or receives:
            with ui.tab_panel("secrets").classes("p-0"):
                secrets.Panel(view, path)

    tabs.on_value_change(lambda event: view.remember(tab=None if event.value == "state" else event.value, attempt=None))

    async def refresh() -> None:
        found = await view.access.get(path)
        head.show([found["state"], found["error"]], lambda: _show_head(found))
        buttons.follow(found)
        state.follow(found)

    view.every(POLL_S, refresh)


def _show_head(found: dict[str, Any]) -> None:
    with ui.row().classes("w-full items-center gap-2"):
        state_badge(found["state"])
        ui.label(f"{found['source_label']} → {found['destination_label']}").classes("break-all")
        if found["error"]:
            ui.label(found["error"]).classes("text-negative break-all w-full").props('role="alert"')


class _State:
    def __init__(self) -> None:
        self._counted: tuple[float, int] | None = None
        self._facts = Redrawn("w-full gap-1")
        with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-2 gap-4 w-full"):
            with ui.card().classes("w-full"):
                self._rate = TimeChart("Delivered", "events/s", ["delivered"])
            with ui.card().classes("w-full"):
                self._lag = TimeChart("Lag", "events", ["lag"])
        self._details = Redrawn("w-full gap-1")
        self._positions = table(_POSITIONS, key="partition", title="Positions")

    def follow(self, found: dict[str, Any]) -> None:
        moment, now, done = time.strftime("%H:%M:%S", time.gmtime()), time.monotonic(), found["delivered"] + found["replayed"]
        before = self._counted
        self._counted = (now, done)
        self._rate.add(moment, {"delivered": None if before is None else max(0, done - before[1]) / (now - before[0])})
        self._lag.add(moment, {"lag": found["lag"]})
        self._facts.show([found[count] for count in (*_COUNTS, "lag")], lambda: _show_counts(found))
        self._details.show([found["replay"], found["details"]], lambda: _show_details(found))
        rows = [
            {name: count_text(one[name]) for name in ("partition", "position", "end", "lag")}
            for one in found["partitions"][:MOST_POSITIONS]
        ]
        self._positions.show(rows)
        self._positions.visible = bool(rows)


def _show_counts(found: dict[str, Any]) -> None:
    heading("Since the start of the server")
    facts({count.replace("_", "-").capitalize(): count_text(found[count]) for count in (*_COUNTS, "lag")})
    _links(found)


def _links(found: dict[str, Any]) -> None:
    with ui.row().classes("gap-4"):
        ui.link(f"Topic {found['topic']}", f"/topics/{part(found['topic'])}")
        if found["group"]:
            ui.link("Its group", f"/groups/{part(found['group'])}")
        if found["dead_lettered"]:
            ui.link("Its dead letters", f"/dead-letter-topics/{part(found['dead_letter_topic'])}")


def _show_details(found: dict[str, Any]) -> None:
    replay = found["replay"]
    if replay:
        heading("A period is delivered once more")
        left = replay.get("left", 0)
        whole = sum(one["to"] - one["from"] for one in replay.get("partitions", ())) or left
        ui.linear_progress(1 - left / whole if whole else 1.0, show_value=False).props('aria-label="Progress of the replay"')
        ui.label(f"{count_text(left)} offsets left of {count_text(whole)}")
    details = dict(found["details"])
    if not details:
        return
    heading("The endpoint" if "breaker" in details else "Details")
    if "breaker" in details:
        with ui.row().classes("items-center gap-2"):
            ui.label("Breaker")
            breaker = details.pop("breaker")
            state_badge(breaker, "good" if breaker == "closed" else "bad")
    facts({name.replace("_", " ").capitalize(): _text(value) for name, value in details.items() if value not in (None, [], {})})


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count_text(each) if isinstance(each, int) else each}" for name, each in value.items())
    if isinstance(value, str) and _MOMENT.match(value):
        return moment_text(value)
    return as_json(value) if isinstance(value, list) else str(as_word(value))


_MEMBERS = ("source", "filter", "transform", "destination", "on_failure", "paused")


def _definition(view: View, path: str, found: dict[str, Any]) -> None:
    shown = {member: found[member] for member in _MEMBERS}
    with ui.column().classes("w-full gap-2"):
        ui.label("Secrets and the values of headers are not shown; what is left out stays.").classes("headrace-soft")
        with ui.row().classes("gap-2"):
            if not view.read_only:
                ui.button("Change", icon="edit", on_click=lambda: acting.ask_definition(view, path, shown)).props("outline")
        if found["filter"]:
            heading("Filter")
            plain(found["filter"])
        for member, expression in (found["transform"] or {}).items():
            heading(f"Transform of the {member}")
            plain(expression)
        heading("All of it")
        facts(members({name: each for name, each in shown.items() if each not in (None, {})}), columns="")
        with ui.expansion("As JSON").classes("w-full"):
            plain(as_json(shown))
