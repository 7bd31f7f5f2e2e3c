"""Fraud detection once more, in another shape: no history that is kept and cut, but for every payment a look at all that
arrived before it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.spark.pipelines.banking.suspicion import Limits

USUAL = Limits()


@dataclass(frozen=True)
class Seen:
    id: str
    at: datetime
    amount: Decimal
    place: tuple[float, float] | None
    city: str | None


def expected_alerts(values: Iterable[dict[str, Any]], limits: Limits = USUAL) -> list[tuple[str, str, str, str | None]]:
    """(customer, rule, payment, other) in the order of arrival."""
    found = []
    arrived: dict[str, list[Seen]] = {}
    bursts: dict[str, datetime] = {}
    for value in values:
        if value["kind"] != "card":
            continue
        customer = value["customer"]
        before = arrived.setdefault(customer, [])
        place = None if value["lat"] is None else (value["lat"], value["lon"])
        here = Seen(value["id"], datetime.fromisoformat(value["at"]), -Decimal(value["amount"]), place, value["city"])
        newest = max((one.at for one in before), default=here.at)
        if here.at <= newest - timedelta(hours=limits.remembered_hours) or here.id in {one.id for one in before}:
            continue
        around = [one for one in before if one.at > newest - timedelta(hours=limits.remembered_hours)]
        if _unusual(here, before, limits):
            found.append((customer, "amount", here.id, None))
        if _burst(here, around, limits) and abs(here.at - bursts.get(customer, datetime.min.replace(tzinfo=here.at.tzinfo))) > (
            timedelta(minutes=limits.velocity_minutes)
        ):
            bursts[customer] = here.at
            found.append((customer, "velocity", here.id, None))
        if (other := _impossible(here, around, limits)) is not None:
            found.append((customer, "travel", here.id, other.id))
        before.append(here)
    return found


def _unusual(here: Seen, before: list[Seen], limits: Limits) -> bool:
    last = [one.amount for one in before[-limits.amount_of_last :]]
    return len(last) >= limits.amount_after and here.amount > limits.amount_times * statistics.median(last)


def _burst(here: Seen, around: list[Seen], limits: Limits) -> bool:
    span = timedelta(minutes=limits.velocity_minutes)
    everything = [*around, here]
    for first in everything:
        window = [one for one in everything if first.at <= one.at < first.at + span]
        if here in window and len(window) >= limits.velocity_payments:
            return True
    return False


def _impossible(here: Seen, around: list[Seen], limits: Limits) -> Seen | None:
    if here.place is None:
        return None
    placed = [one for one in around if one.place is not None]
    earlier = max(
        (one for one in placed if (one.at, one.id) < (here.at, here.id)), key=lambda one: (one.at, one.id), default=None
    )
    later = min(
        (one for one in placed if (one.at, one.id) > (here.at, here.id)), key=lambda one: (one.at, one.id), default=None
    )
    for other in (earlier, later):
        if other is not None:
            km = _great_circle_km(here.place, other.place)
            hours = abs(here.at - other.at) / timedelta(hours=1)
            if km >= limits.near_km and km > limits.plane_kmh * hours:
                return other
    return None


def _great_circle_km(one: tuple[float, float], other: tuple[float, float]) -> float:
    """By the angle between the two directions from the middle of the earth."""
    vectors = []
    for lat, lon in (one, other):
        north, east = math.radians(lat), math.radians(lon)
        vectors.append((math.cos(north) * math.cos(east), math.cos(north) * math.sin(east), math.sin(north)))
    return 6371.0 * math.acos(max(-1.0, min(1.0, _dot(*vectors))))


def _dot(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
