"""One event published the quick way is answered as the general way does, byte for byte, and what is not for it is handed on."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.http.v1.in_process import server_here

from headrace.broker import Broker
from headrace.broker.vhosts.users import Permissions
from headrace.http.app import Door
from headrace.http.v1.quick_publish import QuickPublish
from headrace.log.errors import ReadOnly
from headrace.server import Server
from headrace.web.exchange import Exchange

QUICK, GENERAL = "quickly", "usually"  # topics; names of one length, so that answers have one too
EVENT = {"key": "account-7", "value": {"amount": 5}, "headers": [["source", "atm"]], "timestamp": 1767225600000}
JSON = "Content-Type: application/json\r\n"
TEXT = "Content-Type: text/plain; charset=utf-8\r\n"
GUEST = "Authorization: Basic " + base64.b64encode(b"guest:guest").decode() + "\r\n"
# Means nothing without Sec-Fetch-Site, but only browsers send it: whoever does goes the general way.
BROWSER = "Sec-Fetch-Mode: cors\r\n"


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, text: str | bytes) -> None:
        self._writer.write(text if isinstance(text, bytes) else text.encode("latin-1"))

    async def answer(self) -> tuple[bytes, bytes]:
        """Head and body, without the date."""
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 30)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"date:")]
        length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
        return b"\r\n".join(lines), await asyncio.wait_for(self._reader.readexactly(length), 30)

    async def ended(self) -> bool:
        return not await asyncio.wait_for(self._reader.read(1), 30)

    def close(self) -> None:
        self._writer.close()


class Rig:
    """A server in this process, and what it has handed on to the general way."""

    def __init__(self, server: Server, broker: Broker) -> None:
        self.server = server
        self.broker = broker
        self.handed_on: list[bytes | None] = []
        self._address = self.broker.clients.listeners["http"]

    async def connect(self) -> Connection:
        return Connection(*await asyncio.open_connection(*self._address))

    async def warm_up(self) -> None:
        """The first request of a Host goes the general way, where Hosts are checked."""
        connection = await self.connect()
        connection.send(f"GET /v1/topics/{QUICK}/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await connection.answer()
        connection.close()
        publish = self.quick
        otherwise = publish.otherwise

        def counted(exchange: Exchange, body: bytes | None) -> None:
            self.handed_on.append(body)
            otherwise(exchange, body)

        publish.otherwise = counted

    @property
    def door(self) -> Door:
        assert self.server._http is not None
        assert self.server._http._door is not None
        return self.server._http._door

    @property
    def quick(self) -> QuickPublish:
        assert isinstance(self.door.handler, QuickPublish)
        return self.door.handler


def run(folder: Path, test: Callable[[Rig], Awaitable[None]]) -> None:
    async def main() -> None:
        async with server_here(folder) as (server, broker):
            rig = Rig(server, broker)
            for topic in (QUICK, GENERAL):
                await broker.log.create_topic(topic, 3)
            await rig.warm_up()
            await test(rig)

    asyncio.run(main())


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)


def request(topic: str, body: bytes, headers: str = JSON, query: str = "") -> bytes:
    head = f"POST /v1/topics/{topic}/events{query} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1") + body


def _json(*events: Any, **changes: Any) -> bytes:
    found = [{**EVENT, **changes}, *events]
    return json.dumps(found if events else found[0]).encode()


TAKEN_ON = {
    "an event": (_json(), JSON, ""),
    "an event without a key": (b'{"value":1,"timestamp":1}', JSON, ""),
    "an event for a partition": (_json(partition=2), JSON, ""),
    "an event with a charset": (_json(), "Content-Type: Application/JSON; charset=utf-8\r\n", ""),
    "an event in base64": (b'{"value_base64":"AAH/","key_base64":"//8=","timestamp":1}', JSON, ""),
    "a deletion": (_json(value=None), JSON, ""),
    "by a user": (_json(), JSON + GUEST, ""),
    "a value": (b"\x00\xff", TEXT + "Headrace-Timestamp: 5\r\n", ""),
    "no value at all": (b"", TEXT + "Headrace-Timestamp: 5\r\n", ""),
    "a value without a type": (b"x", "Headrace-Timestamp: 5\r\n", ""),
    "a value with a query": (b"x", TEXT, "?key=a%20b&timestamp=7&header=n:v&partition=1"),
    "a value with headers": (b"x", TEXT + "Headrace-Key: k\r\nHeadrace-Timestamp: 7\r\nHeadrace-Header-N: v\r\n", ""),
}

HANDED_ON = {
    "a Host that is not known": (_json(), JSON, ""),
    "many events": (_json(EVENT), JSON, ""),
    "events in an object": (b'{"events":[{"value":1,"timestamp":1}]}', JSON, ""),
    "no JSON": (b"{", JSON, ""),
    "nothing": (b"", JSON, ""),
    "no event": (b"{}", JSON, ""),
    "a partition that is not there": (_json(partition=9), JSON, ""),
    "an event that is too large": (_json(value="x" * 65_000, headers=[["x", "y" * 60_000]]), JSON, ""),
    "a wrong password": (_json(), JSON + GUEST.replace("Z3Vlc3Q6", "Z3Vlc3R6"), ""),
    "credentials that are none": (_json(), JSON + "Authorization: Basic ?\r\n", ""),
    "what a proxy passed on": (_json(), JSON + "Via: 1.1 proxy\r\n", ""),
    "acks": (_json(), JSON, "?acks=1"),
    "acks that are none": (_json(), JSON, "?acks=5"),
    "acks of a value": (b"x", TEXT, "?acks=0"),
    "an unknown parameter": (b"x", TEXT, "?k=1"),
    "an absurd timestamp": (b"x", TEXT + "Headrace-Timestamp: soon\r\n", ""),
    "a compressed body": (b"x", TEXT + "Content-Encoding: gzip\r\n", ""),
    "a stream": (_json(), "Content-Type: application/x-ndjson\r\n", ""),
    "an Idempotency-Key": (_json(), JSON + "Idempotency-Key: 1\r\n", ""),
    "a page of another": (_json(), JSON + "Origin: http://evil.example\r\n", ""),
}


def test_both_ways_answer_the_same_byte_for_byte_and_store_the_same(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        connection = await rig.connect()
        for name, (body, headers, query) in {**TAKEN_ON, **HANDED_ON}.items():
            found: list[tuple[bytes, bytes]] = []
            for topic, more in ((QUICK, ""), (GENERAL, BROWSER)):
                rig.handed_on.clear()
                sent = request(topic, body, headers + more, query)
                if name == "a Host that is not known":
                    sent = sent.replace(b"Host: localhost", b"Host: evil.example")
                connection.send(sent)
                head, answer = await connection.answer()
                found.append((head, answer.replace(topic.encode(), QUICK.encode())))
                assert len(rig.handed_on) == (topic == GENERAL or name in HANDED_ON), name
            assert found[0] == found[1], name
            assert found[0][0].startswith(b"HTTP/1.1 200 ") or name in HANDED_ON, found
        for index in range(3):
            quick, general = (rig.broker.log.partition(topic, index) for topic in (QUICK, GENERAL))
            assert quick is not None
            assert general is not None
            assert quick.end_offset == general.end_offset
            assert bytes(await _read(quick)) == bytes(await _read(general))
        assert rig.quick.admission.working == 0
        connection.close()

    run(tmp_path, test)


async def _read(partition: Any) -> bytes:
    found = partition.read(0, 1_000_000)
    return found if isinstance(found, bytes | bytearray | memoryview) else await found


def test_a_topic_that_is_not_there_is_made_by_the_general_way(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        connection = await rig.connect()
        for handed_on in (1, 1):
            connection.send(request("new", b'{"value":1}'))
            head, _ = await connection.answer()
            assert head.startswith(b"HTTP/1.1 200 ")
            assert rig.handed_on == [b'{"value":1}'] * handed_on
        connection.close()

    run(tmp_path, test)


def test_a_body_that_comes_byte_by_byte_is_taken(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        connection = await rig.connect()
        for byte in request(QUICK, _json()):
            connection.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await connection.answer())[0].startswith(b"HTTP/1.1 200 ")
        assert rig.handed_on == []
        connection.close()

    run(tmp_path, test)


def test_a_body_that_does_not_come_is_told_as_the_general_way_does(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        rig.broker.settings.set_dynamic({"headrace.http.body.timeout.ms": "100"}, {})
        found = []
        for topic, more in ((QUICK, ""), (GENERAL, BROWSER)):
            connection = await rig.connect()
            connection.send(request(topic, _json(), JSON + more)[:-1])
            found.append(await connection.answer())
            connection.send(b"}")
            connection.close()
        assert found[0] == found[1]
        assert found[0][0].startswith(b"HTTP/1.1 408 ")
        assert json.loads(found[0][1])["code"] == "timeout"
        assert rig.quick.admission.working == rig.quick.admission.streams == 0
        partition = rig.broker.log.partition(QUICK, 0)
        assert partition is not None
        assert partition.end_offset == 0

    run(tmp_path, test)


def test_a_peer_that_goes_before_its_body_is_there_gives_its_place_back(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        connection = await rig.connect()
        connection.send(request(QUICK, _json())[:-1])
        admission = rig.quick.admission
        await until(lambda: admission.working == 1)
        await until(lambda: admission.streams == 1)  # after a second it is no longer in the way of others
        assert admission.working == 0
        connection.close()
        await until(lambda: admission.streams == 0)
        assert (admission.working, rig.quick.patience._waiters) == (0, {})

    run(tmp_path, test)


def test_who_loses_a_permission_is_refused_from_then_on(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        connection = await rig.connect()
        users = rig.broker.vhosts.users
        guest = users.get("guest")
        assert guest is not None
        statuses = []
        for write in (".*", f"^{GENERAL}$", ".*"):
            users.put(replace(guest, permissions={"/": Permissions(write=write)}))
            connection.send(request(QUICK, _json()))
            statuses.append((await connection.answer())[0].split()[1])
        assert statuses == [b"200", b"403", b"200"]
        assert len(rig.handed_on) == 1
        users.put(guest)
        connection.close()

    run(tmp_path, test)


def test_a_failed_sync_is_answered_as_the_general_way_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        connection = await rig.connect()
        error = ReadOnly("a sync failed")

        async def fail() -> None:
            raise error

        monkeypatch.setattr(rig.broker.log, "after_sync", lambda synced: synced(error))
        monkeypatch.setattr(rig.broker.log, "synced", fail)
        found = []
        for topic, more in ((QUICK, ""), (GENERAL, BROWSER)):
            connection.send(request(topic, _json(), JSON + more))
            found.append(await connection.answer())
        assert found[0] == found[1]
        assert json.loads(found[0][1])["code"] == "storage_error"
        assert rig.quick.admission.working == 0
        monkeypatch.undo()
        connection.close()

    run(tmp_path, test)
