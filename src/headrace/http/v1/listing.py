"""Long lists, a part at a time: in the order of names, from behind a name on, at most so many. `next` is where to go on.

A list is asked for in parts by `after` and `limit`, so nothing has to be kept between two of them, and what is made or deleted
meanwhile does no harm. `pattern` is a glob: `orders.*`.

A hundred thousand names are looked at `STEP` at a time, between which others have their turn; of names that are in their order
already (`part_of_ordered`) only those from `after` on, and no more than it takes.

Bounds: `MAX_LIMIT` in an answer, `MAX_PATTERN` characters.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fnmatch import translate

from headrace.http.problems import Problem
from headrace.http.v1.operations import Ask, Parameter

LIMIT = 100
MAX_LIMIT = 1000
MAX_PATTERN = 250
MAX_WILDCARDS = 8
STEP = 500

PARAMETERS = (
    Parameter("pattern", "Only names that match this glob: `*` stands for any characters, `?` for one."),
    Parameter("after", "Only names behind this one: `next` of the answer before."),
    Parameter("limit", f"At most so many, {LIMIT} if it is not said, up to {MAX_LIMIT}.", int),
)


async def part_of(ask: Ask, names: Iterable[str]) -> tuple[list[str], str | None]:
    """The names that were asked for, and behind which to go on if there are more. Raises Problem."""
    limit = ask.number("limit", LIMIT, MAX_LIMIT)
    pattern = compiled(ask.query.get("pattern", ""))
    after = ask.query.get("after", "")
    everything = list(names)
    first: list[str] = []  # of those looked at so far
    for start in range(0, len(everything), STEP):
        found = [
            name
            for name in everything[start : start + STEP]
            if name > after and (pattern is None or pattern.match(name) is not None)
        ]
        first = sorted(first + found)[: limit + 1]
        await asyncio.sleep(0)
    return first[:limit], first[limit - 1] if len(first) > limit else None


async def part_of_ordered(ask: Ask, names: Sequence[str]) -> tuple[list[str], str | None]:
    """The same of names that are in their order, and stay so while others have their turn. Raises Problem."""
    limit = ask.number("limit", LIMIT, MAX_LIMIT)
    pattern = compiled(ask.query.get("pattern", ""))
    found: list[str] = []
    looked = ask.query.get("after", "")
    while len(found) <= limit:
        first = bisect_right(names, looked)  # again each time: they may have moved
        some = names[first : first + (STEP if pattern is not None else limit + 1)]
        if not some:
            break
        looked = some[-1]
        found += some if pattern is None else [name for name in some if pattern.match(name) is not None]
        if pattern is not None:
            await asyncio.sleep(0)
    return found[:limit], found[limit - 1] if len(found) > limit else None


def compiled(pattern: str) -> re.Pattern[str] | None:
    """A glob; None for the empty one, which is none. Raises Problem."""
    if not pattern:
        return None
    shorter = re.sub(r"\*+", "*", pattern)
    if len(shorter) > MAX_PATTERN or shorter.count("*") > MAX_WILDCARDS:
        text = f"a pattern has at most {MAX_PATTERN} characters and {MAX_WILDCARDS} asterisks"
        raise Problem(400, "invalid_parameter", text)
    return re.compile(translate(shorter))
