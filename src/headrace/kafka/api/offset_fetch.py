"""OffsetFetch, versions 1 to 10: how far groups have read. Nothing committed is offset -1 and no error, whether the group
exists or not.

2: all topics of a group, and an error for the whole · 3: throttle time · 5: leader epoch (KIP-320) · 6: flexible · 7: only
stable offsets, on demand (KIP-447): UNSTABLE_OFFSET_COMMIT while a transaction would move one · 8: several groups (KIP-709)
· 9: the KIP-848 protocol: UNKNOWN_MEMBER_ID and STALE_MEMBER_EPOCH for the group when a member of it is not, or not in this
epoch · 10: topics by id, UNKNOWN_TOPIC_ID
"""

from __future__ import annotations

from uuid import UUID

from headrace.broker.groups import CommittedOffset, GroupError
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_NOTHING_COMMITTED = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", commit_timestamp_ms=-1)


async def handle(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if call.version >= 8:
        return OffsetFetchResponse(groups=[await _fetch(call, group, request.require_stable) for group in request.groups])
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
        ]
    fetched = await _fetch(call, OffsetFetchRequestGroup(group_id=request.group_id, topics=topics), request.require_stable)
    return OffsetFetchResponse(topics=[_old_form(topic) for topic in fetched.topics])


async def _fetch(call: Call, group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    try:
        call.broker.groups.check_fetch(group.group_id, group.member_id, group.member_epoch)
    except GroupError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code_of(error))
    if group.topics is None:
        topics = await _all_topics(call, group.group_id)
    else:
        topics = [await _one_topic(call, group.group_id, topic) for topic in group.topics]
    if require_stable and call.broker.groups.pending.waits_for(group.group_id):
        _mark_unstable(call, group.group_id, topics)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _mark_unstable(call: Call, group_id: str, topics: list[OffsetFetchResponseTopics]) -> None:
    """A transaction would move these, so what is committed now is not what counts."""
    for topic in topics:
        found = call.broker.topics.by_id(topic.topic_id) if call.version >= 10 else None
        name = topic.name if found is None else found.name
        for number, partition in enumerate(topic.partitions):
            index = partition.partition_index
            if not partition.error_code and call.broker.groups.pending.unstable(group_id, name, index):
                topic.partitions[number] = _partition(index, _NOTHING_COMMITTED, ErrorCode.UNSTABLE_OFFSET_COMMIT)


async def _one_topic(call: Call, group_id: str, asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    by_id = call.version >= 10
    topic = call.broker.topics.by_id(asked.topic_id) if by_id else call.broker.topics.get(asked.name)
    if by_id and topic is None:
        partitions = [_partition(index, _NOTHING_COMMITTED, ErrorCode.UNKNOWN_TOPIC_ID) for index in asked.partition_indexes]
    else:
        name = asked.name if topic is None else topic.name
        topic_id = None if topic is None else topic.topic_id
        committed = await call.broker.groups.fetch_offsets(
            group_id, [(name, index, topic_id) for index in asked.partition_indexes]
        )
        partitions = [
            _partition(index, offset or _NOTHING_COMMITTED)
            for index, offset in zip(asked.partition_indexes, committed, strict=True)
        ]
    return OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=partitions)


async def _all_topics(call: Call, group_id: str) -> list[OffsetFetchResponseTopics]:
    topics: list[OffsetFetchResponseTopics] = []
    for name, offsets in (await call.broker.groups.fetch_all_offsets(group_id)).items():
        topic = call.broker.topics.get(name)
        if call.version >= 10 and topic is None:
            continue  # gone, so it has no id to be named by
        topics.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=UUID(int=0) if topic is None else topic.topic_id,
                partitions=[_partition(index, offset) for index, offset in offsets.items()],
            )
        )
    return topics


def _partition(index: int, committed: CommittedOffset, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )


def _old_form(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        ],
    )
