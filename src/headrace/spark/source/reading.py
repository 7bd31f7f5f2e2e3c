"""What a task does: its piece, over the connections that its process keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from headrace.spark.connections import cluster
from headrace.spark.fetching import read_piece
from headrace.spark.pieces import Piece
from headrace.spark.source.settings import SourceSettings

if TYPE_CHECKING:
    import pyarrow as pa


def read(settings: SourceSettings, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, Piece):  # a batch query with nothing to read: Spark plans one empty task for it
        return iter(())
    brokers = cluster(settings.endpoint)
    brokers.insist()  # the driver has just talked to them
    return read_piece(brokers, partition, settings.reading)
