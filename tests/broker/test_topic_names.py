"""Names of topics in their order, whatever comes and goes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.topic_names import TopicNames

HIDDEN = "__own_"


def names_of(topics: dict[str, Any]) -> TopicNames:
    log: Any = SimpleNamespace(topics=lambda: topics)
    return TopicNames(log, HIDDEN)


NAME = st.sampled_from(["a", "b", "b.c", "z", "A", f"{HIDDEN}x", f"{HIDDEN}y"])
STEP = st.tuples(NAME, st.booleans(), st.booleans())  # whether it comes or goes, and whether we are told


@given(st.lists(STEP), st.lists(NAME, max_size=3))
def test_they_are_those_of_the_topics_in_their_order(steps: list[tuple[str, bool, bool]], before: list[str]) -> None:
    topics: dict[str, Any] = dict.fromkeys(before)
    names = names_of(topics)
    for name, comes, told in steps:
        if comes == (name in topics):
            continue
        if comes:
            topics[name] = None
        else:
            del topics[name]
        if told:
            (names.came if comes else names.went)(name)
        assert list(names.in_order()) == sorted(each for each in topics if not each.startswith(HIDDEN))


def test_who_was_told_of_already_is_not_counted_twice() -> None:
    topics: dict[str, Any] = {"b": None}
    names = names_of(topics)
    topics["a"] = None
    assert list(names.in_order()) == ["a", "b"], "found by their number"
    names.came("a")
    topics["c"] = None
    names.came("c")
    assert list(names.in_order()) == ["a", "b", "c"]
    del topics["b"]
    names.went("b")
    names.went("b")
    assert list(names.in_order()) == ["a", "c"]


def test_nobody_asks_nothing_is_sorted() -> None:
    names = names_of({"b": None, "a": None})
    names.came("c")
    names.went("a")
    assert list(names.in_order()) == ["a", "b"]
