"""CreatePartitions, versions 0 to 3: gives topics more partitions (KIP-195), never fewer.

Each topic succeeds or fails by itself; one that is named twice is refused. Assignments may only name this node.

v2 flexible · v3 quotas (KIP-599)
"""

from __future__ import annotations

from collections import Counter

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from headrace.log.errors import LogError, UnknownTopic

_STRICT_QUOTA_SINCE = 3


async def handle(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    results = [
        CreatePartitionsTopicResult(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name.")
        for name, count in times.items()
        if count > 1
    ]
    once = [topic for topic in request.topics if times[topic.name] == 1]
    results.extend([await _grow(call, topic, request.validate_only) for topic in once])
    return CreatePartitionsResponse(results=results)


async def _grow(call: Call, topic: CreatePartitionsTopic, validate_only: bool) -> CreatePartitionsTopicResult:
    assignments = None
    if topic.assignments is not None:
        assignments = [assignment.broker_ids for assignment in topic.assignments]
    try:
        known = call.broker.topics.get(topic.name)
        if call.ticket is not None and known is not None and topic.count > len(known.partitions) and not validate_only:
            call.ticket.mutate(topic.count - len(known.partitions), strict=call.version >= _STRICT_QUOTA_SINCE)
        await call.broker.topics.add_partitions(topic.name, topic.count, assignments, validate_only=validate_only)
    except UnknownTopic as error:
        return CreatePartitionsTopicResult(name=topic.name, error_code=code_of(error))
    except LogError as error:
        return CreatePartitionsTopicResult(name=topic.name, error_code=code_of(error), error_message=text_of(error))
    return CreatePartitionsTopicResult(name=topic.name)
