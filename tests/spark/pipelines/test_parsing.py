"""Events in and out of topics: what is read, what is put aside and why, and what is written."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from headrace.spark.pipelines.parsing import accepted, parsed, rejected
from headrace.spark.pipelines.publishing import published

RECORD = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
WHEN = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
SCHEMA = "id string not null, at timestamp not null, note string, number int"
AT = '"at": "2026-01-02T03:04:05.678Z"'


@pytest.fixture
def read(spark):
    def read(*values, checks=None):
        rows = [(b"k", None if one is None else one.encode(), "t", 1, number, WHEN, 0) for number, one in enumerate(values)]
        return parsed(spark.createDataFrame(rows, RECORD), SCHEMA, checks)

    return read


def test_fields_have_their_types_and_the_place_in_the_log_is_kept(spark, read):
    good = accepted(read(f'{{"id": "a", {AT}, "note": "ä", "number": 7, "other": []}}'))
    expected = spark.createDataFrame(
        [("a", WHEN, "ä", 7, ("t", 1, 0, WHEN, "k"))],
        "id string, at timestamp, note string, number int, "
        "record struct<topic: string, partition: int, offset: long, timestamp: timestamp, key: string>",
    )
    assertDataFrameEqual(good, expected, ignoreNullable=True)


FAULTS = {
    None: "no value",
    "": "missing: id, at",
    "null": "not a JSON object of the expected form",
    "{": "not a JSON object of the expected form",
    "[1, 2]": "not a JSON object of the expected form",
    "{}": "missing: id, at",
    '{"id": null, "at": null}': "missing: id, at",
    '{"id": "a", "at": "tomorrow"}': "missing or not of its type: at",
    f'{{"id": "a", {AT}, "number": "seven"}}': "a field is not of its type",
    f'{{"id": "a", {AT}, "number": 8}}': "number is above seven",
    f'{{"id": "a", {AT}}}': "number is above seven",
}


def test_what_can_not_be_read_is_put_aside_with_the_reason(read):
    everything = read(*FAULTS, f'{{"id": "good", {AT}, "number": 7}}', checks={"number is above seven": F.col("number") <= 7})
    assert [row["id"] for row in accepted(everything).collect()] == ["good"]
    aside = rejected(everything).orderBy("offset").collect()
    assert {row["value"]: row["fault"] for row in aside} == FAULTS
    assert [(row["topic"], row["partition"], row["offset"], row["key"]) for row in aside] == [
        ("t", 1, number, "k") for number in range(len(FAULTS))
    ]


def test_rows_are_published_as_json_with_decimals_and_times_as_text(spark):
    rows = spark.createDataFrame(
        [("a", 7, Decimal("0.10"), WHEN, None)], "id string, n int, amount decimal(18,2), at timestamp, x string"
    )
    [row] = published(rows, ["id", "n"]).collect()
    assert row["key"] == "a|7"
    assert row["value"] == '{"id":"a","n":7,"amount":"0.10","at":"2026-01-02T03:04:05.678Z"}'
