"""Readers driven as Spark drives them, without Spark: what the driver asks, and what the tasks read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from headrace.spark.pieces import Piece
from headrace.spark.source.batch import BatchReader
from headrace.spark.source.settings import read_settings
from headrace.spark.source.stream import StreamReader

Offset = dict[str, dict[str, int]]


def options(bootstrap: str, **given: object) -> dict[str, str]:
    """As Spark hands them over; two underscores in a name stand for a dot."""
    named = {name.replace("__", ".").lower(): str(value) for name, value in given.items()}
    quick = {"fetchoffset.retryintervalms": "10", "kafka.default.api.timeout.ms": "20s"}
    return {**quick, "kafka.bootstrap.servers": bootstrap, **named}


def stream_reader(bootstrap: str, **given: object) -> StreamReader:
    return StreamReader(read_settings(options(bootstrap, **given), streaming=True))


def batch_reader(bootstrap: str, **given: object) -> BatchReader:
    return BatchReader(read_settings(options(bootstrap, **given), streaming=False))


def rows(reader: StreamReader | BatchReader, pieces: Iterable[Any]) -> list[dict[str, Any]]:
    return [row for piece in pieces for batch in reader.read(piece) for row in batch.to_pylist()]


def values(reader: StreamReader | BatchReader, pieces: Iterable[Any]) -> list[bytes]:
    return [row["value"] for row in rows(reader, pieces)]


class Query:
    """A streaming query: a reader and the offset it has got to, as it is in the checkpoint."""

    def __init__(self, bootstrap: str, start: Offset | None = None, *, available_now: bool = False, **given: object) -> None:
        self.reader = stream_reader(bootstrap, **given)
        self.limit: ReadLimit = self.reader.getDefaultReadLimit()
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        self.offset = self.reader.initialOffset() if start is None else start
        self.pieces: list[Piece] = []

    def batch(self, limit: ReadLimit | None = None) -> list[bytes]:
        """One micro-batch: its values. Offsets go through JSON, as they do in Spark."""
        end = through_json(self.reader.latestOffset(through_json(self.offset), limit or self.limit))
        self.pieces = self.reader.partitions(self.offset, end)
        self.offset = end
        return values(self.reader, self.pieces)

    def all(self) -> list[bytes]:
        """Micro-batches until there is nothing more."""
        found: list[bytes] = []
        while True:
            before = json.dumps(self.offset)
            found += self.batch()
            if json.dumps(self.offset) == before:
                return found


def through_json(offset: Offset) -> Offset:
    return json.loads(json.dumps(offset))


ALL = ReadAllAvailable()
