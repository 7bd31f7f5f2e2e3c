"""A small client of the API: AWS JSON 1.1 or CBOR over one HTTP/1.1 connection, and an event stream over another, or over one
of HTTP/2 with prior knowledge. Data is bytes, whatever the encoding makes of it on the way."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import cbor2
from botocore.eventstream import EventStreamBuffer
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError

JSON, CBOR = "application/x-amz-json-1.1", "application/x-amz-cbor-1.1"
TIMEOUT_S = 30.0
_TIMESTAMPS = {1: lambda value, *_: value}  # AWS's are milliseconds, which cbor2 by itself takes for seconds
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=test/20240101/us-east-1/kinesis/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"
)


class Refused(Exception):
    """The server answered with an error of AWS's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Unreached(Exception):
    """There was nobody to send it to: it has not happened."""


class Lost(Exception):
    """It was sent, and the answer never came: it may have happened."""


class Client:
    """For one thread; `cut` may be called by another."""

    def __init__(self, url: str, *, cbor: bool = False, http2: bool = False) -> None:
        self.url = url
        self._cbor = cbor
        self._http2 = http2  # for event streams
        self._connection: http.client.HTTPConnection | None = None
        self._link: socket.socket | None = None

    def call(self, operation: str, /, **given: Any) -> dict[str, Any]:
        response = self._send(operation, given)
        try:
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Lost(str(error)) from error
        return self._answer(response.status, body)

    def events(self, operation: str, /, **given: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """The type and the payload of each event until the stream ends. Raises Lost when it is cut."""
        buffer = EventStreamBuffer()
        try:
            for piece in self._http2_pieces(operation, given) if self._http2 else self._pieces(operation, given):
                buffer.add_data(piece)
                for event in buffer:
                    if event.headers[":message-type"] != "event":
                        kind = event.headers.get(":exception-type") or event.headers.get(":error-code")
                        raise Refused(str(kind), event.payload.decode())
                    yield event.headers[":event-type"], self._decoded(event.payload)
        except (OSError, http.client.HTTPException, ProtocolError) as error:
            raise Lost(str(error)) from error
        finally:
            self.close()

    def _pieces(self, operation: str, given: dict[str, Any]) -> Iterator[bytes]:
        response = self._send(operation, given)
        if response.status != 200:
            self._answer(response.status, response.read())
        while piece := response.read1(65536):
            yield piece

    def _http2_pieces(self, operation: str, given: dict[str, Any]) -> Iterator[bytes]:
        link = self._link = self._connected()
        http2 = H2Connection(H2Configuration(client_side=True))
        http2.initiate_connection()
        place = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", urlsplit(self.url).netloc)]
        http2.send_headers(1, place + [(name.lower(), value) for name, value in self._headers(operation).items()])
        http2.send_data(1, self._encoded(given), end_stream=True)
        status, refusal = 200, b""
        while True:
            link.sendall(http2.data_to_send())
            data = link.recv(65536)
            if not data:
                raise ConnectionError("the server closed the connection")
            for event in http2.receive_data(data):
                if isinstance(event, ResponseReceived):
                    status = int(dict(event.headers)[b":status"])
                elif isinstance(event, DataReceived):
                    http2.acknowledge_received_data(event.flow_controlled_length, 1)
                    if status == 200:
                        yield event.data
                    else:
                        refusal += event.data
                elif isinstance(event, StreamReset | ConnectionTerminated):
                    raise ConnectionError("the stream was reset")
                elif isinstance(event, StreamEnded):
                    self._answer(status, refusal)
                    return

    def cut(self) -> None:
        """Ends what the owner waits for."""
        connection = self._connection
        for link in (self._link, connection.sock if connection is not None else None):
            if link is not None:
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._link is not None:
            self._link.close()
            self._link = None

    # --- how

    def _connected(self) -> socket.socket:
        place = urlsplit(self.url)
        try:
            link = socket.create_connection((str(place.hostname), place.port), TIMEOUT_S)
        except OSError as error:
            raise Unreached(str(error)) from error
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

    def _headers(self, operation: str) -> dict[str, str]:
        return {
            "X-Amz-Target": f"Kinesis_20131202.{operation}",
            "Content-Type": CBOR if self._cbor else JSON,
            "Authorization": AUTHORIZATION,
        }

    def _send(self, operation: str, given: dict[str, Any]) -> http.client.HTTPResponse:
        if self._connection is None:
            place = urlsplit(self.url)
            connection = http.client.HTTPConnection(str(place.hostname), place.port)
            connection.sock = self._connected()
            self._connection = connection
        try:
            self._connection.request("POST", "/", self._encoded(given), self._headers(operation))
            return self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Lost(str(error)) from error

    def _encoded(self, given: dict[str, Any]) -> bytes:
        if self._cbor:
            return cbor2.dumps(given)
        return json.dumps(given, default=lambda data: base64.b64encode(data).decode()).encode()

    def _decoded(self, body: bytes) -> dict[str, Any]:
        said: dict[str, Any] = cbor2.loads(body, semantic_decoders=_TIMESTAMPS) if self._cbor else json.loads(body)
        if not self._cbor:
            for record in said.get("Records", ()):
                if "Data" in record:
                    record["Data"] = base64.b64decode(record["Data"])
        return said

    def _answer(self, status: int, body: bytes) -> dict[str, Any]:
        """Raises Refused."""
        said = self._decoded(body) if body else {}
        if status == 200:
            return said
        raise Refused(str(said["__type"]).rpartition("#")[2], str(said.get("message") or said.get("Message")))
