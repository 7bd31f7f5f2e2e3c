"""Spark's progress in our words, and the line of an error that matters."""

import pytest

from headrace.spark.runner.failing import useful_line
from headrace.spark.runner.home import RUNNING
from headrace.spark.runner.progress import QueryStatus, SourceStatus


def progress(**changed: object) -> dict[str, object]:
    """As Spark 4.3 writes it, without what is not used."""
    return {
        "id": "one",
        "runId": "two",
        "name": "words",
        "timestamp": "2026-03-01T10:00:00.000Z",
        "batchId": 7,
        "batchDuration": 230,
        "numInputRows": 40,
        "inputRowsPerSecond": 20.004,
        "processedRowsPerSecond": 170.2,
        "durationMs": {"triggerExecution": 230},
        "eventTime": {"watermark": "2026-03-01T09:50:00.000Z"},
        "stateOperators": [
            {"numRowsTotal": 3, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2},
            {"numRowsTotal": 4, "memoryUsedBytes": 50, "numRowsDroppedByWatermark": 0},
        ],
        "sources": [
            {
                "description": "x",
                "startOffset": '{"orders":{"0":0}}',
                "endOffset": '{"orders":{"0":10,"1":4}}',
                "latestOffset": '{"orders":{"0":15,"1":4,"2":1}}',
                "numInputRows": 40,
            }
        ],
        "sink": {"description": "y", "numOutputRows": -1},
        **changed,
    }


def status() -> QueryStatus:
    return QueryStatus("shop.words", "words", "one", "two", RUNNING, "2026-03-01T09:00:00.000Z")


def test_a_batch_is_taken_over() -> None:
    found = status()
    found.take(progress())
    assert found.json() == {
        "pipeline": "shop.words",
        "query": "words",
        "query_id": "one",
        "run_id": "two",
        "state": "running",
        "at": "2026-03-01T10:00:00.000Z",
        "batch": 7,
        "batch_ms": 230,
        "rows": 40,
        "rows_total": 40,
        "rows_per_s": 20.0,
        "lag": 6,
        "state_rows": 7,
        "state_bytes": 150,
        "late_rows": 2,
        "watermark": "2026-03-01T09:50:00.000Z",
        "written": None,
        "sources": [{"name": "orders", "rows": 40, "lag": 6}],
        "error": None,
    }


def test_totals_grow_from_batch_to_batch() -> None:
    found = status()
    found.take(progress())
    found.take(progress(batchId=8, numInputRows=2, sink={"numOutputRows": 2}))
    assert (found.batch, found.rows, found.rows_total, found.late_rows, found.written) == (8, 2, 42, 4, 2)


def test_the_first_batch_has_no_batch_before_it_to_measure_by() -> None:
    found = status()
    found.take(progress(inputRowsPerSecond=float("nan"), eventTime={"watermark": "1970-01-01T00:00:00.000Z"}))
    assert (found.rows_per_s, found.watermark) == (170.2, None)


def test_a_source_that_counts_in_another_way_has_no_lag() -> None:
    found = status()
    found.take(progress(sources=[{"description": "RateStreamV2[rows=1]", "endOffset": "5", "numInputRows": 1}]))
    assert (found.lag, found.sources) == (None, [SourceStatus("RateStreamV2", 1, None)])


WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0
in stage 1.0 failed 1 times: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
headrace.spark.source.losses.DataLoss: orders-0 begins at offset 5

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
=== Streaming Query ===
Identifier: words [id = 1]"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError(WORKER), "DataLoss: orders-0 begins at offset 5"),
        (ValueError("no such thing\nmore"), "ValueError: no such thing"),
        (
            RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: [DIVIDE_BY_ZERO] Division by zero.\nat x"),
            "[DIVIDE_BY_ZERO] Division by zero.",
        ),
        (RuntimeError("java.lang.IllegalStateException: gone"), "RuntimeError: gone"),
        (RuntimeError(), "RuntimeError: RuntimeError"),
    ],
)
def test_the_line_that_matters_is_found(error: Exception, line: str) -> None:
    assert useful_line(error) == line


def test_a_long_line_is_cut() -> None:
    assert len(useful_line(ValueError("x" * 10_000))) == 500
