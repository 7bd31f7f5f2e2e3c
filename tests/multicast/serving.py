"""Routes of a real server, and what is sent to its topics."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from headrace import Event
from headrace.client.kafka import Cluster, Producer
from headrace.client.kafka.topics import create_topic
from headrace.testing import HeadraceServer

_LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


def ask(server: HeadraceServer, method: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": _LOGIN, "content-type": "application/json"}
    request = urllib.request.Request(server.http + path, method=method, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def make_topic(server: HeadraceServer, topic: str, partitions: int = 1, **config: str) -> None:
    cluster = Cluster(server.kafka)
    create_topic(cluster, topic, partitions=partitions, configs=config)
    cluster.close()


def to_feed(server: HeadraceServer, topic: str, url: str, name: str = "out", **options: object) -> Any:
    """Sends the topic as the feed of that URL."""
    parts = urlsplit(url)
    destination = {"type": "udp", "group": parts.hostname, "port": parts.port, **dict(parse_qsl(parts.query))}
    shape = {member: options.pop(member) for member in ("filter", "transform") if member in options}
    return ask(server, "PUT", f"/v1/routes/{name}", {"topic": topic, "destination": {**destination, **options}, **shape})


def from_feed(server: HeadraceServer, url: str, topic: str, name: str = "in", **options: object) -> Any:
    parts = urlsplit(url)
    source = {"type": "udp", "group": parts.hostname, "port": parts.port, **dict(parse_qsl(parts.query))}
    target = {"type": "topic", "topic": topic}
    return ask(server, "PUT", f"/v1/routes/{name}", {"source": {**source, **options}, "destination": target})


def produce(server: HeadraceServer, topic: str, events: Iterable[Event], partition: int | None = None) -> None:
    """Acknowledged when it returns."""
    cluster = Cluster(server.kafka)
    producer = Producer(cluster)
    for event in events:
        producer.send(topic, event, partition)
    producer.flush()
    cluster.close()
