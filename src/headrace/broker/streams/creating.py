"""How a stream is made: its row first, then its topic, so that a crash in between leaves a row without a topic, which the next
start drops, and never a topic that nobody asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from uuid import UUID, uuid4

from headrace.broker.streams.errors import Exists, InvalidArgument, LimitExceeded, NotStored
from headrace.broker.streams.retention import SHORTEST_HOURS, topic_settings
from headrace.broker.streams.shard import uniform_shards
from headrace.broker.streams.stream import Status, Stream
from headrace.broker.streams.table import stream_key, stream_row
from headrace.broker.topic_errors import PolicyViolation
from headrace.broker.topics import INTERNAL_TOPICS, NewTopic
from headrace.log.errors import InvalidConfig, InvalidName, LogError, TopicExists

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.broker.streams.definition import StreamDefinition
    from headrace.broker.streams.registry import Registry
    from headrace.broker.topics import Topics

MAX_BATCH_BYTES = 12 * 1024 * 1024  # a whole PutRecords for one shard: 10 MiB, and what frames 500 records

_TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "max.message.bytes": str(MAX_BATCH_BYTES),
    "retention.bytes": "-1",
    **topic_settings(SHORTEST_HOURS),
}


class Define(Protocol):
    """The definition of a stream, once its topic is known."""

    def __call__(self, *, topic: str, topic_id: UUID) -> StreamDefinition: ...


async def create_stream(define: Define, count: int, registry: Registry, topics: Topics, settings: Settings) -> Stream:
    """Raises StreamError."""
    wanted = define(topic="", topic_id=UUID(int=0))
    key = (wanted.account, wanted.region, wanted.name)
    if key in registry.to_come:
        raise Exists(f"Stream {wanted.name} under account {wanted.account} already exists.")
    registry.to_come.add(key)
    try:
        return await _on_a_free_topic(wanted, define, count, registry, topics, settings)
    finally:
        registry.to_come.discard(key)


async def _on_a_free_topic(
    wanted: StreamDefinition, define: Define, count: int, registry: Registry, topics: Topics, settings: Settings
) -> Stream:
    await registry.table.open()
    for name in (wanted.name, f"{wanted.name}.{wanted.region}", f"{wanted.name}.{wanted.region}.{wanted.account}"):
        if name in registry.being_made or name in INTERNAL_TOPICS or topics.get(name) is not None:
            continue
        registry.being_made.add(name)
        try:
            return await _create(define(topic=name, topic_id=uuid4()), count, registry, topics, settings)
        except (TopicExists, InvalidName):  # one like it was quicker, or Kafka could not tell the two apart
            continue
        except PolicyViolation as error:
            raise LimitExceeded(str(error)) from error
        except InvalidConfig as error:
            raise InvalidArgument(str(error)) from error
        except LogError as error:
            raise NotStored(str(error)) from error
        finally:
            registry.being_made.discard(name)
    raise Exists(f"Stream {wanted.name} under account {wanted.account} already exists, or topics of that name do.")


async def _create(definition: StreamDefinition, count: int, registry: Registry, topics: Topics, settings: Settings) -> Stream:
    key = (definition.account, definition.region, definition.name)
    shards = uniform_shards(count, definition.created_ms)
    await registry.table.store(stream_row(definition, shards))
    try:
        new = NewTopic(definition.topic, count, config=_TOPIC_CONFIG)
        topic = topics.define(new, topic_id=definition.topic_id)
    except LogError:
        registry.table.put({stream_key(key): None})
        raise
    stream = Stream(topic, definition, shards, settings)
    stream.set_status(Status.CREATING)
    registry.add(stream)
    try:
        await registry.table.synced()
    except NotStored:
        registry.forget(stream)
        raise
    stream.set_status(Status.ACTIVE)
    return stream
