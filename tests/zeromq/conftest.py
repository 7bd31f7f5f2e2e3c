"""A server with ZeroMQ routes."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from headrace.client.kafka import Cluster, Producer, Reader, TopicPartition, end_offsets, start_offsets
from headrace.client.kafka.topics import create_topic
from headrace.record import Event
from headrace.testing import HeadraceServer, free_port, wait_until


class Routes:
    def __init__(self, server: HeadraceServer) -> None:
        self.server = server

    def intake(self, name: str, **source: Any) -> int:
        """A route from a ZeroMQ socket to a topic of the same name. Returns the socket's port."""
        port = free_port()
        create_topic(Cluster(self.server.kafka), name, partitions=1)
        source = {"type": "zmq", "address": f"tcp://127.0.0.1:{port}", **source}
        self.put(name, {"source": source, "destination": {"type": "topic", "topic": name}})
        return port

    def output(self, name: str, **destination: Any) -> int:
        """A route from a topic to a ZeroMQ socket of its own."""
        port = free_port()
        create_topic(Cluster(self.server.kafka), name, partitions=1)
        self.put(name, {"topic": name, "destination": {"type": "zmq", "address": f"tcp://127.0.0.1:{port}", **destination}})
        return port

    def put(self, name: str, definition: dict[str, Any]) -> None:
        self._ask("PUT", f"/{name}", definition)

    def delete(self, name: str) -> None:
        self._ask("DELETE", f"/{name}")

    def pause(self, name: str) -> None:
        self._ask("POST", f"/{name}/pause", {})

    def resume(self, name: str) -> None:
        self._ask("POST", f"/{name}/resume", {})

    def shown(self, name: str) -> dict[str, Any]:
        return self._ask("GET", f"/{name}")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        login = base64.b64encode(b"guest:guest").decode()
        request = urllib.request.Request(
            f"{self.server.http}/v1/routes{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def publish(self, topic: str, *events: Event) -> None:
        producer = Producer(Cluster(self.server.kafka))
        for event in events:
            producer.send(topic, event)
        producer.flush()

    def count(self, topic: str) -> int:
        return sum(end_offsets(Cluster(self.server.kafka), [TopicPartition(topic, 0)]).values())

    def values(self, topic: str, count: int) -> list[bytes | None]:
        cluster = Cluster(self.server.kafka)
        reader = Reader(cluster, start_offsets(cluster, [TopicPartition(topic, 0)]))
        found: list[bytes | None] = []

        def enough() -> bool:
            found.extend(one.value for one in reader.poll())
            return len(found) >= count

        wait_until(enough, timeout_s=30, what=f"{count} events of {topic}")
        return found


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.fixture
def routes(context: zmq.Context[zmq.Socket[bytes]], headrace_server: HeadraceServer) -> Routes:
    return Routes(headrace_server)
