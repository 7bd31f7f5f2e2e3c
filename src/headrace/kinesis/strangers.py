"""Requests that are none of Kinesis's: what AWS's front end answers before it knows the service, and the few operations of
other services that programs around Kinesis need on the same port (`caller_identity`, `cloudwatch`)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from headrace.kinesis import cloudwatch
from headrace.kinesis.caller_identity import identity_body, is_asked
from headrace.kinesis.codec.bodies import Undecodable, decode, encode
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.errors import ACCESS_DENIED, KinesisError, serialization, unknown_operation

if TYPE_CHECKING:
    from headrace.kinesis.identity import Identities
    from headrace.kinesis.operations import Operation
    from headrace.kinesis.service import Service
    from headrace.web.exchange import Exchange

UNDETERMINED = "Unable to determine service/operation name to be authorized"

Headers = list[tuple[bytes, bytes]]


class Strangers:
    def __init__(self, service: Service, identities: Identities) -> None:
        self._service = service
        self._identities = identities

    def ids(self) -> Headers:
        request_id = self._service.request_id()
        return [(b"x-amzn-requestid", request_id), (b"x-amz-id-2", self._service.id2(request_id))]

    def answer(self, exchange: Exchange, operation: Operation | None, origin: bytes, body: bytes) -> None:
        """To a POST whose content type is none of the API's. `operation` is what it names all the same."""
        content_type = (exchange.header(b"content-type") or b"").partition(b";")[0].strip().lower()
        target = exchange.header(b"x-amz-target") or b""
        if is_asked(content_type, body):
            self._caller_identity(exchange, origin, body)
        elif (asked := cloudwatch.asked_of(exchange, content_type, body)) is not None:
            self._cloudwatch(exchange, origin, asked)
        elif content_type == b"application/json" and body:
            self._plain_json(exchange, origin, body)
        elif not body:
            error = serialization() if operation is not None else unknown_operation()
            self.refuse(exchange, error, origin, encoding=Encoding.CBOR)  # so AWS does
        elif b"." in target:
            headers = [*self.ids(), (b"x-amzn-errortype", b"UnknownOperationException"), *_allow(origin)]
            exchange.respond(404, headers, b"<UnknownOperationException/>\n")
        else:
            self.turn_away(exchange, origin)

    def _plain_json(self, exchange: Exchange, origin: bytes, body: bytes) -> None:
        try:
            good = isinstance(decode(body, Encoding.JSON), dict)
        except Undecodable:
            good = False
        code, status = ("UnknownOperationException", 404) if good else ("SerializationException", 400)
        said = {"Output": {"__type": f"com.amazon.coral.service#{code}"}, "Version": "1.0"}
        headers = [*self.ids(), (b"content-type", b"application/json"), *_allow(origin)]
        exchange.respond(status, headers, encode(said, Encoding.JSON))

    def turn_away(self, exchange: Exchange, origin: bytes) -> None:
        """Nobody knows what it wants."""
        self.refuse(exchange, KinesisError(ACCESS_DENIED, UNDETERMINED, 403), origin, xml=True)

    def refuse(
        self,
        exchange: Exchange,
        error: KinesisError,
        origin: bytes,
        *,
        xml: bool = False,
        encoding: Encoding = Encoding.JSON,
    ) -> None:
        headers = [*self.ids(), (b"x-amzn-errortype", error.code.encode()), *_allow(origin)]
        if xml:
            text = f"<{error.code}>\n  <Message>{escape(error.message or '')}</Message>\n</{error.code}>\n"
            exchange.respond(error.status, headers, text.encode())
            return
        headers.append(encoding.header)
        exchange.respond(error.status, headers, encode(error.body(), encoding))

    def _caller_identity(self, exchange: Exchange, origin: bytes, body: bytes) -> None:
        try:
            account = self._identities.of(exchange, exchange.header(b"authorization"), body, "sts").account
        except KinesisError as error:
            self.refuse(exchange, KinesisError(error.code, error.message, 403), origin, xml=True)
            return
        headers = [*self.ids(), (b"content-type", b"text/xml"), *_allow(origin)]
        exchange.respond(200, headers, identity_body(account, headers[0][1]))

    def _cloudwatch(self, exchange: Exchange, origin: bytes, asked: cloudwatch.Asked) -> None:
        headers = [*self.ids(), (b"content-type", asked.content_type), *_allow(origin)]
        if asked.encoding is Encoding.RPC:
            headers.append((b"smithy-protocol", b"rpc-v2-cbor"))
        try:
            account, region = self._identities.of(exchange, exchange.header(b"authorization"), asked.body, cloudwatch.SERVICE)
            answer = asked.answer(self._service.usage, account, region)
        except KinesisError as error:
            headers.append((b"x-amzn-query-error", f"{error.code};Sender".encode()))
            exchange.respond(error.status, headers, asked.error_body(error))
            return
        exchange.respond(200, headers, answer)


def _allow(origin: bytes) -> Headers:
    return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")] if origin else []
