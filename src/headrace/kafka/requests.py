"""Every request but Produce and Fetch: from its bytes to the API's handler, and from its answer back to bytes.

These are decoded to objects, which costs many times their size and is fine for what is asked seldom. An answer that must be
waited for takes a slot of its connection, so that answers go out in the order of the requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from headrace.broker.audit import Actor, acting
from headrace.kafka import api
from headrace.kafka.api.api_versions import unsupported_version
from headrace.kafka.call import Call
from headrace.kafka.codec.headers import decode_request_header, encode_response_header, skip_header_tags
from headrace.kafka.codec.schema import Response, decode, encode_into
from headrace.kafka.codec.wire import MalformedMessage
from headrace.kafka.messages import MESSAGES, request_class
from headrace.kafka.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from headrace.kafka.connection import KafkaConnection, Slot
    from headrace.kafka.throttle import Ticket

logger = logging.getLogger("headrace.kafka")

_METADATA, _API_VERSIONS = 3, 18
# Those that change something: Metadata (which may make topics), OffsetCommit, CreateTopics, DeleteTopics, DeleteRecords,
# CreateAcls, DeleteAcls, AlterConfigs, CreatePartitions, DeleteGroups, IncrementalAlterConfigs, OffsetDelete,
# AlterClientQuotas, AlterShareGroupOffsets, DeleteShareGroupOffsets.
_AUDITED = frozenset({_METADATA, 8, 19, 20, 21, 30, 31, 33, 37, 42, 44, 47, 49, 91, 92})


def handle_request(connection: KafkaConnection, key: int, version: int, correlation: int, request: bytes) -> None:
    lowest, highest = api.SUPPORTED.get(key, (0, -1))
    if not lowest <= version <= highest:
        if key != _API_VERSIONS:
            connection.refuse(f"API {key} version {version} is not supported")
            return
        _answer(connection, key, 0, correlation, unsupported_version())  # KIP-511: version 0 tells what there is
        return
    header, position = decode_request_header(request)
    flexible = MESSAGES[key].flexible
    if flexible is not None and version >= flexible:
        position = skip_header_tags(request, position)
    message = decode(request_class(key), version, request, position)
    if isinstance(message, ApiVersionsRequest):
        connection.software = (message.client_software_name, message.client_software_version)
    connection.client_id = header.client_id or ""
    ticket = connection.throttle.ticket if connection.throttle is not None else None
    host, _, port = connection.peer.rpartition(":")
    call = Call(
        connection.broker,
        version,
        header.client_id,
        "/" + host,
        *connection.listener.advertised,
        ticket=ticket,
        on_close=connection.on_close,
        client_port=int(port or 0),
        software=connection.software,
    )
    if key in _AUDITED:
        software = " ".join(connection.software).strip()
        with acting(connection.broker.audit, Actor("", "kafka", connection.peer, software or header.client_id or "")):
            _begin(connection, key, version, correlation, call, message, ticket)
    else:
        _begin(connection, key, version, correlation, call, message, ticket)


def _begin(
    connection: KafkaConnection, key: int, version: int, correlation: int, call: Call, message: Any, ticket: Ticket | None
) -> None:
    try:
        answer = api.handler(key)(call, message)
    except Exception as error:
        _broke(connection, key, version, error)
        return
    if isinstance(answer, Awaitable):
        if ticket is not None:
            ticket.park()
        later = _answer_later(connection, key, version, correlation, connection.take_slot(), answer, ticket)
        connection.keep(asyncio.get_running_loop().create_task(later))
    else:
        _answer(connection, key, version, correlation, answer, ticket=ticket)


async def _answer_later(
    connection: KafkaConnection,
    key: int,
    version: int,
    correlation: int,
    slot: Slot,
    answer: Awaitable[Any],
    ticket: Ticket | None,
) -> None:
    try:
        response = await answer
    except Exception as error:
        _broke(connection, key, version, error)
        return
    _answer(connection, key, version, correlation, response, slot, ticket)


def _broke(connection: KafkaConnection, key: int, version: int, error: Exception) -> None:
    name = MESSAGES[key].name
    if isinstance(error, MalformedMessage):
        connection.refuse(f"a malformed {name} request: {error}")
        return
    logger.error("%s version %d from %s failed: %r", name, version, connection.peer, error, exc_info=error)
    connection.close()


def _answer(
    connection: KafkaConnection,
    key: int,
    version: int,
    correlation: int,
    response: api.Answer,
    slot: Slot | None = None,
    ticket: Ticket | None = None,
) -> None:
    if ticket is not None:
        response = _throttled(key, version, response, ticket.answered())
    flexible = MESSAGES[key].flexible
    out = bytearray(4)
    out += encode_response_header(correlation, flexible=flexible is not None and version >= flexible and key != _API_VERSIONS)
    if isinstance(response, Response):
        encode_into(out, response, version)
    else:
        out += response or b""
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    connection.respond((out,), slot)


def _throttled(key: int, version: int, response: api.Answer, wait_ms: int) -> api.Answer:
    if wait_ms and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = wait_ms
    elif wait_ms and key == _METADATA and version >= 3 and isinstance(response, bytes):  # encoded, and it comes first
        return wait_ms.to_bytes(4, "big") + response[4:]
    return response
