"""Dramatiq: the application in examples/amqp with its own worker."""

from __future__ import annotations

import pytest
from tests.interop.amqp.inbox import wait_for_count

from headrace.testing import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


def test_actors_run_are_retried_delayed_and_given_up(run, tmp_path, unique, made, channel):
    queue, diary = unique("dramatiq"), tmp_path / "diary.txt"
    made.queues += [queue, f"{queue}.DQ", f"{queue}.XQ"]
    environment = {"DRAMATIQ_QUEUE": queue, "DRAMATIQ_DIARY": str(diary)}
    run(
        "-c",
        """
from dramatiq_app import *
note.send_with_options(args=("later",), delay=1000)
for number in range(50):
    note.send(f"note {number}")
flaky.send("flaky", 2)
hopeless.send()
""",
        **environment,
    ).finish()
    worker = run("-m", "dramatiq", "dramatiq_app", "--processes", "1", "--threads", "4", **environment)
    wanted = {f"note {number}" for number in range(50)} | {"later", "flaky done"}

    def lines():
        return diary.read_text().splitlines() if diary.exists() else []

    wait_until(lambda: wanted <= set(lines()), timeout_s=60, what=f"the diary, not {worker.text}")
    assert sorted(lines()) == sorted([*wanted, "flaky failed", "flaky failed"])  # each once
    wait_for_count(channel, f"{queue}.XQ", 1)  # the hopeless one


def test_a_killed_worker_s_messages_go_to_the_next(run, tmp_path, unique, made):
    queue, diary = unique("dramatiq"), tmp_path / "diary.txt"
    made.queues += [queue, f"{queue}.DQ", f"{queue}.XQ"]
    environment = {"DRAMATIQ_QUEUE": queue, "DRAMATIQ_DIARY": str(diary)}
    run("-c", "from dramatiq_app import *\nfor number in range(500): note.send(f'note {number}')", **environment).finish()
    worker = run("-m", "dramatiq", "dramatiq_app", "--processes", "1", "--threads", "2", **environment)
    wait_until(lambda: diary.exists() and len(diary.read_text().splitlines()) > 20, timeout_s=60, what="some work")
    worker.kill()
    run("-m", "dramatiq", "dramatiq_app", "--processes", "1", "--threads", "2", **environment)
    wanted = {f"note {number}" for number in range(500)}
    wait_until(lambda: wanted <= set(diary.read_text().splitlines()), timeout_s=60, what="all the work")
