"""`headrace.connect`: who speaks which URL; and what importing `headrace` costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headrace
from headrace.client.connect import UnknownScheme


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("kafka://127.0.0.1:9092", "any Kafka client works"),
        ("amqp://127.0.0.1", "any client of RabbitMQ works"),
        ("tcp://127.0.0.1:5556", "write zmq\\+tcp://"),
        ("gopher://x", "does not speak gopher://"),
        ("127.0.0.1:5556", "is no URL"),
        ("", "is no URL"),
    ],
)
def test_a_url_that_nobody_speaks_is_told_what_there_is(url: str, hint: str) -> None:
    with pytest.raises(UnknownScheme, match=hint) as raised:
        headrace.connect(url)
    assert "zmq+tcp://, zmq+ipc://, udp://" in str(raised.value)


def test_importing_headrace_imports_nothing_else_of_it() -> None:
    code = """
import sys, headrace
assert [name for name in sys.modules if name.startswith("headrace")] == ["headrace"]
headrace.Event, headrace.Received, headrace.connect
assert "zmq" not in sys.modules
assert {"Event", "Received", "connect"} <= set(dir(headrace))
try:
    headrace.nonsense
except AttributeError as error:
    assert "nonsense" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
