from __future__ import annotations

from pathlib import Path

import pytest
from bench.cases import java_tools, memory
from bench.model import Case, Measured, Mode, Outcome, Row
from bench.rig import LoadError, Rig
from bench.suite import Results

from bench import cases, report

FACTS = {
    "processor": "P",
    "cores": 2,
    "memory_gb": 8,
    "system": "S",
    "filesystem": "ext4",
    "fdatasync_ms": 0.2,
    "python": "3",
    "java": "17",
    "compiled": True,
}


def nothing(rig: Rig) -> Measured:
    return {}


CASE = Case(
    name="case",
    title="Title",
    about="About.",
    measure=nothing,
    ours=Mode.HEADRACE_FLUSH,
    theirs=Mode.KAFKA,
    also=Mode.HEADRACE,
    rows=(
        Row("rate", "rate", "req/s", aim_ratio=1.3),
        Row("time", "time", "ms", better="less", aim_ratio=0.5, aim_value=2.0),
    ),
)


def results(**rate: list[float]) -> Results:
    outcome = Outcome()
    for name, values in rate.items():
        for value in values:
            outcome.add(Mode[name], {"rate": value, "time": value / 1000})
    return Results(FACTS, 3, False, {"case": outcome})


def test_the_table_shows_medians_and_their_ratio() -> None:
    table = report.markdown(results(HEADRACE_FLUSH=[1, 1500, 9000], KAFKA=[900, 1000, 1100], HEADRACE=[10]), [CASE])
    assert "|  | Kafka | Headrace, flush | (Headrace by default) | ratio | aim |  |" in table
    assert "| rate | 1,000 req/s | 1,500 req/s | 10 req/s | 1.50 | ≥ 1.3 | yes |" in table
    assert "| time | 1.00 ms | 1.50 ms | 0.01 ms | 1.50 | ≤ 0.5, ≤ 2 ms | **no** |" in table


def test_without_a_peer_nothing_is_claimed_of_a_ratio() -> None:
    table = report.markdown(results(HEADRACE_FLUSH=[1500]), [CASE])
    assert "| rate | - | 1,500 req/s | - | - | ≥ 1.3 |  |" in table


def test_rows_below_their_aim_are_named() -> None:
    found = report.misses(results(HEADRACE_FLUSH=[1000], KAFKA=[1000]), [CASE])
    assert [line.split(":")[1].strip() for line in found] == ["rate", "time"]
    assert report.misses(results(HEADRACE_FLUSH=[1000], KAFKA=[700]), [CASE]) == ["case: time: 1.00 ms, aim ≤ 0.5, ≤ 2 ms"]


def test_a_mode_that_failed_is_told_not_hidden() -> None:
    run = results(KAFKA=[1000])
    run.outcomes["case"].skipped[Mode.HEADRACE_FLUSH.value] = "it closed the connection"
    assert "Headrace, flush: no figures, it closed the connection" in report.markdown(run, [CASE])


def test_results_survive_being_saved(tmp_path: Path) -> None:
    run = results(HEADRACE_FLUSH=[1, 2], KAFKA=[3, 4])
    run.save(tmp_path / "run.json")
    assert report.markdown(Results.load(tmp_path / "run.json"), [CASE]) == report.markdown(run, [CASE])


def test_writing_replaces_only_what_is_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{report.BEGIN}\nold\n{report.END}\n\nafter\n")
    for _ in range(2):
        report.write(page, "| new |\n")
    assert page.read_text() == f"before\n\n{report.BEGIN}\n\n| new |\n\n{report.END}\n\nafter\n"


def test_a_page_without_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    with pytest.raises(ValueError, match="marks"):
        report.write(page, "| new |\n")


def test_the_page_in_the_tree_has_its_marks() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md").read_text()
    assert text.count(report.BEGIN) == 1
    assert text.count(report.END) == 1


def test_cases_have_their_own_names_and_rows_their_own_keys() -> None:
    names = [case.name for case in cases.ALL]
    assert len(set(names)) == len(names)
    for case in cases.ALL:
        keys = [row.key for row in case.rows]
        assert len(set(keys)) == len(keys), case.name


def test_the_steady_state_of_producer_performance_is_read() -> None:
    said = (
        "312500 records sent, 68470.639790 records/sec (6.53 MB/sec), 1540.48 ms avg latency, 2212.00 ms max latency.\n"
        "250000 steady state records sent, 77930.174564 records/sec (10.00 MB/sec), 1765.88 ms avg latency.\n"
    )
    assert java_tools.produced_mb_per_s(said) == pytest.approx(10.48576)


def test_consumer_performance_is_read_without_the_time_to_join() -> None:
    said = (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
        "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
        "2026-01-01 10:00:00:000, 2026-01-01 10:00:06:000, 23.8678, 3.7861, 250272, 39700.5, 4987, 1317, 10.0, 190031.9\n"
    )
    assert java_tools.consumed_mb_per_s(said, 250_000) == pytest.approx(10.48576)
    with pytest.raises(LoadError, match="250272 of 300000"):
        java_tools.consumed_mb_per_s(said, 300_000)


def test_flat_memory_is_one() -> None:
    assert memory.flatness([10, 20, 30, 40] + [50.0] * 12) == 1.0
    assert memory.flatness([float(n) for n in range(100, 200)]) > 1.3


def test_a_busy_machine_is_confessed() -> None:
    run = results(HEADRACE_FLUSH=[1000])
    run.outcomes["case"].others = [0.01, 0.02]
    assert "not quiet" not in report.markdown(run, [CASE])
    run.outcomes["case"].others = [0.01, 0.3, 0.4]
    assert "others took 30% of it in the median run and 40% in the worst" in report.markdown(run, [CASE])
