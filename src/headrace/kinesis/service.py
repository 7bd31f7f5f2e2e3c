"""What operations work with: the service that they belong to, and the call that they answer.

`Service` is one for each listener. `RawCall` is one request with the body as it came; `Call` is one whose parameters are
decoded and checked (`given`: blobs as bytes, timestamps as seconds, names as AWS writes them). Both know who asks (`account`,
`region`) and answer in the encoding of the request.

What an operation has to wait for runs as a task of the service (`RawCall.run`), which turns what it raises into the answer.
Tasks end with the service. Bound: one for each request that is worked on, which `front_door` bounds.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from base64 import b64encode
from collections.abc import Callable, Coroutine, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from headrace.broker.traffic import Traffic
from headrace.kinesis.codec.bodies import encode
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.errors import KinesisError, internal_failure
from headrace.kinesis.lookup import find_stream
from headrace.kinesis.refusals import as_kinesis_error
from headrace.kinesis.usage import Usage
from headrace.kinesis.validation import checked_parameters

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.spans import Span
    from headrace.broker.streams.stream import Stream
    from headrace.web.exchange import Exchange
    from headrace.web.server import WebServer

logger = logging.getLogger("headrace.kinesis")

EXPOSED = b"x-amzn-RequestId,x-amzn-ErrorType,x-amz-request-id,x-amz-id-2,x-amzn-ErrorMessage,Date"
UNKNOWN = "unknown"  # what operations are called that there are not, where requests are counted
RPC_NAMESPACE = "com.amazonaws.kinesis#"

Headers = list[tuple[bytes, bytes]]


class Service:
    def __init__(self, broker: Broker, traffic: Traffic | None = None) -> None:
        self.broker = broker
        self.settings = broker.settings
        self.streams = broker.streams
        self.traffic = traffic if traffic is not None else broker.traffic.setdefault("kinesis", Traffic())
        self.token_key = os.urandom(32)  # tokens of ListStreams and its kin end with the process; AWS's live five minutes
        self.usage = Usage(broker.clock)
        self.server: WebServer | None = None  # that it answers through; none where a test calls
        self.closing = False
        self.on_close: set[Callable[[], None]] = set()  # who answers without end, and wants to know when it has to
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = itertools.count(1)
        random = os.urandom(10).hex()
        self._request_prefix = f"{random[:8]}-{random[8:12]}-4{random[13:16]}-a{random[17:20]}-".encode()
        self._id2_prefix = b64encode(os.urandom(63))  # 84 characters; the last twelve are the request's

    @property
    def unsent_bytes(self) -> int:
        """What was answered and waits for clients to read it."""
        return 0 if self.server is None else self.server.unsent_bytes

    def sent_records(self, count: int) -> None:
        self.traffic.records_out = (self.traffic.records_out or 0) + count

    def request_id(self) -> bytes:
        return b"%s%012x" % (self._request_prefix, next(self._requests))

    def id2(self, request_id: bytes) -> bytes:
        """The other id that AWS sends: longer, and of no use to anybody here."""
        return self._id2_prefix + request_id[-12:]

    def run(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs it until it ends or the service does. It must see to its own errors."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the Kinesis front end failed", exc_info=error)

    def close(self) -> None:
        """The server ends: what is under way may still be answered, what would go on for ever ends now."""
        self.closing = True
        for told in tuple(self.on_close):
            told()

    async def stop(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)


class RawCall:
    """One request to one operation. Exactly one of `answer`, `fail` and a streamed answer by `exchange` must come of it."""

    __slots__ = (
        "account", "began_s", "body", "encoding", "exchange", "name", "origin", "region", "request_id", "service", "span",
        "traced",
    )  # fmt: skip

    def __init__(
        self,
        service: Service,
        exchange: Exchange,
        name: str,
        body: bytes,
        encoding: Encoding,
        account: str,
        region: str,
        request_id: bytes,
        origin: bytes = b"",
        traced: bool = False,
    ) -> None:
        self.service = service
        self.exchange = exchange
        self.name = name
        self.body = body
        self.encoding = encoding
        self.account = account
        self.region = region
        self.request_id = request_id
        self.origin = origin
        self.traced = traced  # it has a `traceparent`
        self.span: Span | None = None  # where somebody collects them
        self.began_s = monotonic()

    @property
    def broker(self) -> Broker:
        return self.service.broker

    @property
    def cbor(self) -> bool:
        return self.encoding is not Encoding.JSON

    # --- answers

    def answer(self, body: bytes) -> None:
        """The whole answer, already in the encoding of the request."""
        self.exchange.respond(200, self.headers(), body)
        self.took_so_long()
        if self.span is not None:
            self._end_span(self.span, None)

    def answer_with(self, answer: dict[str, Any] | None) -> None:
        """An operation that answers nothing sends an empty body, as AWS does; RPC v2 wants a map."""
        if answer is None and self.encoding is not Encoding.RPC:
            self.answer(b"")
        else:
            self.answer(encode(answer or {}, self.encoding))

    def fail(self, error: KinesisError) -> None:
        headers = self.headers()
        headers.append((b"x-amzn-errortype", error.code.encode()))
        self.exchange.respond(error.status, headers, self.error_body(error))
        self.took_so_long()
        if self.span is not None:
            self._end_span(self.span, error.code)

    def _end_span(self, span: Span, error: str | None) -> None:
        spans, self.span = self.broker.spans, None
        if spans is not None:
            spans.end(span, error)

    def took_so_long(self) -> None:
        """It is answered, or the answer begins. (Its name is one of the known ones, or none.)"""
        self.service.traffic.requests[self.name or UNKNOWN].add(monotonic() - self.began_s)

    def error_body(self, error: KinesisError) -> bytes:
        return encode(error.body(RPC_NAMESPACE if self.encoding is Encoding.RPC else ""), self.encoding)

    def headers(self, content_type: bytes | None = None) -> Headers:
        """The headers of an answer, in the encoding of the request or with another content type (an event stream's)."""
        headers = [
            (b"x-amzn-requestid", self.request_id),
            (b"x-amz-id-2", self.service.id2(self.request_id)),
            self.encoding.header if content_type is None else (b"content-type", content_type),
        ]
        if self.encoding is Encoding.RPC:
            headers.append((b"smithy-protocol", b"rpc-v2-cbor"))
        if self.origin:
            headers.append((b"access-control-allow-origin", self.origin))
            headers.append((b"access-control-expose-headers", EXPOSED))
            headers.append((b"vary", b"Origin"))
        return headers

    # --- work

    def run(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs the rest of the operation as a task; what it raises is answered (so it must not have answered yet)."""
        return self.service.run(self._guarded(coroutine))

    async def _guarded(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except ConnectionError:
            return  # nobody is there any more
        except Exception as error:
            self.fail(self.told(error))

    def told(self, error: Exception) -> KinesisError:
        """What the caller is told about an exception; one that nobody expected goes to the log."""
        if isinstance(error, KinesisError):
            return error
        known = as_kinesis_error(error)
        if known is not None:
            return known
        logger.error("%s failed", self.name, exc_info=error)
        return internal_failure()

    def checked(self) -> dict[str, Any]:
        """The parameters, decoded and checked. The thorough way, for whoever has no faster one. Raises KinesisError."""
        return checked_parameters(self.name, self.body, self.encoding)

    def find_stream(self, given: Mapping[str, Any]) -> Stream:
        """The stream that StreamName, StreamARN or StreamId name. Raises KinesisError."""
        return find_stream(self, given)


class Call(RawCall):
    """A request whose parameters are known to be good."""

    __slots__ = ("given",)

    given: dict[str, Any]

    @classmethod
    def of(cls, raw: RawCall, given: dict[str, Any]) -> Call:
        call = cls(
            raw.service,
            raw.exchange,
            raw.name,
            raw.body,
            raw.encoding,
            raw.account,
            raw.region,
            raw.request_id,
            raw.origin,
        )
        call.given = given
        call.began_s = raw.began_s
        return call

    def stream(self) -> Stream:
        return self.find_stream(self.given)
