"""ShareAcknowledge, versions 1 and 2: a member of a share group acknowledges records without fetching more.

Answered when it is durable. Epoch -1 ends the share session and releases what the member still holds.

1: the first that is not a draft (KIP-932) · 2: renewing locks, and how long they hold (KIP-1222)
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from headrace.broker.groups import GroupError
from headrace.broker.groups.share.sessions import FINAL_EPOCH, FIRST_EPOCH, InvalidShareSessionEpoch, TopicPartition
from headrace.kafka.api.share_fetch import check_names
from headrace.kafka.call import Call
from headrace.kafka.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from headrace.kafka.share_acknowledgements import merged, sort_out
from headrace.kafka.share_errors import code_of, text_of


async def handle(call: Call, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    share = call.broker.share_groups
    try:
        group_id, member_id = check_names(request.group_id, request.member_id)
        epoch = request.share_session_epoch
        if epoch == FIRST_EPOCH:
            raise InvalidShareSessionEpoch
        if epoch == FINAL_EPOCH:
            share.sessions.get(group_id, member_id)
        else:
            share.sessions.resume(group_id, member_id, epoch)
    except GroupError as error:
        return ShareAcknowledgeResponse(error_code=code_of(error), error_message=text_of(error))
    given = (
        ((topic.topic_id, wanted.partition_index), wanted.acknowledgement_batches)
        for topic in request.topics
        for wanted in topic.partitions
    )
    taken, refused = sort_out(given, renewing=request.is_renew_ack, may_renew=share.may_renew(group_id))
    answers = merged(refused, await share.fetching.acknowledge(group_id, member_id, taken))
    if epoch == FINAL_EPOCH:
        share.sessions.end(group_id, member_id)
        await share.fetching.release(group_id, member_id)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=share.settings_of(group_id).lock_ms, responses=_responses(answers)
    )


def _responses(answers: Mapping[TopicPartition, Exception | None]) -> list[ShareAcknowledgeTopicResponse]:
    by_topic: dict[UUID, list[PartitionData]] = {}
    for (topic_id, index), error in answers.items():
        by_topic.setdefault(topic_id, []).append(
            PartitionData(partition_index=index, error_code=code_of(error), error_message=text_of(error))
        )
    return [ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=parts) for topic_id, parts in by_topic.items()]
