"""`headrace status`, `top` and `doctor` against a server."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import socket
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest

from headrace import __version__
from headrace.cli import doctor
from headrace.spark.runner.feeding import BackgroundFeed
from headrace.testing import wait_until


@pytest.fixture
def headrace_shared_server(headrace_server: Any) -> Any:
    """One of its own: what others leave behind would stand first in what is told."""
    return headrace_server


@pytest.fixture
def cli(managed: Any, headrace: Any) -> Any:
    return headrace


@pytest.fixture
def busy(cli: Any) -> tuple[str, str, str]:
    """A topic with five records of which a group without members has read two, and a queue with one message."""
    tail = uuid.uuid4().hex[:8]
    topic, group, queue = f"topic-{tail}", f"group-{tail}", f"queue-{tail}"
    cli("topic", "create", topic, "--partitions", "1")
    cli("produce", topic, "a", "b", "c", "d", "e")
    cli("consume", topic, "--group", group, "--from", "earliest", "--count", "2")
    cli("queue", "declare", queue)
    cli("queue", "publish", queue, "hello")
    return topic, group, queue


def test_status_is_the_overview_as_text_and_as_json(cli: Any, busy: tuple[str, str, str]) -> None:
    _, group, _ = busy
    told = cli("status", "--json").json
    assert told["version"] == __version__
    assert told["health"] == {"ready": True, "reason": None}
    assert set(told["protocols"]) >= {"kafka", "amqp", "kinesis", "http"}

    def shows_the_group() -> bool:
        lines = cli("status").lines
        return any(line.split() == [group, "3", "0"] for line in lines) and "takes writes" in lines[0]

    wait_until(shows_the_group, what="the group's lag")
    kafka = next(line for line in cli("status").lines if line.startswith("kafka"))
    assert told["listeners"]["kafka"] in kafka


@pytest.mark.parametrize("command", ["status", "top"])
def test_who_looks_first_sees_rates_too(cli: Any, headrace_shared_server: Any, command: str) -> None:
    """The server's rates are those since the look before, and here there was none."""
    feed = BackgroundFeed(headrace_shared_server.kafka, "shop", 50.0)
    try:
        wait_until(lambda: feed.sent > 20, timeout_s=30, what="events of the shop")
        told = cli(command, "--json").json
        overview = told["overview"] if command == "top" else told
        assert overview["protocols"]["kafka"]["bytes_in_per_s"] > 0
        if command == "top":
            assert any(topic["records_per_s"] > 0 for topic in told["topics"])
    finally:
        feed.close()


def test_top_prints_once_where_nobody_watches(cli: Any, busy: tuple[str, str, str]) -> None:
    topic, _, queue = busy
    told = cli("top", "--json").json
    assert {each["name"]: each["records"] for each in told["topics"]}[topic] == 5
    assert {"vhost": "/", "name": queue, "messages": 1, "consumers": 0} in told["queues"]
    assert all(each["records_per_s"] == 0 for each in told["topics"])  # nobody writes meanwhile
    text = cli("top").text
    for heading in ("PROTOCOL", "TOPIC", "RECORDS/S", "QUEUE", "CONSUMERS"):
        assert heading in text
    assert "\x1b" not in text


def test_top_ends_with_q_and_leaves_the_terminal_as_it_was(cli: Any) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    command = [sys.executable, "-m", "headrace", "top", "--every", "30"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as running:
        os.close(theirs)
        shown = b""
        deadline = time.monotonic() + 60
        while b"PROTOCOL" not in shown and time.monotonic() < deadline:
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536)
        os.write(ours, b"q")
        with contextlib.suppress(OSError):  # the other end is closed
            while time.monotonic() < deadline:
                if select.select([ours], [], [], 1)[0]:
                    shown += os.read(ours, 65536)
        assert running.wait(30) == 0
    os.close(ours)
    assert b"\x1b[?1049h" in shown  # its own screen
    assert shown.rindex(b"\x1b[?1049l") > shown.rindex(b"PROTOCOL")


def test_doctor_finds_what_is_wrong_and_says_what_to_do(cli: Any, busy: tuple[str, str, str]) -> None:
    _, group, queue = busy
    cli("topic", "create", f"wide-{queue}", "--partitions", "9")
    cli("produce", f"wide-{queue}", "only one")
    found = cli("doctor", "--json", code=None)
    findings = found.json["findings"]
    assert found.code == (1 if any(one["severity"] == "error" for one in findings) else 0)
    texts = [(one["severity"], one["check"], one["what"]) for one in findings]
    assert ("warning", "groups", f"group '{group}' has no members and is 3 records behind") in texts
    assert ("info", "queues", f"queue '{queue}' of vhost '/' has 1 messages and no consumers") in texts
    assert ("info", "partitions", f"topic 'wide-{queue}' has 9 partitions and 1 records") in texts
    assert not [text for text in texts if text[1] in ("version", "clock", "guest", "login", "server")]
    assert all(one["why"] and one["do"] for one in findings)
    assert found.json["skipped"] == []
    text = cli("doctor", code=found.code).text
    assert f"WARNING group '{group}' has no members" in text
    assert "        do:  " in text


def test_doctor_tells_which_ports_listen_where_no_server_answers(offline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other, socket.socket() as nobody:
        other.bind(("127.0.0.1", 0))
        other.listen()
        nobody.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        monkeypatch.setattr(doctor, "USUAL_PORTS", {port: "Kafka"})
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        (finding,) = offline("doctor", "--http", url, "--json", code=1).json["findings"]
    assert (finding["severity"], finding["check"]) == ("error", "server")
    assert finding["why"] == f"on 127.0.0.1 these listen instead: {port} (Kafka)"


def test_a_wrong_password_is_a_finding_too(cli: Any) -> None:
    result = cli("doctor", "--user", "guest", "--password", "wrong", "--json", code=1)
    (finding,) = result.json["findings"]
    assert finding["check"] == "login"


def test_a_server_that_is_not_there_is_one_sentence(offline: Any) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        result = offline("status", "--http", f"127.0.0.1:{nobody.getsockname()[1]}", "--json", code=1)
    assert "nothing listens at" in json.loads(result.err)["error"]["message"]
