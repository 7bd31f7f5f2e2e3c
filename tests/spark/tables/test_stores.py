"""What every store does with batches of rows, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

from headrace.spark.tables import TableError, rows
from headrace.spark.tables.store import open_store
from headrace.spark.tables.target import BatchMark, Target, target

READINGS = pa.schema([("sensor", pa.string()), ("at", pa.int64()), ("degrees", pa.float64()), ("gone", pa.bool_())])
HOSTILE = 'x"; DROP TABLE "t"; -- %s $1 ? `{}` \\ \' ü'


def apply(
    into: str,
    wanted: Target,
    values: Sequence[dict[str, Any]],
    schema: pa.Schema = READINGS,
    number: int | None = None,
    query: str = "q",
    piece_rows: int = 2,
) -> bool:
    """In pieces of two rows, so that what belongs together crosses them."""
    batch = pa.RecordBatch.from_pylist(list(values), schema=schema)
    pieces = [batch.slice(start, piece_rows) for start in range(0, len(values), piece_rows)]
    mark = None if number is None else BatchMark(query, number)
    return open_store(into).apply(wanted, schema, pieces, mark)


def reading(sensor: str, at: int | None, degrees: float | None, gone: bool | None = None) -> dict[str, Any]:
    return {"sensor": sensor, "at": at, "degrees": degrees, "gone": gone}


def stored(into: str, table: str = "readings") -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows(into, table)]


PLAIN = target("readings", ["sensor"], delete="gone")
ORDERED = target("readings", ["sensor"], ["at"], delete="gone")


def test_rows_are_inserted_and_come_back_in_the_order_of_their_key(into: str) -> None:
    apply(into, PLAIN, [reading("c", 1, 1.5), reading("a", 2, 2.5), reading("b", 3, None)])
    assert rows(into, "readings") == [
        {"sensor": "a", "at": 2, "degrees": 2.5},
        {"sensor": "b", "at": 3, "degrees": None},
        {"sensor": "c", "at": 1, "degrees": 1.5},
    ]


def test_rows_can_be_asked_for_in_another_order_and_number(into: str) -> None:
    apply(into, PLAIN, [reading("c", 1, 1.5), reading("a", 3, 2.5), reading("b", 2, None)])
    assert [row["sensor"] for row in rows(into, "readings", order_by=["at"])] == ["c", "b", "a"]
    assert [row["sensor"] for row in rows(into, "readings", limit=2)] == ["a", "b"]
    with pytest.raises(TableError, match="no column 'when'"):
        rows(into, "readings", order_by=["when"])


def test_a_row_with_a_known_key_replaces_the_stored_one(into: str) -> None:
    apply(into, PLAIN, [reading("a", 1, 1.0), reading("b", 1, 1.0)])
    apply(into, PLAIN, [reading("b", 2, None), reading("c", 2, 2.0)])
    assert stored(into) == [("a", 1, 1.0), ("b", 2, None), ("c", 2, 2.0)]


def test_a_key_may_have_several_columns(into: str) -> None:
    wanted = target("readings", ["sensor", "at"], delete="gone")
    apply(into, wanted, [reading("a", 1, 1.0), reading("a", 2, 2.0), reading("b", 1, 3.0)])
    apply(into, wanted, [reading("a", 2, 9.0), reading("b", 1, None, gone=True)])
    assert stored(into) == [("a", 1, 1.0), ("a", 2, 9.0)]


def test_a_table_whose_columns_are_all_key_is_a_set(into: str) -> None:
    schema = pa.schema([("word", pa.string())])
    for _ in range(2):
        apply(into, target("words", ["word"]), [{"word": "a"}, {"word": "b"}, {"word": "a"}], schema)
    assert stored(into, "words") == [("a",), ("b",)]


def test_a_marked_row_deletes_its_key_and_an_unknown_key_is_no_error(into: str) -> None:
    apply(into, PLAIN, [reading("a", 1, 1.0), reading("b", 1, 1.0, gone=False), reading("c", 1, 1.0)])
    apply(into, PLAIN, [reading("a", 2, None, gone=True), reading("x", 2, None, gone=True)])
    assert stored(into) == [("b", 1, 1.0), ("c", 1, 1.0)]


def test_of_several_rows_of_a_key_in_a_batch_the_greatest_by_order_stays(into: str) -> None:
    apply(into, ORDERED, [reading("a", 2, 2.0), reading("a", 3, 3.0), reading("a", 1, 1.0), reading("b", None, 0.0)])
    assert stored(into) == [("a", 3, 3.0), ("b", None, 0.0)]


def test_of_equally_new_rows_the_last_one_stays(into: str) -> None:
    apply(into, ORDERED, [reading("a", 2, 1.0), reading("a", 2, 2.0), reading("a", 2, 3.0)])
    assert stored(into) == [("a", 2, 3.0)]
    apply(into, ORDERED, [reading("a", 2, 4.0)])
    assert stored(into) == [("a", 2, 4.0)]


def test_a_late_row_does_not_overwrite_a_newer_one(into: str) -> None:
    apply(into, ORDERED, [reading("a", 5, 5.0), reading("b", 5, 5.0), reading("c", None, 0.0), reading("d", 5, 5.0)])
    apply(into, ORDERED, [reading("a", 4, 4.0), reading("b", 6, 6.0), reading("c", 1, 1.0), reading("d", None, 9.0)])
    assert stored(into) == [("a", 5, 5.0), ("b", 6, 6.0), ("c", 1, 1.0), ("d", 5, 5.0)]


def test_a_late_delete_does_not_delete_a_newer_row(into: str) -> None:
    apply(into, ORDERED, [reading("a", 5, 5.0), reading("b", 5, 5.0)])
    apply(into, ORDERED, [reading("a", 4, None, gone=True), reading("b", 5, None, gone=True)])
    assert stored(into) == [("a", 5, 5.0)]


def test_within_a_batch_deletes_take_their_place_in_the_order(into: str) -> None:
    apply(
        into,
        ORDERED,
        [reading("a", 1, None, gone=True), reading("a", 2, 2.0), reading("b", 1, 1.0), reading("b", 2, 0.0, True)],
    )
    assert stored(into) == [("a", 2, 2.0)]


def test_an_order_may_have_several_columns(into: str) -> None:
    schema = pa.schema([("k", pa.string()), ("day", pa.date32()), ("step", pa.string()), ("v", pa.int32())])
    wanted = target("t", ["k"], ["day", "step"])
    one, two = date(2026, 3, 1), date(2026, 3, 2)
    apply(into, wanted, [{"k": "a", "day": one, "step": "z", "v": 1}, {"k": "a", "day": two, "step": "B", "v": 2}], schema)
    assert stored(into, "t") == [("a", two, "B", 2)]
    apply(into, wanted, [{"k": "a", "day": two, "step": "A", "v": 3}], schema)
    assert stored(into, "t") == [("a", two, "B", 2)]
    apply(into, wanted, [{"k": "a", "day": two, "step": "a", "v": 4}], schema)  # small letters come after capitals
    assert stored(into, "t") == [("a", two, "a", 4)]


def test_without_an_order_two_different_rows_of_a_key_are_refused_and_nothing_is_written(into: str) -> None:
    apply(into, PLAIN, [reading("a", 1, 1.0)])
    with pytest.raises(TableError, match="two different rows of one batch have the key sensor='b'; say which is the last"):
        apply(into, PLAIN, [reading("a", 2, 2.0), reading("b", 1, 1.0), reading("b", 1, 2.0)], number=0)
    assert stored(into) == [("a", 1, 1.0)]
    assert not open_store(into).applied(PLAIN, BatchMark("q", 0))


def test_without_an_order_equal_rows_of_a_key_count_once(into: str) -> None:
    apply(into, PLAIN, [reading("a", 1, 1.0), reading("b", None, None), reading("a", 1, 1.0), reading("b", None, None)])
    assert stored(into) == [("a", 1, 1.0), ("b", None, None)]


def test_a_replayed_batch_is_applied_once(into: str) -> None:
    counted = target("log", [])
    schema = pa.schema([("line", pa.string())])
    assert apply(into, counted, [{"line": "one"}], schema, number=0)
    assert apply(into, counted, [{"line": "two"}], schema, number=1)
    assert not apply(into, counted, [{"line": "two"}], schema, number=1)
    assert [open_store(into).applied(counted, BatchMark("q", number)) for number in (0, 1, 2)] == [True, True, False]
    assert sorted(stored(into, "log")) == [("one",), ("two",)]


def test_queries_and_tables_are_told_apart_by_their_marks(into: str) -> None:
    schema = pa.schema([("line", pa.string())])
    for table in ("one", "two"):
        for query in ("q", "r"):
            assert apply(into, target(table, []), [{"line": query}], schema, number=0, query=query)
    assert [sorted(stored(into, table)) for table in ("one", "two")] == [[("q",), ("r",)]] * 2


def test_in_complete_mode_a_batch_is_the_whole_table(into: str) -> None:
    wanted = target("readings", ["sensor"], delete="gone", mode="complete")
    apply(into, wanted, [reading("a", 1, 1.0), reading("b", 1, 1.0)], number=0)
    apply(into, wanted, [reading("b", 2, 2.0), reading("c", 2, 2.0), reading("d", 2, 2.0, gone=True)], number=1)
    assert stored(into) == [("b", 2, 2.0), ("c", 2, 2.0)]
    apply(into, wanted, [], number=2)
    assert stored(into) == []


def test_an_empty_batch_makes_the_table(into: str) -> None:
    assert apply(into, PLAIN, [], number=0)
    assert stored(into) == []


def test_new_columns_are_added_and_columns_that_a_batch_lacks_stay_as_they_are(into: str) -> None:
    apply(into, ORDERED, [reading("a", 1, 1.0), reading("b", 1, 1.0)])
    grown = pa.schema([("sensor", pa.string()), ("at", pa.int64()), ("place", pa.string())])
    wanted = target("readings", ["sensor"], ["at"])
    apply(into, wanted, [{"sensor": "b", "at": 2, "place": "attic"}, {"sensor": "c", "at": 2, "place": "cellar"}], grown)
    assert stored(into) == [("a", 1, 1.0, None), ("b", 2, 1.0, "attic"), ("c", 2, None, "cellar")]
    apply(into, ORDERED, [reading("c", 3, 3.0)])
    assert stored(into)[2] == ("c", 3, 3.0, "cellar")


def test_an_order_that_is_new_to_the_table_counts_from_then_on(into: str) -> None:
    apply(
        into, target("t", ["k"]), [{"k": "a", "v": 1}, {"k": "b", "v": 1}], pa.schema([("k", pa.string()), ("v", pa.int32())])
    )
    schema = pa.schema([("k", pa.string()), ("v", pa.int32()), ("o", pa.int32())])
    apply(into, target("t", ["k"], ["o"]), [{"k": "a", "v": 2, "o": 5}, {"k": "b", "v": 2, "o": None}], schema)
    apply(into, target("t", ["k"], ["o"]), [{"k": "a", "v": 3, "o": 4}, {"k": "b", "v": 3, "o": 4}], schema)
    assert stored(into, "t") == [("a", 2, 5), ("b", 3, 4)]


def test_a_narrower_type_fits_a_wider_column(into: str) -> None:
    wide = pa.schema([("k", pa.int64()), ("amount", pa.decimal128(12, 2)), ("v", pa.float64())])
    apply(into, target("t", ["k"]), [{"k": 1, "amount": Decimal("1.25"), "v": 0.5}], wide)
    narrow = pa.schema([("k", pa.int16()), ("amount", pa.decimal128(6, 1)), ("v", pa.float32())])
    apply(into, target("t", ["k"]), [{"k": 1, "amount": Decimal("7.5"), "v": 1.5}, {"k": 2, "amount": None, "v": 2.5}], narrow)
    assert stored(into, "t") == [(1, Decimal("7.50"), 1.5), (2, None, 2.5)]


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.decimal128(10, 4), pa.bool_(), pa.list_(pa.int32())], ids=str)
def test_a_type_that_does_not_fit_is_refused_and_nothing_changes(into: str, kind: pa.DataType) -> None:
    first = pa.schema([("k", pa.string()), ("v", pa.int32())])
    apply(into, target("t", ["k"]), [{"k": "a", "v": 1}], first)
    changed = pa.schema([("k", pa.string()), ("extra", pa.string()), ("v", kind)])
    with pytest.raises(TableError, match=r"table 't': column 'v' is .* and can't take the .* of the rows"):
        apply(into, target("t", ["k"]), [{"k": "a", "extra": "x", "v": None}], changed)
    assert rows(into, "t") == [{"k": "a", "v": 1}]


def test_another_key_than_the_table_has_is_refused(into: str) -> None:
    apply(into, PLAIN, [reading("a", 1, 1.0)])
    with pytest.raises(TableError, match=r"table 'readings' has the key \['sensor'\], not \['at'\]"):
        apply(into, target("readings", ["at"], delete="gone"), [reading("a", 1, 1.0)])


@pytest.mark.parametrize("table", [HOSTILE, "../up", "..", ".", "a/b", "SELECT", "ordinary name", "%s", "Ä"])
def test_names_may_have_any_character(into: str, table: str) -> None:
    key, value = HOSTILE, HOSTILE[::-1]
    schema = pa.schema([(key, pa.string()), ("order", pa.int64()), (value, pa.string()), ("d'", pa.bool_())])
    wanted = target(table, [key], ["order"], "d'")
    apply(into, wanted, [{key: HOSTILE, "order": 1, value: HOSTILE}, {key: "x", "order": 1}], schema, number=0, query=HOSTILE)
    apply(into, wanted, [{key: HOSTILE, "order": 2, value: "'"}, {key: "x", "order": 1, "d'": True}], schema, 1, HOSTILE)
    assert rows(into, table, order_by=[value]) == [{key: HOSTILE, "order": 2, value: "'"}]
    assert open_store(into).applied(wanted, BatchMark(HOSTILE, 1))


def test_table_names_that_look_alike_are_different_tables(into: str) -> None:
    schema = pa.schema([("k", pa.string())])
    names = ["x", ".x", "%2Ex", "x.parquet", "x/", "x "]
    for name in names:
        apply(into, target(name, ["k"]), [{"k": name}], schema)
    assert [stored(into, name) for name in names] == [[(name,)] for name in names]


AT = datetime(2026, 3, 1, 12, 30, 15, 250000, UTC)
EVERY_TYPE: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), True),
    (pa.int8(), -128),
    (pa.int16(), 32767),
    (pa.int32(), -(2**31)),
    (pa.int64(), 2**63 - 1),
    (pa.float32(), 0.5),
    (pa.float64(), 1e300),
    (pa.float64(), float("inf")),
    (pa.decimal128(10, 2), Decimal("-12345678.90")),
    (pa.decimal128(38, 18), Decimal("12345678901234567890.123456789012345678")),
    (pa.string(), ""),
    (pa.string(), 'quotes " and \\. and \n lines, ünï'),
    (pa.binary(), b"\x00\xff\n"),
    (pa.date32(), date(1969, 12, 31)),
    (pa.timestamp("us", "UTC"), AT),
    (pa.timestamp("us"), AT.replace(tzinfo=None)),
    (pa.list_(pa.int32()), [1, None, 3]),
    (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]), {"x": 1, "y": ["a", None]}),
    (pa.map_(pa.string(), pa.int64()), {"a": 1, "b": None}),
]


def test_every_type_comes_back_as_it_went_in(into: str) -> None:
    schema = pa.schema([("k", pa.int32()), *((f"v{index}", kind) for index, (kind, _) in enumerate(EVERY_TYPE))])
    full = {"k": 1, **{f"v{index}": value for index, (_, value) in enumerate(EVERY_TYPE)}}
    given = {name: list(value.items()) if isinstance(value, dict) and name == "v18" else value for name, value in full.items()}
    empty = {"k": 2, **{f"v{index}": None for index in range(len(EVERY_TYPE))}}
    apply(into, target("t", ["k"]), [given, empty], schema)
    assert rows(into, "t") == [full, empty]


@pytest.mark.parametrize(("kind", "value"), EVERY_TYPE[:16], ids=str)
def test_every_plain_type_can_be_a_key_and_an_order(into: str, kind: pa.DataType, value: Any) -> None:
    schema = pa.schema([("k", kind), ("o", kind), ("v", pa.int32())])
    wanted = target("t", ["k"], ["o"])
    if into.startswith("sqlite") and str(kind) == "decimal128(38, 18)":
        with pytest.raises(TableError, match="SQLite can't order 'o'"):
            apply(into, wanted, [], schema)
        wanted = target("t", ["k"])
    apply(into, wanted, [{"k": value, "o": value, "v": 1}], schema)
    apply(into, wanted, [{"k": value, "o": value, "v": 2}], schema)
    apply(into, target("t", ["k"], ["o"]) if wanted.order_by else wanted, [], schema)
    assert [row["v"] for row in rows(into, "t")] == [2]


@pytest.mark.parametrize(("name", "value"), [("k", None), ("k", float("nan")), ("o", float("nan"))])
def test_a_row_without_a_proper_key_or_order_is_refused(into: str, name: str, value: float | None) -> None:
    schema = pa.schema([("k", pa.float64()), ("o", pa.float64())])
    with pytest.raises(TableError, match=f"column '{name}'.* is (null|NaN) in a row"):
        apply(into, target("t", ["k"], ["o"]), [{"k": 1.0, "o": 1.0}, {"k": 2.0, "o": 2.0, name: value}], schema)


def test_columns_that_the_rows_lack_are_named(into: str) -> None:
    for wanted, words in (
        (target("readings", ["when"]), "key column 'when' is not in the rows"),
        (target("readings", ["sensor"], ["when"]), "order_by column 'when' is not in the rows"),
        (target("readings", ["sensor"], delete="when"), "delete column 'when' is not in the rows"),
        (target("readings", ["sensor"], delete="at"), "delete column 'at' must be boolean"),
    ):
        with pytest.raises(TableError, match=words):
            apply(into, wanted, [reading("a", 1, 1.0)])


def test_a_table_that_is_not_there_is_named(into: str) -> None:
    apply(into, PLAIN, [])
    with pytest.raises(TableError, match=r"there is no .*nothing"):
        rows(into, "nothing")


def test_a_batch_that_breaks_off_leaves_nothing(into: str) -> None:
    apply(into, PLAIN, [reading("a", 1, 1.0)], number=0)

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([reading("a", 2, 2.0), reading("b", 2, 2.0)], schema=READINGS)
        raise ConnectionError("the executor is gone")

    with pytest.raises(ConnectionError):
        open_store(into).apply(PLAIN, READINGS, broken(), BatchMark("q", 1))
    assert stored(into) == [("a", 1, 1.0)]
    assert apply(into, PLAIN, [reading("a", 2, 2.0), reading("b", 2, 2.0)], number=1)
    assert stored(into) == [("a", 2, 2.0), ("b", 2, 2.0)]


def test_of_two_drivers_with_one_batch_only_one_applies_it(into: str) -> None:
    schema = pa.schema([("line", pa.string())])
    wanted = target("log", [])
    apply(into, wanted, [{"line": "first"}], schema, number=0)
    with ThreadPoolExecutor(4) as drivers:
        for number in range(1, 4):
            done = list(drivers.map(lambda _, n=number: apply(into, wanted, [{"line": str(n)}], schema, number=n), range(4)))
            assert sorted(done) == [False, False, False, True]
    assert sorted(stored(into, "log")) == [("1",), ("2",), ("3",), ("first",)]


def test_several_queries_fill_one_table_at_once(into: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("query", pa.string()), ("n", pa.int64())])
    wanted = target("t", ["query", "k"], ["n"])

    def fill(query: str) -> None:
        for number in range(4):
            values = [{"k": k, "query": query, "n": number} for k in range(20)]
            assert apply(into, wanted, values, schema, number, query, piece_rows=8)

    with ThreadPoolExecutor(3) as drivers:
        list(drivers.map(fill, ["p", "q", "r"]))
    assert stored(into, "t") == [(k, query, 3) for query in ("p", "q", "r") for k in range(20)]


def test_a_table_may_be_made_by_several_writers_at_once(into: str) -> None:
    schema = pa.schema([("k", pa.int64())])
    together = Barrier(3)

    def write(query: str) -> None:
        for number in range(8):
            together.wait(timeout=20)
            assert apply(into, target(f"t{number}", []), [{"k": number}], schema, 0, query)

    with ThreadPoolExecutor(3) as drivers:
        list(drivers.map(write, ["p", "q", "r"]))
    for number in range(8):
        assert stored(into, f"t{number}") == [(number,)] * 3
