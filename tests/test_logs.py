"""The server's log: lines for people, lines for machines, and never a flood of either."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path

from headrace.logs import JsonLines, RateLimit
from headrace.testing import free_port


def record(text: str, *given: object, at: float = 1000.0, error: BaseException | None = None) -> logging.LogRecord:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("headrace.kafka", logging.WARNING, "x.py", 1, text, given, exc_info)
    made.created, made.msecs = at, (at % 1) * 1000
    return made


def test_a_json_line_has_time_level_logger_and_message() -> None:
    line = json.loads(JsonLines().format(record("closed %s: %s", "peer", 'a "frame"\nof 7', at=1_000_000_000.125)))
    assert line == {
        "time": "2001-09-09T01:46:40.125Z",
        "level": "warning",
        "logger": "headrace.kafka",
        "message": 'closed peer: a "frame"\nof 7',
    }


def test_a_json_line_stays_one_line_with_an_error_in_it() -> None:
    try:
        raise ValueError("wrong")
    except ValueError as error:
        text = JsonLines().format(record("it failed", error=error))
    assert "\n" not in text
    assert json.loads(text)["error"].endswith("ValueError: wrong")


def test_lines_that_begin_alike_are_limited_in_each_second_and_what_is_left_out_is_told() -> None:
    limit = RateLimit(2)
    assert [limit.filter(record("closed %s", number)) for number in range(5)] == [True, True, False, False, False]
    assert limit.filter(record("something else"))
    after = record("closed %s", 5, at=1001.0)
    assert limit.filter(after)
    assert after.getMessage() == "closed 5 (3 lines like this one were left out)"
    last = record("closed %s", 6, at=1001.5)
    assert limit.filter(last)
    assert last.getMessage() == "closed 6"


def test_serve_writes_json_lines_when_asked(tmp_path: Path) -> None:
    port = free_port()
    words = ["serve", "--data", str(tmp_path), "--kafka", f"127.0.0.1:{port}", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    words += ["--kinesis", "127.0.0.1:0", "--durability", "flush", "--log-format", "json", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        assert json.loads(server.stdout.readline())["ready"]
        server.terminate()
        lines = [json.loads(line) for line in io.StringIO(server.stderr.read())]
    assert server.returncode == 0
    assert any(line["level"] == "warning" and line["message"].startswith("durability is flush") for line in lines)
