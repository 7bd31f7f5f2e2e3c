"""A broker that answers as a test tells it to: the client's side of every trouble that a real one has only by chance."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from headrace.kafka.codec.headers import (
    decode_request_header,
    encode_response_header,
    response_header_is_flexible,
    skip_header_tags,
)
from headrace.kafka.codec.schema import Request, Response, decode, encode, is_flexible
from headrace.kafka.messages import MESSAGES, request_class, response_class
from headrace.kafka.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headrace.kafka.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_ID = UUID(int=7)


class HangUp:
    """The answer of a broker that closes the connection instead."""


Answer = Response | bytes | HangUp | None
Handler = Callable[[Any], Answer]


@dataclass
class FakeBroker:
    """`on` sets how a kind of request is answered; what arrives is kept in `requests`."""

    node_id: int = 0
    versions: dict[int, tuple[int, int]] = field(default_factory=lambda: {key: api.versions for key, api in MESSAGES.items()})
    topics: dict[str, list[int]] = field(default_factory=lambda: {"orders": [0]})  # leaders of the partitions
    peers: list[FakeBroker] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._handlers: dict[type[Request], Handler] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._links: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.on(ApiVersionsRequest, lambda _: self._api_versions(0))
        self.on(MetadataRequest, self._metadata)
        threading.Thread(target=self._accept, daemon=True).start()

    def on(self, kind: type[Request], handler: Handler) -> None:
        self._handlers[kind] = handler

    def received(self, kind: type[Request]) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]

    def close(self) -> None:
        """Closing alone would not wake the thread in `accept`, which would take one more connection."""
        for one in [self._listener, *self._links]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            self._links.append(link)
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with link, link.makefile("rb") as stream:
            try:
                while size := stream.read(4):
                    answer = self._answer(stream.read(int.from_bytes(size, "big")))
                    if isinstance(answer, HangUp):
                        link.shutdown(socket.SHUT_RDWR)
                        return
                    if answer is not None:
                        link.sendall(answer)
            except OSError:
                return

    def _answer(self, frame: bytes) -> bytes | HangUp | None:
        header, position = decode_request_header(frame)
        kind = request_class(header.api_key)
        version = header.api_version
        lowest, highest = self.versions[header.api_key]
        if kind is ApiVersionsRequest and not lowest <= version <= highest:
            body = encode_response_header(header.correlation_id, flexible=False) + encode(self._api_versions(35), 0)
            return len(body).to_bytes(4, "big") + body
        if is_flexible(kind, version):
            position = skip_header_tags(frame, position)
        request = decode(kind, version, frame, position)
        self.requests.append(request)
        answer = self._handlers[kind](request)
        if not isinstance(answer, Response):
            return answer
        flexible = is_flexible(response_class(header.api_key), version)
        flexible = response_header_is_flexible(header.api_key, flexible=flexible)
        body = encode_response_header(header.correlation_id, flexible=flexible) + encode(answer, version)
        return len(body).to_bytes(4, "big") + body

    def _api_versions(self, error_code: int) -> ApiVersionsResponse:
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()]
        return ApiVersionsResponse(error_code=error_code, api_keys=keys)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        brokers = [self, *self.peers]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=b.node_id, host="127.0.0.1", port=b.port) for b in brokers],
            cluster_id="fake",
            controller_id=0,
            topics=[
                MetadataResponseTopic(
                    error_code=0 if name in self.topics else 3,
                    name=name,
                    topic_id=TOPIC_ID,
                    partitions=[
                        MetadataResponsePartition(
                            error_code=0 if leader >= 0 else 5,
                            partition_index=index,
                            leader_id=leader,
                            replica_nodes=[0],
                            isr_nodes=[0],
                        )
                        for index, leader in enumerate(self.topics.get(name, []))
                    ],
                )
                for name in names
            ],
        )


@pytest.fixture
def hang_up() -> HangUp:
    return HangUp()


@pytest.fixture
def make_broker() -> Iterator[Callable[..., FakeBroker]]:
    made: list[FakeBroker] = []

    def make(**given: Any) -> FakeBroker:
        made.append(FakeBroker(**given))
        return made[-1]

    yield make
    for broker in made:
        broker.close()


@pytest.fixture
def broker(make_broker: Callable[..., FakeBroker]) -> FakeBroker:
    return make_broker()
