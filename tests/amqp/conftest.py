"""A server for the tests of this folder, or another one at HEADRACE_PEER_AMQP: what is said on the wire is the same as with
RabbitMQ, and nearly all of these tests pass against one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.amqp.wire import Wire

from headrace.testing import HeadraceServer

PEER = "HEADRACE_PEER_AMQP"


@pytest.fixture(scope="session")
def amqp_server(headrace_settings: dict[str, object]) -> Iterator[HeadraceServer | None]:
    if os.environ.get(PEER):
        yield None
        return
    with HeadraceServer(settings=headrace_settings) as server:
        yield server
        assert "Traceback" not in server.log_text()


@pytest.fixture(scope="session")
def amqp_url(amqp_server: HeadraceServer | None) -> str:
    return os.environ[PEER] if amqp_server is None else amqp_server.amqp


@pytest.fixture
def connect(amqp_url: str) -> Iterator[Callable[..., Wire]]:
    """Makes connections; the ready ones have logged in and opened `/`."""
    opened: list[Wire] = []

    def make(*, ready: bool = True, **options: object) -> Wire:
        wire = Wire(amqp_url)
        opened.append(wire)
        if ready:
            wire.log_in(**options)  # type: ignore[arg-type]
        return wire

    yield make
    for wire in opened:
        wire.close()


@pytest.fixture
def name() -> str:
    """A name that nobody else uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
