"""AlterShareGroupOffsets, version 0: a share group without members goes on from other offsets (KIP-932).

What was acquired or acknowledged behind the new offset is forgotten. An offset outside of the log is moved to its nearest end.
"""

from __future__ import annotations

from uuid import UUID

from headrace.broker.groups import GroupError
from headrace.kafka.call import Call
from headrace.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from headrace.kafka.share_errors import code_of, text_of

_NO_TOPIC = UUID(int=0)


async def handle(call: Call, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    wanted = {
        topic.topic_name: {partition.partition_index: partition.start_offset for partition in topic.partitions}
        for topic in request.topics
    }
    try:
        answers = await call.broker.share_groups.offsets.alter(request.group_id, wanted)
    except GroupError as error:
        return AlterShareGroupOffsetsResponse(error_code=code_of(error), error_message=text_of(error))
    return AlterShareGroupOffsetsResponse(
        responses=[
            AlterShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=topic_id or _NO_TOPIC,
                partitions=[
                    AlterShareGroupOffsetsResponsePartition(
                        partition_index=index, error_code=code_of(error), error_message=text_of(error)
                    )
                    for index, error in errors.items()
                ],
            )
            for name, (topic_id, errors) in answers.items()
        ]
    )
