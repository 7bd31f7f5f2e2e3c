"""Metadata, versions 0 to 13: which brokers there are, which topics, and who leads each partition.

One node leads every partition. A topic that doesn't exist is created when the request allows it and
auto.create.topics.enable is true; the answer waits for that, so that a client needn't ask again. A request that would
create more than 10,000 partitions creates nothing. A null list of topics means all of them, as an empty one does in
version 0. Topic ids, where there are any, go before names.

Thousands of partitions are nothing unusual, and every client asks again and again, so the response is put together from
parts that are encoded once for each topic and version (`kafka.metadata_parts`).

v1 controller, rack, internal topics · v2 cluster id · v3 throttle time · v4 auto-creation by choice · v5 offline
replicas (KIP-112) · v7 leader epochs (KIP-320) · v8 authorized operations (KIP-430) · v9 flexible · v10 topic ids
(KIP-516) · v11 cluster operations moved to DescribeCluster (KIP-700) · v12 topics by id · v13 an error for the whole
response (KIP-1102)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

from headrace.broker.topic_layout import MAX_PARTITIONS_PER_REQUEST
from headrace.broker.topics import NO_TOPIC_ID, check_name, is_internal
from headrace.kafka import operations
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.schema import encode
from headrace.kafka.errors import code_of
from headrace.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from headrace.kafka.metadata_parts import (
    TOPIC_PARTS,
    array_length,
    size_after_topics,
    topic_bytes,
    topic_ending,
)
from headrace.log.errors import InvalidName, LogError
from headrace.log.port import Topic


async def handle(call: Call, request: MetadataRequest) -> bytes | MetadataResponse:
    asked = request.topics
    if asked is None or (call.version == 0 and not asked):
        return _assemble(call, request, call.broker.topics.all(), [])
    if _contradicts(call.version, asked):
        return MetadataResponse(
            topics=[
                MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
                for topic in asked
            ],
            error_code=ErrorCode.INVALID_REQUEST,
        )
    ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != NO_TOPIC_ID)
    if ids:
        found, missing = _by_id(call, ids)
    else:
        names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
        found, missing = await _by_name(call, names, request.allow_auto_topic_creation)
    return _assemble(call, request, found, missing)


def _contradicts(version: int, asked: list[MetadataRequestTopic]) -> bool:
    """Ids came with version 10, but could be used only from version 12 on (KAFKA-14190)."""
    if version < 12:
        return any(topic.name is None or topic.topic_id != NO_TOPIC_ID for topic in asked)
    return any(topic.name is None and topic.topic_id == NO_TOPIC_ID for topic in asked)


def _by_id(call: Call, ids: Iterable[UUID]) -> tuple[list[Topic], list[MetadataResponseTopic]]:
    found, missing = [], []
    for topic_id in ids:
        topic = call.broker.topics.by_id(topic_id)
        if topic is not None:
            found.append(topic)
        else:
            missing.append(MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id))
    return found, missing


async def _by_name(call: Call, names: Iterable[str], may_create: bool) -> tuple[list[Topic], list[MetadataResponseTopic]]:
    topics = call.broker.topics
    found: list[Topic] = []
    absent: list[str] = []
    for name in names:
        topic = topics.get(name)
        if topic is not None:
            found.append(topic)
        else:
            absent.append(name)
    codes: list[ErrorCode]
    if absent and may_create and _creates(call, len(absent)):
        codes = list(await asyncio.gather(*(_create(call, name, found) for name in absent)))
    else:
        codes = [_why_absent(name) for name in absent]
    missing = [
        MetadataResponseTopic(error_code=code, name=name, is_internal=topics.is_internal(name))
        for name, code in zip(absent, codes, strict=True)
        if code is not ErrorCode.NONE
    ]
    return found, missing


def _creates(call: Call, topics: int) -> bool:
    settings = call.broker.settings
    new_partitions = topics * settings.get_int("num.partitions")
    return settings.get_bool("auto.create.topics.enable") and new_partitions <= MAX_PARTITIONS_PER_REQUEST


def _why_absent(name: str) -> ErrorCode:
    try:
        check_name(name)
    except InvalidName as error:
        return code_of(error)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _create(call: Call, name: str, found: list[Topic]) -> ErrorCode:
    code = _why_absent(name)
    if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        return code
    try:
        topic = await call.broker.topics.auto_create(name)
        found.append(topic)
        if call.ticket is not None:
            call.ticket.mutate(len(topic.partitions), strict=False)
    except InvalidName:
        return code  # a collision of '.' and '_', or a name of ours: as if it could not be found
    except LogError as error:
        return code_of(error)
    return ErrorCode.NONE


# -- encoding


def _assemble(call: Call, request: MetadataRequest, found: Iterable[Topic], missing: list[MetadataResponseTopic]) -> bytes:
    version = call.version
    allowed = operations.TOPIC if request.include_topic_authorized_operations else operations.NOT_ASKED
    ending = topic_ending(version, allowed)
    part, node = TOPIC_PARTS.get, call.broker.node_id
    topics = [part(topic, version, is_internal(topic), node) + ending for topic in found]
    for absent in missing:
        if absent.name is not None:
            absent.topic_authorized_operations = allowed
        topics.append(topic_bytes(absent, version))
    before, after = _around_topics(call, request)
    return b"".join((before, array_length(version, len(topics)), *topics, after))


def _around_topics(call: Call, request: MetadataRequest) -> tuple[bytes, bytes]:
    """What the response has before its list of topics, and behind it."""
    broker = call.broker
    body = encode(
        MetadataResponse(
            brokers=[
                MetadataResponseBroker(
                    node_id=broker.node_id,
                    host=call.host,
                    port=call.port,
                    rack=broker.settings.get_optional_str("broker.rack"),
                )
            ],
            cluster_id=broker.cluster_id,
            controller_id=broker.node_id,
            cluster_authorized_operations=(
                operations.CLUSTER if request.include_cluster_authorized_operations else operations.NOT_ASKED
            ),
        ),
        call.version,
    )
    after = len(body) - size_after_topics(call.version)
    before = after - len(array_length(call.version, 0))
    return bytes(body[:before]), bytes(body[after:])
