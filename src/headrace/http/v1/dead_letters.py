"""Dead letters: where they are, why they died, and back to where they came from.

    GET   /v1/dead-letters                          queues that get what died in others; dead-letter topics
    GET   /v1/dead-letters/{vhost}/{queue}          the dead letters in a queue, each with its story and an id
    POST  /v1/dead-letters/{vhost}/{queue}/retry    some of them, or all, back to the queues in which they died first

A queue is among them if a dead letter exchange leads to it, by bindings or (the default exchange) by its name. Looking consumes
nothing; what is retried leaves only when it is durable in its new place, so whoever asks twice after an answer that was
lost moves nothing twice. Dead-letter topics are topics: their records say the rest in `__dlq.errors.*` headers; the record of a
route is delivered again with `POST /v1/routes/{route}/replay`.

Bounds: `MOST_SOURCES` in the list, `MOST_LOOKED` bindings looked at for it; `MAX_LIMIT` dead letters in an answer, the first
`SHOWN_BYTES` of each; `MOST_RETRIED` messages are looked at for one retry, and `left` tells how many there are still.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from headrace.broker.exchanges import Exchange
from headrace.broker.queues import inspecting
from headrace.broker.queues.queue import Queue
from headrace.broker.vhosts.definitions_json import json_table, json_value
from headrace.broker.vhosts.users import check_exchange_access, check_queue_access
from headrace.http.problems import Problem
from headrace.http.v1.access import VHOST, monitors
from headrace.http.v1.operations import Ask, Operation, Parameter, Reply
from headrace.http.v1.trial import seen_vhost
from headrace.record.amqp.properties import headers

if TYPE_CHECKING:
    from headrace.broker.queues.inspecting import Peeked
    from headrace.broker.queues.run import Run
    from headrace.broker.vhosts.publishing import Published
    from headrace.broker.vhosts.users import User
    from headrace.broker.vhosts.vhost import VirtualHost

MOST_SOURCES = 500
MOST_LOOKED = 20_000
MOST_NAMES = 10
LIMIT = 50
MAX_LIMIT = 500
SHOWN_BYTES = 16 * 1024
MOST_RETRIED = 10_000
STEP = 2000
_TOPIC_NAME = "errors.deadletterqueue.topic.name"
_ID = re.compile(r"(\d{1,3})-(\d{1,19})", re.ASCII)


class DeadLetterQueue(Struct):
    vhost: str
    queue: str
    messages: int
    origins: Annotated[list[str], Meta(description=f"Queues whose dead letters come here, at most {MOST_NAMES}.")]


class DeadLetterTopic(Struct):
    topic: str
    records: int
    kind: Annotated[str, Meta(description="route or group.")]
    name: Annotated[str, Meta(description="Of the route or the share group.")]


class DeadLetterSources(Struct):
    queues: Annotated[list[DeadLetterQueue], Meta(description="Those with the most messages first.")]
    topics: list[DeadLetterTopic]
    complete: Annotated[bool, Meta(description="False: there are more than are shown.")]


class Death(Struct):
    queue: str
    reason: Annotated[str, Meta(description="rejected, expired, maxlen or delivery_limit.")]
    count: int
    time_s: Annotated[int | None, Meta(description="When it died there first, in seconds since 1970.")]
    exchange: str
    routing_keys: list[str]


class DeadLetterShown(Struct):
    id: Annotated[str, Meta(description="For retry; its own as long as it is in the queue.")]
    arrived_ms: int
    deaths: Annotated[list[Death], Meta(description="The last one first. Empty: it did not die.")]
    retry_to: Annotated[str | None, Meta(description="The queue that it goes back to. Null: it can't.")]
    exchange: str
    routing_key: str
    headers: dict[str, Any]
    payload: str
    payload_encoding: Annotated[str, Meta(description="string or base64.")]
    payload_bytes: Annotated[int, Meta(description=f"Of all of it; the first {SHOWN_BYTES} are shown.")]


class DeadLetterPart(Struct):
    entries: list[DeadLetterShown]
    messages: Annotated[int, Meta(description="That are ready in the queue.")]
    next: Annotated[int | None, Meta(description="The next `skip`. Null: that was all.")]


class RetryWanted(Struct):
    ids: Annotated[list[str] | None, Meta(description="Of those that shall go back; all if it is not given.")] = None
    count: Annotated[int | None, Meta(description="So many of the oldest.")] = None


class Retried(Struct):
    moved: int
    left: Annotated[int, Meta(description="That are still in the queue.")]


# --- where they are


async def _list(ask: Ask) -> Reply:
    found: list[DeadLetterQueue] = []
    complete = True
    for vhost in sorted(ask.broker.vhosts, key=lambda each: each.name):
        if monitors(ask.user) or vhost.name in ask.user.permissions:
            origins, all_seen = await _origins(vhost)
            complete = complete and all_seen
            for name, names in origins.items():
                queue = vhost.queues.get(name)
                if queue is not None:
                    found.append(DeadLetterQueue(vhost.name, name, queue.message_count, sorted(names)[:MOST_NAMES]))
    found.sort(key=lambda each: (-each.messages, each.vhost, each.queue))
    topics = _topics(ask)
    complete = complete and len(found) <= MOST_SOURCES and len(topics) <= MOST_SOURCES
    return Reply(200, DeadLetterSources(found[:MOST_SOURCES], topics[:MOST_SOURCES], complete))


async def _origins(vhost: VirtualHost) -> tuple[dict[str, set[str]], bool]:
    """The queues that get dead letters, and those whose they are; and whether that is all."""
    by_exchange: dict[str, set[str]] = {}
    found: dict[str, set[str]] = {}
    for number, queue in enumerate(tuple(vhost.queues.values())):
        if number % STEP == STEP - 1:
            await asyncio.sleep(0)
        exchange, key = queue.settings.dead_letter_exchange, queue.settings.dead_letter_routing_key
        if exchange:
            by_exchange.setdefault(exchange, set()).add(queue.name)
        elif exchange is not None and key is not None:
            found.setdefault(key, set()).add(queue.name)
    looked = 0
    for exchange, names in by_exchange.items():
        visited, waiting = {exchange}, [exchange]
        while waiting:
            source = vhost.exchanges.get(waiting.pop())
            if source is None:
                continue
            for binding in vhost.router.bindings_from(source):
                looked += 1
                if looked > MOST_LOOKED:
                    return found, False
                destination = binding.destination
                if not isinstance(destination, Exchange):
                    found.setdefault(destination.name, set()).update(names)
                elif destination.name not in visited:
                    visited.add(destination.name)
                    waiting.append(destination.name)
    return found, True


def _topics(ask: Ask) -> list[DeadLetterTopic]:
    broker = ask.broker
    named = [(route.definition.dead_letter_topic, "route", route.definition.name) for route in broker.routes]
    for group_id in broker.group_configs.group_ids():
        name = broker.group_configs.overrides(group_id).get(_TOPIC_NAME)
        if name:
            named.append((name, "group", group_id))
    found = []
    for name, kind, owner in named:
        topic = broker.topics.get(name)
        if topic is not None and _may_read(ask.user, name):
            records = sum(partition.end_offset - partition.start_offset for partition in topic.partitions)
            found.append(DeadLetterTopic(name, records, kind, owner))
    return sorted(found, key=lambda each: (-each.records, each.topic, each.name))


def _may_read(user: User, topic: str) -> bool:
    permissions = user.permissions.get(VHOST)
    return permissions is not None and permissions.allows("read", topic)


# --- what they are


def _queue(ask: Ask) -> tuple[VirtualHost, Queue]:
    vhost = seen_vhost(ask)
    name = ask["queue"]
    check_queue_access(ask.user, "read", name, vhost.name)
    queue = vhost.queue(name)
    if not isinstance(queue, Queue):
        raise Problem(400, "invalid_request", f"queue '{name}' is a stream: read it as one")
    return vhost, queue


async def _entries(ask: Ask) -> Reply:
    _, queue = _queue(ask)
    limit = ask.number("limit", LIMIT, MAX_LIMIT)
    skip = 0 if ask.query.get("skip") == "0" else ask.number("skip", 0, 999_999_999)
    found = await inspecting.peek(queue, limit, skip)
    after = skip + len(found)
    following = after if found and after < queue.ready_count else None
    return Reply(200, DeadLetterPart([_shown(queue, each) for each in found], queue.ready_count, following))


def _shown(queue: Queue, peeked: Peeked) -> DeadLetterShown:
    message = peeked.message
    table = headers(message.properties)
    deaths = table.get("x-death")
    origin = table.get("x-first-death-queue")
    body = message.body[:SHOWN_BYTES]
    try:
        payload, encoding = body.decode(), "string"
    except UnicodeDecodeError:
        payload, encoding = b64encode(body).decode(), "base64"
    return DeadLetterShown(
        f"{peeked.lane}-{peeked.offset}",
        peeked.timestamp_ms,
        [_death(each) for each in deaths if isinstance(each, dict)] if isinstance(deaths, list) else [],
        origin if isinstance(origin, str) and origin != queue.name else None,
        message.exchange,
        message.routing_key,
        json_table(table),
        payload,
        encoding,
        len(message.body),
    )


def _death(given: dict[str, object]) -> Death:
    """What is found there may be anything."""
    count, time_s, keys = given.get("count"), given.get("time"), given.get("routing-keys")
    return Death(
        str(json_value(given.get("queue"))),
        str(json_value(given.get("reason"))),
        int(count) if isinstance(count, int) else 1,
        int(time_s) if isinstance(time_s, int) else None,
        str(json_value(given.get("exchange"))),
        [str(json_value(each)) for each in keys] if isinstance(keys, list) else [],
    )


# --- back


async def _retry(ask: Ask) -> Reply:
    vhost, queue = _queue(ask)
    check_exchange_access(ask.user, "write", "", vhost.name)
    wanted = ask.body(RetryWanted)
    if wanted.count is not None and (wanted.count < 1 or wanted.ids is not None):
        raise Problem(400, "invalid_body", "count is a number from 1 on; ids and count do not go together")
    only: set[tuple[int, int]] | None = None
    count = min(wanted.count or MOST_RETRIED, MOST_RETRIED)
    if wanted.ids is not None:
        places = [_ID.fullmatch(each) for each in wanted.ids]
        if len(places) > MOST_RETRIED or None in places:
            raise Problem(400, "invalid_body", f"ids are those of the list, {MOST_RETRIED} at most")
        only = {(int(each[1]), int(each[2])) for each in places if each is not None}

    def republish(run: Run, to: str, keys: tuple[str, ...]) -> Published:
        return vhost.republish(run, to, keys)

    moved = await inspecting.retry_dead(queue, ask.broker.vhosts.turns, republish, count, only)
    return Reply(200, Retried(moved, queue.ready_count))


PATHS = ("/v1/dead-letters", "/v1/dead-letters/{rest:path}")
_ONE = "/v1/dead-letters/{vhost}/{queue}"
OPERATIONS = (
    Operation("GET", "/v1/dead-letters", "Lists where dead letters are", _list, answer=DeadLetterSources),
    Operation(
        "GET",
        _ONE,
        "Lists the dead letters in a queue",
        _entries,
        answer=DeadLetterPart,
        query=(
            Parameter("limit", f"At most so many: {LIMIT} if it is not said, up to {MAX_LIMIT}.", int),
            Parameter("skip", "Behind so many: `next` of the answer before.", int),
        ),
        problems=(404, 409),
    ),
    Operation(
        "POST",
        f"{_ONE}/retry",
        "Sends dead letters back to where they died",
        _retry,
        RetryWanted,
        Retried,
        problems=(404, 409),
        description=f"At most {MOST_RETRIED} messages are looked at; ask again as long as `moved` is not 0.",
    ),
)
