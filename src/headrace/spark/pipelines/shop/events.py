"""What happens in the shop: visits, orders, payments, parcels. Endless, and the same for the same seed.

    topic             key       value, besides `id` (message id) and `at` (when it happened)
    shop.products     product   product, name, category, price_cents; compacted
    shop.clicks       visitor   visitor, page (home, search, product, cart, checkout, paid), product, referrer
    shop.orders       order     order, customer, lines of product, quantity, price_cents; total_cents
    shop.payments     order     order, status (captured, declined), method, amount_cents
    shop.shipments    order     order, parcel, carrier
    shop.deliveries   order     order, parcel

Visitors come more often by day than by night. They look around with pauses, some of them longer than a session; most carts are
left behind. An order that was placed is paid at once, later, or never; parcels leave and arrive in time, late, or never. The
network does the rest: messages come seconds after what they tell, some of them minutes or hours, and some come twice. A visit
is planned as a whole when it begins; its messages wait in a heap, ordered by their arrival, until no visit can begin before
them. The heap holds what is planned ahead: the parcels of about ten days, some thousands of messages.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from math import pi, sin
from random import Random
from typing import Any

from headrace.spark.pipelines.happening import Happening
from headrace.spark.pipelines.shop.catalogue import BY_NUMBER, CATALOGUE

PRODUCTS, CLICKS, ORDERS = "shop.products", "shop.clicks", "shop.orders"
PAYMENTS, SHIPMENTS, DELIVERIES = "shop.payments", "shop.shipments", "shop.deliveries"
TABLES = (PRODUCTS,)  # of each product the last event holds
TOPICS = (PRODUCTS, CLICKS, ORDERS, PAYMENTS, SHIPMENTS, DELIVERIES)

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
VISITS_PER_HOUR = 120.0
REMEMBERED_VISITORS = 500  # those who may come back

_REFERRERS = ("direct", "search engine", "newsletter", "friend", "partner")
_POPULARITY = [1.0 / (1 + place) for place in range(len(CATALOGUE))]


def happenings(seed: int = 1, start: datetime = START, visits_per_hour: float = VISITS_PER_HOUR) -> Iterator[Happening]:
    """Everything that reaches the shop's topics, in the order of its arrival."""
    chance = Random(seed)
    shop = _Shop(chance, f"{seed:x}")
    waiting: list[tuple[datetime, int, Happening]] = []
    arrivals = count()
    clock = start
    yield from shop.catalogue(start)
    while True:
        clock += timedelta(hours=chance.expovariate(visits_per_hour * _daylight(clock)))
        while waiting and waiting[0][0] <= clock:
            yield heapq.heappop(waiting)[2]
        for happening in shop.visit(clock):
            for arrival in _arrivals(chance, happening.at):
                heapq.heappush(waiting, (arrival, next(arrivals), happening))


def _daylight(clock: datetime) -> float:
    """How busy the hour is: from 0.3 at four in the night to 1.7 at four in the afternoon."""
    return 1 + 0.7 * sin((clock.hour + clock.minute / 60 - 10) * pi / 12)


def _arrivals(chance: Random, at: datetime) -> Iterator[datetime]:
    """When a message reaches its topic: mostly within seconds, sometimes far too late, and now and then once more."""
    luck = chance.random()
    if luck < 0.93:
        first = at + timedelta(seconds=chance.uniform(0, 3))
    elif luck < 0.99:
        first = at + timedelta(seconds=chance.uniform(3, 240))
    elif luck < 0.996:
        first = at + timedelta(minutes=chance.uniform(4, 20))
    else:
        first = at + timedelta(hours=chance.uniform(1, 3))
    yield first
    luck = chance.random()
    if luck < 0.03:
        yield first + timedelta(seconds=chance.uniform(0, 90))
    elif luck < 0.034:
        yield first + timedelta(hours=chance.uniform(0.5, 4))


@dataclass(slots=True)
class _Shop:
    """Numbers what happens and plans visits, with everything that follows from them."""

    chance: Random
    mark: str  # of the seed, so that what another seed makes has other numbers
    visitors: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED_VISITORS))
    _numbers: dict[str, int] = field(default_factory=dict)

    def catalogue(self, start: datetime) -> Iterator[Happening]:
        for one in CATALOGUE:
            about = {"product": one.product, "name": one.name, "category": one.category, "price_cents": one.price_cents}
            yield self._happening(PRODUCTS, one.product, start, about)

    def visit(self, begin: datetime) -> Iterator[Happening]:
        """One visitor's way through the shop, which may begin again after a long pause."""
        visitor = self._visitor()
        referrer: str | None = self.chance.choice(_REFERRERS)
        at, basket, looked_at = begin, dict[str, int](), None
        page = self.chance.choices(("home", "search", "product"), (0.55, 0.25, 0.2))[0]
        while page != "gone":
            if page == "product":
                looked_at = self._interesting(looked_at)
            if page == "cart" and looked_at is not None:
                self._take(basket, looked_at)
            shown = looked_at if page in ("product", "cart") else None
            yield self._click(at, visitor, page, shown, referrer)
            referrer = None
            if page == "checkout":
                at, page = yield from self._order(at, visitor, basket)
                basket, looked_at = {}, None
                continue
            page = self._next_page(page)
            at += self._pause()

    def _order(self, at: datetime, visitor: str, basket: dict[str, int]) -> Generator[Happening, None, tuple[datetime, str]]:
        """Places the order, with all that follows from it, and returns when and where the visitor goes on."""
        order = f"O-{self.mark}-{self._next('order'):05d}"
        placed = at + self._seconds(5, 90)
        lines = [
            {"product": product, "quantity": quantity, "price_cents": BY_NUMBER[product].price_cents}
            for product, quantity in basket.items()
        ]
        total = sum(BY_NUMBER[product].price_cents * quantity for product, quantity in basket.items())
        about = {"order": order, "customer": visitor, "lines": lines, "total_cents": total}
        yield self._happening(ORDERS, order, placed, about)
        by_card = self.chance.random() < 0.8
        luck = self.chance.random()
        if luck < (0.07 if by_card else 0.15):
            return placed + self._seconds(5, 60), "gone"  # never paid
        method = "card" if by_card else "transfer"
        if by_card and luck > 0.92:
            declined = placed + self._seconds(10, 60)
            yield self._paid(declined, order, "declined", method, total)
            paid = declined + self._seconds(30, 600)
        else:
            paid = placed + (self._seconds(10, 120) if by_card else self._hours(0.2, 40))
        yield self._paid(paid, order, "captured", method, total)
        yield from self._parcel(paid, order)
        if not by_card:
            return placed + self._seconds(20, 200), self.chance.choice(("home", "gone"))
        yield self._click(paid + self._seconds(1, 3), visitor, "paid", None, None)
        return paid + self._seconds(20, 200), self.chance.choices(("home", "gone"), (0.2, 0.8))[0]

    def _parcel(self, paid: datetime, order: str) -> Iterator[Happening]:
        luck = self.chance.random()
        if luck < 0.03:
            return  # nobody packs it
        shipped = paid + (self._hours(50, 90) if luck < 0.1 else self._hours(2, 30))
        parcel = f"Z-{self.mark}-{self._next('parcel'):05d}"
        carrier = self.chance.choice(("Northpost", "Quickline"))
        yield self._happening(SHIPMENTS, order, shipped, {"order": order, "parcel": parcel, "carrier": carrier})
        luck = self.chance.random()
        if luck < 0.03:
            return  # lost on the way
        delivered = shipped + (self._hours(125, 200) if luck < 0.09 else self._hours(16, 75))
        yield self._happening(DELIVERIES, order, delivered, {"order": order, "parcel": parcel})

    def _next_page(self, page: str) -> str:
        ways: dict[str, dict[str, float]] = {
            "home": {"search": 0.35, "product": 0.4, "gone": 0.25},
            "search": {"search": 0.2, "product": 0.6, "gone": 0.2},
            "product": {"product": 0.35, "search": 0.12, "home": 0.05, "cart": 0.22, "gone": 0.26},
            "cart": {"product": 0.6, "checkout": 0.25, "gone": 0.15},
        }
        return self.chance.choices(list(ways[page]), list(ways[page].values()))[0]

    def _interesting(self, before: str | None) -> str:
        if before is not None and BY_NUMBER[before].goes_with and self.chance.random() < 0.6:
            return self.chance.choice(BY_NUMBER[before].goes_with)
        return self.chance.choices(CATALOGUE, _POPULARITY)[0].product

    def _take(self, basket: dict[str, int], product: str) -> None:
        """Into the basket, and sometimes what the shop offers beside it."""
        basket[product] = basket.get(product, 0) + self.chance.choices((1, 2, 3), (0.8, 0.15, 0.05))[0]
        for offered in BY_NUMBER[product].goes_with:
            if self.chance.random() < 0.25:
                basket[offered] = basket.get(offered, 0) + 1

    def _visitor(self) -> str:
        if self.visitors and self.chance.random() < 0.4:
            return self.chance.choice(self.visitors)
        visitor = f"V-{self._next('visitor'):05d}"
        self.visitors.append(visitor)
        return visitor

    def _pause(self) -> timedelta:
        """Between two clicks: half a minute or so, sometimes a telephone call, sometimes lunch."""
        luck = self.chance.random()
        if luck < 0.93:
            return timedelta(milliseconds=round(min(self.chance.lognormvariate(3.2, 0.8), 280.0) * 1000))
        return self._seconds(300, 1500) if luck < 0.98 else self._seconds(1860, 7200)

    def _seconds(self, least: float, most: float) -> timedelta:
        return timedelta(milliseconds=round(self.chance.uniform(least, most) * 1000))

    def _hours(self, least: float, most: float) -> timedelta:
        return self._seconds(least * 3600, most * 3600)

    def _click(self, at: datetime, visitor: str, page: str, product: str | None, referrer: str | None) -> Happening:
        return self._happening(
            CLICKS, visitor, at, {"visitor": visitor, "page": page, "product": product, "referrer": referrer}
        )

    def _paid(self, at: datetime, order: str, status: str, method: str, amount_cents: int) -> Happening:
        about = {"order": order, "status": status, "method": method, "amount_cents": amount_cents}
        return self._happening(PAYMENTS, order, at, about)

    def _happening(self, topic: str, key: str, at: datetime, about: dict[str, Any]) -> Happening:
        message_id = f"{topic.removeprefix('shop.')}-{self.mark}-{self._next(topic)}"
        at = at.replace(microsecond=at.microsecond // 1000 * 1000)
        moment = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Happening(topic, key, {"id": message_id, "at": moment, **about}, at)

    def _next(self, what: str) -> int:
        self._numbers[what] = self._numbers.get(what, 0) + 1
        return self._numbers[what]
