"""What happens at the bank: an endless, seeded stream of customers and their transactions.

Every simulated day each customer lives a day: shops and meals by card with the rhythm of a day and of a week, cash, transfers
to friends (two legs, one id each), a salary and a rent once a month, a fee. Some travel, some move house. Into this are woven
the things a pipeline must cope with:

    duplicates     1 in 100 transactions is delivered again, seconds to hours later, with the same id
    late events    1 in 50 reaches the topic 12 minutes to 10 hours after it happened (`booked` says when)
    fraud          a burst of card payments, a payment from a city no plane could have reached, an amount far from the usual
    cash           deposits at or above the reporting threshold, and series of deposits just below it

`labelled` yields the same happenings with the truth about each, which is not in the event, for tests to compare with.

The order is that of arrival. Events wait in a heap between happening and arriving, so memory holds little more than a day.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple

from headrace.spark.pipelines.banking.world import (
    ABROAD,
    EMPLOYERS,
    EMPTIED_AT,
    FIRST_NAMES,
    HOMES,
    LANDLORDS,
    LAST_NAMES,
    SHOPS,
    TRIED_AT,
    City,
    Shop,
)
from headrace.spark.pipelines.happening import Happening

CUSTOMERS, TRANSACTIONS = "bank.customers", "bank.transactions"
TABLES = (CUSTOMERS,)  # of each customer the last event holds
START = datetime(2026, 1, 1, tzinfo=UTC)
CASH_THRESHOLD = Decimal(10_000)

DUPLICATED, LATE = 0.01, 0.02
BURST, TRAVEL, AMOUNT, CASH = 0.004, 0.004, 0.004, 0.002  # for each customer and day
TRIP, MOVE = 0.01, 0.002
# How often people pay by card in each hour of the day: a little in the morning, at noon, most in the evening.
HOURS = (1, 1, 0, 0, 0, 1, 3, 8, 9, 6, 6, 9, 14, 12, 8, 7, 9, 13, 16, 15, 10, 7, 4, 2)


class Labelled(NamedTuple):
    """A happening and the truth about it: None, or one of velocity, travel, amount, large-cash, structuring."""

    happening: Happening
    truth: str | None


class _Arrival(NamedTuple):
    when: datetime
    number: int  # of the happening, so that the heap never has to compare happenings
    labelled: Labelled


@dataclass(slots=True)
class _Customer:
    id: str
    name: str
    home: City
    opened: datetime
    wealth: float
    payday: int
    version: int = 1
    away: City | None = None
    travels_until: datetime | None = None
    accounts: list[str] = field(default_factory=list)


def happenings(seed: int = 1, start: datetime = START, customers: int = 500) -> Iterator[Happening]:
    """Customers and transactions in the order in which they reach their topics."""
    return (one.happening for one in labelled(seed, start, customers))


def labelled(seed: int = 1, start: datetime = START, customers: int = 500) -> Iterator[Labelled]:
    """The same, with the truth about each transaction."""
    return _Bank(seed, start, customers).arrivals()


class _Bank:
    def __init__(self, seed: int, start: datetime, customers: int) -> None:
        self._chance = random.Random(seed)
        self._start = start
        self._prefix = f"{int(start.timestamp()):x}-{seed}"
        self._numbers = count(1)
        self._waiting: list[_Arrival] = []
        self._customers = [self._open(number) for number in range(1, customers + 1)]

    def arrivals(self) -> Iterator[Labelled]:
        for customer in self._customers:
            self._announce(customer, self._start)
            for account in customer.accounts:
                self._book(customer, account, "deposit", self._cents(600, 4_000), self._start, category="opening")
        midnight = self._start.replace(hour=0, minute=0, second=0, microsecond=0)
        for number in count():
            begin = midnight + timedelta(days=number)
            for customer in self._customers:
                self._live(customer, begin)
            while self._waiting and self._waiting[0].when < begin + timedelta(days=1):
                yield heapq.heappop(self._waiting).labelled

    # A day in the life of a customer

    def _live(self, customer: _Customer, day: datetime) -> None:
        chance = self._chance
        account = customer.accounts[0]
        if chance.random() < MOVE:
            customer.home = chance.choice([city for city in HOMES if city != customer.home])
            customer.version += 1
            self._announce(customer, self._at(day, 9, 17))
        if day.day == customer.payday:
            salary = self._cents(1_800 * customer.wealth, 2_600 * customer.wealth)
            self._book(customer, account, "transfer", salary, self._at(day, 5, 6), chance.choice(EMPLOYERS), "salary")
        if day.day == 1:
            self._book(customer, account, "fee", Decimal("-4.90"), self._at(day, 1, 2), category="fee")
        if day.day == 3:
            self._pay_rent(customer, day)
        if chance.random() < 0.08:
            self._transfer(customer, chance.choice(self._customers), self._cents(5, 150), self._at(day, 8, 22), "friends")
        if chance.random() < 0.06:
            self._book(
                customer, account, "withdrawal", -Decimal(chance.randrange(20, 201, 10)), self._at(day, 8, 22), category="cash"
            )
        if chance.random() < 0.02:
            self._book(
                customer, account, "deposit", Decimal(chance.randrange(50, 1_001, 10)), self._at(day, 9, 17), category="cash"
            )
        if not self._travelling(customer, day):
            weekend = day.weekday() >= 5
            for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 4) if not weekend else (1, 2, 3, 3, 4, 5))):
                self._shop(customer, self._rhythm(day))
            self._defraud(customer, day)
        if chance.random() < CASH:
            self._launder(customer, day)

    def _travelling(self, customer: _Customer, day: datetime) -> bool:
        """On the day they leave and on the day they come back people pay nothing, so that honest travel is never too quick."""
        if customer.travels_until is None:
            if self._chance.random() >= TRIP:
                return False
            customer.away = self._chance.choice((*ABROAD, *HOMES))
            customer.travels_until = day + timedelta(days=self._chance.randrange(2, 7))
            return True
        if day < customer.travels_until:
            return False
        customer.away = customer.travels_until = None
        return True

    def _shop(self, customer: _Customer, at: datetime) -> None:
        shop = self._chance.choices(SHOPS, [shop.share for shop in SHOPS])[0]
        usual = shop.usual * customer.wealth**0.5
        amount = max(Decimal("0.50"), self._exact(self._chance.lognormvariate(0, 0.35) * usual))
        self._pay(customer, shop, amount, at, customer.away or customer.home)

    def _pay_rent(self, customer: _Customer, day: datetime) -> None:
        rent = self._cents(500 * customer.wealth, 900 * customer.wealth)
        landlord = self._chance.choice((*LANDLORDS, None))
        if landlord is None:
            self._transfer(customer, self._chance.choice(self._customers), rent, self._at(day, 6, 7), "rent")
        else:
            self._book(customer, customer.accounts[0], "transfer", -rent, self._at(day, 6, 7), landlord, "rent")

    # Fraud and cash

    def _defraud(self, customer: _Customer, day: datetime) -> None:
        chance = self._chance
        here = customer.away or customer.home
        if chance.random() < BURST:
            at = self._at(day, 1, 22)
            for _ in range(chance.randrange(7, 12)):
                at += timedelta(seconds=chance.randrange(10, 50))
                self._pay(customer, chance.choice(TRIED_AT), self._cents(5, 40), at, here, "velocity")
        if chance.random() < TRAVEL:
            at = self._at(day, 10, 18)
            far = chance.choice([city for city in ABROAD if city != here])
            self._pay(customer, SHOPS[1], self._cents(8, 40), at, here)
            self._pay(customer, SHOPS[2], self._cents(20, 70), at + timedelta(minutes=chance.randrange(20, 90)), far, "travel")
        if chance.random() < AMOUNT:
            amount = self._cents(2_000 * customer.wealth, 6_000 * customer.wealth)
            self._pay(customer, chance.choice(EMPTIED_AT), amount, self._at(day, 10, 20), here, "amount")

    def _launder(self, customer: _Customer, day: datetime) -> None:
        chance = self._chance
        account = customer.accounts[-1]
        if chance.random() < 0.5:
            amount = CASH_THRESHOLD + chance.randrange(0, 15_000, 500)
            self._book(customer, account, "deposit", amount, self._at(day, 9, 17), category="cash", truth="large-cash")
            return
        for number in range(chance.randrange(3, 5)):
            amount = CASH_THRESHOLD - chance.randrange(50, 900, 10)
            at = self._at(day + timedelta(days=number), 9, 17)
            self._book(customer, account, "deposit", amount, at, category="cash", truth="structuring")

    # Booking: from a happening to its arrival

    def _pay(
        self, customer: _Customer, shop: Shop, amount: Decimal, at: datetime, city: City, truth: str | None = None
    ) -> None:
        place = None if shop.online else city
        self._book(customer, customer.accounts[0], "card", -amount, at, shop.name, shop.category, place, truth=truth)

    def _transfer(self, payer: _Customer, payee: _Customer, amount: Decimal, at: datetime, category: str) -> None:
        origin, target = payer.accounts[0], payee.accounts[-1]
        if origin != target:
            self._book(payer, origin, "transfer", -amount, at, payee.name, category, counterparty=target)
            self._book(payee, target, "transfer", amount, at, payer.name, category, counterparty=origin)

    def _book(
        self,
        customer: _Customer,
        account: str,
        kind: str,
        amount: Decimal,
        at: datetime,
        merchant: str | None = None,
        category: str = "",
        city: City | None = None,
        counterparty: str | None = None,
        truth: str | None = None,
    ) -> None:
        """The amount is what it does to the account: below zero where money leaves it."""
        chance = self._chance
        late = chance.random() < LATE
        delay = timedelta(minutes=chance.randrange(12, 600)) if late else timedelta(milliseconds=chance.randrange(100, 3_000))
        value: dict[str, Any] = {
            "id": f"{self._prefix}-{next(self._numbers):06d}",
            "account": account,
            "customer": customer.id,
            "kind": kind,
            "amount": f"{amount:.2f}",
            "currency": "EUR",
            "merchant": merchant,
            "category": category,
            "city": city and city.name,
            "lat": city and city.lat,
            "lon": city and city.lon,
            "counterparty": counterparty,
            "at": _text(at),
            "booked": _text(at + delay),
        }
        happening = Labelled(Happening(TRANSACTIONS, customer.id, value, at), truth)
        if at >= self._start:  # the first day may begin in the middle
            self._deliver(happening, at + delay)
            if chance.random() < DUPLICATED:
                self._deliver(happening, at + delay + timedelta(seconds=chance.choice((1, 5, 30, 300, 3_600, 20_000))))

    def _announce(self, customer: _Customer, at: datetime) -> None:
        home = customer.home
        value = {
            "id": customer.id,
            "version": customer.version,
            "name": customer.name,
            "city": home.name,
            "lat": home.lat,
            "lon": home.lon,
            "opened": customer.opened.date().isoformat(),
            "at": _text(at),
        }
        self._deliver(Labelled(Happening(CUSTOMERS, customer.id, value, at), None), at)

    def _deliver(self, happening: Labelled, when: datetime) -> None:
        heapq.heappush(self._waiting, _Arrival(when, next(self._numbers), happening))

    # Chance

    def _open(self, number: int) -> _Customer:
        chance = self._chance
        name = f"{chance.choice(FIRST_NAMES)} {chance.choice(LAST_NAMES)}"
        opened = self._start - timedelta(days=chance.randrange(1, 4_000))
        wealth = min(4.0, max(0.5, chance.lognormvariate(0, 0.4)))
        customer = _Customer(f"C{number:05d}", name, chance.choice(HOMES), opened, wealth, chance.choice((1, 15, 25, 28)))
        customer.accounts = [f"A{number:05d}-{one}" for one in range(1, 2 + (chance.random() < 0.3))]
        return customer

    def _rhythm(self, day: datetime) -> datetime:
        hour = self._chance.choices(range(24), HOURS)[0]
        return self._at(day, hour, hour + 1)

    def _at(self, day: datetime, first_hour: int, last_hour: int) -> datetime:
        return day + timedelta(milliseconds=self._chance.randrange(first_hour * 3_600_000, last_hour * 3_600_000))

    def _cents(self, least: float, most: float) -> Decimal:
        return self._exact(self._chance.uniform(least, most))

    @staticmethod
    def _exact(amount: float) -> Decimal:
        return Decimal(round(amount * 100)).scaleb(-2)


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
