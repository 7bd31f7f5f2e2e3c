"""DeleteTopics, versions 1 to 6: removes topics with all they hold.

Each topic succeeds or fails by itself; one that is named twice, by name or id, is refused and stays.

v1 throttle time · v3 TOPIC_DELETION_DISABLED where older ones get INVALID_REQUEST · v4 flexible · v5 error texts
(KIP-599) · v6 topics by id (KIP-516)
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from headrace.broker.topic_errors import TopicDeletionDisabled
from headrace.broker.topics import NO_TOPIC_ID
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.log.errors import LogError

_STRICT_QUOTA_SINCE = 5


async def handle(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    results: list[DeletableTopicResult] = []
    names: Counter[str] = Counter()
    ids: Counter[UUID] = Counter()
    for topic in asked:
        if topic.name is None and topic.topic_id == NO_TOPIC_ID:
            results.append(_refused(None, NO_TOPIC_ID, "Neither topic name nor id were specified."))
        elif topic.name is None:
            ids[topic.topic_id] += 1
        elif topic.topic_id == NO_TOPIC_ID:
            names[topic.name] += 1
        else:
            results.append(_refused(topic.name, topic.topic_id, "You may not specify both topic name and topic id."))
    results.extend(_refused(None, topic_id, "Duplicate topic id.") for topic_id, count in ids.items() if count > 1)
    for topic_id in (topic_id for topic_id, count in ids.items() if count == 1):
        found = call.broker.topics.by_id(topic_id)
        if found is None or names[found.name] != 1:  # else it is answered by its name below
            results.append(await _delete(call, None, topic_id))
    for name, count in names.items():
        found = call.broker.topics.get(name)
        if count > 1:
            results.append(_refused(name, NO_TOPIC_ID, "Duplicate topic name."))
        elif found is not None and found.topic_id in ids:
            why = "The provided topic name maps to an ID that was already supplied."
            results.append(_refused(name, found.topic_id, why))
        else:
            results.append(await _delete(call, name, NO_TOPIC_ID if found is None else found.topic_id))
    return DeleteTopicsResponse(responses=results)


async def _delete(call: Call, name: str | None, topic_id: UUID) -> DeletableTopicResult:
    try:
        topic = call.broker.topics.by_id(topic_id) if name is None else call.broker.topics.get(name)
        if call.ticket is not None and topic is not None:
            call.ticket.mutate(len(topic.partitions), strict=call.version >= _STRICT_QUOTA_SINCE)
        if name is None:
            name = await call.broker.topics.delete_by_id(topic_id)
        else:
            await call.broker.topics.delete(name)
    except TopicDeletionDisabled as error:
        code = code_of(error) if call.version >= 3 else ErrorCode.INVALID_REQUEST
        return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=text_of(error))
    except LogError as error:
        return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code_of(error), error_message=text_of(error))
    return DeletableTopicResult(name=name, topic_id=topic_id)


def _refused(name: str | None, topic_id: UUID, why: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=why)
