from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from tests.http.management.asking import Api

from headrace.testing import HeadraceServer


@pytest.fixture(scope="session")
def server(headrace_settings: dict[str, object]) -> Iterator[HeadraceServer]:
    """One for all tests of this folder; nothing that is asked of it may make it fail."""
    with HeadraceServer(settings=headrace_settings) as server:
        yield server
        assert "Traceback" not in server.log_text()


@pytest.fixture
def api(server: HeadraceServer) -> Api:
    return Api(server.http)


@pytest.fixture
def client(server: HeadraceServer) -> Iterator[Any]:
    """A connection of pika."""
    connection = pika.BlockingConnection(pika.URLParameters(server.amqp))
    yield connection
    with contextlib.suppress(pika.exceptions.AMQPError):  # a test may have closed it
        connection.close()


@pytest.fixture
def name() -> str:
    """A name that nobody else uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def queue(api: Api, name: str) -> Iterator[str]:
    """A durable queue of its own."""
    assert api.put(f"/queues/%2F/{name}", {"durable": True}) == 201
    yield name
    api.delete(f"/queues/%2F/{name}")
