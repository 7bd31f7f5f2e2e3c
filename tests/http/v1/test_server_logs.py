"""The last lines of the server's log over HTTP, and the support bundle that carries them."""

from __future__ import annotations

import io
import json
import logging
import socket
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from tests.http.v1.asking import V1, assert_problem

from headrace.logs import ERROR_CHARS, LINES_KEPT, MESSAGE_CHARS, Kept
from headrace.testing import HeadraceServer, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer(settings={"kinesis.credentials": "AKID:wJalrXUtnFEMI", "num.io.threads": 4}) as started:
        yield started


@pytest.fixture
def v1(server: HeadraceServer) -> V1:
    return V1(server)


def lines(v1: V1, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = v1.get(f"/v1/logs?{query}")["lines"]
    return found


def disturb(server: HeadraceServer) -> None:
    """A peer that sends what is no Kafka: one line in the log."""
    host, _, port = server.kafka.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as opened:
        opened.sendall(b"\xff" * 8)
        while opened.recv(100):
            pass


def test_lines_are_found_by_level_and_text_and_followed_by_number(server: HeadraceServer, v1: V1) -> None:
    (warned,) = lines(v1, "level=warning&text=NUM.IO.THREADS")
    assert warned["level"] == "warning"
    assert warned["logger"] == "headrace"
    assert warned["message"] == "these settings have no effect here: num.io.threads"
    assert warned["error"] is None
    last = v1.get("/v1/logs")["last"]
    assert lines(v1, f"after={last}") == []
    disturb(server)
    wait_until(lambda: bool(lines(v1, f"after={last}")))
    (new,) = lines(v1, f"after={last}")
    assert (new["number"], new["logger"]) == (last + 1, "headrace.kafka")
    assert [each["number"] for each in lines(v1)] == list(range(1, last + 2))
    assert [each["number"] for each in lines(v1, "limit=1")] == [last + 1], "the newest"
    assert lines(v1, "level=error") == []


def test_what_can_not_be_asked_for_is_a_problem(v1: V1) -> None:
    assert_problem(v1.ask("GET", "/v1/logs?level=loud"), 400, "invalid_parameter")
    assert_problem(v1.ask("GET", "/v1/logs?after=-1"), 400, "invalid_parameter")
    assert_problem(v1.ask("GET", f"/v1/logs?limit={LINES_KEPT + 1}"), 400, "invalid_parameter")


def test_the_log_and_the_bundle_are_not_for_everybody(v1: V1) -> None:
    for name, tags in (("mona", "monitoring"), ("carl", "management")):
        v1.ask("PUT", f"/api/users/{name}", {"password": "x", "tags": tags}, user="guest:guest")
    assert_problem(v1.ask("GET", "/v1/logs", user="carl:x"), 403, "forbidden")
    assert v1.ask("GET", "/v1/logs", user="mona:x").status == 200
    assert_problem(v1.ask("GET", "/v1/support", user="mona:x"), 403, "forbidden", "administrator")


def test_the_bundle_holds_what_helps_and_no_secret(v1: V1) -> None:
    v1.ask("POST", "/v1/topics", {"name": "orders", "partitions": 2})
    v1.publish("orders", "confidential-value")
    v1.ask("PUT", "/api/queues/%2F/jobs", {"durable": True}, user="guest:guest")
    answer = v1.ask("GET", "/v1/support")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"].startswith('attachment; filename="headrace-support-')
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        files = {name.removeprefix("headrace-support/"): packed.read(name) for name in packed.namelist()}
    assert sorted(files) == [
        "about.json", "groups.csv", "log.txt", "metrics.txt", "overview.json", "queues.csv", "routes.csv", "settings.json",
        "storage.json", "topics.csv",
    ]  # fmt: skip
    about = json.loads(files["about.json"])
    assert about["connections"]["http"] == 1
    assert sorted(about["listeners"]) == ["amqp", "http", "kafka", "kinesis"]
    assert any(line.startswith("orders,2,") for line in files["topics.csv"].decode().splitlines())
    assert "/,jobs,classic,0,0,0" in files["queues.csv"].decode().splitlines()
    assert b"headrace_build_info" in files["metrics.txt"] or b"headrace_" in files["metrics.txt"]
    assert b"these settings have no effect here: num.io.threads" in files["log.txt"]
    whole = b"".join(files.values())
    assert b"wJalrXUtnFEMI" not in whole
    assert b"confidential-value" not in whole
    assert b"guest:" not in whole


def record(message: str, error: Exception | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("headrace.test", logging.ERROR, "x.py", 1, message, (), info)


def test_only_the_last_lines_are_kept_and_long_ones_are_cut() -> None:
    kept = Kept(lines=3)
    for number in range(5):
        kept.emit(record(f"line {number}"))
    assert [(line.number, line.message) for line in kept.newest_first()] == [(5, "line 4"), (4, "line 3"), (3, "line 2")]
    kept.emit(record("m" * 10_000, ValueError("e" * 20_000)))
    newest = next(kept.newest_first())
    assert newest.message == "m" * MESSAGE_CHARS + "…"
    assert newest.error is not None
    assert (len(newest.error), newest.error[0], newest.error[-1]) == (ERROR_CHARS + 1, "…", "e")


def test_a_line_whose_arguments_do_not_fit_is_left_out() -> None:
    kept = Kept()
    broken = record("%d lines")
    broken.args = ("many",)
    kept.emit(broken)
    assert (kept.last, list(kept.newest_first())) == (0, [])
