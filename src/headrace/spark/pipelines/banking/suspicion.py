"""The rules of fraud detection, in plain Python: what one customer's card payments look like, and what is suspicious in them.

`judge` takes the payments of a customer one by one in the order of their arrival, so that what it finds depends on the log
alone and not on where micro-batches begin. It looks at a payment among those that happened around it, before and after, because
some arrive late:

    velocity   a span of `velocity_minutes` holds `velocity_payments` of them; one alert for each burst
    travel     the next place, before or after, is further away than a plane flies in the time between
    amount     more than `amount_times` the median of the customer's last payments, once there are enough of them

A history is bounded: payments of the last `remembered_hours`, at most `remembered_payments` of them. What happened before that
comes too late to be judged. Since a duplicate has the time of the first, it is either among the remembered or too late: the
history is all the memory that deduplication needs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

EARTH_KM = 6371.0
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class Payment(NamedTuple):
    """A payment by card. One on the web has no place."""

    at_ms: int
    id: str
    account: str
    cents: int
    merchant: str | None
    city: str | None
    lat: float | None
    lon: float | None


class Suspicion(NamedTuple):
    rule: str
    payment: Payment
    other: str | None  # the id of the payment it does not go together with
    why: str


@dataclass(frozen=True, slots=True)
class Limits:
    velocity_payments: int = 5
    velocity_minutes: int = 10
    plane_kmh: float = 1000.0
    near_km: float = 100.0  # shops of one place; coordinates are not that exact
    amount_times: int = 20
    amount_after: int = 10  # payments that must be known first
    amount_of_last: int = 50
    remembered_hours: int = 24
    remembered_payments: int = 200


@dataclass(slots=True)
class History:
    """What is known of a customer. `payments` are in the order of time, `cents` in that of arrival."""

    payments: list[Payment] = field(default_factory=list)
    cents: list[int] = field(default_factory=list)
    forgotten_ms: int = -1  # what happened at or before this time may have been forgotten
    burst_ms: int | None = None  # when the last alerted burst was
    late: int = 0  # payments that came too late to be judged


def judge(history: History, payment: Payment, limits: Limits) -> Iterator[Suspicion]:
    """What is suspicious about the payment; then it is part of the history."""
    if payment.at_ms <= history.forgotten_ms:
        history.late += 1
        return
    place = bisect_left(history.payments, _when(payment), key=_when)
    if place < len(history.payments) and _when(history.payments[place]) == _when(payment):
        return  # a duplicate
    yield from _amount(history, payment, limits)
    history.payments.insert(place, payment)
    yield from _velocity(history, place, limits)
    yield from _travel(history.payments, place, limits)
    _remember(history, payment, limits)


def distance_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """Along the surface of the earth (haversine)."""
    north, other_north = math.radians(lat), math.radians(other_lat)
    half_lat, half_lon = (other_north - north) / 2, math.radians(other_lon - lon) / 2
    chord = math.sin(half_lat) ** 2 + math.cos(north) * math.cos(other_north) * math.sin(half_lon) ** 2
    return 2 * EARTH_KM * math.asin(math.sqrt(min(1.0, chord)))


def _when(payment: Payment) -> tuple[int, str]:
    return payment.at_ms, payment.id


def _velocity(history: History, place: int, limits: Limits) -> Iterator[Suspicion]:
    payments = history.payments
    here = payments[place]
    span_ms = limits.velocity_minutes * MINUTE_MS
    if history.burst_ms is not None and abs(here.at_ms - history.burst_ms) <= span_ms:
        return
    most = 0
    first = place
    while first > 0 and payments[first - 1].at_ms > here.at_ms - span_ms:
        first -= 1
    last = place
    for start in range(first, place + 1):
        while last + 1 < len(payments) and payments[last + 1].at_ms < payments[start].at_ms + span_ms:
            last += 1
        most = max(most, last - start + 1)
    if most >= limits.velocity_payments:
        history.burst_ms = here.at_ms
        yield Suspicion("velocity", here, None, f"{most} card payments within {limits.velocity_minutes} minutes")


def _travel(payments: list[Payment], place: int, limits: Limits) -> Iterator[Suspicion]:
    here = payments[place]
    if here.lat is None or here.lon is None:
        return
    before = next((one for one in reversed(payments[:place]) if one.lat is not None), None)
    after = next((one for one in payments[place + 1 :] if one.lat is not None), None)
    for other in (before, after):
        if other is None or other.lat is None or other.lon is None:
            continue
        km = distance_km(here.lat, here.lon, other.lat, other.lon)
        minutes = abs(here.at_ms - other.at_ms) / MINUTE_MS
        if km >= limits.near_km and km > limits.plane_kmh * minutes / 60:
            yield Suspicion(
                "travel", here, other.id, f"{here.city} is {km:.0f} km from {other.city}, {minutes:.0f} minutes away in time"
            )
            return


def _amount(history: History, payment: Payment, limits: Limits) -> Iterator[Suspicion]:
    known = sorted(history.cents)
    if len(known) < limits.amount_after:
        return
    twice_median = known[(len(known) - 1) // 2] + known[len(known) // 2]
    if 2 * payment.cents > limits.amount_times * twice_median:
        why = f"{payment.cents / 100:.2f} where {twice_median / 200:.2f} is usual"
        yield Suspicion("amount", payment, None, why)


def _remember(history: History, payment: Payment, limits: Limits) -> None:
    history.cents = [*history.cents, payment.cents][-limits.amount_of_last :]
    newest_ms = history.payments[-1].at_ms
    history.forgotten_ms = max(history.forgotten_ms, newest_ms - limits.remembered_hours * HOUR_MS)
    if len(history.payments) > limits.remembered_payments:
        history.forgotten_ms = max(history.forgotten_ms, history.payments[-limits.remembered_payments - 1].at_ms)
    forgotten = bisect_left(history.payments, history.forgotten_ms + 1, key=lambda one: one.at_ms)
    del history.payments[:forgotten]
