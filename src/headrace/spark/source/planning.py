"""Offsets into pieces: one for each partition that has records, or more where `minPartitions` or `maxRecordsPerPartition` ask.

A plan depends on the offsets and the two options alone. Pieces are in the order of topic, partition and offset, so a batch that
is planned again has the same records in the same task.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from headrace.client.kafka.partitions import TopicPartition
from headrace.spark.pieces import Piece


def plan(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[Piece]:
    """A partition that `start` does not have was added meanwhile and is read from 0. What `end` does not have, or has at or
    before its start, has nothing to read."""
    pieces = [Piece(*partition, start.get(partition, 0), last) for partition, last in sorted(end.items())]
    pieces = [piece for piece in pieces if piece.end > piece.start]
    if max_records is not None:
        pieces = [part for piece in pieces for part in cut(piece, -(-_size(piece) // max_records))]
    if min_partitions is not None and pieces and len(pieces) < min_partitions:
        pieces = _spread(pieces, min_partitions)
    return pieces


def _spread(pieces: list[Piece], wanted: int) -> list[Piece]:
    """Cuts large pieces so that about `wanted` come out. Those too small to be cut keep a task each, and the others share the
    rest of the tasks in proportion to their size."""
    total = sum(map(_size, pieces))
    small = [_parts(piece, total, wanted) == 1 for piece in pieces]
    large_total = sum(_size(piece) for piece, whole in zip(pieces, small, strict=True) if not whole)
    for_large = max(wanted - sum(small), 1)
    cuts: list[Piece] = []
    for piece, whole in zip(pieces, small, strict=True):
        cuts += [piece] if whole else cut(piece, _parts(piece, large_total, for_large))
    return cuts


def _parts(piece: Piece, total: int, wanted: int) -> int:
    """Its share of the tasks, rounded half up, and at least one."""
    return max((2 * _size(piece) * wanted + total) // (2 * total), 1)


def cut(piece: Piece, parts: int) -> list[Piece]:
    """Parts whose sizes differ by one at most, the smaller ones first; never an empty one."""
    parts = min(parts, _size(piece))
    edges = [piece.start + _size(piece) * index // parts for index in range(parts + 1)]
    return [Piece(piece.topic, piece.partition, first, last) for first, last in pairwise(edges)]


def _size(piece: Piece) -> int:
    return piece.end - piece.start
