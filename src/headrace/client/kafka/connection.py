"""One blocking connection to one broker: frames, correlation ids, and the versions both sides speak.

A request may be sent before the answer to the last one is here (`send`, then `receive`), because Kafka answers a connection's
requests in order. After a timeout or an error the stream can't be trusted and the connection is closed. With a `Security` the
connection is encrypted, and says who we are, before anything else is asked on it.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from dataclasses import dataclass
from struct import Struct as Packing
from typing import TypeVar

from headrace.client.kafka.address import Address
from headrace.client.kafka.authentication import authenticate
from headrace.client.kafka.errors import ClientError, Disconnected, ProtocolViolation, TimedOut, Unreachable, Unsupported
from headrace.client.kafka.security import NO_SECURITY, Sasl, Security, start_tls
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.schema import Request, Response, decode, encode_into, is_flexible
from headrace.kafka.codec.wire import MalformedMessage, UnencodableMessage, skip_tagged_fields
from headrace.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

R = TypeVar("R", bound=Response)

CLIENT_ID = "headrace-cli"
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_SIZE = Packing(">i")
_REQUEST_HEADER = Packing(">hhih")  # api key, version, correlation id, length of the client id
_CODE = Packing(">h")


@dataclass(frozen=True, slots=True)
class Pending:
    """A request whose answer has not been read."""

    correlation_id: int
    version: int
    name: str


class Landing:
    """Memory that large answers are received into, one after the other: each overwrites the one before."""

    def __init__(self, kept_bytes: int) -> None:
        """More than `kept_bytes` is used where an answer is larger, but given back with the next one."""
        self._kept_bytes = kept_bytes
        self._room = memoryview(bytearray(_CHUNK_BYTES))

    def room(self, size: int) -> memoryview:
        """For an answer that claims to have so many bytes: all of it, or as much as is worth it until some have arrived."""
        if size <= self._kept_bytes < len(self._room):
            self._room = memoryview(bytearray(self._kept_bytes))
        return self._room

    def keep(self, room: memoryview) -> None:
        """An answer had to be given more room."""
        self._room = room


class Connection:
    def __init__(
        self, address: Address, timeout_s: float, security: Security = NO_SECURITY, client_id: str = CLIENT_ID
    ) -> None:
        self.address = address
        self._security = security
        self._client_id = client_id.encode()
        self._known_until = float("inf")  # when the server wants to know again who we are (KIP-368)
        self._correlation_id = 0
        self._pending: deque[Pending] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection(address, timeout_s)
        except TimeoutError:
            raise Unreachable(f"can't reach {address}: no answer in {timeout_s:g} s") from None
        except OSError as error:
            raise Unreachable(f"can't reach {address}: {(error.strerror or str(error)).lower()}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.closed = False
        try:
            if security.tls is not None:
                self._socket = start_tls(self._socket, security.tls, str(address), address.host)
            self._negotiate(time.monotonic() + timeout_s)
            if security.sasl is not None:
                self._say_who_we_are(security.sasl, time.monotonic() + timeout_s)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def version_of(self, request: type[Request], newest: int | None = None) -> int:
        """The newest version that both sides speak, and not above `newest`."""
        first, last = request.versions
        ours = first, last if newest is None else min(last, newest)
        theirs = self._versions.get(request.api_key)
        if theirs is None:
            raise Unsupported(f"{self.address} does not support {_name(request)}")
        version = min(ours[1], theirs[1])
        if version < max(ours[0], theirs[0]):
            raise Unsupported(
                f"{self.address} speaks {_name(request)} in versions {theirs[0]} to {theirs[1]}, "
                f"this client in {ours[0]} to {ours[1]}"
            )
        return version

    def supports(self, request: type[Request]) -> bool:
        return request.api_key in self._versions

    def call(self, request: Request, response: type[R], deadline: float, *, newest: int | None = None) -> R:
        version = self.version_of(type(request), newest)
        return self.receive(self.send(request, deadline, version=version), response, deadline)

    def send(self, request: Request, deadline: float, *, version: int | None = None, answered: bool = True) -> Pending:
        """`answered` is False for the one request that gets no answer: Produce with acks=0."""
        if version is None:
            version = self.version_of(type(request))
        if time.monotonic() > self._known_until and not self._pending and self._security.sasl is not None:
            self._say_who_we_are(self._security.sasl, deadline)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        client_id = self._client_id
        frame = bytearray(4)
        frame += _REQUEST_HEADER.pack(request.api_key, version, self._correlation_id, len(client_id))
        frame += client_id
        if is_flexible(type(request), version):
            frame.append(0)  # no tagged fields
        try:
            encode_into(frame, request, version)
        except UnencodableMessage as error:
            raise ClientError(f"{_name(type(request))} can't carry what it was given: {error}") from None
        _SIZE.pack_into(frame, 0, len(frame) - 4)
        pending = Pending(self._correlation_id, version, _name(type(request)))
        try:
            self._socket.settimeout(self._remaining(deadline, pending.name))
            self._socket.sendall(frame)
        except OSError as error:
            raise self._broken(error, pending.name) from None
        except BaseException:  # Ctrl-C: half a frame may have gone out
            self.close()
            raise
        if answered:
            self._pending.append(pending)
        return pending

    def receive(self, pending: Pending, response: type[R], deadline: float) -> R:
        body = self._receive_body(pending, is_flexible(response, pending.version), deadline)
        return self._decode(response, pending.version, body)

    def receive_bytes(self, pending: Pending, response: type[Response], deadline: float, landing: Landing) -> memoryview:
        """The answer as it came, for those who read it themselves; good until `landing` is used again."""
        return self._receive_body(pending, is_flexible(response, pending.version), deadline, landing)

    def _receive_body(self, pending: Pending, flexible: bool, deadline: float, landing: Landing | None = None) -> memoryview:
        if not self._pending or self._pending[0] is not pending:
            raise AssertionError("answers are read in the order of their requests")
        (size,) = _SIZE.unpack(self._read(4, pending.name, deadline))
        if not 4 <= size <= MAX_RESPONSE_BYTES:
            self.close()
            raise ProtocolViolation(f"{self.address} does not speak the Kafka protocol; check the address and the port")
        frame = self._read(size, pending.name, deadline, landing)
        self._pending.popleft()
        (correlation_id,) = _SIZE.unpack_from(frame)
        if correlation_id != pending.correlation_id:
            self.close()
            raise ProtocolViolation(f"{self.address} answered {pending.name} with the answer to something else")
        start = 4
        if flexible and pending.name != "ApiVersions":  # whose header stays at v0, so that any client can read it
            try:
                start = skip_tagged_fields(frame, 4, size)
            except (MalformedMessage, IndexError):
                raise self._malformed(pending.name) from None
        return frame[start:]

    def _decode(self, response: type[R], version: int, body: memoryview) -> R:
        try:
            return decode(response, version, body)
        except MalformedMessage:
            raise self._malformed(response.__name__.removesuffix("Response")) from None

    def _negotiate(self, deadline: float) -> None:
        """KIP-511: ask in our newest version; a server that does not know it answers in version 0, error and all."""
        version = ApiVersionsRequest.versions[1]
        while True:
            request = ApiVersionsRequest(client_software_name="headrace", client_software_version="0.1.0")
            pending = self.send(request, deadline, version=version)
            body = self._receive_body(pending, False, deadline)
            refused = len(body) >= 2 and _CODE.unpack_from(body)[0] == ErrorCode.UNSUPPORTED_VERSION
            answer = self._decode(ApiVersionsResponse, 0 if refused else version, body)
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            if not refused:
                return
            if version == 0:
                raise Unsupported(f"{self.address} does not support ApiVersions")
            theirs = self._versions.get(ApiVersionsRequest.api_key, (0, 0))[1]
            version = max(0, min(version - 1, theirs))

    def _say_who_we_are(self, sasl: Sasl, deadline: float) -> None:
        self._known_until = float("inf")
        lifetime_s = authenticate(self, sasl, deadline)
        if lifetime_s > 0:  # in good time, since the server counts from its own clock and cuts us off
            self._known_until = time.monotonic() + lifetime_s * 0.8

    def _read(self, size: int, what: str, deadline: float, landing: Landing | None = None) -> memoryview:
        """Its memory grows as bytes arrive: a length that lies costs none."""
        room = memoryview(bytearray(min(size, _CHUNK_BYTES))) if landing is None else landing.room(size)
        filled = 0
        try:
            while filled < size:
                if filled == len(room):
                    larger = memoryview(bytearray(min(size, 2 * filled)))
                    larger[:filled] = room
                    room = larger
                    if landing is not None:
                        landing.keep(room)
                self._socket.settimeout(self._remaining(deadline, what))
                count = self._socket.recv_into(room[filled:size])
                if not count:
                    raise ConnectionResetError
                filled += count
        except OSError as error:
            raise self._broken(error, what) from None
        except BaseException:
            self.close()
            raise
        return room[:size]

    def _remaining(self, deadline: float, what: str) -> float:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            self.close()
            raise TimedOut(f"{self.address} did not answer {what} in time; try again or raise --timeout")
        return remaining

    def _broken(self, error: OSError, what: str) -> Disconnected | TimedOut:
        self.close()
        if isinstance(error, TimeoutError):
            return TimedOut(f"{self.address} did not answer {what} in time; try again or raise --timeout")
        return Disconnected(f"{self.address} closed the connection during {what}")

    def _malformed(self, what: str) -> ProtocolViolation:
        self.close()
        return ProtocolViolation(f"{self.address} sent an answer to {what} that can't be read")


def _name(request: type[Request]) -> str:
    return request.__name__.removesuffix("Request")
