"""One event published, straight from the connection to the log and back: no task, no ASGI, no router.

What is taken on: POST /v1/topics/{topic}/events with one event as JSON and nothing in the query, or with a body that is the
value; of at most `SMALL_BYTES`, with a Content-Length; to a topic that is there; with `acks=all`, which is the default; by
somebody who may. Host, credentials and permissions are checked as everywhere, a place is taken among the requests
(`admission`), and a body that takes its time meets the same `patience`.

Everything else is handed on to the general way (`publish`), with its body if that was read already: whatever has a header of
`UNUSUAL`, a query that asks for more, a body that is many events or none, and whatever would be refused. So there are no
refusals here and no second set of rules, and both ways give the same answers, byte for byte. Nothing was stored when a request
is handed on.

What comes in one turn of the event loop is appended together (`gathering`), and answered from the callback that follows the
group commit: all who wait for one sync are answered in one turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING

from headrace.broker.topics import HIDDEN_PREFIX, INTERNAL_TOPICS
from headrace.http.authentication import BY_PROXIES, named_user, unnamed_user
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.bodies import SMALL_BYTES
from headrace.http.v1.errors import problem_of
from headrace.http.v1.events import BadEvent, Incoming, decode_event
from headrace.http.v1.gathering import Gathering
from headrace.http.v1.patience import Patience
from headrace.http.v1.publish import JSON, JSON_ANSWER, NDJSON, ONE_STORED, begin_span, wish_of_value
from headrace.record.tracing import PARENT_FIELD, trace_in_request, with_trace

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.spans import Attribute, Span
    from headrace.broker.vhosts.users import User
    from headrace.http.v1.admission import Scope
    from headrace.http.v1.appending import Appending
    from headrace.http.v1.gathering import Where
    from headrace.http.v1.publish import Wish
    from headrace.http.v1.shell import Shell
    from headrace.record.event import Header
    from headrace.times import Times
    from headrace.web.exchange import Exchange

MAX_REMEMBERED = 1024
UNUSUAL = frozenset(
    (
        *(b"origin", b"sec-fetch-site", b"sec-fetch-mode"),  # pages: see `gate`
        *BY_PROXIES,  # see `authentication`
        *(b"idempotency-key", b"content-encoding", b"transfer-encoding", b"expect", b"upgrade"),
    )
)

Otherwise = Callable[["Exchange", bytes | None], None]

_PATH = re.compile(rb"/v1/topics/([A-Za-z0-9._-]{1,249})/events")


@lru_cache(MAX_REMEMBERED)
def _topic_in(path: bytes) -> str | None:
    """The name of a topic that is not the server's own."""
    found = _PATH.fullmatch(path)
    name = "" if found is None else found[1].decode()
    return None if not name or name.startswith(HIDDEN_PREFIX) or name in INTERNAL_TOPICS else name


class QuickPublish:
    def __init__(self, broker: Broker, appending: Appending, shell: Shell, otherwise: Otherwise, times: Times) -> None:
        self.broker = broker
        self.log = broker.log
        self.appending = appending
        self.gathering = Gathering(broker, appending)
        self.admission = shell.admission
        self.patience = Patience(broker.settings)
        self.otherwise = otherwise
        self.times = times
        self._gate = shell.gate
        self._may_write: dict[str, User] = {}  # who was found to, last

    def __call__(self, exchange: Exchange) -> None:
        request = self._taken_on(exchange) if exchange.method == b"POST" else None
        if request is None:
            self.otherwise(exchange, None)
        else:
            request.begin()

    def _taken_on(self, exchange: Exchange) -> _Request | None:
        path, _, query = exchange.target.partition(b"?")
        topic = _topic_in(path)
        if topic is None or not self.admission.has_room:
            return None
        headers = dict(exchange.headers)
        if not UNUSUAL.isdisjoint(headers) or not self._gate.knows(headers.get(b"host", b"")):
            return None
        length = headers.get(b"content-length")
        if length is None or len(length) > 5 or not length.isdigit() or int(length) > SMALL_BYTES:
            return None
        kind = headers.get(b"content-type", b"")
        if kind != JSON:
            kind = kind.partition(b";")[0].strip().lower()
        try:
            wish = None if kind == JSON else wish_of_value(query, exchange.headers)
            if (query and wish is None) or (wish is not None and wish.acks != -1) or kind in NDJSON:
                return None
            authorization = headers.get(b"authorization")
            if authorization is None:
                user = unnamed_user(self.broker, exchange.peer)
            else:
                user = named_user(self.broker, authorization, exchange.peer)
                exchange.known_as(user.name)
            if user is None:
                return None
            if self._may_write.get(topic) is not user:  # whoever gets other permissions becomes another object
                check_topic_access(user, "write", topic)
                if len(self._may_write) >= MAX_REMEMBERED:
                    self._may_write.clear()
                self._may_write[topic] = user
        except Problem:
            return None
        trace = trace_in_request(exchange.headers) if PARENT_FIELD in headers else ()
        request = _Request(self, exchange, topic, wish, trace)
        if self.broker.spans is not None:
            request.within(begin_span(self.broker.spans, topic, trace))
        return request


class _Request:
    """One that was taken on."""

    __slots__ = (
        "_at", "_began_s", "_body", "_exchange", "_scope", "_span", "_topic", "_trace", "_waiting", "_watched", "_wish",
    )  # fmt: skip

    def __init__(self, at: QuickPublish, exchange: Exchange, topic: str, wish: Wish | None, trace: tuple[Header, ...]) -> None:
        self._at = at
        self._began_s = monotonic()
        self._exchange = exchange
        self._topic = topic
        self._wish = wish  # of a body that is the value
        self._trace = trace
        self._span: Span | None = None
        self._waiting = True  # for the body
        self._watched = False  # by `patience`
        self._scope: Scope = {"client": exchange.peer}
        self._body = b""

    def within(self, span: Span | None) -> None:
        """Ends with the request; if that is handed on, nobody hears of it: there it has another."""
        if span is not None:
            self._span, self._trace = span, span.context.headers

    def begin(self) -> None:
        self._at.admission.enter(self._scope)
        exchange = self._exchange
        exchange.on_gone = self._gone
        exchange.collect(SMALL_BYTES, self._take, self._gone)
        if self._waiting:
            self._watched = True
            self._at.patience.begin(self, self._scope)

    # --- the body

    def _take(self, body: bytes) -> None:
        if not self._waiting:  # it came too late
            return
        self._waiting = False
        self._body = body
        if self._watched:
            self._at.patience.end(self)
        if not self._gathered(body):
            self.refused()

    def cancel(self) -> None:
        """It did not come in time."""
        self._waiting = False
        at = self._at
        problem = at.patience.verdict(self)
        at.patience.end(self)
        at.admission.leave(self._scope)
        if problem is not None:
            self._answer(problem)

    def _gone(self) -> None:
        if self._waiting:
            self._waiting = False
            if self._watched:
                self._at.patience.end(self)
            self._at.admission.leave(self._scope)

    # --- the event

    def _gathered(self, body: bytes) -> bool:
        at = self._at
        try:
            topic = at.log.topics().get(self._topic)
            if topic is None or topic.internal or at.log.backlogged:
                return False
            wish = self._wish
            if wish is None:
                event = decode_event(body)
            else:
                event = Incoming(wish.key, body, wish.headers, wish.timestamp_ms, wish.partition)
            if self._trace:
                event = event._replace(headers=with_trace(event.headers, self._trace))
            at.gathering.add(topic, event, self)
        except (BadEvent, Problem):
            return False
        return True

    def refused(self) -> None:
        """It is not for here, and nothing was stored."""
        exchange = self._exchange
        exchange.on_gone = None
        self._at.admission.leave(self._scope)
        self._at.otherwise(exchange, self._body)

    def stored(self, where: Where, error: Exception | None) -> None:
        self._at.admission.leave(self._scope)
        if error is None:
            self._exchange.respond(200, JSON_ANSWER, ONE_STORED % where)
        else:
            self._answer(problem_of(error) or Problem(500, "internal_error", "see the server's log"))
        self._at.times.add(monotonic() - self._began_s)
        if self._span is not None:
            self._end_span(self._span, where, error)

    def _end_span(self, span: Span, where: Where, error: Exception | None) -> None:
        spans = self._at.broker.spans
        assert spans is not None
        if error is None:
            told: dict[str, Attribute] = {
                "messaging.destination.partition.id": str(where[0]),
                "messaging.kafka.offset": where[1],
                "http.response.status_code": 200,
            }
            spans.end(span, None, told)
        else:
            spans.end(span, type(error).__name__, message=str(error))

    def _answer(self, problem: Problem) -> None:
        response = problem.response()
        self._exchange.respond(response.status_code, response.raw_headers, bytes(response.body))
