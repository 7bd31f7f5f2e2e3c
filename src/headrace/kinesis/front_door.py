"""From the head of a request to an operation: who may come in, what is asked, in which encoding, by whom.

In AWS's order: a browser's preflight is answered; what is no POST is told to go; the target names the operation (the header
`X-Amz-Target`, or the path in Smithy's RPC v2); the content type names the encoding; then the signature (`identity`), then the
parameters. Raw operations get the body as it came (see `operations`).

Bounds: `MAX_BODY_BYTES` for a request that carries records (10 MiB of data in base64, with room), `MAX_PLAIN_BYTES` for any
other: 413 beyond. `MAX_WAITING` plain operations that wait for something: 503 beyond, after which the SDKs try again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from headrace.broker.audit import Actor, acting
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.errors import (
    KinesisError,
    serialization,
    service_unavailable,
    unknown_operation,
)
from headrace.kinesis.gate import Gate, preflight_headers
from headrace.kinesis.identity import Identities
from headrace.kinesis.operations import OPERATIONS, TARGET_PREFIX, Operation
from headrace.kinesis.rates import Rates
from headrace.kinesis.service import Call, RawCall, Service
from headrace.kinesis.strangers import Strangers
from headrace.kinesis.validation import checked_parameters

if TYPE_CHECKING:
    from headrace.web.exchange import Exchange

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_PLAIN_BYTES = 1024 * 1024 + 64 * 1024  # the longest NextToken that AWS takes, and the rest
MAX_WAITING = 4096
RPC_PATH = b"/service/Kinesis_20131202/operation/"

_ENCODINGS = {encoding.content_type: encoding for encoding in (Encoding.JSON, Encoding.CBOR)}
_BY_TARGET = {TARGET_PREFIX + name.encode(): operation for name, operation in OPERATIONS.items()}


class FrontDoor:
    def __init__(self, service: Service) -> None:
        self.service = service
        self._gate = Gate(service.settings)
        self._identities = Identities(service.settings)
        self._strangers = Strangers(service, self._identities)
        self._rates = Rates(service.settings, service.broker.clock)
        self._waiting = 0

    def handle(self, exchange: Exchange) -> None:
        """Called at the head of each request."""
        headers = dict(exchange.headers)
        try:
            origin = self._gate.admit(headers.get(b"host", b""), headers.get(b"origin"))
        except KinesisError as error:
            self._strangers.refuse(exchange, error, b"")
            return
        if exchange.method != b"POST":
            if exchange.method == b"OPTIONS" and b"origin" in headers:
                exchange.respond(200, [*self._strangers.ids(), *preflight_headers(exchange, origin)], b"")
            else:
                self._strangers.turn_away(exchange, origin)
            return
        operation, encoding = _asked(exchange.target, headers)
        limit = MAX_BODY_BYTES if operation is not None and operation.raw else MAX_PLAIN_BYTES
        exchange.collect(
            limit,
            partial(
                self._whole, exchange, headers.get(b"authorization"), operation, encoding, origin, b"traceparent" in headers
            ),
            lambda: exchange.respond(413, self._strangers.ids(), b""),
        )

    def _whole(
        self,
        exchange: Exchange,
        authorization: bytes | None,
        operation: Operation | None,
        encoding: Encoding | None,
        origin: bytes,
        traced: bool,
        body: bytes,
    ) -> None:
        if encoding is None:
            self._strangers.answer(exchange, operation, origin, body)
            return
        service = self.service
        name = operation.name if operation is not None else ""
        call = RawCall(service, exchange, name, body, encoding, "", "", service.request_id(), origin, traced)
        try:
            if operation is None:
                raise unknown_operation()
            if not body and encoding is not Encoding.RPC:
                raise serialization()
            call.account, call.region = self._identities.of(exchange, authorization, body)
            exchange.known_as(call.account)
            function = operation.load()
            if operation.raw:
                function(call)
                return
            given = checked_parameters(name, body, encoding)
            if self._rates.enforced:
                self._rates.count(name, call.account, call.region, given)
            client = (exchange.header(b"user-agent") or b"").decode("latin-1")
            with acting(service.broker.audit, Actor(call.account, "kinesis", "{}:{}".format(*exchange.peer), client)):
                self._do(call, function(Call.of(call, given)))
        except Exception as error:
            call.fail(call.told(error))

    def _do(self, call: RawCall, answer: Any) -> None:
        if not iscoroutine(answer):
            call.answer_with(answer)
            return
        if self._waiting >= MAX_WAITING:
            answer.close()
            raise service_unavailable("Too many requests are under way. Try again.")
        self._waiting += 1
        call.run(self._finish(call, answer))

    async def _finish(self, call: RawCall, answer: Awaitable[dict[str, Any] | None]) -> None:
        try:
            call.answer_with(await answer)
        finally:
            self._waiting -= 1


def _asked(target: bytes, headers: Mapping[bytes, bytes]) -> tuple[Operation | None, Encoding | None]:
    """The operation and the encoding, each if it is known."""
    if headers.get(b"smithy-protocol") == b"rpc-v2-cbor" and target.startswith(RPC_PATH):
        return OPERATIONS.get(target[len(RPC_PATH) :].partition(b"?")[0].decode("latin-1")), Encoding.RPC
    content = headers.get(b"content-type", b"")
    encoding = _ENCODINGS.get(content)
    if encoding is None:
        encoding = _ENCODINGS.get(content.partition(b";")[0].strip().lower())
    return _BY_TARGET.get(headers.get(b"x-amz-target", b"")), encoding
