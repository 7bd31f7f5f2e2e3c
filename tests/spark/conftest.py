"""One Spark session for all tests of a worker, and words where Java is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from tests.spark.brokers import Brokers, real_kafka

from headrace.spark.java import SparkUnavailable
from headrace.spark.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        made = session("tests", "local[2]", {"spark.sql.shuffle.partitions": "2"}, quick=True)
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    yield made
    made.stop()


@pytest.fixture(scope="session", params=["headrace", "kafka"])
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """A server to read from and write to: Headrace and, where it can be had, a real Apache Kafka. Use names of your own."""
    if request.param == "headrace":
        yield Brokers("headrace", request.getfixturevalue("headrace_shared_server").kafka)
        return
    with real_kafka() as bootstrap:
        yield Brokers("kafka", bootstrap)
