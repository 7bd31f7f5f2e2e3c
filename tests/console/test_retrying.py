"""All dead letters of a topic once more, whatever becomes of them."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from tests.http.v1.asking import V1

from headrace.console import retrying
from headrace.console.access import GUEST, Server, ServerError
from headrace.console.retrying import RetryOfAll
from headrace.testing import HeadraceServer, wait_until

VHOST = "/v1/vhosts/%2F"


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def dead(v1: V1, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a route to a queue that is not there: it has five dead letters, and two are looked at at once."""
    monkeypatch.setattr(retrying, "AT_ONCE", 2)
    name = f"dead-{uuid.uuid4().hex[:8]}"
    v1.publish(name, *range(5), partition=0)
    target = {"type": "exchange", "exchange": "", "routing_key": f"{name}-queue"}
    assert v1.ask("PUT", f"/v1/routes/{name}", {"topic": name, "destination": target}).status == 201
    wait_until(lambda: v1.get(f"/v1/routes/{name}")["dead_lettered"] == 5, what="the dead letters")
    return name


def retried(server: HeadraceServer, topic: str, told: Any = None, *, dead: bool = True) -> RetryOfAll:
    async def run() -> RetryOfAll:
        asked = Server(server.http)
        try:
            every = RetryOfAll(asked.access(GUEST), topic, lambda event: dead)
            await every.run(lambda: told(every) if told else None)
            return every
        finally:
            await asked.close()

    return asyncio.run(run())


def test_all_go_once_more_step_by_step(headrace_shared_server: HeadraceServer, v1: V1, dead: str) -> None:
    assert v1.ask("PUT", f"{VHOST}/queues/{dead}-queue", {}).status == 201
    steps: list[int] = []
    every = retried(headrace_shared_server, f"{dead}.dead-letters", lambda done: steps.append(done.moved))
    assert (every.moved, every.failed, every.total) == (5, 0, 5)
    assert steps == [2, 4, 5]
    wait_until(lambda: v1.get(f"{VHOST}/queues/{dead}-queue")["messages_ready"] == 5, what="all in the queue")


def test_what_fails_once_more_is_not_retried_for_ever(headrace_shared_server: HeadraceServer, v1: V1, dead: str) -> None:
    """Each becomes a dead letter again, behind the end that there was."""
    every = retried(headrace_shared_server, f"{dead}.dead-letters")
    assert every.moved == 5
    wait_until(lambda: v1.get(f"/v1/routes/{dead}")["dead_lettered"] == 10, what="five more dead letters")


def test_it_ends_where_it_is_stopped(headrace_shared_server: HeadraceServer, dead: str) -> None:
    def stop(every: RetryOfAll) -> None:
        every.stopped = True

    assert retried(headrace_shared_server, f"{dead}.dead-letters", stop).moved == 2


def test_what_is_no_dead_letter_is_left_alone(headrace_shared_server: HeadraceServer, v1: V1, dead: str) -> None:
    assert retried(headrace_shared_server, dead, dead=False).moved == 0
    every = retried(headrace_shared_server, dead)  # asked for all the same
    assert (every.moved, every.failed, every.why) == (0, 5, "it does not say where it came from")
    with pytest.raises(ServerError):
        retried(headrace_shared_server, f"{dead}-not-there")
