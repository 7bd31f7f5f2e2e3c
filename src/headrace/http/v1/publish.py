"""POST /v1/topics/{topic}/events: events are published, by what the Content-Type says.

    application/json       one event, an array of them, or {"events": […]}, in the form of `events`
    application/x-ndjson   a stream of events, one on each line: `ndjson`
    anything else          the body is the value, byte for byte

In the query: `acks` = all (the default: answered when the events are as durable as the topic promises), 1 (when they are
written), 0 (202 at once, whatever becomes of them); `partition` for events that don't name theirs. For a body that is the value
also `key` (bytes, percent-encoded), `timestamp` (milliseconds or RFC 3339), and `header=name:value` as often as needed; or the
headers `Headrace-Key`, `Headrace-Partition`, `Headrace-Timestamp`, `Headrace-Header-<name>` (names in lower case, as HTTP/2 has
them).

One event is answered with {"partition", "offset", "timestamp"}, many with {"events": […]} of these in their order. Many are all
stored or none of them, also when a crash comes between. A topic that is not there is created where the server does that
(auto.create.topics.enable). `Idempotency-Key`: see `idempotency`. What is asked for most, one event and nothing special, does
not come here: `quick_publish`.

Bounds: `MAX_EVENTS` of JSON in one request, and those of `bodies`; `MAX_HEADERS` headers. Events are decoded `STEP_EVENTS` at a
time, between which others have their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from headrace.http.authentication import scope_user
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.appending import Appending, Made, Stored
from headrace.http.v1.bodies import SMALL_BYTES, Bodies
from headrace.http.v1.errors import problem_of
from headrace.http.v1.events import (
    MAX_HEADERS,
    MAX_TIMESTAMP_MS,
    NO_TIMESTAMP_MS,
    BadEvent,
    Incoming,
    decode_split,
    split_events,
)
from headrace.http.v1.idempotency import Claim, key_of
from headrace.http.v1.moments import NotAMoment, moment_ms
from headrace.http.v1.ndjson import Lines
from headrace.log.errors import LogError
from headrace.record.event import Header
from headrace.record.tracing import context_in, trace_in_request, with_trace

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from headrace.broker import Broker
    from headrace.broker.spans import Span, Spans
    from headrace.broker.vhosts.users import User
    from headrace.log.port import Topic

MAX_EVENTS = 10_000
STEP_EVENTS = 256

JSON = b"application/json"
NDJSON = (b"application/x-ndjson", b"application/ndjson", b"application/jsonl", b"application/x-jsonlines")
JSON_ANSWER = [(b"content-type", b"application/json")]
_REPLAYED = [*JSON_ANSWER, (b"idempotency-replayed", b"true")]
_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
_HEADER_PREFIX = b"headrace-header-"
_ALWAYS = ("acks", "partition")
_FOR_VALUES = ("acks", "partition", "key", "timestamp", "header")

Answer = Callable[[Sequence[Stored]], bytes]


class Named(NamedTuple):
    """A request with an Idempotency-Key."""

    user: User
    key: str
    kind: bytes  # of its body


class Wish(NamedTuple):
    """What a request asks for beside its events."""

    acks: int = -1
    partition: int | None = None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    trace: tuple[Header, ...] = ()  # for events that have none: `record.tracing`


_PLAIN = Wish()


class Publishing:
    def __init__(self, broker: Broker, appending: Appending) -> None:
        self._broker = broker
        self._log = broker.log
        self._clock = broker.clock
        self._bodies = Bodies(broker.settings)
        self._appending = appending
        self._keys = appending.keys
        self._lines = Lines(broker, appending, self._bodies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        trace = trace_in_request(scope["headers"])
        spans = self._broker.spans
        span = None if spans is None else begin_span(spans, scope["path"].split("/")[3], trace)
        if spans is None or span is None:
            await self._publish(scope, receive, send, trace)
            return

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                span.attributes["http.response.status_code"] = message["status"]
            await send(message)

        try:
            await self._publish(scope, receive, told, span.context.headers)
        except BaseException as error:
            problem = problem_of(error) if isinstance(error, Exception) else None
            if problem is None:
                spans.end(span, type(error).__name__)
            elif problem.status not in (401, 403):  # strangers shall not fill the queue of spans
                spans.end(span, problem.code, {"http.response.status_code": problem.status}, message=problem.detail)
            raise
        spans.end(span)

    async def _publish(self, scope: Scope, receive: Receive, send: Send, trace: tuple[Header, ...]) -> None:
        name: str = scope["path"].split("/")[3]
        user = scope_user(self._broker, scope)
        check_topic_access(user, "write", name)
        headers = dict(scope["headers"])
        topic = self._appending.known(name)
        if topic is None:
            check_topic_access(user, "configure", name)
            topic = await self._appending.topic(name)
        while self._log.backlogged:
            await self._log.synced()
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise Problem(415, "unsupported_encoding", "a body must not be compressed", {"accept-encoding": "identity"})
        query = scope["query_string"]
        wish = _wish(query, _ALWAYS) if kind == JSON or kind in NDJSON else wish_of_value(query, scope["headers"])
        if trace:
            wish = wish._replace(trace=trace)
        length = headers.get(b"content-length")
        size = None if length is None else int(length)
        key = headers.get(b"idempotency-key")
        named = None if key is None else Named(scope_user(self._broker, scope), key_of(key), kind)
        if kind in NDJSON:
            if named is None:
                await self._lines.publish(topic, wish.acks, wish.partition, wish.trace, scope, receive, send)
                return
            if size is None:
                text = "with an Idempotency-Key a stream needs a Content-Length: it is stored as a whole"
                raise Problem(411, "length_needed", text)
        handle = self._json if kind == JSON else self._whole_lines if kind in NDJSON else self._value
        if size is not None and size <= SMALL_BYTES:
            await handle(topic, named, wish, await self._bodies.small(scope, receive, size), send)
            return
        limit = self._appending.rules(topic).max_batch_bytes if handle == self._value else self._bodies.limit
        async with self._bodies.large(scope, receive, size, limit) as body:
            await handle(topic, named, wish, body, send)

    # --- kinds of bodies

    async def _json(self, topic: Topic, named: Named | None, wish: Wish, body: bytes, send: Send) -> None:
        try:
            found = split_events(body)
            if isinstance(found, Incoming):
                await self._store(topic, named, wish, [found], body, send, _answer_one)
                return
            if len(found) > MAX_EVENTS:
                text = f"a request has at most {MAX_EVENTS} events; a stream of NDJSON has no such limit"
                raise Problem(413, "too_many_events", text)
            events: list[Incoming] = []
            for _ in range(0, len(found), STEP_EVENTS):
                decode_split(found, events, STEP_EVENTS)
                await asyncio.sleep(0)
        except BadEvent as error:
            raise Problem(400, error.code, str(error)) from None
        await self._store(topic, named, wish, events, body, send, _answer)

    async def _whole_lines(self, topic: Topic, named: Named | None, wish: Wish, body: bytes, send: Send) -> None:
        await self._store(topic, named, wish, await self._lines.decoded(body, MAX_EVENTS), body, send, self._lines.answer)

    async def _value(self, topic: Topic, named: Named | None, wish: Wish, body: bytes, send: Send) -> None:
        event = Incoming(wish.key, body, wish.headers, wish.timestamp_ms, wish.partition)
        await self._store(topic, named, wish, [event], body, send, _answer_one)

    # --- storing

    async def _store(
        self,
        topic: Topic,
        named: Named | None,
        wish: Wish,
        events: list[Incoming],
        body: bytes,
        send: Send,
        answer: Answer,
    ) -> None:
        if wish.partition is not None:
            events = [each if each.partition is not None else each._replace(partition=wish.partition) for each in events]
        if wish.trace:
            events = [each._replace(headers=with_trace(each.headers, wish.trace)) for each in events]
        if named is not None:
            # whoever asks again does so within another span: that makes it no other request
            parts = (named.kind, repr(wish[1:-1]).encode(), body)
            await self._once(topic, self._keys.claim(named.user, topic, named.key, parts), events, send, answer)
            return
        if wish.acks == 0:
            try:
                await self._appending.store(topic, events)
            except (LogError, Problem):
                pass
            await send({"type": "http.response.start", "status": 202, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        stored, waiting = await self._appending.store(topic, events)
        if waiting and wish.acks == -1:
            await self._log.synced()
        await _send(send, answer(stored))

    async def _once(self, topic: Topic, claim: Claim, events: list[Incoming], send: Send, answer: Answer) -> None:
        """With a key; nothing is awaited from where it is looked up until it is stored with the events."""
        lease = await self._keys.lease()
        known = self._keys.find(lease, claim)
        if known is not None:
            await self._log.synced()
            await _send(send, known, _REPLAYED)
            return
        now_ms = self._clock.now_ms()
        appending = self._appending
        appending.check_alive(topic)
        made = appending.batches(topic, events, appending.check_all(topic, events, now_ms), now_ms)
        expected = answer(appending.stored(topic, events, made, _next_bases(made), now_ms))
        rows = self._keys.rows(lease, claim, expected)
        bases = appending.append_together(lease, made, rows)
        self._keys.written(rows)
        given = answer(appending.stored(topic, events, made, bases, now_ms))
        if given != expected:  # the log has stamped another time
            lease.put(self._keys.rows(lease, claim, given))
        await self._log.synced()
        await _send(send, given)


def begin_span(spans: Spans, topic: str, trace: tuple[Header, ...]) -> Span | None:
    """Of a request that publishes; its events are in that span, unless they say something else."""
    told = {"http.request.method": "POST"}
    return spans.begin_publish(context_in(trace), "headrace", topic, told, may_begin_trace=True)


def _next_bases(made: Sequence[Made]) -> list[int]:
    """The offsets that these batches will get if they are appended now."""
    following: dict[int, int] = {}
    bases = []
    for each in made:
        base = following.get(each.partition.index, each.partition.end_offset)
        following[each.partition.index] = base + len(each.places)
        bases.append(base)
    return bases


# --- the request


def _wish(query: bytes, known: tuple[str, ...]) -> Wish:
    """Raises Problem."""
    if not query:
        return _PLAIN
    acks, partition, key, timestamp_ms = -1, None, None, None
    headers: list[Header] = []
    for part in query.split(b"&"):
        quoted, _, value = part.partition(b"=")
        name = unquote_to_bytes(quoted).decode("utf-8", "replace")
        if not part:
            continue
        if name not in known:
            raise Problem(400, "unknown_parameter", f"there is no parameter {name[:100]!r} here; there are: {', '.join(known)}")
        content = unquote_to_bytes(value.replace(b"+", b" "))
        if name == "acks":
            acks = _acks(content)
        elif name == "partition":
            partition = _partition(content)
        elif name == "key":
            key = content
        elif name == "timestamp":
            timestamp_ms = _timestamp(content)
        else:
            headers.append(_header(content))
    return Wish(acks, partition, key, tuple(headers), timestamp_ms)


def wish_of_value(query: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Wish:
    """Of a request whose body is the value. Raises Problem."""
    wish = _wish(query, _FOR_VALUES)
    more: list[Header] = []
    changes: dict[str, Any] = {}
    for name, value in headers:
        if not name.startswith(b"headrace-"):
            continue
        if name.startswith(_HEADER_PREFIX):
            more.append((name[len(_HEADER_PREFIX) :].decode("latin-1"), value))
        elif name == b"headrace-key":
            changes["key"] = value
        elif name == b"headrace-partition":
            changes["partition"] = _partition(value)
        elif name == b"headrace-timestamp":
            changes["timestamp_ms"] = _timestamp(value)
    if more:
        changes["headers"] = (*wish.headers, *more)
    if len(wish.headers) + len(more) > MAX_HEADERS:
        raise Problem(400, "invalid_event", f"an event has at most {MAX_HEADERS} headers")
    return wish._replace(**changes) if changes else wish


def _acks(content: bytes) -> int:
    found = _ACKS.get(content.decode("latin-1"))
    if found is None:
        raise Problem(400, "invalid_acks", "acks is all, 1 or 0")
    return found


def _partition(content: bytes) -> int:
    if not content.isdigit() or len(content) > 9:
        raise Problem(400, "unknown_partition", "partition must be the number of one")
    return int(content)


def _timestamp(content: bytes) -> int:
    if content.removeprefix(b"-").isdigit() and len(content) <= 19:
        when = int(content)
        if NO_TIMESTAMP_MS <= when <= MAX_TIMESTAMP_MS:
            return when
    try:
        return moment_ms(content.decode("latin-1").replace(" ", "+"))  # a plus sign in a query is a blank
    except NotAMoment as error:
        raise Problem(400, "invalid_timestamp", f"timestamp: {error}, nor milliseconds since 1970") from None


def _header(content: bytes) -> Header:
    name, colon, value = content.partition(b":")
    if not colon:
        raise Problem(400, "invalid_event", "a header is written as name:value")
    return name.decode("utf-8", "surrogateescape"), value


# --- the answer


ONE_STORED = b'{"partition":%d,"offset":%d,"timestamp":%d}'


def _answer_one(stored: Sequence[Stored]) -> bytes:
    return ONE_STORED % stored[0]


def _answer(stored: Sequence[Stored]) -> bytes:
    return b'{"events":[%b]}' % b",".join([ONE_STORED % each for each in stored])


async def _send(send: Send, body: bytes, headers: list[tuple[bytes, bytes]] = JSON_ANSWER) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
