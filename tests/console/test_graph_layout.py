"""Where the nodes of the routing graph are drawn."""

from __future__ import annotations

from headrace.console.pages.graph_layout import HIGH, WIDE, places


def test_what_leads_to_something_stands_left_of_it() -> None:
    found = places(["queue", "exchange", "topic", "far"], [("exchange", "queue"), ("queue", "topic"), ("exchange", "far")])
    assert found == {"exchange": (0, HIGH / 2), "queue": (WIDE, 0), "far": (WIDE, HIGH), "topic": (2 * WIDE, HIGH / 2)}


def test_a_way_back_and_a_way_to_oneself_move_nothing() -> None:
    edges = [("orders", "work"), ("work", "dead"), ("dead", "orders"), ("work", "work"), ("work", "not there")]
    assert places(["orders", "work", "dead"], edges) == {"orders": (0, 0), "work": (WIDE, 0), "dead": (2 * WIDE, 0)}


def test_nodes_stand_beside_what_they_hang_on() -> None:
    names = [f"e{number}" for number in range(5)] + [f"q{number}" for number in range(4, -1, -1)]
    found = places(names, [(f"e{number}", f"q{number}") for number in range(5)])
    assert [found[f"e{number}"][1] == found[f"q{number}"][1] for number in range(5)] == [True] * 5


def test_no_two_nodes_have_one_place_however_many_there_are() -> None:
    names = [f"n{number}" for number in range(150)]
    edges = [(f"n{number}", f"n{(number * 7 + 3) % 150}") for number in range(150)]
    found = places(names, edges)
    assert len(set(found.values())) == 150
    assert places(names, edges) == found
