"""DescribeTopicPartitions, version 0: topics and their partitions in pages, in the order of names (KIP-966).

An empty list of topics means all. A page ends after `response_partition_limit` partitions, at most the server's
max.request.partition.size.limit, and says where the next begins. Operations are always shown.
"""

from __future__ import annotations

from headrace.broker.topics import check_name
from headrace.kafka import operations
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from headrace.log.errors import InvalidName
from headrace.log.port import Topic


def handle(call: Call, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    topics = call.broker.topics
    cursor = request.cursor
    wanted = {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (wanted and cursor.topic_name not in wanted)):
        return DescribeTopicPartitionsResponse(topics=[_refused(name, ErrorCode.INVALID_REQUEST) for name in sorted(wanted)])
    names = wanted or {topic.name for topic in topics.all()}
    limit = call.broker.settings.get_int("max.request.partition.size.limit")
    room = max(min(limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse()
    for name in sorted(names):
        begin = 0
        if cursor is not None:
            if name < cursor.topic_name:
                continue
            if name == cursor.topic_name:
                begin = cursor.partition_index
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = topics.get(name)
        if topic is None:
            response.topics.append(_absent(name, topics.is_internal(name)))
            continue
        end = min(begin + room, len(topic.partitions))
        response.topics.append(_described(topic, topics.is_internal(name), begin, end, call.broker.node_id))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        room -= max(end - begin, 0)
    return response


def _described(topic: Topic, internal: bool, begin: int, end: int, node: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=node,
                leader_epoch=topic.partitions[index].leader_epoch,
                replica_nodes=[node],
                isr_nodes=[node],
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for index in range(begin, end)
        ],
        topic_authorized_operations=operations.TOPIC,
    )


def _absent(name: str, internal: bool) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_name(name)
    except InvalidName:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, is_internal=internal, topic_authorized_operations=operations.TOPIC
    )


def _refused(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name)
