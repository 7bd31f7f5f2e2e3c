"""Bindings of a headers exchange, against a matcher that is slow and plain, and against what RabbitMQ does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.exchanges.headers import HeadersMatcher, check_headers_binding
from headrace.broker.exchanges.matcher import Node
from headrace.broker.exchanges.values import comparable
from headrace.broker.queues.errors import AmqpRefusal
from headrace.record.amqp.tables import Decimal, Int8, Int32, Timestamp

NAMES = st.sampled_from(["a", "b", "c", "x-a", "x-b"])
VALUES = st.sampled_from([None, 1, 2, True, 1.0, "1", "x", Int8(1)])
TABLES = st.dictionaries(NAMES, VALUES, max_size=4)
MODES = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


class Queue:
    def __init__(self, name: str = "") -> None:
        self.name = name


def matched(matcher: HeadersMatcher, headers: Mapping[str, object]) -> set[Node]:
    return set(matcher.match("", lambda: headers, lambda: pytest.fail("a headers exchange asks for no properties")))


def agrees(arguments: Mapping[str, object], headers: Mapping[str, object]) -> bool:
    mode = arguments.get("x-match", "all")
    verdicts = []
    for name, value in arguments.items():
        if name == "x-match" or (name.startswith("x-") and mode not in ("all-with-x", "any-with-x")):
            continue
        there = name in headers
        verdicts.append(there and (value is None or comparable(value) == comparable(headers[name])))
    return any(verdicts) if mode in ("any", "any-with-x") else all(verdicts)


def with_mode(table: dict[str, object], mode: str | None) -> dict[str, object]:
    return table if mode is None else {**table, "x-match": mode}


BINDINGS = st.lists(st.builds(with_mode, TABLES, MODES), max_size=10)


@settings(deadline=None)
@given(BINDINGS, st.lists(TABLES, max_size=4))
def test_the_index_finds_what_trying_every_binding_finds(
    bindings: list[dict[str, object]], messages: list[dict[str, object]]
) -> None:
    matcher = HeadersMatcher()
    queues = [(Queue(), arguments) for arguments in bindings]
    for queue, arguments in queues:
        matcher.add(queue, "", arguments)
    for headers in messages:
        assert matched(matcher, headers) == {queue for queue, arguments in queues if agrees(arguments, headers)}


@settings(deadline=None)
@given(BINDINGS, BINDINGS, TABLES)
def test_removed_bindings_leave_nothing_behind(
    stay: list[dict[str, object]], go: list[dict[str, object]], headers: dict[str, object]
) -> None:
    matcher, fresh = HeadersMatcher(), HeadersMatcher()
    staying, going = Queue("staying"), Queue("going")
    for arguments in go:
        matcher.add(going, "", arguments)
    for arguments in stay:
        matcher.add(staying, "", arguments)
        fresh.add(staying, "", arguments)
    for arguments in go:
        matcher.remove(going, "", arguments)
    assert matched(matcher, headers) == matched(fresh, headers)
    for arguments in stay:
        matcher.remove(staying, "", arguments)
    assert not matcher._rules
    assert not matcher._under
    assert not matcher._always


@pytest.mark.parametrize(
    ("bound", "sent", "same"),
    [
        (1, Int32(1), True),
        (1, Timestamp(1), True),
        (1, True, False),
        (1, 1.0, False),
        (1, "1", False),
        ("1", b"1", True),
        (Decimal(0, 1), Decimal(0, 1), True),
        (Decimal(0, 1), 1, False),
        ([1], [1], True),
        ([1], [1.0], False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        (None, "anything", True),
        (None, None, True),
        ("anything", None, False),
    ],
)
def test_values_are_compared_with_their_types(bound: object, sent: object, same: bool) -> None:
    matcher = HeadersMatcher()
    matcher.add(Queue(), "", {"a": bound})
    assert bool(matched(matcher, {"a": sent})) is same


def test_without_conditions_all_takes_everything_and_any_nothing() -> None:
    matcher = HeadersMatcher()
    every, none = Queue(), Queue()
    matcher.add(every, "", {"x-other": 1})
    matcher.add(none, "", {"x-match": "any", "x-other": 1})
    assert matched(matcher, {}) == {every}
    assert matched(matcher, {"x-other": 1}) == {every}


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("foo", 'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        ("", "Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x"),
        ("é", 'Invalid x-match field value <<"é">>; expected all, any, all-with-x, or any-with-x'),
        (Int32(5), "Invalid x-match field type signedint (value 5); expected longstr"),
        (True, "Invalid x-match field type bool (value true); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
        (b"all", 'Invalid x-match field type binary (value <<"all">>); expected longstr'),
    ],
)
def test_a_wrong_x_match_is_refused_in_rabbitmqs_words(mode: object, text: str) -> None:
    with pytest.raises(AmqpRefusal) as refusal:
        check_headers_binding("", {"x-match": mode})
    assert (refusal.value.code, refusal.value.text) == (406, text)
