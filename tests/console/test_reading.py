"""Pages of records, searches and tails, against a real server: what a page shows is right whatever a browser makes of it."""

from __future__ import annotations

import asyncio
import uuid
from base64 import b64encode
from collections.abc import Awaitable, Callable

import pytest
from tests.console.avro_encoding import zigzag
from tests.console.test_formats import AVRO, CONFLUENT, DATA
from tests.http.v1.asking import V1

from headrace.console import searching, tailing
from headrace.console.access import GUEST, STREAMS, Access, Server, ServerError
from headrace.console.browsing import Browsing, EventPage, shares, shortened
from headrace.console.formats.reading import Choice, Reader, Reading
from headrace.console.searching import Search, Sought, matches
from headrace.console.tailing import Tail
from headrace.testing import HeadraceServer

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def topic(v1: V1) -> str:
    name = f"read-{uuid.uuid4().hex[:8]}"
    assert v1.ask("POST", "/v1/topics", {"name": name, "partitions": 3}).status == 201
    return name


def with_access(server: HeadraceServer, work: Callable[[Access], Awaitable[None]]) -> None:
    async def run() -> None:
        asked = Server(server.http)
        try:
            await work(asked.access(GUEST))
        finally:
            await asked.close()

    asyncio.run(run())


def seen(page: EventPage) -> list[tuple[int, int]]:
    return sorted((event["partition"], event["offset"]) for event in page.events)


@pytest.mark.parametrize(
    ("available", "total", "given"),
    [
        ({0: 100, 1: 100}, 50, {0: 25, 1: 25}),
        ({0: 3, 1: 100, 2: 0}, 50, {0: 3, 1: 47, 2: 0}),
        ({0: 1, 1: 1}, 50, {0: 1, 1: 1}),
        (dict.fromkeys(range(4), 9), 2, {0: 1, 1: 1, 2: 0, 3: 0}),
        ({}, 50, {}),
    ],
)
def test_a_page_is_shared_as_evenly_as_can_be(available: dict[int, int], total: int, given: dict[int, int]) -> None:
    assert shares(available, total) == given


def test_going_back_and_forth_shows_every_record_once(headrace_shared_server: HeadraceServer, v1: V1, topic: str) -> None:
    for partition, count in ((0, 23), (1, 4), (2, 0)):
        if count:
            v1.publish(topic, *range(count), partition=partition)

    async def work(access: Access) -> None:
        browsing = Browsing(access, topic, size=10)
        page = await browsing.open("latest")
        back = seen(page)
        while page.has_older:
            page = await browsing.older(page)
            back += seen(page)
        assert sorted(back) == [(0, n) for n in range(23)] + [(1, n) for n in range(4)]
        forth = seen(page)
        while page.has_newer:
            page = await browsing.newer(page)
            forth += seen(page)
        assert sorted(forth) == sorted(back)
        assert seen(await browsing.at("20.0.0"))[:3] == [(0, 20), (0, 21), (0, 22)]
        assert (await browsing.at("nonsense")).at == (await browsing.open("earliest")).at == "0.0.0"

    with_access(headrace_shared_server, work)


def test_large_records_come_a_few_at_a_time(headrace_shared_server: HeadraceServer, v1: V1, topic: str) -> None:
    for _ in range(7):
        v1.publish(topic, "x" * 900_000, partition=1)

    async def work(access: Access) -> None:
        browsing = Browsing(access, topic, 1, size=50)
        page = await browsing.open("latest")
        assert page.events[-1]["offset"] == 6
        assert len(page.events) < 7
        found = seen(page)
        while page.has_older:
            page = await browsing.older(page)
            found += seen(page)
        assert sorted(found) == [(1, n) for n in range(7)]

    with_access(headrace_shared_server, work)


class Sparse:
    """A partition that compaction has left few records of: what /v1 would say."""

    def __init__(self, offsets: list[int], end: int) -> None:
        self._offsets, self._end, self.asked = offsets, end, 0

    async def get(self, path: str, params: dict[str, object]) -> dict[str, object]:
        self.asked += 1
        assert int(str(params["limit"])) <= 10_000
        place = {"earliest": 0, "latest": self._end}.get(str(params["from"]))
        begin = int(str(params["from"])) if place is None else place
        found = [offset for offset in self._offsets if offset >= begin][: int(str(params["limit"]))]
        full = len(found) == params["limit"]
        span = {"partition": 0, "start": 0, "end": self._end, "next": found[-1] + 1 if full else self._end}
        events = [{"partition": 0, "offset": offset, "timestamp": offset, "headers": []} for offset in found]
        return {"events": events, "next": "abcdef.0", "partitions": [span], "notices": []}


def test_older_records_are_found_behind_holes() -> None:
    async def work() -> None:
        sparse = Sparse([0, 1, 2, 5000, 90_000, 90_001], 100_000)
        browsing = Browsing(sparse, "t", 0, size=10)  # type: ignore[arg-type]
        page = await browsing.open("latest")
        found = seen(page)
        while page.has_older:
            page = await browsing.older(page)
            found += seen(page)
        assert sorted(found) == [(0, n) for n in (0, 1, 2, 5000, 90_000, 90_001)]
        assert sparse.asked < 30

    asyncio.run(work())


def test_a_search_goes_on_where_it_stopped_in_both_directions(
    headrace_shared_server: HeadraceServer, v1: V1, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in range(2):
        v1.publish(topic, *(f"row {n} {'Straße' if n % 10 == 0 else ''}" for n in range(100)), partition=partition)
    monkeypatch.setattr(searching, "MOST_FOUND", 7)

    async def work(access: Access) -> None:
        for newest_first, place in ((False, "earliest"), (True, "latest")):
            begin = await Browsing(access, topic).beginning(place)
            search = Search(access, topic, Sought("STRASSE", newest_first=newest_first), begin)
            runs = 0
            while not search.over:
                await search.run()
                runs += 1
                assert runs < 10
            places = [(event["partition"], event["offset"]) for event in search.found]
            assert sorted(places) == [(partition, n) for partition in range(2) for n in range(0, 100, 10)]
            assert search.looked_at == search.total == 200
            assert search.progress == 1.0

    with_access(headrace_shared_server, work)


def test_a_search_by_a_schema_goes_step_by_step_and_misses_nothing(
    headrace_shared_server: HeadraceServer, v1: V1, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step in each run, as if it were stopped after it."""
    values = [zigzag(n % 10) + b"\0" * 2 for n in range(100)]  # id, note, tags
    for partition in range(2):
        events = [{"value_base64": b64encode(CONFLUENT + value).decode(), "partition": partition} for value in values]
        assert v1.ask("POST", f"/v1/topics/{topic}/events", events, headers=JSON).status == 200
    monkeypatch.setattr(searching, "STEP", 7)
    monkeypatch.setattr(searching, "SLICE_S", 60.0)
    monkeypatch.setattr(searching, "BACKWARDS_BY_SCHEMA", 11)
    monkeypatch.setattr(searching, "MOST_S", 0.0)
    reading = Reading()
    reading.readers["value"] = Reader(Choice("avro", avro=AVRO))

    async def work(access: Access) -> None:
        for newest_first, place in ((False, "earliest"), (True, "latest")):
            begin = await Browsing(access, topic).beginning(place)
            search = Search(access, topic, Sought('"ID": 7', newest_first=newest_first), begin, reading)
            runs = 0
            while not search.over:
                await search.run()
                runs += 1
                assert search.looked_at <= runs * 22
                assert runs <= 50
            assert runs > 8
            places = [(event["partition"], event["offset"]) for event in search.found]
            assert sorted(places) == [(partition, n) for partition in range(2) for n in range(7, 100, 10)]
            assert search.looked_at == search.total == 200
            assert search.found[0]["lines"] == {"value": '{"id": 7, "note": null, "tags": []}'}

    with_access(headrace_shared_server, work)


def test_a_tail_has_what_its_values_stand_for(headrace_shared_server: HeadraceServer, v1: V1, topic: str) -> None:
    reading = Reading()
    reading.readers["value"] = Reader(Choice("avro", avro=AVRO))
    event = {"value_base64": b64encode(DATA[:-1] + b"\0" * 3000).decode(), "partition": 0}

    async def work(access: Access) -> None:
        tail = Tail(access, topic, reading=reading)
        task = asyncio.create_task(tail.run())
        async with asyncio.timeout(30):
            while not tail.events:
                await asyncio.to_thread(v1.ask, "POST", f"/v1/topics/{topic}/events", event, headers=JSON)
        assert tail.events[0]["lines"]["value"].startswith(
            "(Not Avro by this schema: 2,999 bytes are left over behind shop.Order)"
        )
        task.cancel()
        await asyncio.wait({task})

    with_access(headrace_shared_server, work)


def test_line_breaks_of_unicode_within_a_text_break_nothing(headrace_shared_server: HeadraceServer, v1: V1, topic: str) -> None:
    strange = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\r\nh"
    v1.publish(topic, strange, "x" * 300_000, "needle", partition=0)

    async def work(access: Access) -> None:
        begin = await Browsing(access, topic, 0).beginning("earliest")
        search = Search(access, topic, Sought("E", partition=0), begin)
        await search.run()
        assert [event["value"] for event in search.found] == [strange, "needle"]
        assert search.looked_at == 3

    with_access(headrace_shared_server, work)


def test_a_text_is_looked_for_only_where_it_shall_be() -> None:
    event = {"key": "Key", "value_base64": "dmFsdWX/", "headers": [["Name", {"base64": "Y29udGVudP8="}], ["x", None]]}
    for text, found in (("k", ["key"]), ("value", ["value"]), ("content", ["headers"])):
        assert [place for place in searching.EVERYWHERE if matches(event, Sought(text, (place,)), text)] == found
    assert not matches(event, Sought(".*"), ".*")


def test_a_row_keeps_the_beginning_of_a_value_and_its_size() -> None:
    assert shortened({"value": "é" * 5000}) == {"value": "é" * 2000, "size": 10_000}
    assert shortened({"value_base64": "AAAA" * 1000}) == {"value_base64": "AAAA" * 500, "size": 3000}
    assert shortened({"value": "short"}) == {"value": "short"}


def test_a_tail_that_is_too_fast_jumps_to_the_newest(
    headrace_shared_server: HeadraceServer, v1: V1, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailing, "PER_S", 5)

    async def work(access: Access) -> None:
        tail = Tail(access, topic)
        task = asyncio.create_task(tail.run())
        async with asyncio.timeout(30):
            while not tail.jumped:
                await asyncio.to_thread(v1.publish, topic, *range(10))
        assert tail.arrived >= 5
        assert not tail.error
        task.cancel()
        await asyncio.wait({task})
        assert access.server.streams == 0

    with_access(headrace_shared_server, work)


def test_a_tail_that_jumped_shows_what_came_last_and_nothing_twice(
    headrace_shared_server: HeadraceServer, v1: V1, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailing, "PER_S", 5)

    async def work(access: Access) -> None:
        v1.publish(topic, "old", partition=1)
        tail = Tail(access, topic)
        task = asyncio.create_task(tail.run())
        async with asyncio.timeout(30):
            while not tail.jumped:
                await asyncio.to_thread(v1.publish, topic, *range(10), partition=0)
            await asyncio.to_thread(v1.publish, topic, "last", partition=0)  # during the rest that comes with a jump
            while not (tail.events and tail.events[-1]["value"] == "last"):  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        offsets = [event["offset"] for event in tail.events]
        assert offsets == sorted(set(offsets))
        assert {event["partition"] for event in tail.events} == {0}
        task.cancel()
        await asyncio.wait({task})

    with_access(headrace_shared_server, work)


def test_a_tail_takes_nothing_before_it_has_its_turn(headrace_shared_server: HeadraceServer, v1: V1, topic: str) -> None:
    async def work(access: Access) -> None:
        turns, waits = asyncio.Semaphore(1), asyncio.Event()

        async def turn() -> None:
            if turns.locked():
                waits.set()
            await turns.acquire()

        tail = Tail(access, topic, turn=turn)
        task = asyncio.create_task(tail.run())
        async with asyncio.timeout(30):
            while not tail.arrived:
                await asyncio.to_thread(v1.publish, topic, "first", partition=0)
            arrived = tail.arrived
            await asyncio.to_thread(v1.publish, topic, "second", partition=0)
            await waits.wait()
            assert tail.arrived == arrived
            turns.release()
            while tail.events[-1]["value"] != "second":  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})

    with_access(headrace_shared_server, work)


def test_a_tail_of_a_topic_that_is_deleted_ends(headrace_shared_server: HeadraceServer, v1: V1, topic: str) -> None:
    async def work(access: Access) -> None:
        tail = Tail(access, topic)
        task = asyncio.create_task(tail.run())
        async with asyncio.timeout(30):
            while access.server.streams == 0:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0)
            await asyncio.to_thread(v1.ask, "DELETE", f"/v1/topics/{topic}")
            await task
        assert tail.ended

    with_access(headrace_shared_server, work)


def test_there_is_a_bound_on_streams(headrace_shared_server: HeadraceServer, topic: str) -> None:
    async def work(access: Access) -> None:
        access.server.streams = STREAMS
        with pytest.raises(ServerError, match="close one"):
            async with access.lines(f"/v1/topics/{topic}/events"):
                pass
        assert access.server.streams == STREAMS

    with_access(headrace_shared_server, work)
