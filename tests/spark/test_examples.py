"""The programs in examples/spark do what their first lines say."""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from headrace.client.kafka import Cluster, Producer
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.record.event import Event
from headrace.spark.tables import rows
from headrace.testing.server import HeadraceServer

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
ORDERS = [("ann", "120.50", 0), ("bob", "9.90", 5), ("ann", "30.00", 10)]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cluster(headrace_shared_server: HeadraceServer) -> Cluster:
    return Cluster(headrace_shared_server.kafka)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A topic with the orders of the README."""
    name = f"orders-{uuid4().hex[:8]}"
    create_topic(cluster, name, partitions=2)
    wait_until_led(cluster, name)
    producer = Producer(cluster)
    for number, (customer, amount, minute) in enumerate(ORDERS):
        order = {"id": str(number), "customer": customer, "amount": float(amount), "at": f"2026-03-01T12:{minute:02}:00Z"}
        producer.send(name, Event.of(order, key=customer, headers={"source": "web"}))
    producer.flush()
    return name


def test_the_orders_in_the_readme_are_those_of_the_tests() -> None:
    lines = [
        line.partition(":")[2]
        for line in (EXAMPLES / "README.md").read_text().splitlines()
        if line.startswith(("ann:", "bob:"))
    ]
    assert [(order["customer"], f"{order['amount']:.2f}") for order in map(json.loads, lines)] == [
        order[:2] for order in ORDERS
    ]


def test_read_topic_shows_what_each_customer_ordered(
    spark: SparkSession, headrace_shared_server: HeadraceServer, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    example("read_topic").pipeline(spark, bootstrap=headrace_shared_server.kafka, topic=topic)
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert shown == [["customer", "orders", "spent"], ["ann", "2", "150.50"], ["bob", "1", "9.90"]]


def test_copy_topic_copies_large_orders_once_though_it_is_started_twice(
    spark: SparkSession, headrace_shared_server: HeadraceServer, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    target = f"{topic}-large"
    create_topic(cluster, target, partitions=1)
    wait_until_led(cluster, target)
    servers = headrace_shared_server.kafka
    for _ in range(2):
        query = example("copy_topic").pipeline(
            spark, bootstrap=servers, checkpoint=str(tmp_path / "checkpoint"), source=topic, target=target
        )
        query.processAllAvailable()
        query.stop()
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", servers).option("includeHeaders", True)
    copied = reader.option("subscribe", target).load().collect()
    assert [(bytes(row.key), json.loads(row.value)["amount"]) for row in copied] == [(b"ann", 120.5)]
    assert [(header.key, bytes(header.value)) for header in copied[0].headers] == [("source", b"web")]


def test_topic_to_table_keeps_the_table_up_to_date(
    spark: SparkSession, headrace_shared_server: HeadraceServer, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    tables = f"sqlite:{tmp_path}/tables.db"
    query = example("topic_to_table").pipeline(
        spark, bootstrap=headrace_shared_server.kafka, checkpoint=str(tmp_path / "checkpoint"), tables=tables, topic=topic
    )
    query.processAllAvailable()
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    ann = {"customer": "ann", "spent": Decimal("150.50"), "orders": 2, "last": at.replace(minute=10)}
    bob = {"customer": "bob", "spent": Decimal("9.90"), "orders": 1, "last": at.replace(minute=5)}
    assert rows(tables, "customers") == [ann, bob]
    producer = Producer(cluster)
    producer.send(topic, Event.of({"customer": "bob", "amount": 0.1, "at": "2026-03-01T12:01:00Z"}, key="bob"))
    producer.flush()
    query.processAllAvailable()
    query.stop()
    assert rows(tables, "customers") == [ann, bob | {"spent": Decimal("10.00"), "orders": 2}]
