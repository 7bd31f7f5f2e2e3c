"""A stream queue: a topic, read and written by AMQP clients.

Publishing appends to the topic, each message as the record that `record.amqp.mapping` makes of it, in the partition that its
key belongs to. Every consumer has a place of its own (see `stream_reader`) and reads from there on what was committed, whoever
wrote it; acknowledgements, of whatever kind, only make room for more. What was read is kept in pages that consumers share.

The topic is there whether the queue is or not: a stream that is declared where a topic exists becomes that topic. To delete the
queue is to delete the topic, and a topic that a Kafka client deletes takes the queue with it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.queues.errors import not_implemented, syntax_error
from headrace.broker.queues.queue import Outcome
from headrace.broker.queues.stream_arguments import Start, check_arguments, check_consumer, filter_of, partition_of, start_of
from headrace.broker.queues.stream_page import MAX_READS, READ_BYTES, Page, Pages, page_of
from headrace.broker.queues.stream_publishing import append_run
from headrace.broker.queues.stream_reader import Cursor, Reader
from headrace.broker.queues.stream_start import find_start, known_start
from headrace.broker.queues.stream_topic import limits, open_topic
from headrace.broker.topic_errors import TopicDeletionDisabled
from headrace.log.errors import BatchTooLarge, InvalidBatch, InvalidTimestamp, LogError, OffsetOutOfRange, UnknownTopic
from headrace.log.port import Buffer, Partition
from headrace.record.amqp.properties import MalformedProperties

if TYPE_CHECKING:
    from headrace.broker.queues.consumers import Chunk, Consumer
    from headrace.broker.queues.definition import QueueDefinition
    from headrace.broker.queues.lane import Lane
    from headrace.broker.queues.run import Run
    from headrace.broker.queues.settings import QueueSettings
    from headrace.broker.queues.surroundings import Surroundings
    from headrace.broker.topics import Topics

logger = logging.getLogger("headrace.queues")


class Streams:
    """What all stream queues share."""

    def __init__(self, topics: Topics, pages: Pages | None = None) -> None:
        self.topics = topics
        self.restoring = True  # until everything that was declared before the last stop is here again
        self.pages = pages or Pages()
        self.reads = 0  # under way
        self.waiting: dict[StreamQueue, None] = {}  # for a read of others to end
        self._of_topic: dict[str, dict[StreamQueue, None]] = {}  # virtual hosts may have names for the same topic
        topics.on_grow.append(self._grown)
        topics.on_delete.append(self._gone)

    def open(self, definition: QueueDefinition, settings: QueueSettings, around: Surroundings) -> StreamQueue:
        """The stream of this definition. Raises AmqpRefusal."""
        queue = StreamQueue(definition, settings, around, self)
        self._of_topic.setdefault(queue.topic, {})[queue] = None
        return queue

    def forget(self, queue: StreamQueue) -> None:
        queues = self._of_topic.get(queue.topic, {})
        queues.pop(queue, None)
        if not queues:
            self._of_topic.pop(queue.topic, None)
        self.waiting.pop(queue, None)

    def _grown(self, topic: str) -> None:
        for queue in tuple(self._of_topic.get(topic, ())):
            queue.grown()

    def _gone(self, topic: str) -> None:
        for queue in tuple(self._of_topic.get(topic, ())):
            queue.topic_gone()

    def read_ended(self) -> None:
        self.reads -= 1
        for queue in self.waiting:
            queue.wake()
        self.waiting.clear()


class StreamQueue:
    kind = "stream"
    one_by_one = False
    auto_delete = False
    exclusive: object | None = None
    durable = True

    def __init__(self, definition: QueueDefinition, settings: QueueSettings, around: Surroundings, streams: Streams) -> None:
        self.definition = definition
        self.name = definition.name
        self.vhost = definition.vhost
        self.arguments: Mapping[str, object] = definition.arguments
        self.settings = settings
        self.deleted = False
        self.published = self.delivered = self.redelivered = self.acknowledged = self.dropped = 0
        self.unacked_count = 0
        self._around = around
        self._streams = streams
        self._topic = open_topic(streams.topics, definition, settings, restored=streams.restoring)
        self._readers: dict[Consumer, Reader] = {}
        self._watched: set[int] = set()
        self._loading: set[tuple[int, int]] = set()
        self._turn = 0

    # --- what it is like

    @property
    def topic(self) -> str:
        return self._topic.name

    @property
    def partitions(self) -> Sequence[Partition]:
        return self._topic.partitions

    @property
    def _text(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    @property
    def ready_count(self) -> int:
        """Everything that can be read: in a stream nothing is ever used up."""
        return sum(partition.high_watermark - partition.start_offset for partition in self.partitions)

    @property
    def message_count(self) -> int:
        return self.ready_count

    @property
    def consumer_count(self) -> int:
        return len(self._readers)

    @property
    def consumers(self) -> Iterable[Consumer]:
        return self._readers

    @property
    def lanes(self) -> Sequence[Lane]:
        return ()

    def lane_keys(self) -> list[tuple[Lane, bytes]]:
        return []

    def ready_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    def configure(self, settings: QueueSettings) -> None:
        """Its policy has changed; only what has is set anew, for Kafka clients may have set the rest."""
        before, self.settings = limits(self.settings), settings
        changed = dict(limits(settings).items() - before.items())
        if changed:
            self._around.spawn(self._reconfigure(changed))

    async def _reconfigure(self, changed: Mapping[str, str]) -> None:
        try:
            await self._streams.topics.configure(self.topic, lambda config: {**config, **changed})
        except LogError as error:
            logger.warning("the policy of stream %s has no effect: %s", self.topic, error)

    def wake(self) -> None:
        self._around.turns.wake(self)

    def touch(self) -> None:
        pass

    # --- in

    def publish(self, run: Run) -> Outcome:
        """Stored, whatever the delivery mode; durable after `Log.synced`."""
        self._turn = (self._turn + 1) % len(self.partitions)
        try:
            append_run(run, self.partitions, self._turn, self._around.clock.now_ms())
        except MalformedProperties as error:
            raise syntax_error(str(error)) from None
        except (BatchTooLarge, InvalidBatch, InvalidTimestamp) as error:
            logger.warning("stream %s refused a message: %s", self.topic, error)
            return Outcome.REJECTED
        self.published += run.count
        return Outcome.ACCEPTED

    # --- consumers

    def consume(self, consumer: Consumer) -> None:
        check_consumer(
            self._text, consumer.no_ack, getattr(consumer, "prefetch_count", 1), bool(getattr(consumer, "global_qos", False))
        )
        arguments = consumer.arguments
        check_arguments(self._text, arguments)
        start = start_of(self._text, arguments, self._around.clock.now_ms())
        only = partition_of(self._text, arguments, len(self.partitions))
        numbers = range(len(self.partitions)) if only is None else (only,)
        cursors = [Cursor(number, known_start(self.partitions[number], start)) for number in numbers]
        self._readers[consumer] = Reader(self, consumer, filter_of(arguments), cursors, whole=only is None)
        self._watch()
        self.wake()
        for cursor in cursors:
            if cursor.offset is None:
                self._around.spawn(self._find(cursor, start))

    async def _find(self, cursor: Cursor, start: Start) -> None:
        partition = self.partitions[cursor.partition]
        offset = partition.end_offset
        try:
            offset = await find_start(partition, start)
        except LogError as error:
            logger.error("stream %s: the place to begin can't be found: %s", self.topic, error)
        cursor.offset = offset
        self.wake()

    def cancel(self, consumer: Consumer) -> None:
        reader = self._readers.pop(consumer, None)
        if reader is not None:
            reader.ended = True
            if not self._readers:
                self._unwatch()

    def get(self, no_ack: bool) -> Chunk | Awaitable[Chunk | None] | None:
        raise not_implemented(f"basic.get not supported by stream queues {self._text}")

    def purge(self) -> int:
        raise not_implemented(f"queue.purge not supported by stream queues {self._text}")

    # --- out

    def pump(self) -> None:
        if self.deleted:
            return
        more = False
        for reader in tuple(self._readers.values()):
            more |= reader.serve()
        if more:
            self.wake()

    def handed_out(self, count: int) -> None:
        self.delivered += count
        self.unacked_count += count

    def page_at(self, cursor: Cursor) -> Page | None:
        """The page that a cursor's next message is in; None when there is no such message, or when it must be read first."""
        if cursor.offset is None:
            return None
        number = cursor.partition
        partition = self.partitions[number]
        if cursor.offset < partition.start_offset:
            cursor.move_to(partition.start_offset)  # what retention took is passed over
        offset = cursor.offset
        page = self._streams.pages.find((self, number), offset)
        if page is not None:
            return page
        try:
            if offset < partition.last_stable_offset and (number, offset) not in self._loading:
                return self._load(number, partition, offset)
        except LogError as error:
            logger.error("stream %s-%d can't be read: %s", self.topic, number, error)
        return None

    def _load(self, number: int, partition: Partition, offset: int) -> Page | None:
        streams = self._streams
        if streams.reads >= MAX_READS:
            streams.waiting[self] = None
            return None
        data = partition.read(offset, READ_BYTES, committed=True)
        if isinstance(data, Awaitable):
            streams.reads += 1
            self._loading.add((number, offset))
            self._around.spawn(self._load_later(number, partition, offset, data))
            return None
        return self._take(number, partition, offset, data)

    async def _load_later(self, number: int, partition: Partition, offset: int, reading: Awaitable[Buffer]) -> None:
        try:
            self._take(number, partition, offset, await reading)
            self.wake()
        except OffsetOutOfRange:
            self.wake()
        except LogError as error:
            logger.error("stream %s-%d can't be read: %s", self.topic, number, error)
        finally:
            self._loading.discard((number, offset))
            self._streams.read_ended()

    def _take(self, number: int, partition: Partition, offset: int, data: Buffer) -> Page | None:
        page = page_of(data, partition, offset, number if len(self.partitions) > 1 else None)
        if page.end <= offset or self.deleted:
            return None
        self._streams.pages.add((self, number), page)
        return page

    # --- back: whatever a consumer says of a message, it makes room for another

    def ack(self, lane: int, first_offset: int, count: int) -> None:
        self.acknowledged += count
        self._settled(count)

    def requeue(self, lane: int, first_offset: int, count: int, *, failed: bool = True) -> None:
        self._settled(count)

    def reject(self, lane: int, first_offset: int, count: int) -> None:
        self._settled(count)

    def _settled(self, count: int) -> None:
        self.unacked_count -= count
        if self._readers and not self.deleted:
            self.wake()

    # --- the topic's own life

    def _watch(self) -> None:
        for number, partition in enumerate(self.partitions):
            if number not in self._watched:
                self._watched.add(number)
                partition.watch(self.wake)

    def _unwatch(self) -> None:
        for number in self._watched:
            self.partitions[number].unwatch(self.wake)
        self._watched.clear()

    def grown(self) -> None:
        """A Kafka client gave the topic more partitions: everything in them is new."""
        if self._readers:
            for reader in self._readers.values():
                reader.follow(range(len(self.partitions)))
            self._watch()

    def topic_gone(self) -> None:
        """A Kafka client deleted the topic."""
        if not self.deleted:
            self._around.unused(self)  # type: ignore[arg-type]

    def delete(self) -> int:
        """Deletes the topic as well, unless the server lets nobody delete topics. Returns 0, as RabbitMQ does for streams."""
        self.close()
        self.deleted = True
        for consumer in tuple(self._readers):
            self.cancel(consumer)
            consumer.cancelled()
        try:
            self._streams.topics.drop(self.topic)
        except UnknownTopic:
            pass  # it went first
        except TopicDeletionDisabled:
            logger.warning("the queue of stream %s is deleted, its topic stays: delete.topic.enable is false", self.topic)
        return 0

    def close(self) -> None:
        """The server stops, or the queue goes."""
        self._unwatch()
        self._streams.forget(self)
        for number in range(len(self.partitions)):
            self._streams.pages.forget((self, number))
