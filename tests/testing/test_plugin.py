"""The pytest plugin, as a project that installed Headrace meets it: pytest finds it by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def headrace_settings():
    return {"num.partitions": 3}
"""

USES = """
import pytest
from confluent_kafka import Producer

def partitions(server, topic):
    producer = Producer({"bootstrap.servers": server.kafka, "log_level": 2})
    producer.produce(topic, b"x")
    assert producer.flush(20) == 0
    return len(producer.list_topics(topic, 20).topics[topic].partitions)

pids = set()

def test_own(headrace_server):
    pids.add(headrace_server.pid)
    assert partitions(headrace_server, "t") == 3
    headrace_server.crash()
    headrace_server.restart()

def test_another_own(headrace_server):
    assert headrace_server.pid not in pids

@pytest.mark.headrace(durability="memory", num_partitions=7)
def test_marked(headrace_server):
    assert partitions(headrace_server, "t") == 7
    assert "memory" in headrace_server.log_text()

def test_shared(headrace_shared_server):
    pids.add(headrace_shared_server.pid)

def test_still_shared(headrace_shared_server):
    assert headrace_shared_server.pid in pids
    assert partitions(headrace_shared_server, "u") == 3

def test_factory(headrace_factory, tmp_path):
    one, two = headrace_factory(), headrace_factory(data=tmp_path / "two", settings={"num.partitions": 5})
    assert one.kafka != two.kafka
    assert partitions(two, "t") == 5
"""

FAILS = """
import socket

def test_fails(headrace_server):
    host, port = headrace_server.kafka.split(":")
    with socket.create_connection((host, int(port)), 5) as link:
        link.sendall(b"\\xff" * 4)
        assert link.recv(1) == b""
    raise AssertionError("on purpose")

def test_server_gone(headrace_server):
    import os, signal
    from headrace.testing import wait_until
    os.kill(headrace_server.pid, signal.SIGKILL)
    wait_until(lambda: not headrace_server.running)
"""


@pytest.fixture
def run(tmp_path: Path):
    def pytest_on(code: str) -> tuple[int, str]:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(code)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--strict-markers",
                "-p",
                "no:cacheprovider",
                "--rootdir",
                str(tmp_path),
                str(tmp_path),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
        )
        return done.returncode, done.stdout + done.stderr

    return pytest_on


def test_the_fixtures_give_servers_as_asked_for(run):
    code, output = run(USES)
    assert code == 0, output
    assert "6 passed" in output


def test_a_failing_test_shows_the_log_of_its_server_and_a_dead_server_fails_its_test(run):
    code, output = run(FAILS)
    assert code == 1
    assert "on purpose" in output
    assert "Headrace log of 127.0.0.1:" in output
    assert "a frame of -1 bytes" in output
    assert "the Headrace server ended by itself with signal SIGKILL" in output
    assert "1 failed, 1 passed, 1 error" in output


def test_the_plugin_costs_other_projects_next_to_nothing():
    code = "import pytest, sys; import headrace.testing.plugin; print(*(m for m in sys.modules if m.startswith('headrace')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"headrace", "headrace.testing", "headrace.testing.plugin", "headrace.testing.server"}
