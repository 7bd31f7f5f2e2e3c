"""GET /v1/topics/{topic}/stream: a topic as server-sent events (WHATWG HTML, section 9.2).

    id: kQ3fZg.16                                          where to go on behind this event
    data: {"partition":0,"offset":15,"timestamp":…,…}      the record, as `events` shows it

Records are events without a name (`onmessage`); notices of `following` have theirs (`gap`, `reset`, `unreadable`, `end`). The
id names the position in all partitions, so a browser that comes back with `Last-Event-ID` gets what follows: nothing twice,
nothing missing. A stream begins with its position and no data, so even one that has not seen a record yet comes back to the
right place. Whenever nothing was sent for `headrace.http.heartbeat.ms` there is a comment, with the position if that has moved.

A topic that is not there: 404, or 204 for somebody who comes back (`Last-Event-ID`): it was deleted, and 204 is what stops an
EventSource. A stream that ends otherwise (the server stops, a disk does not answer) is taken up again by the browser.

What is there already is sent in large writes; then each write takes what came, at most one every `LINGER_S`. Bounds: see
`admission` and `sending`; a stream holds one page of records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.json import encode
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headrace.broker.traffic import Traffic
from headrace.http.authentication import scope_user
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.admission import stream
from headrace.http.v1.following import Follower, Following, Found, Notice
from headrace.http.v1.keeping import keep_of
from headrace.http.v1.sending import Peer, Stalled
from headrace.http.v1.starting import Start
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from headrace.broker import Broker

HEARTBEAT_MS = "headrace.http.heartbeat.ms"
LINGER_S = 0.01
RETRY_MS = 1000
MAX_WRITE_BYTES = 64 * 1024

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy shall pass on what it has
]


def routes(broker: Broker, following: Following) -> list[BaseRoute]:
    return [Route("/v1/topics/{topic}/stream", _Streams(broker, following), methods=["GET"])]


class _Streams:
    def __init__(self, broker: Broker, following: Following) -> None:
        self._broker = broker
        self._following = following
        self._went = broker.traffic.setdefault("http", Traffic()).bytes_out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        user = scope_user(self._broker, scope)
        name = request.path_params["topic"]
        check_topic_access(user, "read", name)
        last_event_id = request.headers.get("last-event-id", "")
        start = Start.of_query(request.query_params, last_event_id)
        topic = self._broker.topics.get(name)
        if topic is None:
            if last_event_id:
                await Response(status_code=204)(scope, receive, send)
                return
            raise unknown_topic(name)
        keep = await keep_of(self._broker, topic, start.filter)
        with stream(scope) as admission:
            offsets, notices = await start.offsets(topic)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            wake = asyncio.Event()
            follower = self._following.follow(topic, offsets, start.partition, wake, keep)
            peer = Peer(self._broker.settings, scope, send)
            gone = asyncio.create_task(_gone(receive))
            gone.add_done_callback(lambda _: wake.set())
            admission.on_close.add(wake.set)
            try:
                heartbeat_s = self._broker.settings.get_int(HEARTBEAT_MS) / 1000
                await _Stream(follower, peer, heartbeat_s, self._went).run(notices, lambda: gone.done() or admission.closing)
                await peer.send({"type": "http.response.body", "body": b""})
            except Stalled:
                peer.cut()
            finally:
                admission.on_close.discard(wake.set)
                gone.cancel()
                follower.close()


class _Stream:
    """One stream on its way to one peer."""

    def __init__(self, follower: Follower, peer: Peer, heartbeat_s: float, went: dict[str, int]) -> None:
        self._follower = follower
        self._went = went
        self._peer = peer
        self._heartbeat_s = heartbeat_s
        self._told = ""  # the position that the peer knows
        self._sent_s = 0.0

    async def run(self, notices: list[Notice], over: Callable[[], bool]) -> None:
        """Raises Stalled."""
        self._told = self._follower.position
        await self._write([b"retry: %d\nid: %s\n\n" % (RETRY_MS, self._told.encode()), *map(self._notice, notices)])
        while not over():
            self._follower.wake.clear()
            found, more, ended = await self._gather()
            if found:
                await self._write(found)
            if ended:
                return
            if more:
                await asyncio.sleep(0)
            else:
                await self._wait()

    async def _gather(self) -> tuple[list[bytes], bool, bool]:
        """What there is to send, whether there may be more, and whether this was the end."""
        out: list[bytes] = []
        looked_at = 0
        try:
            while looked_at < MAX_WRITE_BYTES:
                found = await self._follower.step()
                if found is None:
                    return out, False, False
                if isinstance(found, Found):
                    looked_at += found.page.size
                    self._add(found, await found.page.lines(), out)
                else:
                    out.append(self._notice(found))
                    if found.kind == "end":
                        return out, False, True
        except LogError as error:
            out.append(self._notice(Notice("error", {"reason": str(error) or type(error).__name__})))
            return out, False, True
        return out, True, False

    def _add(self, found: Found, lines: list[bytes], out: list[bytes]) -> None:
        """Within a page only one partition moves: what is around its offset in the position is the same for all its records."""
        follower, page, index = self._follower, found.page, found.partition
        before, after = follower.around(index)
        for record, line in zip(page.records, lines, strict=True):
            out.append(b"id: %s%d%s\ndata: %s\n\n" % (before, record.offset + 1, after, line))
        if page.records:
            self._told = f"{before.decode()}{page.records[-1].offset + 1}{after.decode()}"
        follower.offsets[index] = page.next_offset

    def _notice(self, notice: Notice) -> bytes:
        self._told = self._follower.position
        return b"event: %s\nid: %s\ndata: %s\n\n" % (notice.kind.encode(), self._told.encode(), encode(notice.about))

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        since_s = loop.time() - self._sent_s
        if since_s < LINGER_S:
            await asyncio.sleep(LINGER_S - since_s)
        try:
            async with asyncio.timeout_at(self._sent_s + self._heartbeat_s):
                await self._follower.wake.wait()
        except TimeoutError:
            await self._beat()

    async def _beat(self) -> None:
        position = self._follower.position
        if position == self._told:
            await self._write([b":\n\n"])
        else:
            self._told = position
            await self._write([b":\nid: %s\n\n" % position.encode()])

    async def _write(self, out: list[bytes]) -> None:
        body = b"".join(out)
        self._went[self._follower.name] += len(body)
        await self._peer.send_body(body)
        self._sent_s = asyncio.get_running_loop().time()


async def _gone(receive: Receive) -> None:
    """Returns when the peer is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def unknown_topic(name: str) -> Problem:
    return Problem(404, "unknown_topic", f"there is no topic '{name[:250]}'")
