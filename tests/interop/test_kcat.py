"""kcat, as people use it from a shell. Needs the Debian package `kcat`."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from headrace.testing import wait_until

pytestmark = pytest.mark.interop

Kcat = Callable[..., str]


@pytest.fixture
def kcat(bootstrap: str) -> Kcat:
    """Runs kcat to its end and returns what it printed: `kcat("-C", "-t", topic, "-e", input="…")`."""
    if shutil.which("kcat") is None:
        pytest.skip("needs kcat (apt install kcat)")

    def run(*arguments: str, input: str = "", ok: bool = True) -> str:
        done = subprocess.run(["kcat", "-b", bootstrap, *arguments], input=input, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) == ok, done.stderr
        return done.stdout if ok else done.stderr

    return run


@pytest.fixture
def kcat_in_background(bootstrap: str, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Starts kcat and returns the file it prints to; it is killed after the test."""
    if shutil.which("kcat") is None:
        pytest.skip("needs kcat (apt install kcat)")
    running: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []

    def start(*arguments: str) -> Path:
        path = tmp_path / f"kcat-{len(running)}"
        output = path.open("wb")
        process = subprocess.Popen(["kcat", "-b", bootstrap, *arguments], stdout=output, stderr=output)
        running.append((process, output))
        return path

    yield start
    for process, output in running:
        process.kill()
        process.wait()
        output.close()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_as_they_went_in(compression, kcat, make_topic):
    topic = make_topic()
    lines = "".join(f"key-{n}:value-{n} {'x' * n}\n" for n in range(300))
    kcat("-P", "-t", topic, "-K:", "-z", compression, input=lines)
    assert kcat("-C", "-t", topic, "-e", "-q", "-K:") == lines


def test_keys_headers_nulls_times_and_offsets_as_json(kcat, make_topic):
    topic = make_topic()
    kcat("-P", "-t", topic, "-K:", "-Z", "-H", "one=1", "-H", "two=2", input="key:value\nkey:\n")
    first, second = (json.loads(line) for line in kcat("-C", "-t", topic, "-e", "-q", "-J").splitlines())
    assert (first["key"], first["payload"], first["offset"]) == ("key", "value", 0)
    assert first["headers"] == ["one", "1", "two", "2"]
    assert first["tstype"] == "create"
    assert abs(first["ts"] / 1000 - time.time()) < 300
    assert (second["payload"], second["offset"]) == (None, 1)


def test_reading_from_anywhere(kcat, make_topic):
    topic = make_topic()
    kcat("-P", "-t", topic, input="".join(f"{n}\n" for n in range(50)))
    assert kcat("-C", "-t", topic, "-e", "-q", "-o", "10", "-c", "3").split() == ["10", "11", "12"]
    assert kcat("-C", "-t", topic, "-e", "-q", "-o", "-2").split() == ["48", "49"]
    assert kcat("-C", "-t", topic, "-e", "-q", "-o", "end") == ""
    assert len(kcat("-C", "-t", topic, "-e", "-q", "-o", "s@1000").split()) == 50
    assert kcat("-Q", "-t", f"{topic}:0:1000").strip().endswith("offset 0")


def test_a_tail_follows_what_is_appended(kcat, kcat_in_background, make_topic):
    topic = make_topic()
    kcat("-P", "-t", topic, input="before\n")
    printed = kcat_in_background("-C", "-t", topic, "-o", "beginning", "-u")
    wait_until(lambda: "before" in printed.read_text(), timeout_s=30, what="the first record")
    kcat("-P", "-t", topic, input="after\n")
    wait_until(lambda: "after" in printed.read_text(), timeout_s=30, what="the second record")


def test_a_balanced_group_reads_everything(kcat, kcat_in_background, make_topic, unique):
    topic, group = make_topic(4), unique("group")
    members = [kcat_in_background("-G", group, "-o", "beginning", "-u", "-f", "%p-%o\n", topic) for _ in range(2)]
    for member in members:
        wait_until(lambda m=member: "assigned" in m.read_text(), timeout_s=30, what="an assignment")
    for partition in range(4):
        kcat("-P", "-t", topic, "-p", str(partition), input="".join(f"{n}\n" for n in range(10)))
    expected = {f"{p}-{n}" for p in range(4) for n in range(10)}
    wait_until(
        lambda: expected <= set("\n".join(member.read_text() for member in members).split()),
        timeout_s=30,
        what="all records",
    )


def test_metadata_names_brokers_topics_and_partitions(kcat, make_topic, bootstrap):
    topic = make_topic(3)
    listed = json.loads(kcat("-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listed["brokers"]] == [bootstrap]
    assert [p["partition"] for p in listed["topics"][0]["partitions"]] == [0, 1, 2]
    assert {p["leader"] for p in listed["topics"][0]["partitions"]} == {listed["brokers"][0]["id"]}


def test_a_record_that_is_too_large_fails_the_command(kcat, make_topic, tmp_path):
    topic = make_topic(config={"max.message.bytes": "500"})
    large = tmp_path / "large"
    large.write_text("x" * 2000)
    assert "too large" in kcat("-P", "-t", topic, str(large), ok=False).lower()
