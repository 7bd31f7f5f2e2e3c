"""Who is connected, by any protocol: /v1/connections.

    GET     /v1/connections                       a part of the list, and how many there are of each protocol
    GET     /v1/connections/{connection}          one
    DELETE  /v1/connections/{connection}          closes it

An id is the protocol and where the peer is: `kafka:127.0.0.1:40000`. Ids are listed for all connections; what is known about
one is found out only for those that are shown, unless `text` has to be looked for in it. AMQP's come with their channels.

Who does not monitor (the tags monitoring and administrator) sees the connections of their own user, and only an administrator
closes those of others, as in RabbitMQ. Clients that were closed connect again: that is a matter of theirs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.broker.audit import note
from headrace.broker.clients import WithChannels
from headrace.http.problems import Problem
from headrace.http.v1.access import ADMINISTRATOR, monitors
from headrace.http.v1.listing import LIMIT, MAX_LIMIT, part_of
from headrace.http.v1.operations import NO_CONTENT, Ask, Operation, Parameter, Reply

if TYPE_CHECKING:
    from headrace.broker.clients import Door
    from headrace.sockets import ConnectionSeen

PROTOCOLS = ("amqp", "http", "kafka", "kinesis", "websocket")
STEP = 200
CHANNELS_STEP = 5
MAX_TEXT = 250
MAX_REASON = 255
CHANNELS_LISTED = 32
CLOSED_BY = "Closed by an operator"

Found = dict[str, tuple["Door", Any]]


class ChannelShown(Struct):
    """What is counted is so since the channel was opened."""

    number: int
    mode: Annotated[str, Meta(description="confirms, transactions, or empty.")]
    consumers: int
    prefetch: Annotated[int, Meta(description="Of each consumer to come; 0: no limit.")]
    global_prefetch: Annotated[int, Meta(description="Of all its consumers together; 0: no limit.")]
    unacked: Annotated[int, Meta(description="Messages that were delivered and not settled yet.")]
    unconfirmed: Annotated[int, Meta(description="Messages that were published and not confirmed yet.")]
    published: int
    delivered: int
    acknowledged: int


class ConnectionShown(Struct):
    id: str
    protocol: Annotated[str, Meta(description="amqp, http, kafka, kinesis or websocket.")]
    version: Annotated[str, Meta(description="Of the protocol, where that is known: HTTP/2.")]
    peer: Annotated[str, Meta(description="Host and port of the client.")]
    client: Annotated[str, Meta(description="The client's software, as it says.")]
    client_id: Annotated[str, Meta(description="The name that it gives itself: Kafka's client.id, AMQP's connection_name.")]
    user: Annotated[str, Meta(description="Who logged in; of Kinesis, the account. Empty where nobody has to.")]
    vhost: str
    state: str
    since_ms: Annotated[int, Meta(description="When it was opened.")]
    channels: Annotated[int | None, Meta(description="How many: of AMQP.")]
    requests: Annotated[int | None, Meta(description="Of all but AMQP.")]
    received_bytes: int | None
    sent_bytes: int | None
    unsent_bytes: Annotated[int, Meta(description="What waits for a client that does not read.")]
    channel_list: Annotated[
        list[ChannelShown] | UnsetType,
        Meta(
            description=f"Of AMQP: all of one connection; in a list with `channels=true` the first {CHANNELS_LISTED} of each."
        ),
    ] = UNSET


class ConnectionList(Struct):
    connections: list[ConnectionShown]
    protocols: Annotated[dict[str, int], Meta(description="How many there are of each, whatever was asked for.")]
    next: Annotated[str | None, Meta(description="Where to go on: the next `after`. Null: that was all.")] = None


async def _list(ask: Ask) -> Reply:
    protocol = ask.query.get("protocol", "")
    if protocol and protocol not in PROTOCOLS:
        raise Problem(400, "invalid_parameter", f"protocol is one of {', '.join(PROTOCOLS)}")
    found = await _visible(ask, _open(ask))
    protocols = Counter(dict.fromkeys(PROTOCOLS, 0))
    protocols.update(id.partition(":")[0] for id in found)
    chosen: Found = {id: each for id, each in found.items() if not protocol or id.startswith(protocol + ":")}
    text = ask.query.get("text", "")[:MAX_TEXT].lower()
    if text:
        chosen = await _with_text(chosen, text)
    ids, following = await part_of(ask, chosen)
    rows = [_shown(door.seen(connection)) for door, connection in (chosen[id] for id in ids)]
    if ask.flag("channels"):
        for number, (row, id) in enumerate(zip(rows, ids, strict=True), 1):
            row.channel_list = _channels(*chosen[id], CHANNELS_LISTED)
            if number % CHANNELS_STEP == 0:
                await asyncio.sleep(0)
    return Reply(200, ConnectionList(rows, dict(protocols), following))


def _open(ask: Ask) -> Found:
    doors = tuple(ask.broker.clients.doors.values())
    return {id: (door, connection) for door in doors for id, connection in door.open()}


async def _visible(ask: Ask, found: Found) -> Found:
    if monitors(ask.user):
        return found
    mine: Found = {}
    for number, (id, (door, connection)) in enumerate(found.items(), 1):
        if door.seen(connection).user == ask.user.name and not id.startswith("kinesis:"):  # an account is no user of ours
            mine[id] = door, connection
        if number % STEP == 0:
            await asyncio.sleep(0)
    return mine


async def _with_text(found: Found, text: str) -> Found:
    chosen: Found = {}
    for number, (id, (door, connection)) in enumerate(found.items(), 1):
        seen = door.seen(connection)
        if any(text in part.lower() for part in (id, seen.client, seen.client_id, seen.user, seen.vhost, seen.version)):
            chosen[id] = door, connection
        if number % STEP == 0:
            await asyncio.sleep(0)
    return chosen


def _shown(seen: ConnectionSeen) -> ConnectionShown:
    host = f"[{seen.peer_host}]" if ":" in seen.peer_host else seen.peer_host
    return ConnectionShown(
        seen.id,
        seen.protocol,
        seen.version,
        f"{host}:{seen.peer_port}",
        seen.client,
        seen.client_id,
        seen.user,
        seen.vhost,
        seen.state,
        seen.connected_at_ms,
        seen.channels,
        seen.requests,
        seen.received_bytes,
        seen.sent_bytes,
        seen.unsent_bytes,
    )


def _channels(door: Door, connection: Any, most: int | None = None) -> list[ChannelShown] | UnsetType:
    if not isinstance(door, WithChannels):
        return UNSET
    return [
        ChannelShown(
            each.number,
            "transactions" if each.transactional else "confirms" if each.confirms else "",
            each.consumers,
            each.prefetch,
            each.global_prefetch,
            each.unacked,
            each.unconfirmed,
            each.published,
            each.delivered,
            each.acknowledged,
        )
        for each in sorted(door.channels(connection), key=attrgetter("number"))[:most]
    ]


async def _one(ask: Ask) -> tuple[Door, Any]:
    wanted = ask["connection"]
    found = await _visible(ask, {id: each for id, each in _open(ask).items() if id == wanted})
    if wanted not in found:
        raise Problem(404, "unknown_connection", f"there is no connection '{wanted[:250]}'")
    return found[wanted]


async def _get(ask: Ask) -> Reply:
    door, connection = await _one(ask)
    shown = _shown(door.seen(connection))
    shown.channel_list = _channels(door, connection)
    return Reply(200, shown)


async def _close(ask: Ask) -> Reply:
    door, connection = await _one(ask)
    if ADMINISTRATOR not in ask.user.tags and door.seen(connection).user != ask.user.name:
        raise Problem(403, "forbidden", "only an administrator closes the connections of others")
    note("connection.close", ask["connection"])
    door.close(connection, ask.headers.get("x-reason", "")[:MAX_REASON] or CLOSED_BY)
    return NO_CONTENT


_ONE = "/v1/connections/{connection}"
OPERATIONS = (
    Operation(
        "GET", "/v1/connections", "Lists connections of all protocols", _list, answer=ConnectionList,
        query=(
            Parameter("protocol", f"Only those of one: {', '.join(PROTOCOLS)}."),
            Parameter("text", "Only those with this in their address, client, user or virtual host."),
            Parameter("channels", "true: with the channels of each, where the protocol has some.", bool),
            Parameter("pattern", "Only ids that match this glob: `kafka:10.0.0.*`."),
            Parameter("after", "Only ids behind this one: `next` of the answer before."),
            Parameter("limit", f"At most so many, {LIMIT} if it is not said, up to {MAX_LIMIT}.", int),
        ),
    ),
    Operation("GET", _ONE, "Describes a connection", _get, answer=ConnectionShown, problems=(404,)),
    Operation(
        "DELETE", _ONE, "Closes a connection", _close, status=204, problems=(404,),
        description="The header `X-Reason` is told to the client where its protocol has words for it (AMQP). A client that "
        "connects again by itself will do so.",
    ),
)  # fmt: skip
PATHS = ("/v1/connections", _ONE)
