"""Subscriptions by regular expression, and the expressions themselves: RE2's syntax, without backtracking."""

from __future__ import annotations

import re
import string
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.consumer import patterns
from headrace.broker.groups.consumer.automaton import MAX_PROGRAM, Automaton
from headrace.broker.groups.consumer.pattern_syntax import InvalidPattern
from headrace.broker.groups.errors import InvalidRegex

NAMES = ["", "a", "b", "ab", "ba", "aab", "abab", "a.b", "a-b", "A", "aB", "b_1", "orders.eu", "orders-1", "k", "S"]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("orders", ["orders"], ["orders2", "my-orders", ""]),
        ("orders-.*", ["orders-", "orders-1"], ["orders"]),
        (r"orders\.(eu|us)", ["orders.eu", "orders.us"], ["ordersXeu", "orders.as"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("a{2,}", ["aa", "aaaaa"], ["a"]),
        ("a{2}?", ["aa"], ["a"]),
        ("a{,3}", ["a{,3}"], ["a", "aa"]),
        ("(?i)Orders", ["orders", "ORDERS"], []),
        ("a(?i:b)c", ["abc", "aBc"], ["Abc", "abC"]),
        ("(?i)a(?-i)b", ["ab", "Ab"], ["aB"]),
        ("^a$", ["a"], ["aa"]),
        (r"\Aa\z", ["a"], []),
        (r"a\b-b", ["a-b"], []),
        (r"a\Bb", ["ab"], []),
        (r"a\b.*", ["a", "a-1"], ["ab"]),
        (r"\d+\D\w\W", ["12a_."], ["1a__"]),
        (r"[a-c&&b]+", ["abc", "&"], ["d"]),
        (r"[^a-c]+", ["def"], ["abd"]),
        (r"[]a]+", ["a", "]"], ["b"]),
        (r"[a\-z]+", ["a-z"], ["b"]),
        (r"[[:alpha:][:digit:]]+", ["a1"], ["_"]),
        (r"[[:^digit:]]", ["a"], ["1"]),
        (r"\pL\p{Nd}\P{L}", ["a1-"], ["11-"]),
        (r"\p{^Lu}", ["a"], ["A"]),
        (r"\p{Greek}?a", ["a"], [""]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["aXb"]),
        (r"\x61\x{62}\143", ["abc"], []),
        ("(?P<x>a)(?<y>b)", ["ab"], []),
        ("a||b", ["a", "", "b"], []),
        ("(?s).(?U)b*", ["ab"], []),
        ("(?i)\u017f", ["s", "S"], ["k"]),
    ],
)
def test_expressions_mean_what_they_mean_in_re2(pattern, yes, no):
    automaton = Automaton(pattern)
    assert [name for name in yes if not automaton.matches(name)] == []
    assert [name for name in no if automaton.matches(name)] == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing closing )"),
        ("(?:a", "missing closing )"),
        (")", "unexpected )"),
        ("[a", "missing closing ]"),
        ("[z-a]", "invalid character class range"),
        ("[[:word2:]]", "invalid character class range"),
        (r"\p{Klingon}", "invalid character class range"),
        ("*a", "missing argument to repetition operator"),
        ("a|*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{2}{3}", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{3,2}", "invalid repeat count"),
        ("a" + "\\", "trailing backslash at end of expression"),
        (r"\1", "invalid escape sequence"),
        (r"\C", "invalid escape sequence"),
        (r"\y", "invalid escape sequence"),
        (r"\x{110000}", "invalid escape sequence"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?!a)", "invalid or unsupported Perl syntax"),
        ("(?<=a)", "invalid named capture"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("(" * 200 + ")" * 200, "expression nests too deeply"),
        ("((a{1000}){1000}){1000}", "expression is too large"),
        ("((){1000}){1000}", "expression is too large"),
    ],
)
def test_wrong_expressions_are_refused_with_the_reason(pattern, why):
    with pytest.raises(InvalidPattern, match=re.escape(why)):
        Automaton(pattern)


PIECES = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "-", r"\.", "(?:)", r"\b", "^", "$", "A"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?"])).map(lambda it: f"(?:{it[0]}){it[1]}"),
    ),
    max_leaves=8,
)


@given(PIECES, st.booleans())
def test_what_pythons_re_and_re2_have_in_common_matches_the_same_names(pattern, folds):
    pattern = f"(?i:{pattern})" if folds else pattern
    python = re.compile(f"(?a)(?:{pattern})" if not folds else f"(?ai)(?:{pattern[4:-1]})")
    automaton = Automaton(pattern)
    for name in NAMES:
        assert automaton.matches(name) == bool(python.fullmatch(name)), name


@given(st.text(alphabet=string.printable + "é\u212a\U0001f600", max_size=40))
def test_no_text_does_worse_than_being_refused(pattern):
    try:
        automaton = Automaton(pattern)
    except InvalidPattern:
        return
    automaton.matches("orders-1")


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|aa)+b", "(a?){60}a{60}", "(.*a){15}", f"(a|b)*a(a|b){{{MAX_PROGRAM // 500}}}"]
)
def test_expressions_that_make_others_explode_cost_no_more_than_their_size(pattern):
    automaton = Automaton(pattern)
    state, work = automaton.start, 0
    for char in "ab" * 100 + "c":
        state, cost = automaton.step(state, ord(char))
        work += cost
        if state is None:
            break
    assert work <= 201 * MAX_PROGRAM


def test_members_get_the_topics_that_match(world):
    for name in ("orders.eu", "orders.us", "bills"):
        world.topic(name, 2)
    a = world.enter("a", (), regex=r"orders\..*")
    assert a.partitions == set(product(["orders.eu", "orders.us"], [0, 1]))
    b = world.enter("b", (), regex=r"orders\..*")
    world.settle_all(a, b)
    assert len(a.partitions) == len(b.partitions) == 2


def test_a_new_topic_that_matches_is_found(world):
    a = world.enter("a", ("plain",), regex="new-.*")
    world.topic("new-1", 1)
    world.topic("plain", 1)
    world.topic("other", 1)
    world.settle_all(a)
    assert a.partitions == {("new-1", 0), ("plain", 0)}


def test_the_topics_of_this_server_alone_are_not_found(world):
    world.topic("__headrace_secret", 1)
    world.topic("t", 1)
    a = world.enter("a", (), regex=".*")
    assert a.partitions == {("t", 0)}


def test_an_expression_goes_with_its_last_member(world):
    world.topic("t", 1)
    a, b = world.enter("a", (), regex="t"), world.enter("b", (), regex="t|u")
    assert set(world.group.resolved) == {"t", "t|u"}
    b.beat(regex="", topics=frozenset({"t"}))
    assert set(world.group.resolved) == {"t"}
    a.leave()
    assert not world.group.resolved
    assert not any(key[:2] == b"\x00\x10" for key in world.log.tables["__consumer_offsets"].rows)


def test_a_wrong_expression_is_refused_and_leaves_nothing_behind(world):
    joining = {"member_id": "a", "epoch": 0, "rebalance_timeout_ms": 1000, "owned": {}}
    with pytest.raises(InvalidRegex, match=r"SubscribedTopicRegex `\(` is not a valid regular expression: missing closing \)."):
        world.beat(regex="(", **joining)
    assert world.coordinator.list_groups() == []


def test_an_expression_survives_a_restart_and_is_looked_up_anew(world):
    world.topic("t", 1)
    a = world.enter("a", (), regex="[tu]")
    world.restart()
    world.topic("u", 1)
    world.settle_all(a)
    assert a.partitions == {("t", 0), ("u", 0)}


def test_an_expression_that_is_too_much_work_is_refused(world, monkeypatch):
    for number in range(50):
        world.topic(f"topic-{number}", 1)
    monkeypatch.setattr(patterns, "MAX_WORK", 100)
    joining = {"member_id": "a", "epoch": 0, "rebalance_timeout_ms": 1000, "owned": {}}
    assert world.refused(regex="(.*)*x", **joining) is InvalidRegex
