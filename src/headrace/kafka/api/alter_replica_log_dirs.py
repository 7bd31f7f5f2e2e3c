"""AlterReplicaLogDirs, versions 1 to 2: moves partitions to another folder of the same broker (KIP-113).

There is one folder, and every partition is there already.

v2 flexible
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(call: Call, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    here = call.broker.log.storage().path
    results: dict[str, dict[int, ErrorCode]] = {}
    for asked in request.dirs:
        for topic in asked.topics:
            codes = results.setdefault(topic.name, {})
            for index in topic.partitions:
                if asked.path != here:
                    codes[index] = ErrorCode.LOG_DIR_NOT_FOUND
                else:
                    codes[index] = _is_there(call, topic.name, index)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code) for index, code in codes.items()
                ],
            )
            for name, codes in results.items()
        ]
    )


def _is_there(call: Call, name: str, index: int) -> ErrorCode:
    topic = call.broker.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
