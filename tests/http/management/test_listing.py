"""Sorting, paging and columns, without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.http.management.asking import Api

from headrace.http.management.errors import ApiError
from headrace.http.management.listing import STEP, listed, only

ROWS = [{"name": f"q{number}", "messages": number % 3, "stats": {"rate": -number}} for number in range(10)]


def ask(rows: list[dict[str, Any]] = ROWS, **query: str) -> Any:
    return asyncio.run(listed(query, rows, lambda row: row, lambda row: str(row["name"])))


def names(answer: Any) -> list[str]:
    return [row["name"] for row in (answer if isinstance(answer, list) else answer["items"])]


def test_without_a_page_everything_comes_in_its_order() -> None:
    assert ask() == ROWS
    assert ask(name="q1") == ROWS  # names are looked for in pages only


def test_rows_are_sorted_by_any_column_stably_and_backwards() -> None:
    assert names(ask(sort="messages")) == ["q0", "q3", "q6", "q9", "q1", "q4", "q7", "q2", "q5", "q8"]
    assert names(ask(sort="stats.rate"))[0] == "q9"
    assert names(ask(sort="stats.rate", sort_reverse="true"))[0] == "q0"
    assert names(ask(sort="nothing.like.that")) == names(ROWS)


def test_rows_without_the_column_come_first_and_types_do_not_clash() -> None:
    rows: list[dict[str, Any]] = [{"name": "a", "x": "text"}, {"name": "b", "x": 1}, {"name": "c"}, {"name": "d", "x": None}]
    assert names(ask(rows, sort="x")) == ["c", "d", "b", "a"]


def test_a_page_says_what_it_is_a_page_of() -> None:
    answer = ask(page="2", page_size="4")
    assert names(answer) == ["q4", "q5", "q6", "q7"]
    assert {key: value for key, value in answer.items() if key != "items"} == {
        "filtered_count": 10,
        "item_count": 4,
        "page": 2,
        "page_count": 3,
        "page_size": 4,
        "total_count": 10,
    }
    assert names(ask(page="1", page_size="2", sort="messages", sort_reverse="true")) == ["q8", "q5"]
    assert names(ask(page="1", page_size="2", sort_reverse="true")) == ["q9", "q8"]


def test_names_are_found_by_a_part_or_by_a_pattern_whatever_their_case() -> None:
    assert names(ask(page="1", name="Q1")) == ["q1"]
    assert ask(page="1", name="q[12]")["filtered_count"] == 0
    assert names(ask(page="1", name="^q[12]$", use_regex="true")) == ["q1", "q2"]
    assert ask(page="1", name="none")["page_count"] == 1


def test_an_expression_takes_no_more_time_than_the_names_are_long() -> None:
    rows = [{"name": "a" * 200 + "!"} for _ in range(100)]
    assert ask(rows, page="1", name="(a+)+$", use_regex="true")["filtered_count"] == 0
    assert ask(rows, page="1", name="^(a|aa)+!$", use_regex="true")["filtered_count"] == 100


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"page": "0"}, "invalid_pagination_parameters"),
        ({"page": "1", "page_size": "501"}, "invalid_pagination_parameters"),
        ({"page": "1", "page_size": "0"}, "invalid_pagination_parameters"),
        ({"page": "4", "page_size": "4"}, "page_out_of_range"),
        ({"page": "x"}, "bad_request"),
        ({"page": "-1"}, "bad_request"),
        ({"page": "9" * 4000}, "bad_request"),
        ({"page": "1", "name": "(", "use_regex": "true"}, "bad_request"),
        ({"page": "1", "name": "a" * 5000}, "bad_request"),
    ],
)
def test_pages_that_make_no_sense_are_refused(query: dict[str, str], error: str) -> None:
    with pytest.raises(ApiError) as refused:
        ask(**query)
    assert (refused.value.status, refused.value.body["error"]) == (400, error)


def test_columns_are_chosen_also_inside_of_others() -> None:
    row = {"a": 1, "b": {"c": 2, "d": {"e": 3}}, "n": None}
    assert only(row, (("a",), ("b", "d", "e"), ("nope",), ("a", "x"), ("n",))) == {"a": 1, "b": {"d": {"e": 3}}, "n": None}
    assert only(row, (("b",), ("b", "c"))) == {"b": {"c": 2, "d": {"e": 3}}}
    assert names(ask(columns="name", page="1", page_size="1")) == ["q0"]


def test_long_lists_let_others_run() -> None:
    async def scenario() -> int:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        await listed({}, range(20 * STEP), lambda number: {"name": str(number)})
        task.cancel()
        return turns

    assert asyncio.run(scenario()) >= 20


def test_lists_come_in_the_order_that_tools_print(api: Api, name: str) -> None:
    assert api.put(f"/vhosts/{name}") == 201
    everything = {"configure": "", "write": "", "read": ""}
    for user in (f"{name}.z", f"{name}.a"):
        assert api.put(f"/users/{user}", {"password": "", "tags": ""}) == 201
        for vhost in (name, "%2F"):
            assert api.put(f"/permissions/{vhost}/{user}", everything) == 201
    found = [(row["vhost"], row["user"]) for row in api.get("/permissions")]
    assert found == sorted(found)
    for policy, priority in (("b", 2), ("a", 3), ("d", 1), ("c", 2)):
        assert (
            api.put(f"/policies/{name}/{policy}", {"pattern": "x", "definition": {"expires": 1}, "priority": priority}) == 201
        )
    assert [row["name"] for row in api.get(f"/policies/{name}")] == ["d", "b", "c", "a"]
    assert api.delete(f"/vhosts/{name}") == api.delete(f"/users/{name}.z") == api.delete(f"/users/{name}.a") == 204
