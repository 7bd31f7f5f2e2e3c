"""The end of a route that takes a feed in, while the log does not take everything at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from tests.multicast.network import FEED, free_url, group_of, stream

from headrace.broker.routes.definition import RouteDefinition
from headrace.clock import SystemClock
from headrace.log.errors import StorageError
from headrace.multicast.feed.sockets import sending_socket
from headrace.multicast.taking import FeedIntake

PATIENCE_S = 10.0


class Inlet:
    """A topic that may refuse, or be full."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.calls = 0
        self.refuses = 0
        self.has_room = asyncio.Event()
        self.has_room.set()

    def put_entries(self, entries: Sequence[Any]) -> None:
        if self.refuses:
            self.refuses -= 1
            raise StorageError("the disk is full")
        self.calls += 1
        self.values += [value for _, value, _, _ in entries]

    async def room(self) -> None:
        await self.has_room.wait()


class Fixture:
    """An intake, and a socket that sends to it."""

    def __init__(self, **options: object) -> None:
        url = free_url()
        group = group_of(url)
        source = {"type": "udp", "group": group.address, "port": group.port, "feed": FEED, **options}
        definition = RouteDefinition.of("in", {"source": source, "destination": {"type": "topic", "topic": "prices"}})
        self.log = SimpleNamespace(backlogged=False)
        self.inlet = Inlet()
        around: Any = SimpleNamespace(log=self.log, clock=SystemClock())
        inlet: Any = self.inlet
        source_end: Any = definition.source
        self.intake = FeedIntake(definition, source_end, inlet, around)
        self.socket = sending_socket(group)

    def send(self, *datagrams: bytes) -> None:
        for datagram in datagrams:
            self.socket.send(datagram)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110  nobody could set an event
                await asyncio.sleep(0.001)

    def close(self) -> None:
        self.intake.close()
        self.socket.close()


def values(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_what_comes_together_is_one_append() -> None:
    async def main() -> None:
        fixture = Fixture()
        sent, _ = stream([[0, 0]] * 20)
        fixture.send(*(one.data for one in sent))
        await fixture.until(lambda: len(fixture.inlet.values) == 40)
        assert fixture.inlet.values == values(40)
        assert fixture.inlet.calls == 1
        fixture.close()

    asyncio.run(main())


def test_a_gap_is_passed_over_in_time_and_told() -> None:
    async def main() -> None:
        fixture = Fixture(reorder_ms=30)
        sent, _ = stream([[0]] * 5)
        fixture.send(*(one.data for one in (sent[0], sent[1], sent[3], sent[3], sent[4])))
        await fixture.until(lambda: len(fixture.inlet.values) == 4)
        assert fixture.inlet.values == [b"0", b"1", b"3", b"4"]
        facts = fixture.intake.facts()
        assert (facts["gaps"], facts["lost"], facts["duplicates"], facts["events"]) == (1, 1, 1, 4)
        fixture.close()

    asyncio.run(main())


def test_while_the_log_refuses_nothing_is_read_and_nothing_is_lost() -> None:
    async def main() -> None:
        fixture = Fixture()
        sent, _ = stream([[0]] * 6)
        fixture.inlet.refuses = 2
        fixture.send(sent[0].data)
        await fixture.until(lambda: fixture.intake.error)
        assert fixture.intake.error == "the disk is full"
        fixture.send(*(one.data for one in sent[1:]))
        await fixture.until(lambda: len(fixture.inlet.values) == 6)
        assert fixture.inlet.values == values(6)
        assert fixture.intake.error is None
        fixture.close()

    asyncio.run(main())


def test_while_the_log_is_behind_the_socket_waits() -> None:
    async def main() -> None:
        fixture = Fixture()
        sent, _ = stream([[0]] * 6)
        fixture.log.backlogged = True
        fixture.inlet.has_room.clear()
        fixture.send(sent[0].data)
        await fixture.until(lambda: fixture.intake._pausing is not None)
        fixture.send(*(one.data for one in sent[1:]))
        await asyncio.sleep(0)
        assert fixture.inlet.values == []
        fixture.log.backlogged = False
        fixture.inlet.has_room.set()
        await fixture.until(lambda: len(fixture.inlet.values) == 6)
        assert fixture.inlet.values == values(6)
        fixture.close()

    asyncio.run(main())


def test_when_it_is_stopped_what_has_come_is_put_in() -> None:
    async def main() -> None:
        fixture = Fixture()
        sent, _ = stream([[0]] * 3)
        fixture.send(*(one.data for one in sent))
        await fixture.intake.stop()
        assert fixture.inlet.values == values(3)
        fixture.intake.close()
        fixture.socket.close()

    asyncio.run(main())
