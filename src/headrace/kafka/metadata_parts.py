"""The parts that a Metadata response is put together from, encoded in advance.

A topic's bytes depend on its name, id, partitions and the version of the API, and only its last field on what was
asked; so all but that field is kept (`TopicParts`). The codec does the encoding: parts are cut out of responses that it
has written, and the whole is a `PreparedMetadata`, which is written as it is.
"""

from __future__ import annotations

from uuid import UUID

from headrace.kafka import operations
from headrace.kafka.codec.fields import blob
from headrace.kafka.codec.schema import Response, encode
from headrace.kafka.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from headrace.log.port import Topic

FLEXIBLE = 9


class PreparedMetadata(Response, api_key=3, versions=MetadataResponse.versions, flexible=FLEXIBLE):
    """A Metadata response that is encoded already, in the version that was asked for."""

    body: bytes = blob()


def _write_body(out: bytearray, message: PreparedMetadata) -> None:
    out += message.body


PreparedMetadata.__encoders__.update(
    {(version, version >= FLEXIBLE): _write_body for version in range(PreparedMetadata.versions[1] + 1)}
)


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


class TopicParts:
    """Encoded topics, without their ending. Nothing but a memory of a pure function: what goes into the bytes is in the
    key, so an entry is never wrong, and all are thrown away when there are too many."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._parts: dict[tuple[int, str, UUID, bool, int, int, int], bytes] = {}

    def get(self, topic: Topic, version: int, internal: bool, node: int) -> bytes:
        epochs = {partition.leader_epoch for partition in topic.partitions}
        if len(epochs) != 1:
            return self._encode(topic, version, internal, node)
        key = (version, topic.name, topic.topic_id, internal, len(topic.partitions), epochs.pop(), node)
        part = self._parts.get(key)
        if part is None:
            part = self._encode(topic, version, internal, node)
            if self._size_bytes > self._limit_bytes:
                self._parts.clear()
                self._size_bytes = 0
            self._parts[key] = part
            self._size_bytes += len(part) + 256  # the key and the dictionary's share
        return part

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
