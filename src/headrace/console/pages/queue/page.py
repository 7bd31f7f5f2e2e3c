"""A queue's state: depth and rates over time, arguments, policy, bindings, consumers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import View
from headrace.console.pages.queue.acting import actions
from headrace.console.pages.queue.messages import Looking
from headrace.console.parts.bindings import ask_bind, unbind_button
from headrace.console.parts.charts import TimeChart
from headrace.console.parts.pieces import Redrawn, as_json, facts, heading, members, state_badge, table
from headrace.console.parts.values import count_text, rate_text, size_text

POLL_S = 2.0
MOST_BINDINGS = 100


async def queue(view: View) -> None:
    vhost, name = view.two_names()
    path = f"/v1/vhosts/{part(vhost)}/queues/{part(name)}"
    said = await view.access.get(path)
    view.title(name, back="/queues")
    with ui.row().classes("w-full items-center gap-2"):
        state_badge(said["state"])
        state_badge(said["type"], "plain")
        ui.label(f"in virtual host {vhost}").classes("headrace-soft")
        ui.link("Graph", f"/graph?vhost={part(vhost)}&prefix={part(name)}")
        if said["type"] == "stream" and vhost == "/":
            ui.link("Its topic", f"/topics/{part(name)}")
        elif said["type"] != "stream":
            ui.link("Dead letters", f"/dead-letters/{part(vhost)}/{part(name)}")
        ui.space()
        if not view.read_only:
            actions(view, vhost, name, said["type"])
    figures = Redrawn("w-full")
    with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-2 gap-4 w-full"):
        with ui.card().classes("w-full"):
            depth = TimeChart("Messages", "messages", ("ready", "unacked"), height="180px")
        with ui.card().classes("w-full"):
            rates = TimeChart("Rates", "messages/s", ("in", "out", "acked"), height="180px")
    if said["type"] != "stream":
        Looking(view, path, name)
    heading("Definition")
    _definition(said)
    await _bindings(view, vhost, name, path)
    heading("Consumers")
    consumers = table(
        [
            ("tag", "Tag", "left"),
            ("channel", "Channel", "left"),
            ("prefetch", "Prefetch", "right"),
            ("ack", "Acknowledges", "left"),
            ("active", "Active", "left"),
        ]
    )
    nobody = ui.label("Nobody consumes from it").classes("headrace-soft")

    async def refresh() -> None:
        now = await view.access.get(path)
        figures.show(_figures(now), lambda: _show_figures(now))
        moment = datetime.now(UTC).strftime("%H:%M:%S")
        depth.add(moment, {"ready": now["messages_ready"], "unacked": now["messages_unacknowledged"]})
        stats = now["message_stats"]
        rates.add(
            moment,
            {
                shown: stats.get(f"{counted}_details", {}).get("rate")
                for shown, counted in (("in", "publish"), ("out", "deliver_get"), ("acked", "ack"))
            },
        )
        consumers.show([_consumer_row(one) for one in now["consumer_details"]])
        consumers.visible = bool(now["consumer_details"])
        nobody.visible = not consumers.visible

    view.every(POLL_S, refresh)


def _figures(now: dict[str, Any]) -> dict[str, str]:
    stats = now["message_stats"]
    return {
        "Ready": count_text(now["messages_ready"]),
        "Unacked": count_text(now["messages_unacknowledged"]),
        "Size": size_text(now.get("message_bytes_ready")),
        "In": rate_text(stats.get("publish_details", {}).get("rate")),
        "Out": rate_text(stats.get("deliver_get_details", {}).get("rate")),
        "Consumers": count_text(now["consumers"]),
        "Redelivered": count_text(stats.get("redeliver")),
    }


def _show_figures(now: dict[str, Any]) -> None:
    with ui.row().classes("w-full gap-x-8 gap-y-3"):
        for label, value in _figures(now).items():
            with ui.column().classes("gap-0"):
                ui.label(value).classes("headrace-figure")
                ui.label(label).classes("text-xs headrace-soft")


def _definition(said: dict[str, Any]) -> None:
    facts(
        {
            "Durable": "yes" if said["durable"] else "no",
            "Deleted when unused": "yes" if said["auto_delete"] else "no",
            "Exclusive": "yes" if said["exclusive"] else "no",
            "Policy": said.get("policy") or "none",
            "Operator policy": said.get("operator_policy"),
        }
    )
    together = {**said.get("effective_policy_definition", {}), **said["arguments"]}
    if together:
        facts(members(together))
    else:
        ui.label("No arguments, and no policy says anything about it").classes("headrace-soft")


def _consumer_row(one: dict[str, Any]) -> dict[str, Any]:
    channel = one.get("channel_details") or {}
    return {
        "id": f"{channel.get('name')} {one['consumer_tag']}",
        "tag": one["consumer_tag"],
        "channel": channel.get("name", ""),
        "prefetch": count_text(one.get("prefetch_count")),
        "ack": "yes" if one.get("ack_required") else "no",
        "active": "yes" if one.get("active", True) else "waits",
    }


async def _bindings(view: View, vhost: str, name: str, path: str) -> None:
    with ui.row().classes("items-center gap-2"):
        heading("Bindings")
        if not view.read_only:
            ui.button("Bind", icon="add_link", on_click=lambda: ask_bind(view, vhost, destination=name)).props("flat no-caps")
    said = await view.access.get(f"{path}/bindings", {"page_size": MOST_BINDINGS})
    with ui.column().classes("w-full gap-1"):
        for binding in said["items"]:
            with ui.row().classes("items-center gap-2"):
                if binding["source"]:
                    ui.link(binding["source"], f"/exchanges/{part(vhost)}/{part(binding['source'])}").classes("break-all")
                else:
                    ui.label("(the default exchange, by its name)").classes("headrace-soft")
                ui.label(binding["routing_key"] or "(no key)").classes("font-mono text-sm break-all")
                if binding["arguments"]:
                    ui.label(as_json(binding["arguments"])).classes("font-mono text-xs headrace-soft break-all")
                if binding["source"] and not view.read_only:
                    unbind_button(view, vhost, binding)
        if said["filtered_count"] > MOST_BINDINGS:
            ui.label(f"… and {count_text(said['filtered_count'] - MOST_BINDINGS)} more").classes("headrace-soft")
