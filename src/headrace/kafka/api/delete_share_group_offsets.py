"""DeleteShareGroupOffsets, version 0: a share group without members forgets topics, and begins them anew (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from headrace.broker.groups import GroupError
from headrace.kafka.call import Call
from headrace.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from headrace.kafka.share_errors import code_of, text_of
from headrace.log.errors import StorageError

_NO_TOPIC = UUID(int=0)


async def handle(call: Call, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    try:
        answers = call.broker.share_groups.offsets.delete(request.group_id, [topic.topic_name for topic in request.topics])
        await call.broker.log.synced()
    except (GroupError, StorageError) as error:
        return DeleteShareGroupOffsetsResponse(error_code=code_of(error), error_message=text_of(error))
    return DeleteShareGroupOffsetsResponse(
        responses=[
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=topic_id or _NO_TOPIC, error_code=code_of(error), error_message=text_of(error)
            )
            for name, (topic_id, error) in answers.items()
        ]
    )
