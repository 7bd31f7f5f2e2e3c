"""What the search box leads to: everything whose name contains a text, `MOST` of each kind, each asked of its own list.

A kind that can't be asked (no permission, no such listener) is told as that; the others are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from headrace.console.access import Access, ServerError, part
from headrace.console.frame import Page, View
from headrace.console.kinesis_access import KinesisAccess
from headrace.console.parts.pieces import heading
from headrace.console.parts.states import show_empty

MOST = 20
MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class Found:
    name: str
    link: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    title: str
    link: str  # to its list
    ask: Callable[[Access, str], Awaitable[tuple[list[Found], bool]]]


def glob(text: str) -> str:
    """A pattern that the text stands in as it is."""
    return "*" + "".join(f"[{each}]" if each in "*?[" else each for each in text) + "*"


async def _topics(access: Access, text: str) -> tuple[list[Found], bool]:
    said = await access.get("/v1/topics", {"pattern": glob(text), "limit": MOST})
    return [Found(one["name"], f"/topics/{part(one['name'])}") for one in said["topics"]], said["next"] is not None


async def _groups(access: Access, text: str) -> tuple[list[Found], bool]:
    said = await access.get("/v1/groups", {"pattern": glob(text), "limit": MOST})
    return [Found(one["group"], f"/groups/{part(one['group'])}", one["state"]) for one in said["groups"]], bool(said["next"])


async def _queues(access: Access, text: str) -> tuple[list[Found], bool]:
    return await _brokered(access, text, "queues")


async def _exchanges(access: Access, text: str) -> tuple[list[Found], bool]:
    return await _brokered(access, text, "exchanges")


async def _brokered(access: Access, text: str, kind: str) -> tuple[list[Found], bool]:
    said = await access.get(f"/v1/{kind}", {"page": 1, "page_size": MOST, "name": text})
    rows: list[dict[str, Any]] = said["items"]
    found = [
        Found(one["name"], f"/{kind}/{part(one['vhost'])}/{part(one['name'])}", f"virtual host {one['vhost']}")
        for one in rows
        if one["name"]
    ]
    return found, said["filtered_count"] > MOST


async def _streams(access: Access, text: str) -> tuple[list[Found], bool]:
    rows, following = await KinesisAccess(access).streams(text, None, MOST)
    return [Found(one["StreamName"], f"/streams/{part(one['StreamName'])}") for one in rows], following is not None


async def _routes(access: Access, text: str) -> tuple[list[Found], bool]:
    said = await access.get("/v1/routes", {"pattern": glob(text)})
    rows = said["routes"]
    found = [Found(one["name"], f"/routes/{part(one['name'])}", one["state"]) for one in rows[:MOST]]
    return found, len(rows) > MOST


KINDS = (
    Kind("Topics", "/topics", _topics),
    Kind("Groups", "/groups", _groups),
    Kind("Queues", "/queues", _queues),
    Kind("Exchanges", "/exchanges", _exchanges),
    Kind("Kinesis streams", "/streams", _streams),
    Kind("Routes", "/routes", _routes),
)


async def find(view: View) -> None:
    text = view.query.get("q", "").strip()[:MAX_TEXT]
    view.title(f"Found for “{text}”" if text else "Find")
    again = ui.input("Name contains", value=text).props("outlined dense clearable autofocus").classes("w-80")
    again.on("keydown.enter", lambda: view.go(f"/find?q={part(again.value or '')}"))
    if not text:
        show_empty("Type a part of a name", icon="search")
        return
    answers = await asyncio.gather(*(kind.ask(view.access, text) for kind in KINDS), return_exceptions=True)
    nothing = True
    for kind, answer in zip(KINDS, answers, strict=True):
        if isinstance(answer, ServerError):
            ui.label(f"{kind.title}: {answer}").classes("text-negative break-all")
            continue
        if isinstance(answer, BaseException):
            raise answer
        found, more = answer
        if found:
            nothing = False
            _show(kind, found, more, text)
    if nothing:
        show_empty("Nothing has a name like that", icon="search_off")


def _show(kind: Kind, found: list[Found], more: bool, text: str) -> None:
    heading(kind.title)
    with ui.column().classes("w-full gap-1"):
        for one in found:
            with ui.row().classes("items-baseline gap-2"):
                ui.link(one.name, one.link).classes("break-all")
                if one.note:
                    ui.label(one.note).classes("text-xs headrace-soft")
        if more:
            ui.link("More of them", f"{kind.link}?filter={part(text)}").classes("text-sm")


PAGES = [Page("/find", "Find", find)]
