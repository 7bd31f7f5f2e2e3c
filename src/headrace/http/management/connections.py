"""/api/connections and /api/channels: who is connected, and the end of a connection (DELETE, with X-Reason as the reason)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.broker.audit import note
from headrace.broker.clients import node_name
from headrace.broker.vhosts.definitions_json import json_table
from headrace.http.management import consumers
from headrace.http.management.call import NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import bad_request, missing, not_authorised
from headrace.http.management.listing import columns, listed, only

if TYPE_CHECKING:
    from headrace.broker.clients import ChannelFacts, ConnectionFacts

CLOSED_BY = "Closed via management plugin"


# --- connections


def _visible(call: Call) -> list[ConnectionFacts]:
    """Who does not monitor sees the connections of his own."""
    found = [each for each in call.broker.clients.connections() if call.monitors or each.user == call.user.name]
    if "vhost" in call.parts:
        vhost = call.vhost().name
        found = [each for each in found if each.vhost == vhost]
    return sorted(found, key=lambda each: each.name)


def connection_row(call: Call, facts: ConnectionFacts) -> dict[str, Any]:
    octets = {"recv_oct": facts.received_bytes, "send_oct": facts.sent_bytes}
    return {
        "auth_mechanism": facts.mechanism,
        "channel_max": facts.channel_max,
        "channels": facts.channels,
        "client_properties": json_table(facts.client_properties),
        "connected_at": facts.connected_at_ms,
        "frame_max": facts.frame_max,
        "host": facts.host,
        "name": facts.name,
        "node": node_name(),
        "peer_host": facts.peer_host,
        "peer_port": facts.peer_port,
        "port": facts.port,
        "protocol": facts.protocol,
        "send_pend": facts.unsent_bytes,
        "ssl": False,
        "state": facts.state,
        "timeout": facts.heartbeat_s,
        "type": "network",
        "user": facts.user,
        "user_who_performed_action": facts.user,
        "vhost": facts.vhost,
        **_user_provided_name(facts),
        **call.rates.counted(("connection", facts.name), octets),
    }


def _user_provided_name(facts: ConnectionFacts) -> dict[str, Any]:
    name = facts.client_properties.get("connection_name")
    return {"user_provided_name": name} if isinstance(name, str) else {}


async def _list(call: Call) -> object:
    return await listed(call.query, _visible(call), lambda each: connection_row(call, each), lambda each: each.name)


def _check_owner(call: Call, user: str, *, closing: bool = False) -> None:
    """Who monitors sees those of others, but only administrators close them."""
    if user != call.user.name and not (call.administers if closing else call.monitors):
        raise not_authorised("User not authorised to access object")


def _one(call: Call, *, closing: bool = False) -> ConnectionFacts:
    found = next((each for each in call.broker.clients.connections() if each.name == call["name"]), None)
    if found is None:
        raise missing()
    _check_owner(call, found.user, closing=closing)
    return found


async def _get(call: Call) -> object:
    return only(connection_row(call, _one(call)), columns(call.query))


async def _close(call: Call) -> Answer:
    name = _one(call, closing=True).name
    note("connection.close", name)
    call.broker.clients.close(name, _reason(call))
    return NO_CONTENT


def _reason(call: Call) -> str:
    return call.headers.get("x-reason", "")[:255] or CLOSED_BY


async def _of_user(call: Call) -> object:
    _check_owner(call, call["name"])
    return [
        {"name": each.name, "vhost": each.vhost, "user": each.user, "node": node_name()}
        for each in _visible(call)
        if each.user == call["name"]
    ]


async def _close_of_user(call: Call) -> Answer:
    _check_owner(call, call["name"], closing=True)
    for each in _visible(call):
        if each.user == call["name"]:
            call.broker.clients.close(each.name, _reason(call))
    return NO_CONTENT


# --- channels


def channel_row(call: Call, facts: ChannelFacts) -> dict[str, Any]:
    counters = {
        "ack": facts.acknowledged,
        "confirm": facts.confirmed,
        "deliver": facts.delivered,
        "deliver_get": facts.delivered,
        "publish": facts.published,
    }
    return {
        "acks_uncommitted": 0,
        "confirm": facts.confirms,
        "connection_details": {
            "name": facts.connection,
            "peer_host": facts.peer_host,
            "peer_port": facts.peer_port,
        },
        "consumer_count": facts.consumers,
        "global_prefetch_count": facts.global_prefetch,
        "message_stats": call.rates.counted(("channel", facts.name), counters),
        "messages_unacknowledged": facts.unacked,
        "messages_uncommitted": 0,
        "messages_unconfirmed": facts.unconfirmed,
        "name": facts.name,
        "node": node_name(),
        "number": facts.number,
        "prefetch_count": facts.prefetch,
        "state": "running",
        "transactional": facts.transactional,
        "user": facts.user,
        "user_who_performed_action": facts.user,
        "vhost": facts.vhost,
    }


def _channels(call: Call, connection: str | None = None) -> list[ChannelFacts]:
    found = [each for each in call.broker.clients.channels(connection) if call.monitors or each.user == call.user.name]
    if "vhost" in call.parts:
        vhost = call.vhost().name
        found = [each for each in found if each.vhost == vhost]
    return sorted(found, key=lambda each: (each.connection, each.number))


async def _list_channels(call: Call) -> object:
    connection = _one(call).name if "name" in call.parts else None
    found = _channels(call, connection)
    return await listed(call.query, found, lambda each: channel_row(call, each), lambda each: each.name)


async def _get_channel(call: Call) -> object:
    connection = call["name"].rpartition(" (")[0]
    found = next((each for each in call.broker.clients.channels(connection) if each.name == call["name"]), None)
    if found is None:
        raise missing()
    _check_owner(call, found.user)
    mine = [
        consumers.consumer_row(call, each)
        for each in call.broker.clients.consumers()
        if (each.connection, each.channel) == (found.connection, found.number)
    ]
    row = {**channel_row(call, found), "consumer_details": mine, "deliveries": [], "publishes": []}
    return only(row, columns(call.query))


async def _sessions(call: Call) -> object:
    """They are a thing of AMQP 1.0."""
    _one(call)
    raise bad_request("connection does not use AMQP 1.0")


RESOURCES = [
    Resource("connections", {"GET": _list}),
    Resource("connections/{name}", {"GET": _get, "DELETE": _close}),
    Resource("connections/{name}/channels", {"GET": _list_channels}),
    Resource("connections/{name}/sessions", {"GET": _sessions}),
    Resource("connections/username/{name}", {"GET": _of_user, "DELETE": _close_of_user}),
    Resource("vhosts/{vhost}/connections", {"GET": _list}),
    Resource("vhosts/{vhost}/channels", {"GET": _list_channels}),
    Resource("channels", {"GET": _list_channels}),
    Resource("channels/{name}", {"GET": _get_channel}),
]
