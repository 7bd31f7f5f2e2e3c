"""Plans of reshards: which shards close, and which new ones take their hash keys. Pure; `reshard` carries them out.

A plan is built of splits (one shard becomes two) and merges (two neighbours become one), so that each shard has at most two
parents. A plan of several levels has shards in between that are closed from the start: they never hold anything, and a reader
that follows the lineage walks through them. The whole plan happens in one step, or does not.

`plan_count` brings a stream to so many shards:

    from equal ranges   as Amazon does it, by the numbers of splits and merges that were observed there: to grow up to double,
                        each shard is split once, and neighbours are merged until the count is right; to shrink, neighbours are
                        merged. New borders lie where those of equal ranges would; where that would take further splits, on the
                        nearest old border. So ranges are equal after doubling, halving, adding one; else nearly so
    from other ranges   equal ranges, by as many splits and merges as that takes
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from headrace.broker.streams.shard import HASH_KEYS, Shard, uniform_ranges
from headrace.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NewShard:
    index: int
    first_hash: int
    last_hash: int
    parent: int
    adjacent: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    closes: tuple[int, ...]  # those that are open now
    new: tuple[NewShard, ...]  # by index; parents before their children


@dataclass(frozen=True, slots=True)
class _Piece:
    index: int
    first_hash: int
    last_hash: int


class _Planner:
    """Splits and merges, one after the other; what is left open is in `pieces`, by hash key."""

    def __init__(self, open_shards: Sequence[Shard], next_index: int) -> None:
        self._next_index = next_index
        self._new: list[NewShard] = []
        self._closed: list[int] = []
        self._first_new = next_index
        self.pieces = [_Piece(shard.index, shard.first_hash, shard.last_hash) for shard in open_shards]

    def split(self, piece: _Piece, border: int) -> tuple[_Piece, _Piece]:
        self._close(piece)
        low = self._open(piece.first_hash, border - 1, piece.index)
        return low, self._open(border, piece.last_hash, piece.index)

    def merge(self, low: _Piece, high: _Piece) -> _Piece:
        self._close(low)
        self._close(high)
        return self._open(low.first_hash, high.last_hash, low.index, high.index)

    def _close(self, piece: _Piece) -> None:
        if piece.index < self._first_new:
            self._closed.append(piece.index)

    def _open(self, first_hash: int, last_hash: int, parent: int, adjacent: int | None = None) -> _Piece:
        index = self._next_index
        self._next_index += 1
        self._new.append(NewShard(index, first_hash, last_hash, parent, adjacent))
        return _Piece(index, first_hash, last_hash)

    def plan(self) -> Plan:
        return Plan(tuple(self._closed), tuple(self._new))


def plan_split(shard: Shard, border: int, next_index: int) -> Plan:
    """`border` is the first hash key of the upper half."""
    planner = _Planner([shard], next_index)
    planner.split(planner.pieces[0], border)
    return planner.plan()


def plan_merge(shard: Shard, adjacent: Shard, next_index: int) -> Plan:
    """Of neighbours, in either order: the first one becomes the parent, the other one the adjacent parent."""
    first, last = min(shard.first_hash, adjacent.first_hash), max(shard.last_hash, adjacent.last_hash)
    return Plan((shard.index, adjacent.index), (NewShard(next_index, first, last, shard.index, adjacent.index),))


def plan_count(open_shards: Sequence[Shard], target: int, next_index: int) -> Plan:
    """`open_shards` by hash key. An empty plan when nothing needs to be done."""
    borders = _borders(open_shards, target)
    planner = _Planner(open_shards, next_index)
    planner.pieces = [part for piece in planner.pieces for part in _split_at(planner, piece, _inside(borders, piece))]
    starts = {0, *borders}
    groups: list[list[_Piece]] = []
    for piece in planner.pieces:
        if piece.first_hash in starts:
            groups.append([piece])
        else:
            groups[-1].append(piece)
    for group in groups:
        _merge_all(planner, group)
    return planner.plan()


def _borders(open_shards: Sequence[Shard], target: int) -> list[int]:
    """The first hash keys of the shards there shall be, without the 0."""
    equal = [first for first, _ in uniform_ranges(target)][1:]
    now = [shard.first_hash for shard in open_shards]
    count = len(now)
    if target == count:
        return now[1:] if _are_equal(now) else equal
    if not _are_equal(now) or target > 2 * count:
        return equal
    if target < count:
        return [now[(2 * number * count + target) // (2 * target)] for number in range(1, target)]
    return _one_in_each(now, equal)


def _are_equal(starts: Sequence[int]) -> bool:
    count = len(starts)
    return all(abs(start - HASH_KEYS * number // count) <= count for number, start in enumerate(starts))


def _one_in_each(starts: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Wanted borders, of which only one may lie inside a shard: of two, the one nearer to an old border moves there."""
    kept: dict[int, int] = {}  # by shard
    ends = [*starts[1:], HASH_KEYS]
    number = 0
    borders: set[int] = set()
    for border in wanted:
        while ends[number] <= border:
            number += 1
        if border == starts[number]:
            borders.add(border)
        elif number not in kept:
            kept[number] = border
        else:
            low, high = kept[number], border
            if low - starts[number] <= ends[number] - high and starts[number] not in borders and number > 0:
                borders.add(starts[number])
                kept[number] = high
            else:
                borders.add(ends[number])
    return sorted(borders.union(kept.values()))


def _inside(borders: Sequence[int], piece: _Piece) -> Sequence[int]:
    return borders[bisect_right(borders, piece.first_hash) : bisect_right(borders, piece.last_hash)]


def _split_at(planner: _Planner, piece: _Piece, borders: Sequence[int]) -> list[_Piece]:
    if not borders:
        return [piece]
    middle = len(borders) // 2
    low, high = planner.split(piece, borders[middle])
    return _split_at(planner, low, borders[:middle]) + _split_at(planner, high, borders[middle + 1 :])


def _merge_all(planner: _Planner, pieces: list[_Piece]) -> None:
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=False)
        left_over = pieces[-1:] if len(pieces) % 2 else []
        pieces = [planner.merge(low, high) for low, high in pairs] + left_over


def carried_out(plan: Plan, shards: Sequence[Shard], now_ms: int) -> list[Shard]:
    """All shards as they are after the plan, in copies where they change; where those end that are open now is to be filled in
    (`closed_at` is 0). A shard is made later than its parents, whatever the clock says, so that sequence numbers grow from
    parents to children; and they close at that moment, so that at any time each hash key has one shard."""
    after = list(shards)
    for index in plan.closes:
        after[index] = shards[index].copy()
    for new in plan.new:
        shard = Shard(new.index, new.first_hash, new.last_hash, now_ms, new.parent, new.adjacent)
        parents = [after[number] for number in shard.parents]
        shard.created_ms = max(now_ms, *(parent.created_ms + 1 for parent in parents))
        for parent in parents:
            parent.closed_ms, parent.closed_at = shard.created_ms, 0
        after.append(shard)
    return after


def postpone(plan: Plan, after: Sequence[Shard], later_ms: int) -> None:
    """It is carried out later than was planned: nothing that is written until then comes after the end of its shard."""
    if later_ms <= 0:
        return
    for index in plan.closes:
        after[index].closed_ms = (after[index].closed_ms or 0) + later_ms
    for new in plan.new:
        shard = after[new.index]
        shard.created_ms += later_ms
        if shard.closed_ms is not None:
            shard.closed_ms += later_ms
