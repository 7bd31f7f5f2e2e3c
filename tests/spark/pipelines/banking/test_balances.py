"""Balances against plain Python: duplicates in one batch and over restarts, very late transactions, malformed ones."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice

from tests.spark.pipelines.drawing import assert_drawn

from headrace.spark.pipelines.banking.balances import SHOWS, pipeline
from headrace.spark.pipelines.banking.events import TRANSACTIONS, happenings

MALFORMED = [b"{", None, b'{"id": "x"}', b'{"id": "x", "amount": 1e2, "at": "yesterday"}']


def expected_balances(transactions):
    seen = {}
    for one in transactions:
        seen.setdefault(one.value["id"], one.value)
    accounts = {}
    for value in seen.values():
        accounts.setdefault((value["account"], value["currency"]), []).append(value)
    return [
        {
            "account": account,
            "customer": values[0]["customer"],
            "currency": currency,
            "balance": sum((Decimal(value["amount"]) for value in values), Decimal(0)),
            "transactions": len(values),
            "last": max(datetime.fromisoformat(value["at"]) for value in values),
        }
        for (account, currency), values in sorted(accounts.items())
    ]


def test_balances_are_exact_with_duplicates_late_and_malformed_events_and_restarts(bank):
    delivered = [one for one in islice(happenings(seed=3, customers=15), 1200) if one.topic == TRANSACTIONS]
    third = len(delivered) // 3
    feeds = [delivered[:third], delivered[third : 2 * third], delivered[2 * third :]]
    feeds[1] = [*feeds[1], *feeds[0][::10], feeds[1][0]]  # known from the run before, and from the same batch
    first = feeds[0][0]
    long_ago = first.at - timedelta(days=300)
    late = {**first.value, "id": "late", "amount": "0.10", "at": long_ago.isoformat()}
    other_currency = {**first.value, "id": "kronor", "amount": "99999999999999.99", "currency": "SEK"}
    feeds[2] = [*feeds[2], replace(first, value=late), replace(first, value=late), replace(first, value=other_currency)]
    bank.feed(feeds[0])
    bank.run(pipeline, queries=1)
    bank.feed(feeds[1])
    for value in MALFORMED:
        bank.feed_raw(TRANSACTIONS, "malformed", value, partition=0)
    bank.feed([replace(first, value={**first.value, "id": "inexact", "amount": "1.005"})])
    bank.feed([replace(first, value={**first.value, "id": "ahead", "booked": "2000-01-01T00:00:00Z"})])
    bank.run(pipeline, queries=1)
    bank.feed(feeds[2])
    bank.run(pipeline)

    expected = expected_balances([one for feed in feeds for one in feed])
    assert sum(len(feed) for feed in feeds) - sum(one["transactions"] for one in expected) > third // 10
    assert bank.table("balances") == expected
    newest = {}
    for value in bank.topic("bank.balances"):
        newest[value["account"], value["currency"]] = (Decimal(value["balance"]), value["transactions"])
    assert newest == {(one["account"], one["currency"]): (one["balance"], one["transactions"]) for one in expected}

    aside = bank.table("rejected")
    assert [one["value"] and one["value"].encode() for one in aside if one["key"] == "malformed"] == MALFORMED
    assert sorted(one["fault"] for one in aside) == [
        "amount is not a decimal with at most two digits after the point",
        "happened after it was booked",
        "missing or not of its type: account, customer, kind, currency, at, booked",
        "missing: account, customer, kind, amount, currency, at, booked",
        "no value",
        "not a JSON object of the expected form",
    ]
    assert_drawn(SHOWS, bank.topic)
