"""Fixtures for tests with AMQP 0-9-1 clients.

The tests run on a Headrace of their own, or on whatever broker the environment names: that is how they are known to be right.

    AMQP_URL=amqp://guest:guest@host:5672/      the broker to test; RabbitMQ 3.10 with its consistent-hash plugin passes
    AMQP_MANAGEMENT_URL=http://host:15672       its management API, optional
    AMQP_RESTART='a command'                    stops and starts it, for tests of what survives; without it they are skipped

Every test has queue and exchange names of its own, so that tests may run at the same time on one broker.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from tests.interop.amqp.program import Program

from headrace.testing import HeadraceServer, wait_until

BLOCKED_S = 30  # a client that waits longer than this for the broker has failed


@dataclass(slots=True)
class Broker:
    """The broker under test, ours or another."""

    url: str
    management: str | None = None
    server: HeadraceServer | None = None
    restart_command: str = ""

    @property
    def outside(self) -> bool:
        """Not ours: a real RabbitMQ, which the expectations come from."""
        return self.server is None

    def parameters(self, **options: object) -> pika.URLParameters:
        parameters = pika.URLParameters(self.url)
        parameters.socket_timeout = parameters.blocked_connection_timeout = BLOCKED_S
        parameters.stack_timeout = 2 * BLOCKED_S
        for name, value in options.items():
            setattr(parameters, name, value)
        return parameters

    def connect(self, **options: object) -> BlockingConnection:
        return BlockingConnection(self.parameters(**options))

    def restart(self, *, crash: bool = False) -> None:
        """Ends the broker, with kill -9 if asked to, and starts it again on its data."""
        if self.server is not None:
            if crash:
                self.server.crash()
            self.server.restart()
            return
        if not self.restart_command:
            pytest.skip("AMQP_RESTART does not say how to restart this broker")
        subprocess.run(shlex.split(self.restart_command), check=True, timeout=120, stdout=subprocess.DEVNULL)
        wait_until(self._answers, timeout_s=60, what="the restarted broker")

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except Exception:
            return False
        return True


def outside_broker() -> Broker | None:
    if url := os.environ.get("AMQP_URL"):
        return Broker(url, os.environ.get("AMQP_MANAGEMENT_URL"), None, os.environ.get("AMQP_RESTART", ""))
    return None


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Broker:
    """The broker that the session's tests share. Don't restart it."""
    if outside := outside_broker():
        return outside
    return _ours(request.getfixturevalue("headrace_shared_server"))


def _ours(server: HeadraceServer) -> Broker:
    return Broker(server.address("amqp"), server.http, server)


@pytest.fixture
def own_broker(headrace_factory: Callable[..., HeadraceServer]) -> Broker:
    """A broker that the test may restart."""
    if outside := outside_broker():
        if not outside.restart_command:
            pytest.skip("AMQP_RESTART does not say how to restart this broker")
        return outside
    return _ours(headrace_factory())


@dataclass(slots=True)
class Made:
    """Names to delete after the test."""

    queues: list[str] = field(default_factory=list)
    exchanges: list[str] = field(default_factory=list)


@pytest.fixture
def made(broker: Broker) -> Iterator[Made]:
    made = Made()
    yield made
    if not made.queues and not made.exchanges:
        return
    connection = broker.connect()
    for delete, names in (("queue_delete", made.queues), ("exchange_delete", made.exchanges)):
        for name in names:
            channel = connection.channel()
            try:
                getattr(channel, delete)(name)
            except pika.exceptions.AMQPChannelError:
                continue  # held by the test's own connection, which deletes it
            channel.close()
    connection.close()


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[..., BlockingConnection]]:
    """Opens connections, closed after the test: `connect(heartbeat=2)`."""
    connections: list[BlockingConnection] = []

    def make(**options: object) -> BlockingConnection:
        connections.append(broker.connect(**options))
        return connections[-1]

    yield make
    for connection in connections:
        if connection.is_open:
            connection.close()


@pytest.fixture
def connection(connect: Callable[..., BlockingConnection]) -> BlockingConnection:
    return connect()


@pytest.fixture
def channel(connection: BlockingConnection) -> BlockingChannel:
    """A channel in confirm mode: `basic_publish` returns when the broker has the message."""
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


@pytest.fixture
def make_queue(channel: BlockingChannel, made: Made, unique: Callable[[str], str]) -> Callable[..., str]:
    """Declares queues with names of their own: `make_queue(durable=True, **{"x-max-length": 3})`."""

    def make(stem: str = "queue", *, durable: bool = True, exclusive: bool = False, auto_delete: bool = False, **arguments):
        name = unique(stem)
        channel.queue_declare(name, durable=durable, exclusive=exclusive, auto_delete=auto_delete, arguments=arguments)
        if not exclusive:
            made.queues.append(name)
        return name

    return make


@pytest.fixture
def make_exchange(channel: BlockingChannel, made: Made, unique: Callable[[str], str]) -> Callable[..., str]:
    """Declares exchanges with names of their own: `make_exchange("topic")`."""

    def make(
        kind: str, stem: str = "exchange", *, internal: bool = False, auto_delete: bool = False, **arguments: object
    ) -> str:
        name = unique(stem)
        channel.exchange_declare(
            name, kind, durable=not auto_delete, internal=internal, auto_delete=auto_delete, arguments=arguments
        )
        made.exchanges.append(name)
        return name

    return make


@pytest.fixture
def run(broker: Broker, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts programs of examples/amqp on the broker, and kills what is left: `run("hello/receive.py")`."""
    programs: list[Program] = []

    def start(*arguments: str, **environment: str) -> Program:
        programs.append(Program(tmp_path, *arguments, url=broker.url, environment=environment))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()
