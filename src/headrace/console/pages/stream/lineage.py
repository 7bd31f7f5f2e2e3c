"""Shards drawn over the hash keys: a bar for each, from its first key to its last, children above their parents.

The row of a shard is its generation: one that has no parent among those shown is 0, others are one above the highest of their
parents. Open shards are strong, closed ones pale. At most `MOST` shards are drawn, the open ones first, then the youngest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.console.parts.charts import axis, drawn, themed, tooltip

HASH_KEYS = 2**128
MOST = 500
_ROW_PX = 34
_OPEN, _CLOSED = "var(--hr-fill)", "var(--hr-plain)"
_ON_OPEN, _ON_CLOSED, _BETWEEN = "var(--hr-on-fill)", "var(--hr-plain-ink)", "var(--hr-card)"

Shard = Mapping[str, Any]


def is_open(shard: Shard) -> bool:
    return "EndingSequenceNumber" not in shard["SequenceNumberRange"]


def parents(shard: Shard) -> list[str]:
    return [shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if shard.get(name)]


def generations(shards: Sequence[Shard]) -> dict[str, int]:
    """Of each by its id. Parents come before their children, as Kinesis lists them."""
    found: dict[str, int] = {}
    for shard in shards:
        found[shard["ShardId"]] = max((found[one] + 1 for one in parents(shard) if one in found), default=0)
    return found


def span(shard: Shard) -> tuple[float, float]:
    """Where it begins and ends among the hash keys, in percent."""
    keys = shard["HashKeyRange"]
    return 100 * int(keys["StartingHashKey"]) / HASH_KEYS, 100 * (int(keys["EndingHashKey"]) + 1) / HASH_KEYS


def short(shard_id: str) -> str:
    """`shardId-000000000007` as 7."""
    return shard_id.removeprefix("shardId-").lstrip("0") or "0"


class Drawing:
    """Stacked bars, since a series of one's own would need JavaScript: each row is filled with shards and gaps."""

    def __init__(self) -> None:
        self._shown: list[tuple[str, bool]] = []
        self._chart = drawn({"series": []}, "Shards over the hash keys. The same is in the table below.", height="120px")

    def show(self, shards: Sequence[Shard]) -> None:
        drawn = chosen(shards)
        now = [(shard["ShardId"], is_open(shard)) for shard in drawn]
        if now == self._shown:
            return
        self._shown = now
        rows = layout(drawn)
        height = 70 + _ROW_PX * max(1, len(rows))
        self._chart.style(f"height: {min(height, 600)}px")
        self._chart.options.clear()
        self._chart.options.update({**themed(), **_options(rows)})
        self._chart.update()


def chosen(shards: Sequence[Shard]) -> list[Shard]:
    if len(shards) <= MOST:
        return list(shards)
    wanted = sorted(range(len(shards)), key=lambda at: (not is_open(shards[at]), -at))[:MOST]
    return [shards[at] for at in sorted(wanted)]


def layout(shards: Sequence[Shard]) -> list[list[tuple[Shard | None, float]]]:
    """For each generation, the oldest first: shards and gaps (None) from left to right, each with its width in percent."""
    levels = generations(shards)
    rows: list[list[tuple[Shard | None, float]]] = []
    for level in range(max(levels.values(), default=-1) + 1):
        row: list[tuple[Shard | None, float]] = []
        at = 0.0
        for shard in sorted((one for one in shards if levels[one["ShardId"]] == level), key=span):
            first, last = span(shard)
            if first > at:
                row.append((None, first - at))
            row.append((shard, last - max(first, at)))
            at = last
        rows.append(row)
    return rows


def _options(rows: list[list[tuple[Shard | None, float]]]) -> dict[str, Any]:
    series = []
    for place in range(max((len(row) for row in rows), default=0)):
        data = [_bar(*row[place]) if place < len(row) else {"value": 0} for row in rows]
        series.append({"type": "bar", "stack": "keys", "data": data, "barWidth": "70%", "emphasis": {"disabled": True}})
    return {
        "animation": False,
        "grid": {"left": 80, "right": 16, "top": 8, "bottom": 48},
        "xAxis": axis("value", min=0, max=100, name="hash keys, %", nameLocation="middle", nameGap=28),
        "yAxis": axis("category", data=[f"generation {level}" for level in range(len(rows))]),
        "tooltip": {**tooltip("item"), "formatter": "{b}", "renderMode": "richText"},
        "series": series,
    }


def _bar(shard: Shard | None, width: float) -> dict[str, Any]:
    if shard is None:
        return {"value": width, "name": "", "itemStyle": {"color": "transparent"}, "tooltip": {"show": False}}
    opened, number = is_open(shard), short(shard["ShardId"])
    from_ = ", ".join(short(one) for one in parents(shard))
    name = f"shard {number}, {'open' if opened else 'closed'}, {width:.1f} % of the keys" + (f", of {from_}" if from_ else "")
    return {
        "value": width,
        "name": name,
        "itemStyle": {"color": _OPEN if opened else _CLOSED, "borderColor": _BETWEEN, "borderWidth": 1},
        "label": {"show": width > 2, "formatter": number, "color": _ON_OPEN if opened else _ON_CLOSED},
    }
