"""CreateTopics, versions 2 to 7: makes topics, or checks with `validate_only` whether they could be made.

Each topic succeeds or fails by itself; one that is named twice is refused. A new topic is durable when the answer is
sent. -1 partitions or copies means the server's default. One request may ask for 10,000 partitions in all.

v4 defaults (KIP-464) · v5 flexible, the new topic's settings in the answer (KIP-525) · v6 quotas (KIP-599) · v7 topic
ids (KIP-516)
"""

from __future__ import annotations

import asyncio
from collections import Counter

from headrace.broker.topic_layout import check_request_size, planned_partitions
from headrace.broker.topics import NewTopic
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.log.errors import LogError

METADATA_TOPIC = "__cluster_metadata"
_STRICT_QUOTA_SINCE = 6


async def handle(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    times = Counter(topic.name for topic in request.topics)
    wanted = [_new_topic(topic) for topic in request.topics if times[topic.name] == 1]
    try:
        check_request_size(sum(max(1, planned_partitions(new, call.broker.settings)) for new in wanted))
    except LogError as error:
        results = [_failed(new.name, error) for new in wanted]
    else:
        results = await asyncio.gather(*(_create(call, new, request.validate_only) for new in wanted))
    results.extend(_refused(name, "Duplicate topic name.") for name, count in times.items() if count > 1)
    return CreateTopicsResponse(topics=results)


async def _create(call: Call, new: NewTopic, validate_only: bool) -> CreatableTopicResult:
    if new.name == METADATA_TOPIC:
        return _refused(new.name, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    try:
        if call.ticket is not None and not validate_only:
            partitions = planned_partitions(new, call.broker.settings)
            call.ticket.mutate(max(1, partitions), strict=call.version >= _STRICT_QUOTA_SINCE)
        created = await call.broker.topics.create(new, validate_only=validate_only)
    except LogError as error:
        return _failed(new.name, error)
    result = CreatableTopicResult(name=new.name, topic_id=created.topic_id, error_message=None)
    if call.version >= 5:
        result.num_partitions = created.partitions
        result.replication_factor = created.replication_factor
        result.configs = [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in created.config
        ]
    return result


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


def _failed(name: str, error: LogError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code_of(error), error_message=text_of(error))


def _refused(name: str, why: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message=why)
