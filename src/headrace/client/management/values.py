"""What a management API tells, as values. RabbitMQ leaves out counts until it has gathered them: those are None then, and
fields that this client does not know are ignored."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Consumer:
    tag: str
    connection: str
    channel: int | None
    prefetch: int
    ack_required: bool
    exclusive: bool
    active: bool

    @classmethod
    def of(cls, json: Json) -> Consumer:
        channel = json.get("channel_details") or {}
        return cls(
            str(json.get("consumer_tag", "")),
            str(channel.get("connection_name", "")),
            channel.get("number"),
            json.get("prefetch_count") or 0,
            bool(json.get("ack_required", True)),
            bool(json.get("exclusive", False)),
            bool(json.get("active", True)),
        )


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    vhost: str
    kind: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: dict[str, Any]
    policy: str | None
    effective: dict[str, Any]
    state: str | None
    messages: int | None
    ready: int | None
    unacknowledged: int | None
    consumers: int | None
    size_bytes: int | None
    consumer_details: tuple[Consumer, ...]

    @classmethod
    def of(cls, json: Json) -> Queue:
        return cls(
            str(json["name"]),
            str(json.get("vhost", "/")),
            str(json.get("type", "classic")),
            bool(json.get("durable", True)),
            bool(json.get("auto_delete", False)),
            bool(json.get("exclusive", False)),
            mapping(json.get("arguments")),
            json.get("policy") or None,
            mapping(json.get("effective_policy_definition")),
            json.get("state"),
            json.get("messages"),
            json.get("messages_ready"),
            json.get("messages_unacknowledged"),
            json.get("consumers"),
            json.get("message_bytes"),
            tuple(Consumer.of(one) for one in json.get("consumer_details") or ()),
        )


@dataclass(frozen=True, slots=True)
class Exchange:
    name: str
    vhost: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, Any]
    policy: str | None

    @classmethod
    def of(cls, json: Json) -> Exchange:
        return cls(
            str(json["name"]),
            str(json.get("vhost", "/")),
            str(json.get("type", "")),
            bool(json.get("durable", True)),
            bool(json.get("auto_delete", False)),
            bool(json.get("internal", False)),
            mapping(json.get("arguments")),
            json.get("policy") or None,
        )


@dataclass(frozen=True, slots=True)
class Binding:
    vhost: str
    source: str
    destination: str
    destination_kind: str  # "queue" or "exchange"
    routing_key: str
    arguments: dict[str, Any]
    properties_key: str  # what the API calls it by, among those between the same two

    @classmethod
    def of(cls, json: Json) -> Binding:
        return cls(
            str(json.get("vhost", "/")),
            str(json.get("source", "")),
            str(json["destination"]),
            str(json.get("destination_type", "queue")),
            str(json.get("routing_key", "")),
            mapping(json.get("arguments")),
            str(json.get("properties_key", "~")),
        )


@dataclass(frozen=True, slots=True)
class VirtualHost:
    name: str
    description: str
    messages: int | None

    @classmethod
    def of(cls, json: Json) -> VirtualHost:
        return cls(str(json["name"]), str(json.get("description") or ""), json.get("messages"))


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    vhost: str
    pattern: str
    apply_to: str
    priority: int
    definition: dict[str, Any]

    @classmethod
    def of(cls, json: Json) -> Policy:
        return cls(
            str(json["name"]),
            str(json.get("vhost", "/")),
            str(json.get("pattern", "")),
            str(json.get("apply-to", "all")),
            json.get("priority") or 0,
            mapping(json.get("definition")),
        )


@dataclass(frozen=True, slots=True)
class Connection:
    name: str
    user: str
    vhost: str
    state: str | None
    channels: int | None
    protocol: str
    client: str
    connected_at_ms: int | None

    @classmethod
    def of(cls, json: Json) -> Connection:
        told = mapping(json.get("client_properties"))
        client = " ".join(str(told[name]) for name in ("connection_name", "product", "version") if told.get(name))
        return cls(
            str(json["name"]),
            str(json.get("user", "")),
            str(json.get("vhost", "")),
            json.get("state"),
            json.get("channels"),
            str(json.get("protocol", "")),
            client,
            json.get("connected_at"),
        )


@dataclass(frozen=True, slots=True)
class Message:
    exchange: str
    routing_key: str
    redelivered: bool
    properties: dict[str, Any]  # without the headers
    headers: dict[str, Any]
    body: bytes
    left: int | None  # how many stand behind it
    arrived_at_ms: int | None = None  # only `peek` tells

    @classmethod
    def of(cls, json: Json) -> Message:
        properties = mapping(json.get("properties"))
        headers = mapping(properties.pop("headers", None))
        payload = str(json.get("payload", ""))
        in_base64 = json.get("payload_encoding") == "base64"
        left = json.get("message_count")
        if left is not None and "position" in json:  # of `peek`, which counts all that are ready
            left = max(0, left - json["position"] - 1)
        return cls(
            str(json.get("exchange", "")),
            str(json.get("routing_key", "")),
            bool(json.get("redelivered", False)),
            properties,
            headers,
            base64.b64decode(payload) if in_base64 else payload.encode("utf-8", "surrogatepass"),
            left,
            json.get("arrived_at"),
        )


def mapping(value: object) -> dict[str, Any]:
    """RabbitMQ writes an empty object as an empty list in places."""
    return dict(value) if isinstance(value, Mapping) else {}
