"""Random batches with duplicates, late rows and deletes: every store ends as a plain dict does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.spark.tables.conftest import STORES

from headrace.spark.tables import rows
from headrace.spark.tables.store import Store, open_store
from headrace.spark.tables.target import BatchMark, Target, target

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int32()), ("o", pa.int64()), ("v", pa.string()), ("d", pa.bool_())])
ORDERED = target("t", ["k", "n"], ["o"], "d")
PLAIN = target("t", ["k", "n"], [], "d")
WHOLE = target("t", ["k", "n"], ["o"], "d", mode="complete")


class Row(NamedTuple):
    k: str
    n: int
    o: int | None
    v: str | None
    d: bool | None


class Model:
    """What the documentation says, in the plainest words."""

    def __init__(self) -> None:
        self.table: dict[tuple[str, int], Row] = {}
        self.last = -1

    def apply(self, wanted: Target, batch: Sequence[Row], number: int) -> bool:
        if number <= self.last:
            return False
        self.last = number
        if wanted.replace:
            self.table = {}
        winners: dict[tuple[str, int], Row] = {}
        for row in batch:
            if not wanted.order_by or not _older(row, winners.get((row.k, row.n))):
                winners[row.k, row.n] = row
        for key, row in winners.items():
            if wanted.order_by and _older(row, self.table.get(key)):
                continue
            if row.d:
                self.table.pop(key, None)
            else:
                self.table[key] = row
        return True

    def rows(self) -> list[dict[str, Any]]:
        return [{"k": row.k, "n": row.n, "o": row.o, "v": row.v} for _, row in sorted(self.table.items())]


def _older(row: Row, other: Row | None) -> bool:
    rank = (row.o is not None, row.o or 0)
    return other is not None and rank < (other.o is not None, other.o or 0)


def random_batch(chance: random.Random, wanted: Target) -> list[Row]:
    batch = []
    for _ in range(chance.choice((0, 1, 3, 10, 60))):
        k, n = chance.choice(("a", "b", "", "Z", "ü", "'")), chance.randrange(4)
        order = None if chance.random() < 0.1 else chance.randrange(30)
        batch.append(Row(k, n, order, chance.choice((None, "", "x", "y")), chance.choice((None, False, False, True))))
    if not wanted.order_by:  # one row of a key, that it may be twice
        batch = list({(row.k, row.n): row for row in batch}.values())
        batch += chance.sample(batch, len(batch) // 3)
    return batch


def apply(store: Store, wanted: Target, batch: Sequence[Row], number: int, piece_rows: int) -> bool:
    whole = pa.RecordBatch.from_pylist([row._asdict() for row in batch], schema=SCHEMA)
    pieces = [whole.slice(start, piece_rows) for start in range(0, len(batch), piece_rows)]
    return store.apply(wanted, SCHEMA, pieces, BatchMark("q", number))


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("seed", range(3))
def test_a_store_ends_as_a_dict_does(kind: str, seed: int, store_url: Any, request: pytest.FixtureRequest) -> None:
    into = store_url(kind)
    soak = request.config.getoption("--soak")
    chance = random.Random(seed)
    store, model, number = open_store(into), Model(), -1
    for _ in range(300 if soak else 15):
        wanted = chance.choices((ORDERED, PLAIN, WHOLE), (8, 3, 1))[0]
        batch = random_batch(chance, wanted)
        number += 1
        piece_rows = chance.choice((1, 7, 100))
        assert apply(store, wanted, batch, number, piece_rows) == model.apply(wanted, batch, number)
        if chance.random() < 0.3:  # killed between our commit and Spark's
            apply(open_store(into), wanted, batch, number, piece_rows)
        assert rows(into, "t") == model.rows()
