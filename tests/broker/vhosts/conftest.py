"""Virtual hosts on a log with a simulated disk, that can be crashed and started again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from tests.log.conftest import Rig

from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.queues.run import Run
from headrace.broker.settings import Settings
from headrace.broker.topics import Topics
from headrace.broker.vhosts.hosts import VirtualHosts
from headrace.broker.vhosts.publishing import Published
from headrace.broker.vhosts.vhost import VirtualHost
from headrace.record.amqp.message import Message, read_messages
from headrace.record.amqp.properties import Properties, encode_properties

T = TypeVar("T")


class Site:
    """One server's worth of virtual hosts."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.rig.open()
        self.hosts: VirtualHosts
        self.start()

    def start(self) -> None:
        settings = Settings.from_mapping({})
        topics = Topics(self.rig.log, settings)
        self.rig.run(topics.start())
        self.hosts = VirtualHosts(self.rig.log, self.rig.clock, settings, topics, random_bytes=self.rig.random.randbytes)
        self.rig.run(self.hosts.start())
        self.rig.settle()

    def crash(self) -> None:
        """After everything has become durable, acknowledgements too."""
        self.rig.advance(0.05)
        self.rig.settle()
        self.rig.crash()
        self.rig.open()
        self.start()

    def restart(self) -> None:
        self.do(self.hosts.close)
        self.rig.restart()
        self.start()

    @property
    def vhost(self) -> VirtualHost:
        vhost = self.hosts.get("/")
        assert vhost is not None
        return vhost

    def do(self, work: Callable[[], T]) -> T:
        return self.rig.call(work)

    def refused(self, work: Callable[[], object]) -> tuple[int, str]:
        with pytest.raises(AmqpRefusal) as caught:
            self.do(work)
        return caught.value.code, caught.value.text

    def publish(
        self, exchange: str, key: str, *bodies: bytes, vhost: VirtualHost | None = None, **properties: object
    ) -> Published:
        run = run_of(exchange, key, *bodies, **properties)
        return self.do(lambda: (vhost or self.vhost).publish(run))

    def bodies(self, queue: str) -> list[bytes]:
        """What the queue holds, taken from it."""
        return [message.body for message in self.messages(queue)]

    def messages(self, queue: str) -> list[Message]:
        found = []
        while (message := self.rig.run(self._get(queue))) is not None:
            found.append(message)
        return found

    async def _get(self, queue: str) -> Message | None:
        got = self.vhost.queues[queue].get(no_ack=True)
        chunk = await got if got is not None and hasattr(got, "__await__") else got
        return read_messages(chunk.data, chunk.position, 1)[0] if chunk is not None else None  # type: ignore[union-attr]


def run_of(exchange: str, key: str, *bodies: bytes, **properties: object) -> Run:
    raw = encode_properties(Properties(**{"delivery_mode": 2, **properties}))  # type: ignore[arg-type]
    return Run.of([Message(exchange, key, raw, body) for body in bodies or (b"",)])


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.rig.end()
