"""Patterns of a topic exchange, against a matcher that is slow and plain, and against what RabbitMQ does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.exchanges.matcher import Node
from headrace.broker.exchanges.topic import TopicMatcher

WORDS = st.sampled_from(["a", "b", "", "*", "#", "a*"])
KEYS = st.lists(WORDS, max_size=6).map(".".join)


class Queue:
    def __init__(self, name: str) -> None:
        self.name = name


def matches(pattern: list[str], key: list[str]) -> bool:
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(matches(pattern[1:], key[skipped:]) for skipped in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


def split(key: str) -> list[str]:
    return key.split(".") if key else []


def matched(matcher: TopicMatcher, key: str) -> set[Node]:
    return set(matcher.match(key, dict, lambda: pytest.fail("a topic exchange asks for no properties")))


@settings(deadline=None)
@given(st.lists(KEYS, max_size=12), st.lists(KEYS, max_size=5))
def test_the_trie_finds_what_trying_every_pattern_finds(patterns: list[str], keys: list[str]) -> None:
    matcher = TopicMatcher()
    queues = {Queue(pattern): pattern for pattern in patterns}
    for queue, pattern in queues.items():
        matcher.add(queue, pattern, {})
    for key in keys:
        assert matched(matcher, key) == {queue for queue, pattern in queues.items() if matches(split(pattern), split(key))}


@settings(deadline=None)
@given(st.lists(KEYS, max_size=8), st.lists(KEYS, max_size=8), KEYS)
def test_removed_patterns_leave_nothing_behind(stay: list[str], go: list[str], key: str) -> None:
    matcher, fresh = TopicMatcher(), TopicMatcher()
    staying, going = Queue("staying"), Queue("going")
    for pattern in go:
        matcher.add(going, pattern, {})
    for pattern in stay:
        matcher.add(staying, pattern, {})
        fresh.add(staying, pattern, {})
    for pattern in go:
        matcher.remove(going, pattern, {})
    assert matched(matcher, key) == matched(fresh, key)
    for pattern in stay:
        matcher.remove(staying, pattern, {})
    assert matcher._root.is_empty
    assert not matcher._plain


PATTERNS = ["", "#", "*", "*.*", "#.#", "*.#", "#.*", ".", "a..b", "a.#.b", "#.a.#", "*a", "a*.b"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("", ["", "#", "#.#"]),
        (".", ["#", "*.*", "#.#", "*.#", "#.*", "."]),
        ("a", ["#", "*", "#.#", "*.#", "#.*", "#.a.#"]),
        ("a.b", ["#", "*.*", "#.#", "*.#", "#.*", "a.#.b", "#.a.#"]),
        ("..", ["#", "#.#", "*.#", "#.*"]),
        ("a..b", ["#", "#.#", "*.#", "#.*", "a..b", "a.#.b", "#.a.#"]),
        ("a.x.y.b", ["#", "#.#", "*.#", "#.*", "a.#.b", "#.a.#"]),
        ("#", ["#", "*", "#.#", "*.#", "#.*"]),
        ("*", ["#", "*", "#.#", "*.#", "#.*"]),
        ("x.#", ["#", "*.*", "#.#", "*.#", "#.*"]),
        ("*a", ["#", "*", "#.#", "*.#", "#.*", "*a"]),
        ("a*.b", ["#", "*.*", "#.#", "*.#", "#.*", "a*.b"]),
    ],
)
def test_keys_go_where_rabbitmq_sent_them(key: str, expected: list[str]) -> None:
    matcher = TopicMatcher()
    for pattern in PATTERNS:
        matcher.add(Queue(pattern), pattern, {})
    assert {node.name for node in matched(matcher, key)} == set(expected)


def test_patterns_made_to_branch_cost_states_not_ways() -> None:
    matcher = TopicMatcher()
    queue = Queue("q")
    matcher.add(queue, ".".join(["#", "a"] * 60), {})  # ways through it for the key below: more than 2 ** 100
    assert matched(matcher, ".".join(["a"] * 120)) == {queue}
    assert matched(matcher, ".".join(["a"] * 59)) == set()
