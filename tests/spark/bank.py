"""Some events of the bank in its topics, and what the accounts hold after them, added up in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice

from headrace.client.kafka import Cluster
from headrace.client.kafka.topics import create_topic
from headrace.spark.pipelines.happening import Happening
from headrace.spark.runner.feeding import Feed, happenings

EVENTS = 900  # the first 500 are its customers


def _events() -> Iterator[Happening]:
    return islice(happenings("banking", 3, datetime(2026, 3, 1, tzinfo=UTC)), EVENTS)


def feed(server: str) -> None:
    cluster = Cluster(server)
    create_topic(cluster, "bank.transactions", partitions=2)
    Feed(cluster, _events(), rate=0).run(lambda: False)
    cluster.close()


def expected_balances() -> dict[str, tuple[Decimal, int]]:
    """Each transaction once: the sum and the count of each account."""
    seen, found = set(), defaultdict[str, tuple[Decimal, int]](lambda: (Decimal(0), 0))
    for happening in _events():
        value = happening.value
        if happening.topic == "bank.transactions" and value["id"] not in seen:
            seen.add(value["id"])
            amount, count = found[value["account"]]
            found[value["account"]] = amount + Decimal(value["amount"]), count + 1
    return dict(found)
