"""What the driver asks the brokers: which partitions there are, where they begin and end, and which offsets a position means.

A micro-batch costs one Metadata request (none while `partition.metadata.cache.ttl.ms` lasts) and one ListOffsets request to
each leader. An answer that would mean lost records, a partition that is gone or that ends before what was already read, is not
believed at once: a broker that has just come back may not know better yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.errors import Refused, UnknownName
from headrace.client.kafka.offsets import Isolation, list_offsets
from headrace.client.kafka.partitions import TopicPartition
from headrace.kafka.codec.errors import ErrorCode
from headrace.spark.connections import cluster
from headrace.spark.options import BadOption
from headrace.spark.source.offsets import Offsets, listed
from headrace.spark.source.positions import EARLIEST, LATEST, AtTimes, Everywhere, Exact, Position
from headrace.spark.source.settings import SourceSettings


class Watcher:
    def __init__(self, settings: SourceSettings, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._isolation = Isolation.READ_COMMITTED if settings.reading.read_committed else Isolation.READ_UNCOMMITTED
        self._partitions: list[TopicPartition] = []
        self._looked = float("-inf")
        self._ids: dict[str, UUID] = {}

    @property
    def _cluster(self) -> Cluster:
        return cluster(self._settings.endpoint)

    def require_topics(self) -> None:
        """Raises UnknownName when a topic that was named does not exist."""
        names = self._settings.subscription.names()
        if names is not None:
            topics = self._cluster.topics(names)
            for partition in self._settings.subscription.assigned:
                topics[partition.topic].partition(partition.partition)

    def partitions(self) -> list[TopicPartition]:
        """Those of the subscription that exist."""
        now = time.monotonic()
        if now - self._looked >= self._settings.metadata_age_s:
            metadata = self._cluster.existing(self._settings.subscription.names())
            self._partitions = self._settings.subscription.choose(metadata)
            self._looked = now
        return self._partitions

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where partitions begin. Those that are gone are left out."""
        wanted = set(partitions)
        if not wanted:
            return {}
        return self._listed(lambda: dict.fromkeys(wanted.intersection(self.partitions()), EARLIEST))

    def latest(self, known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """Where partitions end: for read_committed at their first open transaction. A topic that was deleted and made again
        since the last call is left out once if some of it is `known`, so that its partitions count as gone, then as new."""
        known = known or {}
        for attempt in range(self._settings.retrying.attempts):
            if attempt:
                self._sleep(self._settings.retrying.pause_s)
                self._looked = float("-inf")
            found = self._listed(lambda: dict.fromkeys(self.partitions(), LATEST))
            if all(partition in found and found[partition] >= offset for partition, offset in known.items()):
                break
            if self._made_again({partition.topic for partition in known}):
                break
        again = self._made_again({partition.topic for partition in known})
        self._remember(partition.topic for partition in found)
        return {partition: offset for partition, offset in found.items() if partition.topic not in again}

    def resolve(self, position: Position, *, is_start: bool) -> Offsets:
        """The offsets that a position means now."""
        if isinstance(position, Everywhere):
            return self.earliest(self.partitions()) if position.where == EARLIEST else self.latest()
        side = "starting" if is_start else "ending"
        if isinstance(position, Exact):
            self._must_match(position.offsets, f"{side}Offsets")
            ends = {partition: where for partition, where in position.offsets.items() if where < 0}
            return {**position.offsets, **(self._listed(lambda: ends) if ends else {})}
        return self._at(position, side)

    def _at(self, position: AtTimes, side: str) -> Offsets:
        if position.for_all is None:
            self._must_match(position.for_each, f"{side}OffsetsByTimestamp")
            times = dict(position.for_each)
        else:
            times = dict.fromkeys(self.partitions(), position.for_all)
        found = self._listed(lambda: times)
        late = {partition for partition, offset in found.items() if offset < 0}
        if late and not position.or_latest:
            raise BadOption(
                f"{listed(late)}: no record is as late as {side}Timestamp or {side}OffsetsByTimestamp asks for; "
                f"startingOffsetsByTimestampStrategy=latest starts at the end there"
            )
        ends = self._listed(lambda: dict.fromkeys(late, LATEST)) if late else {}
        return {**found, **ends}

    def _must_match(self, offsets: Mapping[TopicPartition, int], name: str) -> None:
        """Half a list would leave it open where the others start."""
        there = set(self.partitions())
        if missing := there - offsets.keys():
            raise BadOption(f"option {name} does not name {listed(missing)}: it must name all partitions that are read")
        if unknown := offsets.keys() - there:
            raise BadOption(f"option {name} names {listed(unknown)}, which {self._settings.subscription} does not read")

    def _listed(self, times: Callable[[], dict[TopicPartition, int]]) -> Offsets:
        """ListOffsets, again with fresh metadata when a partition went away in between."""
        for _ in range(self._settings.retrying.attempts):
            try:
                found = list_offsets(self._cluster, times(), self._isolation)
                return {partition: one.offset for partition, one in found.items()}
            except (Refused, UnknownName) as error:
                if isinstance(error, Refused) and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                last = error
                self._looked = float("-inf")
                self._cluster.forget()
                self._sleep(self._settings.retrying.pause_s)
        raise last

    def _made_again(self, topics: Iterable[str]) -> set[str]:
        known = self._cluster.known_ids()
        return {topic for topic in topics if topic in known and self._ids.get(topic, known[topic]) != known[topic]}

    def _remember(self, topics: Iterable[str]) -> None:
        known = self._cluster.known_ids()
        self._ids.update({topic: known[topic] for topic in set(topics) if topic in known})
