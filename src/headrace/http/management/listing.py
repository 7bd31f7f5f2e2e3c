"""Lists as they are asked for: sorted, a page of them, of each only some columns.

Without a page the whole list is the answer; with one, an object with the page and what it is a page of. Rows are made only for
the things that are on the page, as long as the order is by name; and in steps of `STEP`, so that others are served while a
list of a hundred thousand queues is written down.

Bound: a page has at most `MAX_PAGE_SIZE` rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from headrace.dataclass import dataclass
from headrace.http.management.errors import ApiError, bad_request
from headrace.http.management.finding import Wanted as Name

T = TypeVar("T")
Row = dict[str, Any]

STEP = 50
PAGE_SIZE = 100
MAX_PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    page: int | None
    page_size: int
    name: Name | None
    sort: tuple[str, ...]
    reverse: bool
    columns: tuple[tuple[str, ...], ...]


def wanted(query: Mapping[str, str]) -> Wanted:
    page, size = _number(query.get("page")), _number(query.get("page_size"))
    if page is not None and (page < 1 or (size is not None and not 1 <= size <= MAX_PAGE_SIZE)):
        shown = "undefined" if size is None else size
        raise ApiError(
            400, "invalid_pagination_parameters", f"Invalid pagination parameters: page number {page}, page size {shown}"
        )
    name = query.get("name", "")
    return Wanted(
        page,
        PAGE_SIZE if size is None else size,
        Name(name, regex=query.get("use_regex") == "true") if page is not None and name else None,
        tuple(query["sort"].split(".")) if query.get("sort") else (),
        query.get("sort_reverse") == "true",
        columns(query),
    )


def columns(query: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(column.split(".")) for column in query.get("columns", "").split(",") if column)


def _number(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not text.isdecimal() or len(text) > 9:
        raise bad_request("Pagination parameters are invalid")
    return int(text)


async def listed(
    query: Mapping[str, str], things: Iterable[T], row: Callable[[T], Row], name: Callable[[T], str] = lambda thing: ""
) -> object:
    """`things` come in the order of their names; `name` is what `name=` is compared with."""
    asked = wanted(query)
    everything: Sequence[T] = list(things)
    found = everything
    if asked.name is not None:
        found = await asked.name.among(everything, name)
    if asked.page is not None and not asked.sort:
        first, last = _page(asked, len(found))
        order = list(reversed(found)) if asked.reverse else found
        rows = await _rows(order[first:last], row)
    else:
        rows = await _rows(found, row)
        if asked.sort:
            rows.sort(key=lambda each: _sort_key(_at(each, asked.sort)))
        if asked.reverse:
            rows.reverse()
        if asked.page is not None:
            first, last = _page(asked, len(found))
            rows = rows[first:last]
    rows = [only(each, asked.columns) for each in rows]
    if asked.page is None:
        return rows
    return {
        "filtered_count": len(found),
        "item_count": len(rows),
        "items": rows,
        "page": asked.page,
        "page_count": max(1, -(-len(found) // asked.page_size)),
        "page_size": asked.page_size,
        "total_count": len(everything),
    }


async def _rows(things: Iterable[T], row: Callable[[T], Row]) -> list[Row]:
    rows: list[Row] = []
    for thing in things:
        rows.append(row(thing))
        if len(rows) % STEP == 0:
            await asyncio.sleep(0)
    return rows


def _page(asked: Wanted, count: int) -> tuple[int, int]:
    assert asked.page is not None
    first = (asked.page - 1) * asked.page_size
    if asked.page > 1 and first >= count:
        size = f"page: {asked.page} page size: {asked.page_size}, len: {count}"
        raise ApiError(400, "page_out_of_range", f"Page out of range, {size}")
    return first, first + asked.page_size


def _sort_key(value: object) -> tuple[int, Any]:
    """What a row has not got comes first, then numbers, then text."""
    if value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1, value
    return 2, str(value)


def _at(row: object, path: Sequence[str]) -> object:
    for name in path:
        if not isinstance(row, Mapping):
            return None
        row = row.get(name)
    return row


def only(row: Row, chosen: tuple[tuple[str, ...], ...]) -> Row:
    """The row with only these columns, `a.b` being `b` inside `a`."""
    if not chosen:
        return row
    answer: Row = {}
    for path in chosen:
        value = _at(row, path)
        if value is None and not _has(row, path):
            continue
        inner = answer
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                break
        else:
            inner[path[-1]] = value
    return answer


def _has(row: object, path: Sequence[str]) -> bool:
    return isinstance(_at(row, path[:-1]), Mapping) and path[-1] in _at(row, path[:-1])  # type: ignore[operator]
