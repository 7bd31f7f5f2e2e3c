"""What the pipelines should find, worked out another way: loops over lists of happenings, no Spark.

Times are datetimes with milliseconds, as in the messages.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

from headrace.spark.pipelines.happening import Happening

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Gate:
    """Lets through what Spark lets through: nothing at or below the watermark, and each message id once. The watermark is
    `lateness` below the newest message of the chunks before; with several streams, of the stream that is furthest behind."""

    def __init__(self, lateness: timedelta, streams: Sequence[set[str]]) -> None:
        self._lateness = lateness
        self._streams = streams
        self._newest = [LONG_AGO] * len(streams)
        self._seen: set[str] = set()
        self.late = 0
        self.repeated = 0

    @property
    def watermark(self) -> datetime:
        return max(min(self._newest) - self._lateness, LONG_AGO) if min(self._newest) > LONG_AGO else LONG_AGO

    def through(self, chunk: Iterable[Happening]) -> list[Happening]:
        passed = []
        watermark = self.watermark
        for happening in chunk:
            for number, topics in enumerate(self._streams):
                if happening.topic in topics:
                    self._newest[number] = max(self._newest[number], happening.at)
            if happening.at <= watermark:
                self.late += 1
            elif happening.value["id"] in self._seen:
                self.repeated += 1
            else:
                self._seen.add(happening.value["id"])
                passed.append(happening)
        return passed


def sessions(clicks: list[Happening], gap: timedelta, watermark: datetime) -> list[dict[str, Any]]:
    trails: dict[str, list[Happening]] = defaultdict(list)
    for click in clicks:
        trails[click.value["visitor"]].append(click)
    found = []
    for visitor, trail in trails.items():
        trail.sort(key=lambda click: (click.at, click.value["id"]))
        begins = [place for place in range(len(trail)) if place == 0 or trail[place].at - trail[place - 1].at > gap]
        for begin, end in zip(begins, [*begins[1:], len(trail)], strict=True):
            part = trail[begin:end]
            if part[-1].at + gap > watermark:
                continue
            found.append(
                {
                    "visitor": visitor,
                    "began": part[0].at,
                    "ended": part[-1].at,
                    "duration_ms": (part[-1].at - part[0].at) // timedelta(milliseconds=1),
                    "clicks": len(part),
                    "pages": [click.value["page"] for click in part],
                    "products": sorted({click.value["product"] for click in part if click.value["product"]}),
                    "referrer": part[0].value["referrer"],
                    "purchased": any(click.value["page"] == "paid" for click in part),
                }
            )
    return sorted(found, key=lambda session: (session["visitor"], session["began"]))


def funnel(clicks: list[Happening], window: timedelta, within: timedelta, watermark: datetime) -> list[dict[str, Any]]:
    trails: dict[str, list[Happening]] = defaultdict(list)
    for click in clicks:
        trails[click.value["visitor"]].append(click)
    starts = sorted({LONG_AGO + (click.at - LONG_AGO) // window * window for click in clicks})
    found = []
    for start in starts:
        if start + window + within > watermark:
            continue
        reached = [0] * 5
        for trail in trails.values():
            doors = [
                click.at for click in trail if click.value["page"] in ("home", "search") and start <= click.at < start + window
            ]
            if not doors:
                continue
            entered = at = min(doors)
            reached[0] += 1
            for place, page in enumerate(("product", "cart", "checkout", "paid"), start=1):
                times = [click.at for click in trail if click.value["page"] == page and at <= click.at <= entered + within]
                if not times:
                    break
                at = min(times)
                reached[place] += 1
        if reached[0]:
            for place, step in enumerate(("entered", "product", "cart", "checkout", "paid")):
                previous = reached[max(place - 1, 0)]
                found.append(
                    {
                        "began": start,
                        "ended": start + window,
                        "place": place + 1,
                        "step": step,
                        "visitors": reached[place],
                        "of_entered": reached[place] / reached[0],
                        "of_previous": reached[place] / previous if previous else None,
                    }
                )
    return found


def recommendations(orders: list[Happening], top: int, least: int) -> dict[str, list[dict[str, Any]]]:
    alone: dict[str, int] = defaultdict(int)
    together: dict[tuple[str, str], int] = defaultdict(int)
    for order in orders:
        basket = {line["product"] for line in order.value["lines"]}
        for product in basket:
            alone[product] += 1
        for pair in combinations(sorted(basket), 2):
            together[pair] += 1
    lists: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (a, b), times in together.items():
        if times >= least:
            lift = times * len(orders) / (alone[a] * alone[b])
            cosine = times / math.sqrt(alone[a] * alone[b])
            for product, other in ((a, b), (b, a)):
                lists[product].append({"product": other, "together": times, "lift": lift, "cosine": cosine})
    best = {}
    for product, others in lists.items():
        others.sort(key=lambda one: (-one["cosine"], -one["together"], one["product"]))
        best[product] = [{"rank": place, **one} for place, one in enumerate(others[:top], start=1)]
    return best


def alert(kind: str, order: str, placed: Happening, since: datetime, due: datetime) -> dict[str, Any]:
    return {
        "id": f"{kind}:{order}",
        "alert": kind,
        "order": order,
        "customer": placed.value["customer"],
        "total_cents": placed.value["total_cents"],
        "since": text(since),
        "due": text(due),
    }


def payments(
    orders: list[Happening], payments: list[Happening], within: timedelta, watermark: datetime
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Orders with their payment, and alerts for those without."""
    paid, unpaid = [], []
    for order in orders:
        own = [one for one in payments if one.value["order"] == order.value["order"] and one.value["status"] == "captured"]
        own = [one for one in own if order.at <= one.at <= order.at + within]
        about = {name: order.value[name] for name in ("order", "customer", "total_cents")}
        paid += [
            {
                **about,
                "placed_at": text(order.at),
                "paid_at": text(one.at),
                "method": one.value["method"],
                "amount_cents": one.value["amount_cents"],
            }
            for one in own
        ]
        if not own and order.at + within < watermark:
            unpaid.append(alert("not paid", order.value["order"], order, order.at, order.at + within))
    return paid, unpaid


STEP_OF = {"shop.orders": "placed", "shop.payments": "paid", "shop.shipments": "shipped", "shop.deliveries": "delivered"}


class Lives:
    """The statuses that are said of each order, chunk by chunk, and in the end its alerts."""

    def __init__(self) -> None:
        self.said: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._times: dict[str, dict[str, datetime]] = defaultdict(dict)
        self._placed: dict[str, Happening] = {}

    def add(self, chunk: list[Happening]) -> None:
        news = set()
        for happening in chunk:
            order = happening.value["order"]
            if happening.value.get("status") == "declined":
                continue
            times, step = self._times[order], STEP_OF[happening.topic]
            if step not in times or happening.at < times[step]:
                times[step] = happening.at
                news.add(order)
            if step == "placed":
                self._placed[order] = happening
        for order in news & self._placed.keys():
            times = self._times[order]
            about = {
                "order": order,
                "status": [step for step in STEP_OF.values() if step in times][-1],
                "customer": self._placed[order].value["customer"],
                "total_cents": self._placed[order].value["total_cents"],
                **{f"{step}_at": text(times[step]) for step in STEP_OF.values() if step in times},
            }
            self.said[order].append(about)

    def alerts(self, ship: timedelta, deliver: timedelta, watermark: datetime) -> list[dict[str, Any]]:
        found = []
        for order, placed in self._placed.items():
            times = self._times[order]
            for kind, before, after, limit in (
                ("not shipped", "paid", "shipped", ship),
                ("not delivered", "shipped", "delivered", deliver),
            ):
                if before in times:
                    due = times[before] + limit
                    if due <= watermark and not (after in times and times[after] <= due):
                        found.append(alert(kind, order, placed, times[before], due))
        return found


def trending(clicks: list[Happening], window: timedelta, every: timedelta, names: dict[str, Any]) -> list[dict[str, Any]]:
    looks: dict[tuple[datetime, str], list[str]] = defaultdict(list)
    for click in clicks:
        if click.value["page"] == "product":
            start = LONG_AGO + (click.at - LONG_AGO) // every * every
            while start + window > click.at:
                looks[start, click.value["product"]].append(click.value["visitor"])
                start -= every
    return [
        {
            "product": product,
            "began": start,
            "ended": start + window,
            "looks": len(visitors),
            "visitors": len(set(visitors)),
            "name": names[product]["name"] if product in names else None,
            "category": names[product]["category"] if product in names else None,
        }
        for (start, product), visitors in sorted(looks.items())
    ]
