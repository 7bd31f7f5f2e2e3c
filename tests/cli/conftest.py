"""Runs the command line against a server: in this process for most tests, as a process of its own where signals, pipes and
several consumers matter."""

from __future__ import annotations

import io
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from headrace.cli.main import run


@dataclass(frozen=True)
class Result:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


class Headrace(Protocol):
    def __call__(self, *arguments: str, stdin: bytes | str = b"", code: int | None = 0) -> Result: ...


class _Stdout(io.TextIOWrapper):
    """A stdout that is kept, flushed or not."""

    def __init__(self) -> None:
        self.kept = io.BytesIO()
        super().__init__(self.kept, write_through=True)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Headrace:
    """`offline("topic", "list", code=1)` runs the command line in this process, with no server in particular."""

    def call(*arguments: str, stdin: bytes | str = b"", code: int | None = 0) -> Result:
        given = tmp_path / f"stdin-{uuid.uuid4().hex}"
        given.write_bytes(stdin if isinstance(stdin, bytes) else stdin.encode())
        out, err = _Stdout(), io.StringIO()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with monkeypatch.context() as patch, given.open() as stdin_file:
                patch.setattr(sys, "stdin", stdin_file)
                patch.setattr(sys, "stdout", out)
                patch.setattr(sys, "stderr", err)
                ended = run(list(arguments))
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        result = Result(ended, out.kept.getvalue(), err.getvalue())
        if code is not None:
            assert result.code == code, f"{arguments} ended with {result.code}: {result.err or result.text}"
        return result

    return call


@pytest.fixture
def server(headrace_shared_server: Any) -> str:
    return str(headrace_shared_server.kafka)


@pytest.fixture
def headrace(offline: Headrace, monkeypatch: pytest.MonkeyPatch, server: str) -> Headrace:
    """The same with a server."""
    monkeypatch.setenv("HEADRACE_SERVER", server)
    return offline


@pytest.fixture
def managed(offline: Headrace, monkeypatch: pytest.MonkeyPatch, headrace_shared_server: Any) -> Headrace:
    """The same for the commands that speak to the management API."""
    monkeypatch.setenv("HEADRACE_HTTP", headrace_shared_server.http)
    return offline


@pytest.fixture
def kinesis(offline: Headrace, monkeypatch: pytest.MonkeyPatch, headrace_shared_server: Any) -> Headrace:
    """The same for the commands that speak to the Kinesis API, with nothing of AWS in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HEADRACE_KINESIS", headrace_shared_server.kinesis)
    return offline


@pytest.fixture
def topic(headrace: Headrace) -> str:
    """A new topic with one partition."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    headrace("topic", "create", name, "--partitions", "1")
    return name


@pytest.fixture
def wide(headrace: Headrace) -> str:
    """A new topic with four partitions."""
    name = f"wide-{uuid.uuid4().hex[:8]}"
    headrace("topic", "create", name, "--partitions", "4")
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


class Running:
    """The command line as a process; its lines can be waited for."""

    def __init__(self, server: str, arguments: tuple[str, ...]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"HEADRACE_SERVER": server, "PYTHONUNBUFFERED": "1"},
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.decode().rstrip("\n"))
        self._lines.put(None)

    def line(self, timeout_s: float = 30) -> str | None:
        """The next line it prints; None when it printed its last."""
        return self._lines.get(timeout=timeout_s)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self, signal_number: int | None = None, timeout_s: float = 30) -> tuple[int, str]:
        """Waits for it to end, after a signal if one is given; its exit code and what it said on stderr."""
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        if signal_number is not None:
            self.process.send_signal(signal_number)
        self.process.stdin.close()
        err = self.process.stderr.read().decode()
        return self.process.wait(timeout_s), err


@pytest.fixture
def start(server: str) -> Iterator[Callable[..., Running]]:
    """`start("consume", topic)` runs the command line as a process."""
    started: list[Running] = []

    def call(*arguments: str) -> Running:
        started.append(Running(server, arguments))
        return started[-1]

    yield call
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    def wait(condition: Callable[[], bool], timeout_s: float = 30) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.02)

    return wait
