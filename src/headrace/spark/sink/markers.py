"""Markers: what says, in the cluster itself, that a task has written its rows of a batch.

The marker of a task is the committed offset of a consumer group of its own (nobody consumes in it): the number of the batch
plus one, with the rows and bytes written as its metadata. It is committed in the transaction that writes the rows
(TxnOffsetCommit), so the one is there exactly when the other is, and it is read back with one OffsetFetch, however old the
query is. An offset belongs to a topic: the marker is put on partition 0 of topics that the task writes to. A group for each
task, because brokers take no offset for a partition that the topic does not have.

A query has a marker as well, which the driver commits after each batch. It tells a task that finds no marker of its own whether
that means "never written" or "markers are gone": brokers forget offsets that nobody has renewed for offsets.retention.minutes
(7 days). A marker that the driver has left is younger than that, and so would be every marker of a task since.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.client.kafka.errors import ClientError
from headrace.client.kafka.groups import Committed, commit_offsets, committed_offsets, delete_group
from headrace.client.kafka.partitions import TopicPartition

if TYPE_CHECKING:
    from headrace.client.kafka.cluster import Cluster

_TOPICS = 8  # where topics vary by row: the marker is lost only with all of these


@dataclass(frozen=True, slots=True)
class Marker:
    batch: int
    rows: int
    size_bytes: int
    topics: tuple[str, ...] = field(default=(), compare=False)  # that it was found on


def read_marker(cluster: Cluster, group: str) -> Marker | None:
    found = committed_offsets(cluster, group)
    if not found:
        return None
    newest = max(found.values(), key=lambda committed: committed.offset)
    try:
        content = json.loads(newest.metadata or "")
        topics = tuple(partition.topic for partition in found)
        return Marker(newest.offset - 1, int(content["rows"]), int(content["bytes"]), topics)
    except (ValueError, KeyError, TypeError):
        raise ClientError(f"group '{group}' has an offset that is no marker of this sink: {newest.metadata!r}") from None


def marker_offsets(marker: Marker, topics: Iterable[str]) -> Mapping[TopicPartition, Committed]:
    committed = Committed(marker.batch + 1, json.dumps({"rows": marker.rows, "bytes": marker.size_bytes}))
    return {TopicPartition(topic, 0): committed for topic in sorted(topics)[:_TOPICS]}


def leave_marker(cluster: Cluster, group: str, marker: Marker, topics: Iterable[str]) -> None:
    """Outside any transaction: the driver's. While no row has named a topic yet, any one that can be seen will do."""
    topics = list(topics) or sorted(name for name, topic in cluster.metadata().topics.items() if not topic.internal)[:1]
    commit_offsets(cluster, group, marker_offsets(marker, topics))


def forget_markers(cluster: Cluster, groups: Iterable[str]) -> None:
    """Those of a write that is over. Left to expire where this client may not delete groups."""
    for group in groups:
        try:
            delete_group(cluster, group)
        except ClientError:
            return
