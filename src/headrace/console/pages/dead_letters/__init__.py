"""Dead letters: where they are (/dead-letters).

queue    those of one queue: /dead-letters/{vhost}/{queue}
topic    those of a route or a share group: /dead-letter-topics/{topic}
"""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.pages.dead_letters.queue import dead_letters_of
from headrace.console.pages.dead_letters.topic import dead_letters_in
from headrace.console.parts.pieces import heading, table
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import count_text

POLL_S = 5.0


async def dead_letters(view: View) -> None:
    view.title("Dead letters")
    ui.label("What was rejected, has expired, was one too many, or was given back too often.").classes("headrace-soft")
    heading("In queues")
    queues = table(
        [("queue", "Queue", "left"), ("vhost", "Virtual host", "left"), ("messages", "Messages", "right"),
         ("origins", "Come from", "left")],
        go=view.go,
    )  # fmt: skip
    no_queues = show_empty("No queue gets dead letters", "headrace queue declare work -a x-dead-letter-exchange= \\\n"
                           "    -a x-dead-letter-routing-key=dead")  # fmt: skip
    heading("In topics")
    topics = table([("topic", "Topic", "left"), ("records", "Records", "right"), ("of", "Of", "left")], go=view.go)
    no_topics = ui.label("No route and no share group has dead letters").classes("headrace-soft")
    more = ui.label("There are more than are shown").classes("headrace-soft")

    async def refresh() -> None:
        said = await view.access.get("/v1/dead-letters")
        queues.show([_queue_row(one) for one in said["queues"]])
        topics.show([_topic_row(one) for one in said["topics"]])
        queues.visible, no_queues.visible = bool(said["queues"]), not said["queues"]
        topics.visible, no_topics.visible = bool(said["topics"]), not said["topics"]
        more.visible = not said["complete"]

    view.every(POLL_S, refresh)


def _queue_row(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"{one['vhost']}\n{one['queue']}",
        "queue": one["queue"],
        "vhost": one["vhost"],
        "messages": count_text(one["messages"]),
        "origins": ", ".join(one["origins"]),
        "link": f"/dead-letters/{part(one['vhost'])}/{part(one['queue'])}",
    }


def _topic_row(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"{one['topic']}\n{one['kind']}\n{one['name']}",
        "topic": one["topic"],
        "records": count_text(one["records"]),
        "of": f"{'route' if one['kind'] == 'route' else 'share group'} {one['name']}",
        "link": f"/dead-letter-topics/{part(one['topic'])}",
    }


PAGES = [
    Page("/dead-letters", "Dead letters", dead_letters, icon="mark_email_unread", group="Queues"),
    Page("/dead-letters/{rest:path}", "Dead letters", dead_letters_of),
    Page("/dead-letter-topics/{topic}", "Dead letters", dead_letters_in, home="/dead-letters"),
]
