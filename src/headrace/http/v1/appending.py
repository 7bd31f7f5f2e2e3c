"""From events to the log: what a topic lets in, which partition each event goes to, and batches of them.

An event with a key goes where Kafka's Java client would send it; without one it goes where the last ones went, until these were
`STICKY_BYTES`; sealed partitions are passed over. Those of one request (of one piece of a stream) that have no key stay
together, so they are one batch.

Everything that may be wrong with an event is found before anything is stored (`Rules.check`); what is left is the disk. Several
batches of one request happen together or not at all, also across a crash (`Lease.put`).

Bounds: a batch is as large as the topic's max.message.bytes at most. A key has at most `MAX_HASHED_KEY` bytes where it decides
about the partition. `MAX_REMEMBERED` keys of up to `REMEMBERED_KEY` bytes are remembered with theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.open_partitions import open_for_key, open_in_turn
from headrace.broker.topics import INTERNAL_TOPICS, check_name
from headrace.broker.traffic import Traffic
from headrace.dataclass import dataclass
from headrace.http.problems import Problem
from headrace.http.v1.events import NO_TIMESTAMP_MS, Incoming
from headrace.http.v1.idempotency import IdempotencyKeys
from headrace.log.errors import UnknownTopic
from headrace.log.port import Append, Durability, Partition, Topic
from headrace.log.topic_config import resolve
from headrace.record.batch import HEADER_SIZE, wrap_records
from headrace.record.partitioner import partition_for_key
from headrace.record.twin import encode_records

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.log.port import Lease

STICKY_BYTES = 16 * 1024
MAX_HASHED_KEY = 64 * 1024
MAX_REMEMBERED = 8192
REMEMBERED_KEY = 64

_RECORD_BYTES = 36  # at most, of a record beside its key, value and headers
_HEADER_BYTES = 10  # of each header
_NO_LIMIT_MS = 0x7FFF_FFFF_FFFF_FFFF
_FSYNC, _MEMORY = Durability.FSYNC, Durability.MEMORY

_remembered = lru_cache(MAX_REMEMBERED)(partition_for_key)


class Stored(NamedTuple):
    """Where an event is."""

    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What a topic lets in."""

    topic: str
    partitions: int
    max_batch_bytes: int
    compact: bool
    append_time: bool
    before_max_ms: int
    after_max_ms: int

    def check(self, event: Incoming, now_ms: int) -> int:
        """At most how many bytes it takes in a batch. Raises Problem."""
        key, value, headers, when, partition = event
        size = _RECORD_BYTES
        if key is not None:
            size += len(key)
        elif self.compact:
            raise Problem(422, "key_needed", f"topic '{self.topic}' is compacted: an event needs a key")
        if value is not None:
            size += len(value)
        if headers:
            size += sum(4 * len(name) + len(content or b"") + _HEADER_BYTES for name, content in headers)
        if size > self.max_batch_bytes and len(encode_records([(0, 0, key, value, headers)])) > self.max_batch_bytes:
            limit = self.max_batch_bytes + HEADER_SIZE
            raise Problem(413, "event_too_large", f"an event of '{self.topic}' has at most {limit} bytes (max.message.bytes)")
        if when is not None and (now_ms - when > self.before_max_ms or when - now_ms > self.after_max_ms):
            self._check_time(when, now_ms)
        if partition is not None and not 0 <= partition < self.partitions:
            text = f"topic '{self.topic}' has no partition {partition}; there are {self.partitions}"
            raise Problem(400, "unknown_partition", text)
        if key is not None and partition is None and len(key) > MAX_HASHED_KEY and self.partitions > 1:
            text = f"a key has at most {MAX_HASHED_KEY} bytes, unless the partition is given"
            raise Problem(413, "key_too_large", text)
        return size

    def _check_time(self, when: int, now_ms: int) -> None:
        if not self.append_time and when != NO_TIMESTAMP_MS:
            text = f"timestamp {when} is too far from the server's clock, {now_ms} (message.timestamp.before/after.max.ms)"
            raise Problem(422, "invalid_timestamp", text)


class Made(NamedTuple):
    """A batch, and the places that its events have among all."""

    partition: Partition
    batch: bytearray
    max_ms: int
    places: Sequence[int]


class Appending:
    """Make one for each application: those who publish share it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.keys = IdempotencyKeys(broker)
        self._log = broker.log
        self._clock = broker.clock
        self._traffic = broker.traffic.setdefault("http", Traffic())
        self.came = self._traffic.bytes_in
        self._rules: dict[str, tuple[Mapping[str, str], Rules]] = {}
        self._sticky: dict[str, tuple[int, int]] = {}  # partition, and what may still follow there
        broker.settings.subscribe(self._rules.clear)
        broker.topics.on_delete.append(self._forget)

    def counting(self, protocol: str) -> Appending:
        """The same, but what is stored by way of it counts as that of another protocol."""
        other = copy(self)
        other._traffic = self._broker.traffic.setdefault(protocol, Traffic())
        other.came = other._traffic.bytes_in
        return other

    def _forget(self, topic: str) -> None:
        self._rules.pop(topic, None)
        self._sticky.pop(topic, None)

    # --- topics

    def known(self, name: str) -> Topic | None:
        """A topic that may be written to. Raises Problem for one that may not."""
        topic = self._broker.topics.get(name)
        if topic is not None and (topic.internal or name in INTERNAL_TOPICS):
            raise Problem(403, "internal_topic", f"'{name}' is the server's own")
        return topic

    async def topic(self, name: str) -> Topic:
        """The same; it is created where the server does that. Raises Problem and LogError."""
        topic = self.known(name)
        if topic is not None:
            return topic
        check_name(name)
        if name in INTERNAL_TOPICS:
            raise Problem(403, "internal_topic", f"'{name}' is the server's own")
        return await self._broker.topics.auto_create(name)

    def check_alive(self, topic: Topic) -> None:
        """What was awaited since it was found may have taken long. Raises UnknownTopic."""
        found = self._log.topics().get(topic.name)
        if found is not topic and (found is None or found.topic_id != topic.topic_id):
            raise UnknownTopic(f"topic '{topic.name}' was deleted")

    def rules(self, topic: Topic) -> Rules:
        config = topic.config
        found = self._rules.get(topic.name)
        if found is not None and found[0] is config and found[1].partitions == len(topic.partitions):
            return found[1]
        resolved = resolve(config, self._broker.settings.topic_defaults)
        rules = Rules(
            topic.name,
            len(topic.partitions),
            resolved.max_message_bytes - HEADER_SIZE,
            resolved.compact,
            resolved.log_append_time,
            resolved.message_timestamp_before_max_ms,
            resolved.message_timestamp_after_max_ms,
        )
        self._rules[topic.name] = (config, rules)
        return rules

    def now_ms(self) -> int:
        return self._clock.now_ms()

    # --- storing

    async def store(self, topic: Topic, events: Sequence[Incoming]) -> tuple[list[Stored], bool]:
        """All of them or none. Also whether they wait for the disk (`Log.after_sync`). Raises Problem and LogError."""
        lease = await self.keys.lease() if len(events) > 1 else None
        self.check_alive(topic)
        now_ms = self._clock.now_ms()
        made = self.batches(topic, events, self.check_all(topic, events, now_ms), now_ms)
        if lease is None or len(made) <= 1:
            return self.stored(topic, events, made, [self.append_made(each) for each in made], now_ms), waits(made)
        return self.stored(topic, events, made, self.append_together(lease, made, {}), now_ms), True

    def partition_for(self, topic: Topic, rules: Rules, event: Incoming, size: int) -> Partition:
        """Where an event of this size goes that was checked."""
        partitions = topic.partitions
        index = self._partition(rules, event)
        if index < 0:
            index = self._spread(rules, size, partitions)
        partition = partitions[index]
        if partition.sealed and event.partition is None and event.key is not None:
            return partitions[open_for_key(event.key, index, partitions)]
        return partition

    def batch_of(self, partition: Partition, events: Sequence[Incoming], now_ms: int) -> Made:
        """Of events that go there, and are not too large together."""
        return _made(partition, events, range(len(events)), now_ms)

    def check_all(self, topic: Topic, events: Sequence[Incoming], now_ms: int) -> list[int]:
        """The sizes of all of them. Raises Problem."""
        check = self.rules(topic).check
        sizes: list[int] = []
        try:
            for event in events:
                sizes.append(check(event, now_ms))  # noqa: PERF401  how many there are tells which one is refused
        except Problem as problem:
            if len(events) == 1:
                raise
            place = len(sizes)
            detail = f"event {place} (counted from 0): {problem.detail}"
            raise Problem(problem.status, problem.code, detail, problem.headers, {**problem.more, "event": place}) from None
        return sizes

    def batches(self, topic: Topic, events: Sequence[Incoming], sizes: Sequence[int], now_ms: int) -> list[Made]:
        """Of events that were checked."""
        rules = self.rules(topic)
        groups: dict[int, list[int]] = {}
        if rules.partitions == 1:
            groups[0] = list(range(len(events)))
        else:
            for place, event in enumerate(events):
                groups.setdefault(self._partition(rules, event), []).append(place)
            keyless = groups.pop(-1, None)
            if any(topic.partitions[index].sealed for index in groups):
                groups = _in_open_partitions(groups, events, topic.partitions)
            if keyless is not None:
                index = self._spread(rules, sum(map(sizes.__getitem__, keyless)), topic.partitions)
                groups[index] = sorted(groups[index] + keyless) if index in groups else keyless
        made: list[Made] = []
        for index, places in groups.items():
            partition = topic.partitions[index]
            made += [_made(partition, events, part, now_ms) for part in _portions(places, sizes, rules.max_batch_bytes)]
        return made

    def append_made(self, made: Made) -> int:
        """Raises LogError."""
        partition = made.partition
        base = partition.append_own(made.batch, len(made.places), made.max_ms)
        self.came[partition.topic] += len(made.batch)
        self._traffic.records_in += len(made.places)
        return base

    def append_together(self, lease: Lease, made: Sequence[Made], rows: Mapping[bytes, bytes | None]) -> list[int]:
        """All of them and the rows, or nothing. Raises LogError."""
        bases = lease.put(rows, [Append(each.partition.topic, each.partition.index, each.batch) for each in made])
        for each in made:
            self.came[each.partition.topic] += len(each.batch)
            self._traffic.records_in += len(each.places)
        return bases

    def stored(
        self, topic: Topic, events: Sequence[Incoming], made: Sequence[Made], bases: Sequence[int], now_ms: int
    ) -> list[Stored]:
        """Where each event is, in the order in which they came."""
        append_time = self.rules(topic).append_time
        found: dict[int, Stored] = {}
        for each, base in zip(made, bases, strict=True):
            index, appended_ms = each.partition.index, each.partition.append_time_ms
            for delta, place in enumerate(each.places):
                when = events[place].timestamp_ms
                found[place] = Stored(index, base + delta, appended_ms if append_time else now_ms if when is None else when)
        return [found[place] for place in range(len(events))]

    def _partition(self, rules: Rules, event: Incoming) -> int:
        """-1: any."""
        if event.partition is not None:
            return event.partition
        if rules.partitions == 1:
            return 0
        key = event.key
        if key is None:
            return -1
        return (_remembered if len(key) <= REMEMBERED_KEY else partition_for_key)(key, rules.partitions)

    def _spread(self, rules: Rules, size: int, partitions: Sequence[Partition]) -> int:
        index, left = self._sticky.get(rules.topic, (0, STICKY_BYTES))
        if index >= rules.partitions:
            index = 0
        if partitions[index].sealed:
            index = open_in_turn(index, index, partitions)
        following = (index, left - size) if left > size else ((index + 1) % rules.partitions, STICKY_BYTES)
        self._sticky[rules.topic] = following
        return index


def _in_open_partitions(
    groups: Mapping[int, Sequence[int]], events: Sequence[Incoming], partitions: Sequence[Partition]
) -> dict[int, list[int]]:
    """Keys whose partition is sealed go to another one; whoever named a partition is told."""
    moved: dict[int, list[int]] = {}
    for index, places in groups.items():
        for place in places:
            key = events[place].key if events[place].partition is None else None
            moved.setdefault(index if key is None else open_for_key(key, index, partitions), []).append(place)
    return {index: sorted(places) for index, places in moved.items()}


def waits(made: Sequence[Made]) -> bool:
    """Whether batches that were appended wait for the disk."""
    return any(each.partition.durability is _FSYNC for each in made)


def _portions(places: list[int], sizes: Sequence[int], most: int) -> list[list[int]]:
    if sum(map(sizes.__getitem__, places)) <= most:
        return [places]
    portions: list[list[int]] = []
    portion: list[int] = []
    size = 0
    for place in places:
        if portion and size + sizes[place] > most:
            portions.append(portion)
            portion, size = [], 0
        portion.append(place)
        size += sizes[place]
    return [*portions, portion]


def _made(partition: Partition, events: Sequence[Incoming], places: Sequence[int], now_ms: int) -> Made:
    taken = [events[place] for place in places]
    times = [now_ms if event[3] is None else event[3] for event in taken]
    first, last = times[0], max(times)
    records = [
        (delta, when - first, event[0], event[1], event[2])
        for delta, (event, when) in enumerate(zip(taken, times, strict=True))
    ]
    return Made(partition, wrap_records(encode_records(records), len(taken), first, last), last, places)
