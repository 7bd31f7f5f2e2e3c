"""DescribeProducers, version 0: the producers that a partition remembers, and where their open transactions began (KIP-664)."""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=[_describe(call, topic.name, index) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _describe(call: Call, topic: str, index: int) -> PartitionResponse:
    partition = call.broker.log.partition(topic, index)
    if partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionResponse(partition_index=index, error_code=code, error_message=code.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start_offset,
            )
            for producer in partition.active_producers()
        ],
    )
