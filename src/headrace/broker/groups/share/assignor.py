"""The simple assignor of KIP-932: which partitions each member of a share group fetches.

Partitions are shared, so unlike in other groups no member can be without work while partitions are few:

    more partitions than members   each partition goes to one member, and members differ by one partition at most
    more members than partitions   each member gets one partition, and partitions differ by one member at most

Who had a partition keeps it as far as that allows. Where members subscribe to different topics, each partition goes to the
subscriber that has fewest, and then whoever is left with nothing joins the partition that has fewest readers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import TypeVar
from uuid import UUID

TopicPartition = tuple[UUID, int]
Assignment = dict[str, frozenset[TopicPartition]]

H = TypeVar("H", bound=Hashable)
T = TypeVar("T", bound=Hashable)

_NONE: frozenset[TopicPartition] = frozenset()


def assign(
    subscriptions: Mapping[str, frozenset[UUID]],
    partitions: Mapping[UUID, int],
    current: Mapping[str, frozenset[TopicPartition]],
) -> Assignment:
    """From member id to the topics it subscribes to, and how many partitions each topic has."""
    members = sorted(subscriptions)
    if not members:
        return {}
    topics = {topic for subscribed in subscriptions.values() for topic in subscribed}
    if all(len(subscribed) == len(topics) for subscribed in subscriptions.values()):
        places = _places(topics, partitions)
        if not places:
            return dict.fromkeys(members, _NONE)
        if len(members) < len(places):
            return _spread_partitions(members, places, current)
        return _spread_members(members, places, current)
    return _by_subscription(members, subscriptions, partitions)


def _places(topics: set[UUID] | frozenset[UUID], partitions: Mapping[UUID, int]) -> list[TopicPartition]:
    return [(topic, index) for topic in sorted(topics) for index in range(partitions.get(topic, 0))]


def _spread_partitions(
    members: Sequence[str], places: Sequence[TopicPartition], current: Mapping[str, frozenset[TopicPartition]]
) -> Assignment:
    kept, free = _keep({member: sorted(current.get(member, _NONE)) for member in members}, places, len(members))
    for place, member in zip(free, _fewest_first(kept), strict=False):
        kept[member].append(place)
    return {member: frozenset(held) for member, held in kept.items()}


def _spread_members(
    members: Sequence[str], places: Sequence[TopicPartition], current: Mapping[str, frozenset[TopicPartition]]
) -> Assignment:
    readers: dict[TopicPartition, list[str]] = {place: [] for place in places}
    for member in members:
        for place in sorted(current.get(member, _NONE)):
            if place in readers:
                readers[place].append(member)
                break
    kept, free = _keep(readers, members, len(places))
    for member, place in zip(free, _fewest_first(kept), strict=False):
        kept[place].append(member)
    return {member: frozenset({place}) for place, held in kept.items() for member in held}


def _keep(held: Mapping[H, Sequence[T]], wanted: Sequence[T], holders: int) -> tuple[dict[H, list[T]], list[T]]:
    """What each holder keeps of what it had, so that no holder has two more than another; and what is left over."""
    least, with_one_more = divmod(len(wanted), holders)
    valid = set(wanted)
    taken: set[T] = set()
    kept: dict[H, list[T]] = {}
    for holder, had in held.items():
        room = least + (1 if with_one_more else 0)
        mine = [one for one in had if one in valid and one not in taken][:room]
        if len(mine) > least:
            with_one_more -= 1
        taken.update(mine)
        kept[holder] = mine
    return kept, [one for one in wanted if one not in taken]


def _fewest_first(kept: Mapping[H, Sequence[T]]) -> Iterator[H]:
    """Holders, again and again the one that has least; each is expected to get one more."""
    heap = [(len(held), place, holder) for place, (holder, held) in enumerate(kept.items())]
    heapify(heap)
    while True:
        size, place, holder = heap[0]
        yield holder
        heapreplace(heap, (size + 1, place, holder))


def _by_subscription(
    members: Sequence[str], subscriptions: Mapping[str, frozenset[UUID]], partitions: Mapping[UUID, int]
) -> Assignment:
    held: dict[str, set[TopicPartition]] = {member: set() for member in members}
    readers: dict[TopicPartition, int] = {}
    subscribers: dict[UUID, list[str]] = {}
    for member in members:
        for topic in subscriptions[member]:
            subscribers.setdefault(topic, []).append(member)
    for place in _places(set(subscribers), partitions):
        member = min(subscribers[place[0]], key=lambda one: len(held[one]))
        held[member].add(place)
        readers[place] = 1
    for member in members:
        if not held[member]:
            places = _places(subscriptions[member], partitions)
            if places:
                place = min(places, key=lambda one: readers[one])
                held[member].add(place)
                readers[place] += 1
    return {member: frozenset(found) for member, found in held.items()}
