"""The groups that read a topic, and how far they are behind in it."""

from __future__ import annotations

from headrace.console.access import part
from headrace.console.pages.groups import who_reads
from headrace.console.pages.topic.tab import TopicTab
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.values import count_text

LIMIT = 50
_COLUMNS = (
    Column("group", "Group"),
    Column("type", "Type"),
    Column("state", "State", state=True),
    Column("members", "Members", "right"),
    Column("partitions", "Partitions read", "right"),
    Column("lag", "Records behind", "right"),
)


async def build(tab: TopicTab) -> None:
    async def fetch(_: str, after: str | None) -> tuple[list[Row], str | None]:
        said = await tab.access.get(f"{tab.path}/groups", {"limit": LIMIT, "after": after})
        rows = [
            {
                "id": each["group"],
                "group": each["group"],
                **who_reads(each),
                "partitions": count_text(each["partitions"]),
                "lag": count_text(each["lag"]),
                "link": f"/groups/{part(each['group'])}",
            }
            for each in said["groups"]
        ]
        return rows, said["next"]

    hint = f"headrace consume {tab.topic} --group mine"
    Listing(tab.view, _COLUMNS, fetch, filter_label=None, empty="No group reads this topic", hint=hint, every_s=3.0)
