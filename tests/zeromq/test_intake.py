"""Socket → topic, with an inlet that says what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import zmq

from headrace.broker.routes.ends.zeromq import ZeroMqSource
from headrace.clock import SystemClock
from headrace.log.errors import StorageError
from headrace.testing import free_port
from headrace.zeromq.intake import Intake
from headrace.zeromq.wire.sockets import Endpoint

Socket = zmq.Socket[bytes]


class Inlet:
    def __init__(self) -> None:
        self.values: list[Any] = []
        self.refuses: Exception | None = None
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.calls = 0

    def put_entries(self, entries: Sequence[Any]) -> None:
        self.calls += 1
        if self.refuses is not None:
            raise self.refuses
        self.values += [entry[1] for entry in entries]

    async def room(self) -> None:
        await self.has_room.wait()

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  it is about what somebody else does
                await asyncio.sleep(0.005)


@asynccontextmanager
async def opened(high_water_mark: int = 1000) -> AsyncIterator[tuple[Intake, Inlet, Socket]]:
    source = ZeroMqSource.of({"address": f"tcp://127.0.0.1:{free_port()}", "high_water_mark": high_water_mark})
    inlet = Inlet()
    endpoint = Endpoint(source.address, True, high_water_mark, 1_000_000)
    intake = Intake("in", source, endpoint, inlet, SystemClock())  # type: ignore[arg-type]
    context = zmq.Context()
    push = context.socket(zmq.PUSH)
    push.sndhwm = high_water_mark
    push.connect(source.address)
    try:
        yield intake, inlet, push
    finally:
        intake.close()
        context.destroy(linger=0)


def test_while_the_log_can_not_write_nothing_is_lost() -> None:
    async def check() -> None:
        async with opened() as (intake, inlet, push):
            inlet.refuses = StorageError("the disk is full")
            push.send(b"1")
            await inlet.until(lambda: intake.error == "the disk is full")
            push.send(b"2")
            inlet.refuses = None
            await inlet.until(lambda: inlet.values == [b"1", b"2"])
            assert intake.error is None

    asyncio.run(check())


def test_without_room_nothing_is_received_and_those_who_push_wait() -> None:
    async def check() -> None:
        async with opened(high_water_mark=5) as (_, inlet, push):
            inlet.has_room.clear()
            sent = 0
            with suppress(zmq.Again):
                while sent < 10_000:
                    if not push.poll(0, zmq.POLLOUT):
                        await asyncio.sleep(0.3)  # what is on its way may make room
                    push.send(b"%d" % sent + b"." * 100_000, zmq.NOBLOCK)
                    sent += 1
            assert sent < 1000
            assert inlet.calls <= 1
            inlet.has_room.set()
            await inlet.until(lambda: len(inlet.values) == sent)
            assert [int(value.split(b".")[0]) for value in inlet.values] == list(range(sent))

    asyncio.run(check())


def test_a_mistake_of_ours_does_not_end_the_route(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with opened() as (intake, inlet, push):
            inlet.refuses = ZeroDivisionError()
            push.send(b"unlucky")
            await inlet.until(lambda: intake.error is not None)
            assert intake.error == "an error of the server's own: ZeroDivisionError; see its log"
            inlet.refuses = None
            push.send(b"next")
            await inlet.until(lambda: inlet.values == [b"next"])

    asyncio.run(check())
    assert "ZeroDivisionError" in caplog.text


def test_what_has_come_is_taken_in_before_the_route_stops() -> None:
    async def check() -> None:
        async with opened() as (intake, inlet, push):
            inlet.has_room.clear()
            push.send(b"first")
            await inlet.until(lambda: intake.facts()["connections"] == 1)
            inlet.has_room.set()
            await inlet.until(lambda: inlet.values == [b"first"])
            for number in range(900):
                push.send(b"%d" % number)
            await inlet.until(lambda: inlet.values[-1] == b"899")
            await intake.stop()
            assert len(inlet.values) == 901

    asyncio.run(check())


def test_an_address_that_is_taken_is_an_oserror() -> None:
    async def check() -> None:
        async with opened() as (intake, inlet, _):
            with pytest.raises(OSError, match="in use"):
                Intake("other", ZeroMqSource(intake.facts()["address"]), intake._endpoint, inlet, SystemClock())  # type: ignore[arg-type]

    asyncio.run(check())
