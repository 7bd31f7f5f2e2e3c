"""Whether a topic name matches a regular expression, in time that grows with the name and never explodes.

The tree that `pattern_syntax` reads becomes a program: characters to take, forks, edges, and the end. All ways through it are
walked at once (Thompson's construction), so nothing is tried twice and there is no backtracking. Sets of places that were
reached once are remembered with where each character leads from them: a deterministic automaton that grows as it is used.

Bounds: MAX_PROGRAM places for a pattern, MAX_REMEMBERED places in remembered moves (then they are forgotten, and found
again). `step` says what it cost, so that whoever matches many names can make a pause and can give up.
"""

from __future__ import annotations

from dataclasses import field

from headrace.broker.groups.consumer.character_sets import WORD
from headrace.broker.groups.consumer.pattern_syntax import (
    At,
    Chars,
    Choice,
    Edge,
    InvalidPattern,
    Node,
    Repeat,
    Sequence,
    parse,
)
from headrace.dataclass import dataclass

MAX_PROGRAM = 4000
MAX_REMEMBERED = 50_000

_END_OF_TEXT = -1

Places = frozenset[int]


@dataclass(frozen=True, slots=True)
class State:
    """Where the walk may be, before forks and edges are followed, and what the last character was."""

    places: Places
    at_begin: bool
    after_word: bool


@dataclass(slots=True)
class _Place:
    """One instruction: takes a character of `bits`, or passes an edge, or forks; at most one of the three."""

    bits: int = 0
    edge: Edge | None = None
    targets: list[int] = field(default_factory=list)


class Automaton:
    """A compiled pattern. Raises InvalidPattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._places: list[_Place] = []
        self._compiled = 0
        self._final = self._new(_Place())
        first = self._compile(parse(pattern), self._final)
        self._moves: dict[tuple[State, int], State | None] = {}
        self._remembered = 0
        self.start = State(frozenset((first,)), at_begin=True, after_word=False)

    def matches(self, name: str) -> bool:
        state: State | None = self.start
        for char in name:
            assert state is not None
            state, _ = self.step(state, ord(char))
            if state is None:
                return False
        assert state is not None
        return self.accepts(state)

    def step(self, state: State, code: int) -> tuple[State | None, int]:
        """Where a character leads to (None: nowhere), and how many places were looked at for it."""
        key = (state, code)
        if key in self._moves:
            return self._moves[key], 1
        reached = self._reached(state, code)
        taken = frozenset(
            target
            for place in reached
            if code < 128 and self._places[place].bits >> code & 1
            for target in self._places[place].targets
        )
        after = State(taken, at_begin=False, after_word=_is_word(code)) if taken else None
        self._remembered += len(taken) + 1
        if self._remembered > MAX_REMEMBERED:
            self._moves.clear()
            self._remembered = len(taken) + 1
        self._moves[key] = after
        return after, len(reached) + 1

    def accepts(self, state: State) -> bool:
        """Whether the whole name matches when it ends here."""
        return self._final in self._reached(state, _END_OF_TEXT)

    def _reached(self, state: State, next_code: int) -> set[int]:
        """All places that forks and edges lead to, with this character, or the end, ahead."""
        reached: set[int] = set()
        todo = list(state.places)
        while todo:
            number = todo.pop()
            if number in reached:
                continue
            reached.add(number)
            place = self._places[number]
            if not place.bits and (place.edge is None or _passes(place.edge, state, next_code)):
                todo.extend(place.targets)
        return reached

    def _new(self, place: _Place) -> int:
        if len(self._places) >= MAX_PROGRAM:
            raise InvalidPattern("expression is too large")
        self._places.append(place)
        return len(self._places) - 1

    def _compile(self, node: Node, then: int) -> int:
        """The place where `node` begins, if what comes after it is at `then`."""
        self._compiled += 1
        if self._compiled > MAX_PROGRAM:  # nothing repeated a million times is no place, but work
            raise InvalidPattern("expression is too large")
        match node:
            case Chars(bits):
                # A set without ASCII characters is a dead end: nothing leads on from it.
                return self._new(_Place(bits=bits, targets=[then] if bits else []))
            case At(edge):
                return self._new(_Place(edge=edge, targets=[then]))
            case Sequence(items):
                for item in reversed(items):
                    then = self._compile(item, then)
                return then
            case Choice(items):
                return self._new(_Place(targets=[self._compile(item, then) for item in items]))
            case Repeat():
                return self._repeat(node, then)

    def _repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._new(_Place())
            self._places[loop].targets = [self._compile(node.item, loop), then]
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._new(_Place(targets=[self._compile(node.item, then), end]))
        for _ in range(node.least):
            then = self._compile(node.item, then)
        return then


def _is_word(code: int) -> bool:
    return 0 <= code < 128 and bool(WORD >> code & 1)


def _passes(edge: Edge, state: State, next_code: int) -> bool:
    if edge is Edge.BEGIN:
        return state.at_begin
    if edge is Edge.END:
        return next_code == _END_OF_TEXT
    return (state.after_word != _is_word(next_code)) is (edge is Edge.WORD)
