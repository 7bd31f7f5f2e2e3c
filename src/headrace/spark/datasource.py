"""`format("headrace")`: the source and the sink, as Spark's Python data source API wants them.

Spark imports this module in several short-lived processes for each query: to look data sources up, to make one, to plan. So
it imports next to nothing, and what a process does need is imported where it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

    from headrace.spark.source.settings import SourceSettings

COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key: string, value: binary>>"
NAMES = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


class HeadraceDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> str:
        from headrace.spark.source.settings import read_settings

        return _columns(read_settings(self.options, streaming=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        from headrace.spark.source.batch import BatchReader
        from headrace.spark.source.settings import read_settings

        settings = read_settings(self.options, streaming=False)
        _check_schema(schema, settings)
        return BatchReader(settings)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from headrace.spark.source.settings import read_settings
        from headrace.spark.source.stream import StreamReader

        settings = read_settings(self.options, streaming=True)
        _check_schema(schema, settings)
        return StreamReader(settings)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headrace.spark.sink.writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from headrace.spark.sink.writer import stream_writer

        return stream_writer(self.options, schema, overwrite)


def _columns(settings: SourceSettings) -> str:
    return f"{COLUMNS}, {HEADERS}" if settings.reading.include_headers else COLUMNS


def _check_schema(schema: StructType, settings: SourceSettings) -> None:
    """Spark passes a schema that the user gave on without a word, and would fail on the first batch."""
    names = NAMES if settings.reading.include_headers else NAMES[:-1]
    if schema.fieldNames() != names:
        from headrace.spark.options import BadOption

        raise BadOption(f"the columns of this source are fixed: leave schema() out, or give {_columns(settings)}")
