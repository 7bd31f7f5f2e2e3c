"""The compliance report against plain Python: a period in the middle of the log, late and repeated transactions, its edges."""

from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice

import pytest
from tests.spark.pipelines.drawing import assert_drawn

from headrace.spark.pipelines.banking.compliance import SHOWS, pipeline
from headrace.spark.pipelines.banking.events import START, TRANSACTIONS, happenings
from headrace.spark.pipelines.happening import Happening

DAY = timedelta(days=1)
BEGIN, END = START + 3 * DAY, START + 20 * DAY
CASH = ("deposit", "withdrawal")


def cash(id, at, amount, customer="C-hand", booked=None):
    kind = "deposit" if Decimal(amount) > 0 else "withdrawal"
    value = {"id": id, "account": "A-hand", "customer": customer, "kind": kind, "amount": amount, "currency": "EUR"}
    booked = booked or at + timedelta(seconds=1)
    return Happening(TRANSACTIONS, customer, {**value, "at": at.isoformat(), "booked": booked.isoformat()}, at)


def in_period(delivered):
    unique = {one.value["id"]: one.value for one in delivered}
    return [value for value in unique.values() if BEGIN <= datetime.fromisoformat(value["at"]) < END]


def expected_totals(values):
    sums = defaultdict(lambda: {"transactions": 0, **dict.fromkeys(("received", "paid", "cash_in", "cash_out"), Decimal(0))})
    for value in values:
        row, amount = sums[value["customer"]], Decimal(value["amount"])
        row["transactions"] += 1
        row["received" if amount > 0 else "paid"] += abs(amount)
        if value["kind"] in CASH:
            row["cash_in" if amount > 0 else "cash_out"] += abs(amount)
    period = {"begin": BEGIN, "end": END}
    return [{**period, "customer": customer, "currency": "EUR", **row} for customer, row in sorted(sums.items())]


def expected_findings(values):
    found = []
    near = defaultdict(list)
    for value in values:
        at, amount = datetime.fromisoformat(value["at"]), Decimal(value["amount"])
        if value["kind"] in CASH and abs(amount) >= 10_000:
            found.append((value["customer"], "large cash", 1, abs(amount), at, at, value["id"]))
        if value["kind"] == "deposit" and 9_000 <= amount < 10_000:
            near[value["customer"]].append((at, value["id"], amount))
    for customer, deposits in near.items():
        series = set()
        for first, _, _ in deposits:
            window = [one for one in deposits if first <= one[0] < first + 5 * DAY]
            series |= set(window) if len(window) >= 3 else set()
        if series:
            total = sum(amount for _, _, amount in series)
            first, last = min(series), max(series)
            found.append((customer, "structuring", len(series), total, first[0], last[0], first[1]))
    return sorted(found)


@pytest.fixture
def delivered(bank):
    generated = [one for one in islice(happenings(seed=6, customers=30), 2600) if one.topic == TRANSACTIONS]
    assert generated[-1].at > END + 2 * DAY
    instant = timedelta(milliseconds=1)
    by_hand = [
        cash("at the beginning", BEGIN, "10000.00"),
        cash("just before it", BEGIN - instant, "20000.00"),
        cash("at the end", END, "30000.00"),
        cash("just before the end, booked a day later", END - instant, "-40000.00", booked=END + DAY - instant),
        cash("just below", BEGIN + DAY, "9999.99"),
        cash("s1", BEGIN + 2 * DAY, "9000.00", "C-series"),
        cash("s2", BEGIN + 4 * DAY, "9500.00", "C-series"),
        cash("s2", BEGIN + 4 * DAY, "9500.00", "C-series"),
        cash("s3", BEGIN + 7 * DAY - instant, "9900.00", "C-series"),
        cash("s4", BEGIN + 7 * DAY, "8999.99", "C-series"),
        *(cash(f"n{number}", BEGIN + number * 2.5 * DAY, "9500.00", "C-not-quite") for number in range(5)),
        *(cash(f"t{number}", BEGIN - DAY + number * DAY, "9500.00", "C-cut-off") for number in range(3)),
    ]
    arriving = sorted([*generated, *by_hand], key=lambda one: datetime.fromisoformat(one.value["booked"]))
    bank.feed(arriving)
    return arriving


def test_a_past_period_is_reported_exactly_and_again_to_the_byte(bank, delivered):
    settings = {"begin": BEGIN.isoformat(), "end": END.date().isoformat()}

    def report(name, **more):
        pipeline(bank.spark, bootstrap=bank.bootstrap, tables=bank.tables, report=f"{bank.folder}/{name}", **settings, **more)
        return (bank.folder / name).read_text()

    first = report("first.md")
    values = in_period(delivered)
    totals, findings = expected_totals(values), expected_findings(values)
    assert {one[1] for one in findings} == {"large cash", "structuring"}
    assert ("C-series", "structuring", 3, Decimal("28400.00")) in [one[:4] for one in findings]
    assert not {"C-not-quite", "C-cut-off"} & {one[0] for one in findings}
    assert bank.table("compliance_totals") == totals
    columns = ("customer", "finding", "movements", "total", "first", "last", "reference")
    table = bank.table("compliance_findings")
    assert sorted(tuple(one[column] for column in columns) for one in table) == findings
    in_topic = [
        (one["customer"], one["finding"], one["movements"], Decimal(one["total"])) for one in bank.topic("bank.compliance")
    ]
    assert sorted(in_topic) == [one[:4] for one in findings]
    lines = first.splitlines()
    assert lines[0] == "# Compliance report from 2026-01-04T00:00:00+00:00 to 2026-01-21"
    assert "| C-series | EUR | structuring | 3 | 28400.00 | 2026-01-06 00:00:00 | 2026-01-10 23:59:59 | s1 |" in lines
    assert len([line for line in lines if line.startswith("| C")]) == len(findings) + len(totals)

    bank.feed([cash("much later", END + 30 * DAY, "50000.00"), *delivered[:10]])
    assert report("again.md") == first
    assert report("whole.md", seek=False) == first
    assert bank.table("compliance_totals") == totals
    assert_drawn(SHOWS, bank.topic)


def test_a_report_of_nothing_and_one_of_everything(bank, delivered):
    settings = {"bootstrap": bank.bootstrap, "tables": bank.tables}
    pipeline(bank.spark, **settings, begin="2030-01-01", report=f"{bank.folder}/none.csv")
    assert (bank.folder / "none.csv").read_text().splitlines() == [
        "section,customer,currency,finding,movements,total,first,last,reference",
        "section,customer,currency,transactions,received,paid,cash_in,cash_out",
    ]
    pipeline(bank.spark, **settings, report=f"{bank.folder}/all.html")
    page = (bank.folder / "all.html").read_text()
    customers = {one.value["customer"] for one in delivered}
    totals = page[page.index("<h2>Totals</h2>") :]
    assert totals.count("<tr><td>") == len(customers)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"begin": "2026-02-01", "end": "2026-01-01"}, "begin must be before end"),
        ({"report": "x.pdf"}, "ends in .md, .html, .csv"),
    ],
)
def test_what_can_not_be_is_said(bank, settings, words):
    with pytest.raises(ValueError, match=words):
        pipeline(bank.spark, bootstrap=bank.bootstrap, tables=bank.tables, **settings)
