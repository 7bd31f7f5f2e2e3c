"""What one task reads: a range of offsets of one partition."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition


@dataclass
class Piece(InputPartition):
    """The offsets from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How pieces are read; travels to the workers with the reader."""

    read_committed: bool = True
    include_headers: bool = False
    fail_on_data_loss: bool = True
