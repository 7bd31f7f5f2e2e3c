"""Which columns a frame must have to be written, and of which types: those of Spark's Kafka sink, and a timestamp.

    value      string or binary   required; null is a tombstone
    key        string or binary
    headers    array<struct<key: string, value: binary>>
    topic      string             required where the option `topic` is not given; the option wins
    partition  int                wins over the key; null: as if it were not there
    timestamp  timestamp          null or not there: when it is written

Other columns are left out, as Spark's Kafka sink does. Everything is checked on the driver, before a task runs.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

TEXT = (StringType, BinaryType)
_ALLOWED: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "value": (TEXT, "string or binary"),
    "key": (TEXT, "string or binary"),
    "topic": ((StringType,), "string"),
    "partition": ((IntegerType,), "int"),
    "timestamp": ((TimestampType, TimestampNTZType), "timestamp"),
}
_HEADERS = "array<struct<key: string, value: binary>>"


class BadSchema(ValueError):
    """A frame that can't be written as it is. The text says which column and what it should be."""


def check_schema(schema: StructType, topic: str | None) -> None:
    fields = {field.name.lower(): field.dataType for field in schema.fields}
    if len(fields) < len(schema.fields):
        raise BadSchema("two columns have the same name but for upper and lower case")
    if "value" not in fields:
        raise BadSchema(
            f"there is no column 'value' among {', '.join(schema.fieldNames()) or 'none'}; "
            "make one, as in df.selectExpr('to_json(struct(*)) AS value')"
        )
    if topic is None and "topic" not in fields:
        raise BadSchema("where do the rows go? give the option topic, or a column 'topic' with a topic for each row")
    for name, (allowed, words) in _ALLOWED.items():
        if name in fields and not isinstance(fields[name], allowed):
            raise BadSchema(f"column '{name}' is {fields[name].simpleString()}: it must be {words}")
    if "headers" in fields and not _are_headers(fields["headers"]):
        raise BadSchema(f"column 'headers' is {fields['headers'].simpleString()}: it must be {_HEADERS}")


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    parts = kind.elementType.fields
    return (
        [part.name.lower() for part in parts] == ["key", "value"]
        and isinstance(parts[0].dataType, StringType)
        and isinstance(parts[1].dataType, TEXT)
    )
