"""The headers exchange: arguments of the binding against headers of the message.

A binding is a set of conditions: a header with this value, or, if the argument has no value, a header of this name.
`x-match` says whether all of them must hold (the default) or any; arguments that start with `x-` are no conditions
unless it is `all-with-x` or `any-with-x`. Without conditions `all` always matches and `any` never.

Bindings with the same conditions are one rule. A rule for all conditions is filed under one of them, the one with the
fewest rules so far; a rule for any is filed under each. A message makes a set of facts from its headers and only looks
at the rules filed under these.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from headrace.broker.exchanges.matcher import Destinations, Headers, MessageProperties, Node, Sees, count, uncount
from headrace.broker.exchanges.values import comparable, printed, type_name
from headrace.broker.queues.errors import precondition_failed

Fact = tuple[str, Hashable]
_PRESENT = object()

_MODES = {"all": (False, False), "any": (True, False), "all-with-x": (False, True), "any-with-x": (True, True)}


class _Rule:
    __slots__ = ("any", "conditions", "destinations", "filed")

    def __init__(self, any_of: bool, conditions: frozenset[Fact]) -> None:
        self.any = any_of
        self.conditions = conditions
        self.filed: Collection[Fact] = ()
        self.destinations: Destinations = {}


class HeadersMatcher:
    sees = Sees.HEADERS
    every_key = False

    def __init__(self) -> None:
        self._rules: dict[tuple[bool, frozenset[Fact]], _Rule] = {}
        self._under: dict[Fact, dict[_Rule, None]] = {}
        self._always: Destinations = {}

    def add(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        any_of, conditions = conditions_of(arguments)
        if not conditions:
            if not any_of:
                count(self._always, node)
            return
        rule = self._rules.get((any_of, conditions))
        if rule is None:
            rule = self._rules[any_of, conditions] = _Rule(any_of, conditions)
            self._file(rule)
        count(rule.destinations, node)

    def remove(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        any_of, conditions = conditions_of(arguments)
        if not conditions:
            if not any_of:
                uncount(self._always, node)
            return
        rule = self._rules[any_of, conditions]
        uncount(rule.destinations, node)
        if not rule.destinations:
            del self._rules[any_of, conditions]
            for fact in rule.filed:
                rules = self._under[fact]
                del rules[rule]
                if not rules:
                    del self._under[fact]

    def only_key(self, key: str) -> bool:
        return False

    def match(self, key: str, headers: Headers, properties: MessageProperties) -> Collection[Node]:
        if not self._rules:
            return self._always
        facts: set[Fact] = set()
        for name, value in headers().items():
            facts.add((name, comparable(value)))
            facts.add((name, _PRESENT))
        found = dict(self._always)
        for fact in self._under.keys() & facts:
            for rule in self._under[fact]:
                if rule.any or rule.conditions <= facts:
                    found.update(rule.destinations)
        return found

    def _file(self, rule: _Rule) -> None:
        if rule.any:
            rule.filed = rule.conditions
        else:
            rule.filed = (min(rule.conditions, key=lambda fact: len(self._under.get(fact, ()))),)
        for fact in rule.filed:
            self._under.setdefault(fact, {})[rule] = None


def conditions_of(arguments: Mapping[str, object]) -> tuple[bool, frozenset[Fact]]:
    """Whether any of them suffices, and the conditions."""
    any_of, with_x = _MODES.get(str(arguments.get("x-match")), (False, False))
    return any_of, frozenset(
        (name, _PRESENT if value is None else comparable(value))
        for name, value in arguments.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    )


def check_headers_binding(key: str, arguments: Mapping[str, object]) -> None:
    if "x-match" not in arguments:
        return
    mode = arguments["x-match"]
    if type_name(mode) != "longstr":
        kind, value = type_name(mode), printed(mode)
        raise precondition_failed(f"Invalid x-match field type {kind} (value {value}); expected longstr")
    if mode not in _MODES:
        raise precondition_failed(f"Invalid x-match field value {printed(mode)}; expected all, any, all-with-x, or any-with-x")
