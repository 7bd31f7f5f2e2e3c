"""DescribeLogDirs, versions 1 to 5: the data folder, its disk, and how much each partition takes there (KIP-113).

There is one folder. A null list of topics means all; partitions that don't exist are left out. A partition's size is that of
its segments in the folder; what lies in the archive, and what was not compacted yet, is told in tagged fields of our own.

v2 flexible · v3 an error for the whole response · v4 size of the disk and room on it (KIP-827) · v5 whether the folder
takes new partitions (KIP-1066); ours always does
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.kafka.call import Call
from headrace.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headrace.log.port import Partition


def handle(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    storage = call.broker.log.storage()
    topics = [
        DescribeLogDirsTopic(
            name=name,
            partitions=[
                DescribeLogDirsPartition(
                    partition_index=partition.index,
                    partition_size=partition.size_bytes,
                    archived_size=partition.archived_bytes,
                    dirty_size=partition.dirty_bytes,
                )
                for partition in partitions
            ],
        )
        for name, partitions in _wanted(call, request)
        if partitions
    ]
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=storage.path,
                topics=topics,
                total_bytes=storage.total_bytes,
                usable_bytes=storage.usable_bytes,
            )
        ]
    )


def _wanted(call: Call, request: DescribeLogDirsRequest) -> Iterator[tuple[str, list[Partition]]]:
    topics = call.broker.topics
    if request.topics is None:
        for topic in topics.all():
            yield topic.name, list(topic.partitions)
        return
    indexes: dict[str, dict[int, None]] = {}
    for asked in request.topics:
        indexes.setdefault(asked.topic, {}).update(dict.fromkeys(asked.partitions))
    for name, wanted in indexes.items():
        found = topics.get(name)
        if found is not None:
            yield name, [found.partitions[index] for index in wanted if 0 <= index < len(found.partitions)]
