"""The topic exchange: patterns of words, `*` for one word and `#` for any number of them, none included.

Patterns without a wildcard are found with one lookup of the whole key. The others stand in a trie of words, and a key
walks it with all its states at once, as one runs a finite automaton: a `#` is a state that stays as long as words come
and may be entered without one. So a key never costs more than its words times the states that are alive, whatever
patterns there are; trying the ways through `#.a.#.a.#` one after the other would be exponential.

The empty key has no words: `#` matches it, `*` does not. `.` has two words, both empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.broker.exchanges.matcher import Destinations, Headers, MessageProperties, Node, Sees, count, uncount


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


class _State:
    """A place in the trie, reached by the words of a pattern so far."""

    __slots__ = ("any_words", "destinations", "one_word", "stays", "words")

    def __init__(self, stays: bool = False) -> None:
        self.words: dict[str, _State] = {}
        self.one_word: _State | None = None
        self.any_words: _State | None = None
        self.stays = stays  # it stands behind a `#`
        self.destinations: Destinations = {}

    @property
    def is_empty(self) -> bool:
        return not (self.destinations or self.words or self.one_word or self.any_words)

    def next(self, word: str) -> _State | None:
        """One word of a pattern further."""
        if word == "*":
            return self.one_word
        return self.any_words if word == "#" else self.words.get(word)

    def grow(self, word: str) -> _State:
        state = self.next(word)
        if state is None:
            state = _State(stays=word == "#")
            if word == "*":
                self.one_word = state
            elif word == "#":
                self.any_words = state
            else:
                self.words[word] = state
        return state

    def prune(self, word: str) -> None:
        if word == "*":
            self.one_word = None
        elif word == "#":
            self.any_words = None
        else:
            del self.words[word]


class TopicMatcher:
    sees = Sees.KEY
    every_key = True

    def __init__(self) -> None:
        self._plain: dict[str, Destinations] = {}
        self._root = _State()

    def add(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        if self.only_key(key):
            count(self._plain.setdefault(key, {}), node)
            return
        state = self._root
        for word in words_of(key):
            state = state.grow(word)
        count(state.destinations, node)

    def remove(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        if self.only_key(key):
            destinations = self._plain[key]
            uncount(destinations, node)
            if not destinations:
                del self._plain[key]
            return
        path = [self._root]
        words = words_of(key)
        for word in words:
            state = path[-1].next(word)
            if state is None:
                raise KeyError(key)
            path.append(state)
        uncount(path[-1].destinations, node)
        while len(path) > 1 and path[-1].is_empty:
            path.pop()
            path[-1].prune(words[len(path) - 1])

    def only_key(self, key: str) -> bool:
        # A `*` inside of a word is no wildcard, but taking the way through the trie for it is not wrong.
        return "*" not in key and "#" not in key

    def match(self, key: str, headers: Headers, properties: MessageProperties) -> Collection[Node]:
        plain = self._plain.get(key)
        if self._root.is_empty:
            return plain or ()
        found = dict(plain) if plain else {}
        for state in self._walk(key):
            found.update(state.destinations)
        return found

    def _walk(self, key: str) -> Collection[_State]:
        """The states in which the last word leaves us."""
        alive = {self._root: None}
        _enter_any_words(alive, self._root)
        for word in words_of(key):
            following: dict[_State, None] = {}
            for state in alive:
                if state.stays:
                    following[state] = None
                after = state.words.get(word)
                if after is not None:
                    following[after] = None
                    if after.any_words is not None:
                        _enter_any_words(following, after)
                after = state.one_word
                if after is not None:
                    following[after] = None
                    if after.any_words is not None:
                        _enter_any_words(following, after)
            if not following:
                return ()
            alive = following
        return alive


def _enter_any_words(alive: dict[_State, None], state: _State) -> None:
    """The states that `#`, taken for no words, leads to from here."""
    while state.any_words is not None:
        state = state.any_words
        alive[state] = None
