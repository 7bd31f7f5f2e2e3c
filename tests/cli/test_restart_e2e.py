"""The server is killed and comes back while the command line is at work."""

import signal
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from headrace.testing import wait_until


@pytest.fixture
def server(headrace_server: Any) -> str:
    """A server of the test's own, in place of the shared one."""
    return str(headrace_server.kafka)


def _answered(server: Any, api: str) -> bool:
    with urllib.request.urlopen(f"{server.http}/metrics", timeout=20) as answer:
        return f'headrace_request_seconds_count{{api="{api}",protocol="kafka"}} 1.0' in answer.read().decode()


def test_a_pipe_goes_on_after_a_crash_and_every_record_is_there_once(
    start: Callable[..., Any], headrace_server: Any, headrace: Any, topic: str
) -> None:
    reader = start("consume", topic)
    writer = start("produce", topic)
    for number in range(3):
        writer.write(b"before %d\n" % number)
        assert reader.line() == f"before {number}"
    headrace_server.crash()
    writer.write(b"while it was down\n")
    headrace_server.restart()
    assert reader.line() == "while it was down"
    writer.write(b"after\n")
    assert reader.line() == "after"
    assert writer.end()[0] == 0
    assert reader.end(signal.SIGINT) == (130, "5 records\n")
    assert len(headrace("consume", topic, "-e").lines) == 5


def test_a_member_of_a_group_reads_on_after_a_crash(
    start: Callable[..., Any], headrace_server: Any, headrace: Any, topic: str, group: str
) -> None:
    reader = start("consume", topic, "-g", group)
    headrace("produce", topic, "before")
    assert reader.line() == "before"
    headrace_server.crash()
    headrace_server.restart()
    headrace("produce", topic, "after")
    seen = reader.line()
    while seen == "before":  # its offset may not have been committed
        seen = reader.line()
    assert seen == "after"
    assert reader.end(signal.SIGINT)[0] == 130
    assert headrace("consume", topic, "-g", group, "-e").lines == []


def test_a_server_that_stays_away_is_an_error_that_counts_what_is_missing(
    start: Callable[..., Any], headrace_server: Any, topic: str
) -> None:
    reader = start("consume", topic)
    writer = start("produce", topic, "--timeout", "1")
    writer.write(b"one\n")
    assert reader.line() == "one"
    wait_until(lambda: _answered(headrace_server, "Produce"), what="the answer to the writer")  # a reader may be told first
    headrace_server.crash()
    writer.write(b"two\n")
    code, err = writer.end()
    assert code == 1
    assert err.count("\n") == 1
    assert "1 record was acknowledged, 1 record not" in err
