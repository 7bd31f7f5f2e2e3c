"""Which streams there are: those that were made or changed as streams, by their rows, and every other topic.

A stream that Kinesis made belongs to an account and a region. The first one of a name has the topic of that name; one of
another account or region has `name.region`, or `name.region.account` if that is taken. A topic without a row is seen in every
account and region, until a change gives it a row (`adopt`): then it belongs to the account and region that changed it.

Views of such topics are made when they are asked for. The last `MAX_VIEWS` are kept, and those that somebody holds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from heapq import merge
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from headrace.broker.audit import TOPIC as AUDIT_TOPIC
from headrace.broker.streams.consumers import Consumer
from headrace.broker.streams.definition import StreamDefinition
from headrace.broker.streams.errors import NotFound, NotStored
from headrace.broker.streams.names import MAX_NAME_LENGTH, parse_arn, stream_id
from headrace.broker.streams.stream import Stream
from headrace.broker.streams.table import Key, Rows, StreamTable, consumer_key, stream_key, stream_row
from headrace.broker.topic_errors import PolicyViolation
from headrace.broker.topics import is_internal
from headrace.log.errors import RecoveryFailed

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.broker.streams.shard import Shard
    from headrace.broker.topics import Topics
    from headrace.log.port import Log, Topic

MAX_VIEWS = 1024

NOT_A_SHARD = "this partition is not a shard of its Kinesis stream yet: write to an open one"


class Registry:
    def __init__(self, log: Log, settings: Settings, topics: Topics) -> None:
        self.table = StreamTable(log)
        self._log = log
        self._settings = settings
        self._topics = topics
        self._own: dict[Key, Stream] = {}
        self._by_topic: dict[str, Stream] = {}
        self._views: WeakValueDictionary[Key, Stream] = WeakValueDictionary()
        self._recent: OrderedDict[Key, Stream] = OrderedDict()
        self.to_come: set[Key] = set()  # streams that are being made
        self.being_made: set[str] = set()  # and their topics
        topics.on_delete.append(self._topic_deleted)
        topics.before_growth.append(self._check_growth)

    # --- start

    async def start(self) -> None:
        """Reads the table, if there is one, and seals what must be sealed. Raises RecoveryFailed."""
        streams, consumers = await self.table.load()
        lost: dict[bytes, bytes | None] = {}
        for definition, shards in streams:
            topic = self._log.topics().get(definition.topic)
            if topic is None or topic.topic_id != definition.topic_id:  # deleted, and the row would have been next
                lost[stream_key((definition.account, definition.region, definition.name))] = None
                continue
            if len(shards) > len(topic.partitions):
                raise RecoveryFailed(f"stream {definition.name} has {len(shards)} shards, and its topic fewer partitions")
            self.add(Stream(topic, definition, shards, self._settings))
        for key, consumer in consumers:
            stream = self._own.get(key)
            if stream is None:
                lost[consumer_key(key, consumer.name)] = None
            else:
                stream.consumers[consumer.name] = Consumer(stream, consumer)
        if lost:
            with suppress(NotStored):  # they are found again
                self.table.put(lost)

    # --- looking

    def find(self, account: str, region: str, name: str) -> Stream | None:
        key = (account, region, name)
        found = self._own.get(key)
        if found is not None:
            if self._log.topics().get(found.topic.name) is found.topic:
                return found
            self.forget(found)
        topic = self._topics.get(name)
        return None if topic is None or not self._is_free(topic) else self._view(key, topic)

    def of_topic(self, topic: Topic) -> Stream | None:
        """The stream that a topic is; one that belongs to nobody is seen in the account and region of the settings."""
        found = self._by_topic.get(topic.name)
        if found is not None:
            return found
        return self.find(self._settings.get_str("kinesis.account"), self._settings.get_str("kinesis.region"), topic.name)

    def find_arn(self, arn: str) -> Stream | None:
        """Of the stream, or of a consumer of it."""
        parts = parse_arn(arn)
        return None if parts is None else self.find(parts.account, parts.region, parts.stream)

    def find_id(self, account: str, region: str, wanted: str) -> Stream | None:
        for stream in self._own.values():
            if stream.stream_id == wanted and (stream.account, stream.region) == (account, region):
                return self.find(account, region, stream.name)
        for topic in self._topics.all():
            if stream_id(topic.topic_id) == wanted and self._is_free(topic):
                return self.find(account, region, topic.name)
        return None

    def names(self, account: str, region: str, after: str = "") -> Iterator[str]:
        """In their order, those behind a name: what is not taken costs nothing. Nothing may come or go meanwhile."""
        own = sorted(stream.name for stream in self.own(account, region) if stream.name > after)
        topics = self._topics.names.in_order()
        behind = map(topics.__getitem__, range(bisect_right(topics, after), len(topics)))
        free = (name for name in behind if (topic := self._topics.get(name)) is not None and self._is_free(topic))
        last = ""
        for name in merge(own, free):
            if name != last:
                last = name
                yield name

    @property
    def own_count(self) -> int:
        """Of all accounts and regions."""
        return len(self._own)

    def own(self, account: str, region: str) -> Iterator[Stream]:
        """Those with a row."""
        return (stream for stream in self._own.values() if (stream.account, stream.region) == (account, region))

    def _is_free(self, topic: Topic) -> bool:
        """Whether everybody may see this topic as a stream."""
        name = topic.name
        taken = name in self._by_topic or name in self.being_made
        return not taken and not is_internal(topic) and name != AUDIT_TOPIC and len(name) <= MAX_NAME_LENGTH

    def _view(self, key: Key, topic: Topic) -> Stream:
        view = self._views.get(key)
        if view is None or view.topic is not topic:
            if view is not None:
                view.forget()
            definition = StreamDefinition(*key, topic.name, topic.topic_id, 0)
            view = self._views[key] = Stream(topic, definition, None, self._settings)
        self._recent[key] = view
        self._recent.move_to_end(key)
        if len(self._recent) > MAX_VIEWS:
            self._recent.popitem(last=False)
        return view

    # --- changing

    def add(self, stream: Stream) -> None:
        """One that has a row."""
        self._own[stream.account, stream.region, stream.name] = stream
        self._by_topic[stream.topic.name] = stream
        self.seal(stream)

    def seal(self, stream: Stream) -> None:
        """Exactly the partitions of open shards take what clients write."""
        partitions = stream.topic.partitions
        for shard in stream.shards:
            partition = partitions[shard.index]
            if shard.closed_at is None:
                partition.unseal()
            else:
                partition.seal(closed_text(stream, shard))
                # a topic that does not promise to survive a power loss may have lost its end
                shard.closed_at = min(shard.closed_at, partition.end_offset)
        for partition in partitions[len(stream.shards) :]:
            partition.seal(NOT_A_SHARD)

    async def adopt(self, stream: Stream) -> None:
        """Gives a row to a topic that has none; by who holds the stream's lock. Raises NotFound, NotStored."""
        if stream.stored:
            return
        await self.table.open()
        topic = stream.topic
        if stream.gone or self._log.topics().get(topic.name) is not topic or not self._is_free(topic):
            raise NotFound(f"Stream {stream.name} under account {stream.account} not found.")
        key = (stream.account, stream.region, stream.name)
        shards = list(stream.shards)
        self.table.put(stream_row(stream.definition, shards))
        stream.stored = True
        stream.set_shards(shards)
        self._own[key] = self._by_topic[topic.name] = stream
        self._recent.pop(key, None)
        for other in [view for view in self._views.values() if view.topic is topic]:
            if other is not stream:
                self._forget_view(other)
        self._views.pop(key, None)
        await self.table.synced()

    def forget(self, stream: Stream) -> None:
        """Its topic is gone: its rows go, too."""
        if stream.gone:
            return
        key = (stream.account, stream.region, stream.name)
        if not stream.stored:
            self._forget_view(stream)
            return
        rows: dict[bytes, bytes | None] = {stream_key(key): None}
        rows.update((consumer_key(key, name), None) for name in stream.consumers)
        if self._own.get(key) is stream:
            del self._own[key]
            with suppress(NotStored):  # they are not found to be anybody's at the next start
                self.table.put(rows)
        if self._by_topic.get(stream.topic.name) is stream:
            del self._by_topic[stream.topic.name]
        stream.forget()

    def _forget_view(self, view: Stream) -> None:
        key = (view.account, view.region, view.name)
        if self._views.get(key) is view:
            del self._views[key]
        if self._recent.get(key) is view:
            del self._recent[key]
        view.forget()

    # --- what others do to topics

    def _topic_deleted(self, name: str) -> None:
        now = self._log.topics().get(name)  # perhaps there is another one already
        stream = self._by_topic.get(name)
        if stream is not None and stream.topic is not now:
            self.forget(stream)
        for view in [view for view in self._views.values() if view.topic.name == name and view.topic is not now]:
            self._forget_view(view)

    def _check_growth(self, topic: Topic) -> None:
        if topic.name in self._by_topic:
            raise PolicyViolation(
                f"Topic '{topic.name}' is a Kinesis stream, whose partitions are shards with ranges of hash keys: "
                "use UpdateShardCount or SplitShard."
            )


def closed_text(stream: Stream, shard: Shard) -> str:
    return (
        f"partition {shard.index} of topic '{stream.topic.name}' is a closed shard of a Kinesis stream "
        f"({shard.id} was split or merged): write to an open one"
    )


__all__ = ["MAX_VIEWS", "Registry", "Rows", "closed_text"]
