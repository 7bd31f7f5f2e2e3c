"""A whole broker on a log with a simulated disk, that can be crashed and started again; topics, exchanges and routes on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from tests.log.conftest import Rig

from headrace.broker import Broker
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.positions import Place
from headrace.broker.routes.route import Route, State
from headrace.broker.settings import Settings
from headrace.broker.vhosts.vhost import VirtualHost
from headrace.record import Event, Record, batches, decode_batch, encode_batch
from headrace.record.amqp.message import Message, read_messages

T = TypeVar("T")


class Site:
    def __init__(self, *, settings: dict[str, str] | None = None, **options: Any) -> None:
        self.settings = {"num.partitions": "1", **(settings or {})}
        self.rig = Rig(**options)
        self.rig.open()
        self.start()

    # --- its life

    def start(self) -> None:
        settings = Settings.from_mapping(self.settings)
        self.broker = Broker(self.rig.log, self.rig.clock, settings, "cluster")
        self.rig.run(self.broker.start())
        self.rig.settle()

    def crash(self) -> None:
        self.rig.crash()
        self.rig.open()
        self.start()

    def restart(self) -> None:
        self.rig.run(self.broker.routes.stop())
        self.rig.call(self.broker.close)
        self.rig.restart()
        self.start()

    def settle(self) -> None:
        """Until nothing moves."""
        for _ in range(30):
            self.rig.advance(0.02)
            self.rig.settle()

    def wait_for(self, condition: Callable[[], T]) -> T:
        for _ in range(2000):
            if result := condition():
                return result
            self.rig.pump()
            self.rig.advance(0.02)
            self.rig.turn()
        raise AssertionError("waited in vain")

    # --- topics

    def append(self, topic: str, *events: Event | bytes, partition: int = 0, **batch: object) -> None:
        given = [event if isinstance(event, Event) else Event(b"k", event) for event in events]
        data = encode_batch(given, now_ms=self.rig.clock.now_ms(), **batch)  # type: ignore[arg-type]
        self.rig.call(lambda: self.rig.partition(topic, partition).append(data))

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        async def read() -> list[Record]:
            log = self.rig.partition(topic, partition)
            data = log.read(log.start_offset, 1 << 24)
            if isinstance(data, Awaitable):
                data = await data
            return [record for _, batch in batches(data) for record in decode_batch(batch)]

        return self.rig.run(read())

    # --- queues

    @property
    def vhost(self) -> VirtualHost:
        vhost = self.broker.vhosts.get("/")
        assert vhost is not None
        return vhost

    def queue(self, name: str, exchange: str = "", *keys: str, **arguments: object) -> None:
        given = {argument.replace("_", "-"): value for argument, value in arguments.items()}
        self.rig.call(lambda: self.vhost.declare_queue(name, durable=True, arguments=given))
        for key in keys:
            self.rig.call(lambda key=key: self.vhost.bind_queue(name, exchange, key, {}))  # type: ignore[misc]

    def exchange(self, name: str, kind: str = "topic", **options: object) -> None:
        self.rig.call(lambda: self.vhost.declare_exchange(name, kind, durable=True, **options))  # type: ignore[arg-type]

    def messages(self, queue: str) -> list[Message]:
        """What the queue holds, taken from it."""
        found = []
        while (message := self.rig.run(self._get(queue))) is not None:
            found.append(message)
        return found

    async def _get(self, queue: str) -> Message | None:
        got = self.vhost.queues[queue].get(no_ack=True)
        chunk = await got if isinstance(got, Awaitable) else got
        return read_messages(chunk.data, chunk.position, 1)[0] if chunk is not None else None

    def bodies(self, queue: str) -> list[bytes]:
        return [message.body for message in self.messages(queue)]

    # --- routes

    def route(
        self, name: str = "r", topic: str = "t", exchange: str = "x", start: object = "earliest", **more: object
    ) -> Route:
        options = {option: more.pop(option) for option in ("on_failure", "paused") if option in more}
        destination = {"type": "exchange", "exchange": exchange, **more}
        definition = RouteDefinition.of(name, {"topic": topic, "destination": destination, **options})
        return self.rig.run(self.broker.routes.put(definition, Place.of(start)))[0]

    def put(self, name: str, start: object = "earliest", **definition: object) -> Route:
        """Any route: `topic` or `source`, `destination`, and what else there is."""
        return self.rig.run(self.broker.routes.put(RouteDefinition.of(name, definition), Place.of(start)))[0]

    def to_topic(self, name: str = "r", topic: str = "t", to: str = "u", **more: object) -> Route:
        options = {
            option: more.pop(option) for option in ("on_failure", "paused", "filter", "transform", "start") if option in more
        }
        return self.put(name, topic=topic, destination={"type": "topic", "topic": to, **more}, **options)  # type: ignore[arg-type]

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.records(topic, partition)]

    def position(self, name: str = "r", topic: str = "t", partition: int = 0) -> int | None:
        committed = self.broker.groups.positions(f"headrace.route.{name}").get(topic, {}).get(partition)
        return None if committed is None else committed.offset

    def caught_up(self, name: str = "r") -> None:
        """Waits until everything is delivered and committed."""

        def done() -> bool:
            route = self.broker.routes.get(name)
            return route.state is State.RUNNING and all(standing.lag == 0 for standing in route.standings())

        self.rig.run(self.rig.log.synced())
        self.wait_for(done)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.rig.end()
