"""A log file as entries: where they begin, what belongs to them, and how much of them is kept."""

from pathlib import Path

from headrace.spark.runner.log_lines import MOST_AT_ONCE, MOST_BEHIND, MOST_CHARACTERS, LogEntry, LogFile

NOW = "2026-03-01T10:00:00.000Z"
AT = "2026-03-01T09:30:00.123Z"


def entries(path: Path, text: str) -> list[LogEntry]:
    path.write_text(text)
    return LogFile(path).news(NOW, last=True)


def test_a_line_has_a_time_a_level_a_logger_and_where_known_a_query(tmp_path: Path) -> None:
    text = f"{AT} WARN TaskSetManager: Lost task\n{AT} ERROR MicroBatchExecution [alerts]: Query alerts [id = 1] ended: why\n"
    assert entries(tmp_path / "log", text) == [
        LogEntry(AT, "WARN", "Lost task", "TaskSetManager"),
        LogEntry(AT, "ERROR", "Query alerts [id = 1] ended: why", "MicroBatchExecution", "alerts"),
    ]


def test_a_stack_trace_belongs_to_the_line_above_it(tmp_path: Path) -> None:
    trace = "org.apache.spark.SparkException: no\n\tat a.b(C.scala:1)\nCaused by: x\n\t... 3 more"
    (found, after) = entries(tmp_path / "log", f"{AT} ERROR E [q]: it failed\n{trace}\n{AT} WARN W: after\n")
    assert found.text == f"it failed\n{trace}"
    assert after.text == "after"


def test_what_nothing_begins_is_an_entry_of_its_own_and_a_traceback_an_error(tmp_path: Path) -> None:
    (found,) = entries(tmp_path / "log", "WARNING: Using incubator modules: jdk.incubator.vector\n")
    assert found == LogEntry(NOW, "OUT", "WARNING: Using incubator modules: jdk.incubator.vector")
    (found,) = entries(tmp_path / "log", "Traceback (most recent call last):\n  File x\nValueError: no\n")
    assert (found.level, found.text.splitlines()[-1]) == ("ERROR", "ValueError: no")


def test_lines_are_told_as_they_are_written_and_never_twice(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogFile(path)
    assert log.news(NOW) == []  # there is no file yet
    with path.open("w") as file:
        file.write(f"{AT} WARN A: one\n  more of it\n{AT} WARN B: tw")
        file.flush()
        assert [one.text for one in log.news(NOW)] == []  # more may follow
        file.write("o\n")
        file.flush()
        assert [one.text for one in log.news(NOW)] == ["one\n  more of it"]
        assert [one.text for one in log.news(NOW)] == ["two"]  # nothing has followed
        assert log.news(NOW) == []


def test_of_a_very_long_entry_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    lines = [f"\tat line {number}" for number in range(5000)]
    (found,) = entries(tmp_path / "log", f"{AT} ERROR E: deep\n" + "\n".join(lines) + "\n")
    kept = found.text.splitlines()
    assert (kept[0], kept[-1]) == ("deep", lines[-1])
    assert any("lines more are in the file" in line for line in kept)
    assert len(found.text) <= MOST_CHARACTERS + 100


def test_a_file_that_grows_too_fast_is_passed_over_in_part_and_that_is_said(tmp_path: Path) -> None:
    line = f"{AT} WARN A: " + "x" * 100 + "\n"
    path = tmp_path / "log"
    path.write_text(line * (2 * MOST_BEHIND // len(line)))
    log = LogFile(path)
    found = log.news(NOW)
    assert found[0].level == "WARN"
    assert found[0].text.endswith(f"bytes of the log were left out here; they are in {path}")
    assert sum(len(one.text) for one in found) <= MOST_AT_ONCE
    assert {one.text for one in found[2:]} == {"x" * 100}


def test_bytes_that_are_no_text_and_a_line_without_an_end_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(f"{AT} WARN A: ".encode() + b"\xff\xfe\x00" + b"\n" + b"y" * (3 * MOST_CHARACTERS))
    first, *_ = LogFile(path).news(NOW, last=True)
    assert first.text.startswith("\ufffd\ufffd\x00")
    assert len(first.text) <= 2 * MOST_CHARACTERS
