"""Events in: records of a topic, whose values are JSON objects, become rows with typed columns.

    everything = events(spark, bootstrap, "bank.transactions", "id string not null, at timestamp not null, city string")
    good = accepted(everything)             # id, at, city, record (topic, partition, offset, timestamp, key)
    bad = rejected(everything)              # topic, partition, offset, timestamp, key, value, fault

Nothing is dropped silently and nothing malformed stops a pipeline: what can't be read keeps its place, with a `fault` that
says in words what is wrong, and `keep_rejected` puts it into a table. A field that the schema calls `not null` must be there;
further `checks` are conditions under the words to say where they do not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# What from_json leaves of a value that is no JSON object, or whose fields do not have their types.
_CORRUPT = "_corrupt"
_ORIGIN = ("topic", "partition", "offset", "timestamp")
REJECTED = "rejected"
LARGEST_BATCH = "200000"


def events(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    schema: StructType | str,
    *,
    checks: Mapping[str, Column] | None = None,
    **options: str,
) -> DataFrame:
    """The topic as a stream: `parsed`. From its beginning, and a backlog in micro-batches of bounded size, unless the options
    (`startingOffsets="latest"`) say otherwise."""
    settings = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": LARGEST_BATCH, **options}
    settings |= {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return parsed(spark.readStream.format("headrace").options(**settings).load(), schema, checks)


def past_events(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    schema: StructType | str,
    *,
    checks: Mapping[str, Column] | None = None,
    **options: str,
) -> DataFrame:
    """What the topic holds now, or the part that the options (`startingTimestamp`, `endingTimestamp`) choose: `parsed`."""
    settings = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **options}
    return parsed(spark.read.format("headrace").options(**settings).load(), schema, checks)


def parsed(records: DataFrame, schema: StructType | str, checks: Mapping[str, Column] | None = None) -> DataFrame:
    """The fields of `schema`, then `record` (topic, partition, offset, timestamp, key), `raw` (the value as it came) and
    `fault` (what is wrong with it; null where nothing is). Where there is a fault, the fields hold what could be read."""
    wanted = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    tolerant = StructType(
        [*(StructField(one.name, one.dataType) for one in wanted), StructField(_CORRUPT, StringType())],
    )
    raw = F.col("value").cast("string")
    opened = records.select(
        F.struct(*_ORIGIN, F.col("key").cast("string").alias("key")).alias("record"),
        raw.alias("raw"),
        F.from_json(raw, tolerant, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}).alias("event"),
    )
    fields = opened.select(*(F.col("event")[one.name].alias(one.name) for one in tolerant), "record", "raw")
    return fields.withColumn("fault", _fault(wanted, checks or {})).drop(_CORRUPT)


def accepted(parsed_events: DataFrame) -> DataFrame:
    """The rows without a fault: the fields and `record`."""
    return parsed_events.where(F.col("fault").isNull()).drop("fault", "raw")


def rejected(parsed_events: DataFrame) -> DataFrame:
    """The rows with a fault: where in the log, the value as it came, and what is wrong with it."""
    return parsed_events.where(F.col("fault").isNotNull()).select("record.*", F.col("raw").alias("value"), "fault")


def keep_rejected(parsed_events: DataFrame, tables: str) -> DataStreamWriter:
    """Writes what was rejected into the table `rejected`. Its key is the place in the log, so that pipelines which read the
    same topic say the same thing once."""
    from headrace.spark.tables import upsert

    return upsert(rejected(parsed_events), tables, REJECTED, ["topic", "partition", "offset"])


def _fault(wanted: StructType, checks: Mapping[str, Column]) -> Column:
    lacking = F.concat_ws(", ", *(F.when(F.col(one.name).isNull(), one.name) for one in wanted if not one.nullable))
    nothing = reduce(lambda so_far, one: so_far & F.col(one.name).isNull(), wanted, F.lit(True))
    fault = (
        F.when(F.col("raw").isNull(), "no value")
        .when(F.col(_CORRUPT).isNotNull() & nothing, "not a JSON object of the expected form")
        .when(F.col(_CORRUPT).isNotNull() & (lacking != ""), F.concat(F.lit("missing or not of its type: "), lacking))
        .when(F.col(_CORRUPT).isNotNull(), "a field is not of its type")
        .when(lacking != "", F.concat(F.lit("missing: "), lacking))
    )
    for words, condition in checks.items():
        fault = fault.when(~F.coalesce(condition, F.lit(False)), words)
    return fault
