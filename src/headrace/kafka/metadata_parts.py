"""The parts that a Metadata response is put together from, encoded in advance.

A topic's bytes depend on its name, id, partitions and the version of the API, and only its last field on what was
asked; so all but that field is kept (`TopicParts`). The codec does the encoding: parts are cut out of responses that it
has written.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from headrace.kafka import operations
from headrace.kafka.codec.schema import encode
from headrace.kafka.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from headrace.log.port import Topic

FLEXIBLE = 9
_BESIDE_A_PART_BYTES = 512  # name, id and the dictionary's share


def size_after_topics(version: int) -> int:
    cluster_operations = 4 if 8 <= version <= 10 else 0
    error_code = 2 if version >= 13 else 0
    tags = 1 if version >= FLEXIBLE else 0
    return cluster_operations + error_code + tags


def array_length(version: int, count: int) -> bytes:
    if version < FLEXIBLE:
        return count.to_bytes(4, "big")
    out = bytearray()
    count += 1  # compact arrays count from one, so that 0 is null
    while count > 0x7F:
        out.append(count & 0x7F | 0x80)
        count >>= 7
    out.append(count)
    return bytes(out)


def topic_ending(version: int, allowed: int) -> bytes:
    """What a topic has behind its partitions: it depends on the request, so it is not among the kept parts."""
    out = allowed.to_bytes(4, "big", signed=True) if version >= 8 else b""
    return out + b"\0" if version >= FLEXIBLE else out


def topic_bytes(topic: MetadataResponseTopic, version: int) -> bytes:
    """A topic, whole, cut out of a response that has nothing else."""
    empty = encode(MetadataResponse(), version)
    after = size_after_topics(version)
    begin = len(empty) - after
    body = encode(MetadataResponse(topics=[topic]), version)
    return bytes(body[begin : len(body) - after])


class _Part(NamedTuple):
    topic_id: UUID
    partitions: int
    leader_epoch: int
    internal: bool
    node: int
    encoded: bytes


class TopicParts:
    """Encoded topics, without their ending. Nothing but a memory of a pure function: whatever goes into the bytes is kept
    beside them and compared, so a part is never wrong, and all are thrown away when there are too many."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._parts: dict[int, dict[str, _Part]] = {}  # version -> name -> part

    def get(self, topic: Topic, version: int, internal: bool, node: int) -> bytes:
        partitions = topic.partitions
        epochs = {partition.leader_epoch for partition in partitions}
        if len(epochs) != 1:
            return self._encode(topic, version, internal, node)
        (epoch,) = epochs
        topic_id = topic.topic_id
        kept = self._parts.setdefault(version, {})
        part = kept.get(topic.name)
        if (
            part is not None
            and (part.topic_id is topic_id or part.topic_id == topic_id)
            and part.partitions == len(partitions)
            and part.leader_epoch == epoch
            and part.internal == internal
            and part.node == node
        ):
            return part.encoded
        encoded = self._encode(topic, version, internal, node)
        if self._size_bytes > self._limit_bytes:
            self.clear()
            kept = self._parts.setdefault(version, {})
        elif part is not None:
            self._size_bytes -= len(part.encoded) + _BESIDE_A_PART_BYTES
        kept[topic.name] = _Part(topic_id, len(partitions), epoch, internal, node, encoded)
        self._size_bytes += len(encoded) + _BESIDE_A_PART_BYTES
        return encoded

    def clear(self) -> None:
        self._parts.clear()
        self._size_bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    @staticmethod
    def _encode(topic: Topic, version: int, internal: bool, node: int) -> bytes:
        whole = topic_bytes(
            MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=internal,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=partition.index,
                        leader_id=node,
                        leader_epoch=partition.leader_epoch,
                        replica_nodes=[node],
                        isr_nodes=[node],
                    )
                    for partition in topic.partitions
                ],
            ),
            version,
        )
        return whole[: len(whole) - len(topic_ending(version, operations.NOT_ASKED))]


TOPIC_PARTS = TopicParts(limit_bytes=64 * 1024 * 1024)
