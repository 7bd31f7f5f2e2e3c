"""The `uniform` assignor, which is the default: everybody gets as many partitions as the others, give or take one, and
keeps what it has as far as that allows.

When all members subscribe to the same topics, that is a matter of quotas. When they don't, what nobody has goes to the
least loaded of those who may have it, and then partitions move from the most to the least loaded, topic by topic, until
nothing moves or MAX_ROUNDS are over; what one could gain beyond that is not worth the moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from uuid import UUID

from headrace.broker.groups.consumer.assignors import PartitionCounts, Subscriber, all_alike
from headrace.broker.groups.consumer.member import Target

MAX_ROUNDS = 16

_Given = dict[str, dict[UUID, set[int]]]


def assign_uniformly(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> dict[str, Target]:
    if not subscribers:
        return {}
    given = {
        subscriber.member_id: {
            topic_id: {index for index in partitions if index < counts[topic_id]}
            for topic_id, partitions in subscriber.has.items()
            if topic_id in subscriber.topics
        }
        for subscriber in subscribers
    }
    if all_alike(subscribers):
        _fill_quotas(given, sorted(subscribers[0].topics), counts)
    else:
        _Balance(subscribers, counts, given).run()
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in by_topic.items() if partitions}
        for member_id, by_topic in given.items()
    }


def _fill_quotas(given: _Given, topics: Sequence[UUID], counts: PartitionCounts) -> None:
    quota, extra = divmod(sum(counts[topic_id] for topic_id in topics), len(given))
    taken = {(topic_id, index) for by_topic in given.values() for topic_id in by_topic for index in by_topic[topic_id]}
    open_ = [(topic_id, index) for topic_id in topics for index in range(counts[topic_id]) if (topic_id, index) not in taken]
    # Those who have most keep the partitions above the quota, so that as few as possible move.
    by_load = sorted(given, key=lambda member_id: -_load(given[member_id]))
    quotas = {member_id: quota + (place < extra) for place, member_id in enumerate(by_load)}
    for member_id, by_topic in given.items():
        surplus = _load(by_topic) - quotas[member_id]
        for topic_id in sorted(by_topic, reverse=True):
            for index in sorted(by_topic[topic_id], reverse=True):
                if surplus <= 0:
                    break
                by_topic[topic_id].remove(index)
                open_.append((topic_id, index))
                surplus -= 1
    free = iter(open_)
    for member_id, by_topic in given.items():
        for _ in range(quotas[member_id] - _load(by_topic)):
            topic_id, index = next(free)
            by_topic.setdefault(topic_id, set()).add(index)


def _load(by_topic: dict[UUID, set[int]]) -> int:
    return sum(map(len, by_topic.values()))


class _Balance:
    def __init__(self, subscribers: Sequence[Subscriber], counts: PartitionCounts, given: _Given) -> None:
        self._counts = counts
        self._given = given
        self._load = Counter({member_id: _load(by_topic) for member_id, by_topic in given.items()})
        self._readers: dict[UUID, list[str]] = {}
        for subscriber in subscribers:
            for topic_id in subscriber.topics:
                self._readers.setdefault(topic_id, []).append(subscriber.member_id)
        # Topics that weigh most on their readers come first; the rest can even it out.
        self._topics = sorted(self._readers, key=lambda t: (-counts[t] / len(self._readers[t]), len(self._readers[t]), t))

    def run(self) -> None:
        for topic_id in self._topics:
            self._hand_out(topic_id)
        shared = [topic_id for topic_id in self._topics if len(self._readers[topic_id]) > 1]
        for _ in range(MAX_ROUNDS):
            moved = [self._even_out(topic_id) for topic_id in shared]
            if not any(moved):
                break

    def _hand_out(self, topic_id: UUID) -> None:
        """What nobody has of this topic goes to the least loaded of its readers."""
        readers = self._readers[topic_id]
        taken = set().union(*(self._given[member_id].get(topic_id, ()) for member_id in readers))
        least = [(self._load[member_id], place) for place, member_id in enumerate(readers)]
        heapify(least)
        for index in range(self._counts[topic_id]):
            if index not in taken:
                load, place = least[0]
                self._given[readers[place]].setdefault(topic_id, set()).add(index)
                self._load[readers[place]] += 1
                heapreplace(least, (load + 1, place))

    def _even_out(self, topic_id: UUID) -> bool:
        """Moves partitions of this topic from its most to its least loaded readers; whether any moved."""
        readers = self._readers[topic_id]
        least = [(self._load[member_id], place) for place, member_id in enumerate(readers)]
        most = [(-load, place) for load, place in least if self._given[readers[place]].get(topic_id)]
        heapify(least)
        heapify(most)
        moved = False
        while most:
            load, place = most[0]
            giver = readers[place]
            if -load != self._load[giver] or not self._given[giver][topic_id]:  # out of date: it was given more, or has none
                heappop(most)
                if self._given[giver][topic_id]:
                    heappush(most, (-self._load[giver], place))
                continue
            while least[0][0] != self._load[readers[least[0][1]]]:
                heapreplace(least, (self._load[readers[least[0][1]]], least[0][1]))
            taker_load, taker_place = least[0]
            if -load - taker_load <= 1:
                break
            taker = readers[taker_place]
            index = max(self._given[giver][topic_id])
            self._given[giver][topic_id].remove(index)
            self._given[taker].setdefault(topic_id, set()).add(index)
            self._load[giver] -= 1
            self._load[taker] += 1
            moved = True
        return moved
