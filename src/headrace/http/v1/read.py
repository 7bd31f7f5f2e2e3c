"""GET /v1/topics/{topic}/events: what was published, from anywhere on, as a page or as a stream of lines.

    from        earliest (the default), latest, an offset (`offset` is the same), -N for the last N, or a time
                such as 2026-03-01T09:30:00Z
    position    where an earlier answer said that the next one begins (`next`); goes before `from`
    partition   one partition instead of all
    filter      a condition on records, in CEL
    limit       at most so many events; 100 unless it is a stream
    max_bytes   at most about so many bytes of them, but one event at least
    wait_s      if there is nothing, how long to wait for something
    format      auto, text or base64: see `events`
    follow      true: the stream does not end

A page is {"events": […], "next": "…", "partitions": [{"partition", "start", "end", "next"}…], "notices": […]}. From `start` to
`end` is what a partition has that is committed. Order is kept within a partition. `notices` are those of
`following`: a `gap` says that retention took what was asked for, before reading goes on at `to`.

With `Accept: application/x-ndjson` each event is a line, up to where the topic ended when it was asked for, or for ever with
`follow`; a notice is a line with a member `notice`.

Bounds: `MAX_LIMIT`, `MAX_PAGE_BYTES`, `MAX_WAIT_S`. Long pages have `headrace.http.body.memory.bytes` together, until they were
read; further ones are shorter. Who waits for events, and who gets a stream, counts among the streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from starlette.datastructures import QueryParams

from headrace.broker.routes.reading import PAGE_RECORDS
from headrace.broker.traffic import Traffic
from headrace.dataclass import dataclass
from headrace.http.authentication import scope_user
from headrace.http.problems import Problem
from headrace.http.urgency import rest
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.admission import Admission, stream
from headrace.http.v1.bodies import SMALL_BYTES, Bodies
from headrace.http.v1.events import Form, encode, shown
from headrace.http.v1.following import Follower, Following, Found, Notice
from headrace.http.v1.keeping import keep_of
from headrace.http.v1.sending import Peer, Stalled
from headrace.http.v1.starting import Start
from headrace.log.errors import LogError
from headrace.short_turns import ShortTurns

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from headrace.broker import Broker
    from headrace.log.port import Topic

LIMIT, MAX_LIMIT = 100, 10_000
PAGE_BYTES, MAX_PAGE_BYTES = 1024 * 1024, 16 * 1024 * 1024
MAX_WAIT_S = 60.0
WRITE_BYTES = 64 * 1024

_NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")
_JSON_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), (b"vary", b"Accept")]
_LINE_HEADERS = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store"), (b"vary", b"Accept")]
_OF_START = ("from", "position", "partition", "filter")
_OWN = ("offset", "limit", "max_bytes", "wait_s", "format", "follow")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody asked for, checked."""

    start: Start
    limit: int
    max_bytes: int
    wait_s: float
    form: Form
    follow: bool


class Reading:
    def __init__(self, broker: Broker, following: Following) -> None:
        self._broker = broker
        self._following = following
        self._pages = Bodies(broker.settings)
        self._went = broker.traffic.setdefault("http", Traffic()).bytes_out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name: str = scope["path"].split("/")[3]
        user = scope_user(self._broker, scope)
        check_topic_access(user, "read", name)
        lines = _accepts_lines(scope)
        wanted = wanted_of(QueryParams(scope["query_string"]), lines=lines)
        topic = self._broker.topics.get(name)
        if topic is None:
            raise Problem(404, "unknown_topic", f"there is no topic '{name[:250]}'")
        await rest(scope)
        keep = await keep_of(self._broker, topic, wanted.start.filter)
        offsets, notices = await wanted.start.offsets(topic)
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": _LINE_HEADERS if lines else _JSON_HEADERS})
            await send({"type": "http.response.body", "body": b""})
            return
        wake = asyncio.Event()
        follower = self._following.follow(topic, offsets, wanted.start.partition, wake, keep)
        try:
            if lines:
                await self._stream(topic, follower, wanted, notices, scope, receive, send)
            else:
                await self._answer(topic, follower, wanted, notices, scope, receive, send)
        finally:
            follower.close()

    # --- a page

    async def _answer(
        self,
        topic: Topic,
        follower: Follower,
        wanted: Wanted,
        notices: list[Notice],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        with ExitStack() as held:
            body = await self._page(topic, follower, wanted, notices, scope, receive, held)
            self._went[topic.name] += len(body)
            await send({"type": "http.response.start", "status": 200, "headers": _JSON_HEADERS})
            if len(body) <= SMALL_BYTES:
                await send({"type": "http.response.body", "body": body})
                return
            peer = Peer(self._broker.settings, scope, send)
            try:
                await peer.send_body(body)
                await peer.send({"type": "http.response.body", "body": b""})
            except Stalled:
                peer.cut()

    async def _page(
        self,
        topic: Topic,
        follower: Follower,
        wanted: Wanted,
        notices: list[Notice],
        scope: Scope,
        receive: Receive,
        held: ExitStack,
    ) -> bytes:
        """A page that grows long takes room, which `held` gives back; where there is none it ends there."""
        reader = _Reader(follower, wanted)
        out: list[bytes] = []
        told = [_line(notice) for notice in notices]
        size = 0
        until_s = asyncio.get_running_loop().time() + wanted.wait_s
        over = None
        with ExitStack() as waiting:
            while True:
                follower.wake.clear()
                while not reader.full and (found := await reader.read()) is not None:
                    out += found.events
                    told += map(_line, found.notices)
                    if size <= SMALL_BYTES < size + found.size:
                        if not self._pages.take_if_free(wanted.max_bytes):
                            break
                        held.callback(self._pages.give_back, wanted.max_bytes)
                    size += found.size
                    await asyncio.sleep(0)
                left_s = until_s - asyncio.get_running_loop().time()
                if out or told or left_s <= 0 or reader.ended:
                    break
                if over is None:
                    admission = waiting.enter_context(stream(scope))
                    over = waiting.enter_context(_until_gone(admission, receive, follower.wake))
                if over() or not await _woken(follower.wake, left_s):
                    break
        shown_partitions = [
            b'{"partition":%d,"start":%d,"end":%d,"next":%d}'
            % (each.index, each.start_offset, each.last_stable_offset, follower.offsets[each.index])
            for each in topic.partitions
            if each.index in follower.offsets
        ]
        return b'{"events":[%b],"next":"%b","partitions":[%b],"notices":[%b]}' % (
            b",".join(out),
            follower.position.encode(),
            b",".join(shown_partitions),
            b",".join(told),
        )

    # --- a stream

    async def _stream(
        self,
        topic: Topic,
        follower: Follower,
        wanted: Wanted,
        notices: list[Notice],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        ends = None if wanted.follow else {each.index: each.last_stable_offset for each in topic.partitions}
        reader = _Reader(follower, wanted, ends)
        peer = Peer(self._broker.settings, scope, send)
        with stream(scope) as admission, _until_gone(admission, receive, follower.wake) as over:
            await send({"type": "http.response.start", "status": 200, "headers": _LINE_HEADERS})
            try:
                await self._write(peer, topic.name, list(map(_line, notices)))
                while not over() and not reader.full:
                    follower.wake.clear()
                    out: list[bytes] = []
                    size = 0
                    while size < WRITE_BYTES and not reader.full and (found := await reader.read()) is not None:
                        out += found.events
                        out += map(_line, found.notices)
                        size += found.size
                        await asyncio.sleep(0)
                    await self._write(peer, topic.name, out)
                    if reader.ended or (size < WRITE_BYTES and not wanted.follow and not follower.wake.is_set()):
                        break
                    if size < WRITE_BYTES and wanted.follow:
                        await follower.wake.wait()
                await peer.send({"type": "http.response.body", "body": b""})
            except LogError as error:
                await self._write(peer, topic.name, [_line(Notice("error", {"reason": str(error) or type(error).__name__}))])
                await peer.send({"type": "http.response.body", "body": b""})
            except Stalled:
                peer.cut()

    async def _write(self, peer: Peer, topic: str, out: list[bytes]) -> None:
        if out:
            body = b"\n".join(out) + b"\n"
            self._went[topic] += len(body)
            await peer.send_body(body)


@dataclass(slots=True)
class _Taken:
    events: list[bytes]
    notices: list[Notice]
    size: int


class _Reader:
    """Takes records off a follower until there are enough of them."""

    def __init__(self, follower: Follower, wanted: Wanted, ends: Mapping[int, int] | None = None) -> None:
        self._follower = follower
        self._wanted = wanted
        self._ends = ends
        self._left = wanted.limit
        self._left_bytes = wanted.max_bytes
        self.full = False
        self.ended = False

    async def read(self) -> _Taken | None:
        """None: there is nothing now. Raises LogError."""
        found = await self._follower.step(self._ends, min(self._left, PAGE_RECORDS))
        if found is None:
            return None
        if isinstance(found, Notice):
            self.ended = found.kind == "end"
            return _Taken([], [found], 0)
        return await self._take(found)

    async def _take(self, found: Found) -> _Taken:
        wanted, page, index = self._wanted, found.page, found.partition
        lines = await page.lines() if wanted.form is Form.AUTO else None
        turns = ShortTurns()
        end = None if self._ends is None else self._ends.get(index, 0)
        out: list[bytes] = []
        size = 0
        position = page.next_offset
        for place, record in enumerate(page.records):
            if end is not None and record.offset >= end:
                position = end
                break
            line = lines[place] if lines is not None else encode(shown(record, index, wanted.form))
            if self._left <= 0 or (len(line) > self._left_bytes and self._left_bytes < wanted.max_bytes):
                self.full = True
                position = record.offset
                break
            out.append(line)
            size += len(line)
            self._left -= 1
            self._left_bytes -= len(line)
            if turns.over:
                await turns.rest()
        if self._left <= 0 or self._left_bytes <= 0:
            self.full = True
        self._follower.offsets[index] = position
        return _Taken(out, [], size)


@contextmanager
def _until_gone(admission: Admission, receive: Receive, wake: asyncio.Event) -> Iterator[Callable[[], bool]]:
    """Says whether it is over: the peer is gone, or the server ends. Wakes whoever waits then."""
    peer = asyncio.create_task(_gone(receive))
    peer.add_done_callback(lambda _: wake.set())
    admission.on_close.add(wake.set)
    try:
        yield lambda: peer.done() or admission.closing
    finally:
        admission.on_close.discard(wake.set)
        peer.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _woken(wake: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        return False
    return True


def _line(notice: Notice) -> bytes:
    return encode({"notice": notice.kind, **notice.about})


# --- the request


def wanted_of(query: Mapping[str, str], *, lines: bool) -> Wanted:
    """Raises Problem."""
    given = dict(query)
    own = {name: given.pop(name) for name in _OWN if name in given}
    unknown = sorted(given.keys() - set(_OF_START))
    if unknown:
        known = ", ".join((*_OF_START, *_OWN))
        raise Problem(400, "unknown_parameter", f"there is no parameter {unknown[0][:100]!r}; there are: {known}")
    if "offset" in own:
        if "from" in given:
            raise Problem(400, "invalid_from", "give from or offset, not both")
        given["from"] = str(_number("offset", own["offset"], 0, 2**63 - 1))
    given.setdefault("from", "earliest")
    start = Start.of_query(given)
    follow = own.get("follow", "false")
    if follow not in ("true", "false"):
        raise Problem(400, "invalid_parameter", "follow is true or false")
    if follow == "true" and not lines:
        raise Problem(400, "invalid_parameter", "follow is for streams: ask with Accept: application/x-ndjson")
    try:
        form = Form(own.get("format", "auto"))
    except ValueError:
        raise Problem(400, "invalid_parameter", f"format is one of: {', '.join(Form)}") from None
    most = 2**63 - 1
    return Wanted(
        start,
        _number("limit", own["limit"], 1, most if lines else MAX_LIMIT) if "limit" in own else most if lines else LIMIT,
        _number("max_bytes", own["max_bytes"], 1, most if lines else MAX_PAGE_BYTES)
        if "max_bytes" in own
        else most
        if lines
        else PAGE_BYTES,
        _seconds(own.get("wait_s", "0")),
        form,
        follow == "true",
    )


def _number(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and least <= int(text) <= most):
        raise Problem(400, "invalid_parameter", f"{name} must be a number from {least} to {most}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_WAIT_S:
        raise Problem(400, "invalid_parameter", f"wait_s must be a number of seconds from 0 to {MAX_WAIT_S:g}")
    return seconds


def _accepts_lines(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"accept":
            kinds = [each.partition(";")[0].strip().lower() for each in value.decode("latin-1").split(",")]
            return any(kind in _NDJSON for kind in kinds)
    return False
