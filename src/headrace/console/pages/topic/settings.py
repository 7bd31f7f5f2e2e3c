"""A topic's settings: what each means and who has set it; changing one, which the server checks while it is typed."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.pages.topic.tab import TopicTab
from headrace.console.parts.asking import NameTyped, a_dialog
from headrace.console.parts.values import duration_text, prose, size_text

_SOURCES = {"topic": "set for this topic", "server": "set for the server", "default": "default"}
_NEVER = 2**63 - 1


async def build(tab: TopicTab) -> None:
    async def load() -> None:
        said = await tab.access.get(f"{tab.path}/config")
        rows.clear()
        with rows:
            for setting in sorted(said["config"], key=lambda each: (each["source"] == "default", each["name"])):
                _row(tab, setting, load)
        narrow()

    def narrow() -> None:
        text = (sought.value or "").strip().lower()
        for row in rows:
            row.visible = text in row.props.get("data-words", "")
        tab.view.remember(filter=text)

    with ui.row().classes("w-full items-center"):
        ui.label("A setting that the topic does not set is that of the server, and then the default.").classes("headrace-soft")
        ui.space()
        sought = ui.input("Name or meaning contains", value=tab.view.query.get("filter", ""), on_change=narrow)
        sought.props("dense outlined clearable debounce=300").classes("w-full sm:w-72")
    rows = ui.column().classes("w-full gap-0")
    await load()


def meaning(name: str, value: str | None) -> str:
    """A value with its unit as people read it, where that is another text."""
    try:
        number = int(value or "")
    except ValueError:
        return ""
    if number >= _NEVER:
        return "never"
    if not name.endswith((".ms", ".bytes")):
        return ""
    if number < 0:
        return "no limit" if number == -1 else ""
    return duration_text(number / 1000) if name.endswith(".ms") else size_text(number)


def loses(name: str, before: str | None, after: str | None) -> bool:
    """Whether records that are kept now might be deleted."""
    if name == "cleanup.policy":
        return before != after
    if name not in ("retention.ms", "retention.bytes"):
        return False
    try:
        was, will_be = int(before or ""), int(after or "")
    except ValueError:
        return False
    return will_be >= 0 and (was < 0 or will_be < was)


def _row(tab: TopicTab, setting: dict[str, Any], changed: Any) -> None:
    value = "–" if setting["value"] is None else setting["value"] or "(empty)"
    in_words = meaning(setting["name"], setting["value"])
    with ui.row().classes("w-full items-start gap-3 py-2 headrace-line no-wrap headrace-setting") as row:
        row.props["data-words"] = f"{setting['name']} {setting['doc']}".lower()
        with ui.column().classes("gap-0 grow min-w-0"):
            ui.label(setting["name"]).classes("font-mono break-all")
            ui.label(prose(setting["doc"])).classes("text-sm headrace-soft")
        with ui.column().classes("gap-0 items-end min-w-[12ch] max-w-[45%]"):
            ui.label(value).classes("font-mono break-all" + ("" if setting["source"] == "default" else " font-bold"))
            where = _SOURCES.get(setting["source"], setting["source"])
            ui.label(f"{in_words} · {where}" if in_words else where).classes("text-xs headrace-soft")
        if tab.may_change and not setting["read_only"]:
            ui.button(icon="edit", on_click=lambda: _ask(tab, setting, changed)).props(
                f'flat round dense aria-label="Change {setting["name"]}"'
            )


def _ask(tab: TopicTab, setting: dict[str, Any], changed: Any) -> None:
    name = setting["name"]

    async def check() -> None:
        """While it is typed."""
        confirmed.ask(loses(name, setting["value"], str(value.value)))
        try:
            await tab.access.patch(tab.path, {"config": {name: str(value.value)}, "validate_only": True})
        except ServerError as error:
            problem.text = str(error)
        else:
            problem.text = ""
        save.set_enabled(not problem.text)

    async def take_back() -> None:
        confirmed.ask(loses(name, setting["value"], setting["unset"]))
        await change(None)

    async def change(to: str | None) -> None:
        if not confirmed.given():
            return
        if await tab.view.change(tab.access.patch(tab.path, {"config": {name: to}}), f"{name} is changed"):
            dialog.close()
            await changed()

    with a_dialog(name, classes="w-[32rem]") as dialog:
        ui.label(prose(setting["doc"])).classes("headrace-soft")
        value: Any
        if setting["type"] == "boolean":
            value = ui.select(["true", "false"], label="Value", value=setting["value"], on_change=check)
        else:
            value = ui.input(f"Value ({setting['type']})", value=setting["value"] or "", on_change=check)
            value.props("autofocus autocomplete=off debounce=300")
        value.classes("w-full")
        ui.label(f"Without it: {setting['unset'] if setting['unset'] is not None else '–'}").classes("text-sm headrace-soft")
        confirmed = NameTyped(tab.topic, "Records that are kept now may be deleted, and there is no way back.")
        problem = ui.label("").classes("text-negative break-words").props('role="alert"')
        with ui.row().classes("w-full justify-end"):
            if setting["source"] == "topic":
                ui.button("Take back", on_click=take_back).props("flat").tooltip("As if it had never been set")
            ui.space()
            ui.button("Cancel", on_click=dialog.close).props("flat")
            save = ui.button("Save", on_click=lambda: change(str(value.value)))
