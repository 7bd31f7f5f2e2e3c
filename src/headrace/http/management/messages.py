"""Messages over HTTP: publish through an exchange, get from a queue; and what RabbitMQ has not: peek, move, retry-dead.

`get` is what it is there: the messages are delivered, and what is put back is flagged as redelivered. `peek` only looks: nobody
sees that it has been there. `move` and `retry-dead` answer when what they moved is durable in its new place.

Bounds: `MAX_COUNT` messages and about `MAX_BYTES` of bodies in one answer; a message that is published is at most as large as a
body may be.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from headrace.broker.queues import inspecting
from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.queues.queue import Queue
from headrace.broker.queues.run import Run
from headrace.broker.vhosts.definitions_json import json_table
from headrace.broker.vhosts.users import check_exchange_access, check_queue_access, check_topic_access
from headrace.http.management.bodies import Body
from headrace.http.management.call import DEFAULT_EXCHANGE, Call, Resource
from headrace.http.management.errors import ApiError, amqp_text, bad_request, not_authorised
from headrace.http.management.queues import queue_named
from headrace.record.amqp.message import Message, read_message
from headrace.record.amqp.properties import (
    MalformedProperties,
    Properties,
    decode_properties,
    encode_properties,
    headers,
    with_headers,
)

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.queues.consumers import Chunk
    from headrace.broker.vhosts.publishing import Published

MAX_COUNT = 10_000
MAX_BYTES = 16 * 1024 * 1024
_FIRST_STEP = 4
_SMALL_BYTES = 16 * 1024

_ACK_MODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
_NUMBERS = {"delivery_mode": 255, "priority": 255, "timestamp": 2**63 - 1}
_PROPERTIES = tuple(field.name for field in fields(Properties))


# --- publish


async def _publish(call: Call) -> object:
    vhost, body = call.vhost_to_use(), call.body()
    body.require("properties", "routing_key", "payload", "payload_encoding")
    exchange = "" if call["name"] == DEFAULT_EXCHANGE else call["name"]
    key = body.text("routing_key")
    message = Message(exchange, key, raw_properties(body), _payload(body))
    try:
        check_exchange_access(call.user, "write", exchange, vhost.name)
        found = vhost.exchanges.get(exchange)
        if found is not None and found.kind == "topic":
            check_topic_access(call.user, "write", exchange, key, vhost.name)
        published = vhost.publish(Run.of([message]), call.user)
        vhost.counted.published += 1
    except AmqpRefusal as refusal:
        raise bad_request(amqp_text(refusal)) from None
    if published.durable:
        await call.durable()
    if published.rejected:
        raise bad_request("the message was rejected by a queue")
    return {"routed": published.routed}


def _payload(body: Body) -> bytes:
    payload, encoding = body.get("payload"), body.get("payload_encoding")
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        return payload.encode("utf-8", "surrogatepass")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return b64decode(payload, validate=True)
    except binascii.Error:
        raise bad_request(["not_base64", payload[:100]]) from None


def raw_properties(body: Body) -> bytes:
    given = body.get("properties")
    given = {} if given == [] else given
    if not isinstance(given, Mapping):
        raise bad_request("properties should be a JSON object")
    values: dict[str, Any] = {}
    for name in _PROPERTIES:
        if given.get(name) is None:
            continue
        value = given[name]
        if name == "headers":
            values[name] = Body(given).table(name)
        elif name in _NUMBERS:
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _NUMBERS[name]:
                raise bad_request(["not_int", name])
            values[name] = value
        elif not isinstance(value, str):
            raise bad_request(["not_binary", name])
        elif len(value.encode("utf-8", "surrogatepass")) > 255:
            raise bad_request(f"{name} is longer than 255 bytes")
        else:
            values[name] = value
    return encode_properties(Properties(**values))


# --- get


async def _get(call: Call) -> object:
    vhost, body = call.vhost_to_use(), call.body()
    body.require("ackmode", "count", "encoding")
    mode, count = body.text("ackmode"), body.number("count")
    if mode not in _ACK_MODES:
        raise bad_request(f"Unsupported ackmode. Please use one of {', '.join(_ACK_MODES)}.")
    shown = _Shown(body)
    try:
        check_queue_access(call.user, "read", call["name"], vhost.name)
        queue = vhost.queue(call["name"])
    except AmqpRefusal as refusal:
        text = amqp_text(refusal).partition(" ")[2]
        raise ApiError(404, "not_found", text) if refusal.code == 404 else bad_request(text) from None
    held: list[Chunk] = []
    rows: list[dict[str, Any]] = []
    size = 0
    try:
        for _ in range(MAX_COUNT if count < 0 else min(count, MAX_COUNT)):
            chunk = await _next(queue)
            if chunk is None:
                break
            held.append(chunk)
            message = _delivered(chunk)
            rows.append(shown.row(message, redelivered=chunk.redelivered, message_count=queue.ready_count))
            size += len(message.body)
            if size > MAX_BYTES:
                break
    except AmqpRefusal as refusal:
        raise bad_request(f"{refusal.code} {refusal.text}") from None
    finally:
        for chunk in held:
            _settle(queue, chunk, mode)
    return rows


def _delivered(chunk: Chunk) -> Message:
    """With what its queue wants to say about it."""
    message = read_message(chunk.data, chunk.position)[0]
    more: dict[str, object] = dict(chunk.headers or {})
    if chunk.delivery_count:
        more["x-delivery-count"] = chunk.delivery_count
    if not more:
        return message
    return message._replace(properties=with_headers(message.properties, {**headers(message.properties), **more}))


async def _next(queue: AnyQueue) -> Chunk | None:
    chunk = queue.get(False)
    return await chunk if isinstance(chunk, Awaitable) else chunk


def _settle(queue: AnyQueue, chunk: Chunk, mode: str) -> None:
    if mode.endswith("requeue_true"):
        queue.requeue(chunk.lane, chunk.first_offset, chunk.count, failed=mode.startswith("reject"))
    elif mode == "ack_requeue_false":
        queue.ack(chunk.lane, chunk.first_offset, chunk.count)
    else:
        queue.reject(chunk.lane, chunk.first_offset, chunk.count)


class _Shown:
    """How bodies are to be shown."""

    def __init__(self, wanted: Body) -> None:
        self._encoding = wanted.text("encoding", "auto")
        if self._encoding not in ("auto", "base64"):
            raise bad_request("Unsupported encoding. Please use auto or base64.")
        self._truncate = wanted.number("truncate") if "truncate" in wanted.values else None

    def row(self, message: Message, **more: object) -> dict[str, Any]:
        body = message.body if self._truncate is None else message.body[: max(0, self._truncate)]
        encoding = "base64"
        if self._encoding == "auto":
            try:
                payload = body.decode()
                encoding = "string"
            except UnicodeDecodeError:
                pass
        if encoding == "base64":
            payload = b64encode(body).decode()
        return {
            "payload_bytes": len(message.body),
            "exchange": message.exchange,
            "routing_key": message.routing_key,
            **more,
            "properties": _properties(message.properties),
            "payload": payload,
            "payload_encoding": encoding,
        }


def message_row(message: Message) -> dict[str, Any]:
    """A message that is in no queue."""
    return _Shown(Body({})).row(message)


def _properties(raw: bytes) -> object:
    """An empty list when there are none: so RabbitMQ writes an empty object here."""
    try:
        found = decode_properties(raw)
    except MalformedProperties:
        return []
    values = {name: getattr(found, name) for name in _PROPERTIES if getattr(found, name) is not None}
    if "headers" in values:
        values["headers"] = json_table(values["headers"])
    return values or []


# --- peek, move, retry-dead


def _plain_queue(call: Call, what: str) -> Queue:
    vhost = call.vhost_to_use()
    queue = queue_named(call, vhost)
    check_queue_access(call.user, what, queue.name, vhost.name)
    if not isinstance(queue, Queue):
        raise bad_request(f"not supported by stream queues: queue '{queue.name}' in vhost '{vhost.name}'")
    vhost.queue(queue.name)  # refuses those that are exclusive
    return queue


async def _peek(call: Call) -> object:
    queue = _plain_queue(call, "read")
    asked = Body({name: call.query[name] for name in ("count", "skip", "truncate", "encoding") if name in call.query})
    count, skip = asked.number("count", 1), asked.number("skip")
    if count < 0 or skip < 0:
        raise bad_request("count and skip must not be negative")
    shown = _Shown(asked)
    rows: list[dict[str, Any]] = []
    size, step = 0, _FIRST_STEP
    count = min(count, MAX_COUNT)
    while len(rows) < count and size < MAX_BYTES:
        found = await inspecting.peek(queue, min(step, count - len(rows)), skip + len(rows))
        if not found:
            break
        for each in found:
            place: dict[str, object] = {"position": skip + len(rows), "arrived_at": each.timestamp_ms}
            rows.append(shown.row(each.message, redelivered=each.redelivered, message_count=queue.ready_count, **place))
            size += len(each.message.body)
        # As many at a time as will fit, if the others are no larger.
        step = max(1, (MAX_BYTES - size) // max(_SMALL_BYTES, *(len(each.message.body) for each in found)))
    return rows


def _count(body: Body, queue: Queue) -> int:
    count = body.number("count", queue.ready_count)
    if count < 0:
        raise bad_request("count must not be negative")
    return count


async def _move(call: Call) -> object:
    """`destination` is a queue; or `exchange` and, if it is not to be each message's own, `routing_key`."""
    queue, body = _plain_queue(call, "read"), call.body()
    target = call.broker.vhosts.get(body.text("vhost", queue.vhost))
    if target is None:
        raise ApiError(404, "not_found", "vhost_not_found")
    if target.name not in call.user.permissions:
        raise not_authorised("User not authorised to access virtual host")
    exchange, key = body.text("exchange"), None
    if "destination" in body.values:
        exchange, key = "", body.text("destination")
        target.queue(key)
        if target.name == queue.vhost and key == queue.name:
            raise bad_request("a queue can't be moved to itself")
    elif "exchange" not in body.values:
        raise bad_request("[{key_missing,destination}]")
    else:
        if exchange == DEFAULT_EXCHANGE:
            exchange = ""
        if exchange:
            target.declare_exchange(exchange, "", passive=True)
        key = body.text("routing_key") if "routing_key" in body.values else None
    check_exchange_access(call.user, "write", exchange, target.name)

    def republish(run: Run, to: str, keys: tuple[str, ...]) -> Published:
        return target.republish(run, to, keys)

    moved = await inspecting.move(queue, call.broker.vhosts.turns, republish, exchange, key, _count(body, queue))
    return {"moved": moved}


async def _retry_dead(call: Call) -> object:
    queue, body = _plain_queue(call, "read"), call.body()
    vhost = call.vhost()
    check_exchange_access(call.user, "write", "", vhost.name)

    def republish(run: Run, to: str, keys: tuple[str, ...]) -> Published:
        return vhost.republish(run, to, keys)

    return {"moved": await inspecting.retry_dead(queue, call.broker.vhosts.turns, republish, _count(body, queue))}


RESOURCES = [
    Resource("exchanges/{vhost}/{name}/publish", {"POST": _publish}),
    Resource("queues/{vhost}/{name}/get", {"POST": _get}),
    Resource("queues/{vhost}/{name}/peek", {"GET": _peek}),
    Resource("queues/{vhost}/{name}/move", {"POST": _move}),
    Resource("queues/{vhost}/{name}/retry-dead", {"POST": _retry_dead}),
]
