"""Where each node of the routing graph stands: in columns, so that what is published on the left goes to the right.

The column of a node is one behind the furthest of those that lead to it; what leads back (a queue whose dead letters go to an
exchange before it) does not count. Within a column nodes stand near those that they hang on, as far as `SWEEPS` turns of
ordering by their average bring them there. The same graph always looks the same.
"""

from __future__ import annotations

from collections.abc import Sequence

WIDE, HIGH = 260.0, 90.0  # from column to column, from row to row
SWEEPS = 4

Edge = tuple[str, str]
Place = tuple[float, float]


def places(nodes: Sequence[str], edges: Sequence[Edge]) -> dict[str, Place]:
    """x and y of each. Edges to what is not among the nodes are passed over."""
    known = set(nodes)
    forward = _without_ways_back(nodes, [edge for edge in edges if edge[0] in known and edge[1] in known])
    columns: dict[int, list[str]] = {}
    for node, column in _columns(nodes, forward).items():
        columns.setdefault(column, []).append(node)
    rows = _ordered([columns[column] for column in sorted(columns)], forward)
    tallest = max((len(row) for row in rows), default=0)
    return {
        node: (WIDE * column, HIGH * (place + (tallest - len(row)) / 2))
        for column, row in enumerate(rows)
        for place, node in enumerate(row)
    }


def _without_ways_back(nodes: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
    """Depth first, without recursion: an edge to a node that is being looked at closes a circle."""
    following: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        if source != target:
            following[source].append(target)
    led_to = {target for source, target in edges if source != target}
    done: set[str] = set()
    kept: list[Edge] = []
    for root in sorted(nodes, key=lambda node: node in led_to):  # those that nothing leads to come first
        if root in done:
            continue
        path, waiting = {root}, [(root, iter(following[root]))]
        while waiting:
            node, left = waiting[-1]
            other = next(left, None)
            if other is None:
                done.add(node)
                path.discard(node)
                waiting.pop()
            elif other not in path:
                kept.append((node, other))
                if other not in done:
                    path.add(other)
                    waiting.append((other, iter(following[other])))
    return kept


def _columns(nodes: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    found = dict.fromkeys(nodes, 0)
    for _ in nodes:  # as long as the longest way
        moved = False
        for source, target in edges:
            if found[target] <= found[source]:
                found[target] = found[source] + 1
                moved = True
        if not moved:
            break
    return found


def _ordered(columns: list[list[str]], edges: Sequence[Edge]) -> list[list[str]]:
    before: dict[str, list[str]] = {}
    behind: dict[str, list[str]] = {}
    for source, target in edges:
        before.setdefault(target, []).append(source)
        behind.setdefault(source, []).append(target)
    for sweep in range(SWEEPS):
        beside = before if sweep % 2 == 0 else behind
        at = {node: place / max(1, len(column)) for column in columns for place, node in enumerate(column)}
        for column in columns if sweep % 2 == 0 else columns[::-1]:
            wish = {
                node: sum(at[other] for other in beside[node]) / len(beside[node]) if beside.get(node) else at[node]
                for node in column
            }
            column.sort(key=wish.__getitem__)
            at |= {node: place / len(column) for place, node in enumerate(column)}
    return columns
