"""The console's process ends when it is told to, and when whoever started it is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from headrace.testing import free_port, wait_until

pytest.importorskip("nicegui")

NOBODY = "http://127.0.0.1:9"
WITHIN_S = 20.0
STARTS_AND_ENDS = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-m", "headrace.console.process", *sys.argv[1:], "--with-parent", str(os.getpid())])
sys.stdin.read()
"""


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


def answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"http://{address}/login", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextlib.contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # whomever it has started as well


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_told_to(address: str, told: signal.Signals) -> None:
    with started("-m", "headrace.console.process", "--server", NOBODY, "--listen", address) as console:
        wait_until(lambda: answers(address), timeout_s=WITHIN_S, what="the console")
        console.send_signal(told)
        console.wait(WITHIN_S)
    assert not answers(address)


def test_it_ends_with_whoever_started_it(address: str) -> None:
    words = ["--server", NOBODY, "--listen", address]
    with started("-c", STARTS_AND_ENDS, *words) as parent:
        wait_until(lambda: answers(address), timeout_s=WITHIN_S, what="the console")
        parent.kill()
        wait_until(lambda: not answers(address), timeout_s=WITHIN_S, what="the end of the console")
