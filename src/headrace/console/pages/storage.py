"""Storage: the disk, the journal, the archive, what topics take; and of one topic its segments, with what retention will do."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.pieces import Redrawn, facts, heading
from headrace.console.parts.values import count_text, duration_text, size_text, time_text

LIMIT = 50
POLL_S = 5.0
_TOPICS = (
    Column("name", "Topic"),
    Column("size", "On disk", "right"),
    Column("archived", "Archived", "right"),
    Column("segments", "Segments", "right"),
    Column("partitions", "Partitions", "right"),
    Column("policy", "Clean-up"),
    Column("kept", "Kept"),
    Column("dirty", "To compact", "right"),
    Column("durability", "Durability"),
)
_SEGMENTS = (
    Column("partition", "Partition", "right"),
    Column("offsets", "Offsets"),
    Column("size", "Size", "right"),
    Column("first", "First record"),
    Column("newest", "Newest record"),
    Column("where", "Where"),
    Column("goes", "Retention"),
)


async def storage(view: View) -> None:
    view.title("Storage")
    top = Redrawn()

    async def refresh() -> None:
        said = await view.access.get("/v1/storage")
        top.show(said, lambda: _show(said))

    view.every(POLL_S, refresh)
    heading("Topics, the largest first")

    async def fetch(pattern: str, after: str | None) -> tuple[list[Row], str | None]:
        params = {"limit": LIMIT, "after": after, "order": "size", "pattern": f"*{pattern}*" if pattern else None}
        said = await view.access.get("/v1/storage/topics", params)
        return [_topic_row(one) for one in said["topics"]], said["next"]

    Listing(view, _TOPICS, fetch, filter_label="Name contains", empty="No topics", every_s=POLL_S)


def _show(said: dict[str, Any]) -> None:
    total, free, log = said["total_bytes"], said["usable_bytes"], said["log_bytes"]
    if not said["writable"]:
        ui.label(f"Writes are refused: {said['refusal']}").classes("text-negative break-all").props('role="alert"')
    used = 1 - free / total if total else 0.0
    ui.label(f"Disk: {size_text(free)} of {size_text(total)} free")
    bar = ui.linear_progress(used, show_value=False, color="negative" if used > 0.9 else "primary")
    bar.props(f'aria-label="Of the disk {used:.0%} are used" size=12px rounded')
    journal, archive = said["journal"], said["archive"]
    facts(
        {
            "Folder": said["path"],
            "Segments": f"{size_text(log)} in {count_text(said['segments'])}",
            "The server's own tables": size_text(said["own_bytes"]),
            "Topics": f"{count_text(said['topics'])}, with {count_text(said['partitions'])} partitions",
            "Journal": f"{size_text(journal['size_bytes'])} of {size_text(journal['max_bytes'])} in {journal['files']} files",
            "Archive": "none" if archive is None else f"{size_text(archive['size_bytes'])} at {archive['url']}",
            "Durability": said["durability"],
            "Retention looks": f"every {duration_text(said['retention_check_ms'] / 1000)}",
        }
    )


def _kept(topic: dict[str, Any]) -> str:
    if "delete" not in topic["cleanup_policy"]:
        return "the last of each key"
    age, size = topic["retention_ms"], topic["retention_bytes"]
    parts = ["" if age < 0 else duration_text(age / 1000), "" if size < 0 else f"{size_text(size)} a partition"]
    return ", ".join(each for each in parts if each) or "for ever"


def _topic_row(topic: dict[str, Any]) -> Row:
    return {
        "id": topic["name"],
        "name": topic["name"],
        "size": size_text(topic["size_bytes"]),
        "archived": size_text(topic["archived_bytes"]) if topic["archives"] or topic["archived_bytes"] else "–",
        "segments": count_text(topic["segments"]),
        "partitions": count_text(topic["partitions"]),
        "policy": topic["cleanup_policy"],
        "kept": _kept(topic),
        "dirty": size_text(topic["dirty_bytes"]) if "compact" in topic["cleanup_policy"] else "–",
        "durability": topic["durability"],
        "link": f"/storage/{part(topic['name'])}",
    }


async def segments(view: View) -> None:
    name = view.params["topic"]
    path = f"/v1/storage/topics/{part(name)}"
    topic = (await view.access.get(path, {"limit": 1}))["topic"]
    view.title(f"Segments of {name}", back="/storage")
    ui.link("The topic", f"/topics/{part(name)}")
    facts(
        {
            "On disk": size_text(topic["size_bytes"]),
            "Archived": size_text(topic["archived_bytes"]),
            "Segments": count_text(topic["segments"]),
            "Clean-up": topic["cleanup_policy"],
            "Kept": _kept(topic),
            "Durability": topic["durability"],
        }
    )
    ui.label("Retention forgets whole segments, never the one that is written.").classes("headrace-soft")

    async def fetch(_: str, after: str | None) -> tuple[list[Row], str | None]:
        params = {"limit": LIMIT, "after": after, "partition": _number(view.query.get("partition"))}
        said = await view.access.get(path, params)
        return [_segment_row(one) for one in said["segments"]], said["next"]

    Listing(view, _SEGMENTS, fetch, filter_label=None, empty="No segments", every_s=POLL_S)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else None


def _segment_row(one: dict[str, Any]) -> Row:
    places = [word for word, holds in (("disk", one["on_disk"]), ("archive", one["archived"])) if holds]
    marks = [word for word, holds in (("written now", one["active"]), ("compacted", one["compacted"])) if holds]
    due = one["expires_at_ms"]
    return {
        "id": f"{one['partition']}:{one['base_offset']}",
        "partition": count_text(one["partition"]),
        "offsets": f"{one['base_offset']:,} to {one['end_offset']:,}",
        "size": size_text(one["size_bytes"]),
        "first": time_text(one["first_timestamp_ms"]),
        "newest": time_text(one["max_timestamp_ms"]),
        "where": " and ".join(places) + (f" ({', '.join(marks)})" if marks else ""),
        "goes": "" if due is None else ("not before " if one["active"] else "from ") + time_text(due),
    }


PAGES = [
    Page("/storage", "Storage", storage, icon="storage", group="Server"),
    Page("/storage/{topic}", "Segments", segments),
]
