"""Reads a regular expression in RE2's syntax, as RE2J 1.8 does for Kafka, into a tree of a few kinds of node.

Topic names are ASCII (letters, digits, `.`, `_`, `-`), so a set of characters is a number with one bit for each of the 128
codes; what lies beyond ASCII is read, checked and matches nothing. Who captures what, and whether a repetition is lazy, does
not matter to whether a whole name matches, so the tree does not tell. Line ends are the text's ends, for names have no lines.

The names of errors are RE2J's, since Kafka passes them on to the client. Two are ours: too deep, and (in `automaton`) too
large.
"""

from __future__ import annotations

from enum import Enum, auto

from headrace.broker.groups.consumer.character_sets import (
    ASCII,
    OUTSIDE_FOLDS,
    PERL,
    POSIX,
    bits_of_range,
    folded,
    unicode_class,
)
from headrace.dataclass import dataclass

MAX_DEPTH = 100  # of groups within groups
MAX_REPEAT = 1000  # RE2's

_LAST_RUNE = 0x10FFFF


class InvalidPattern(ValueError):
    """Not a regular expression that RE2 understands; the text says why."""


class Edge(Enum):
    BEGIN = auto()
    END = auto()
    WORD = auto()  # between a word character and another
    NO_WORD = auto()


@dataclass(frozen=True, slots=True)
class Chars:
    bits: int


@dataclass(frozen=True, slots=True)
class At:
    edge: Edge


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    item: Node
    least: int
    most: int | None


Node = Chars | At | Sequence | Choice | Repeat


_ESCAPES = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_SPECIAL: dict[str, Node] = {"^": At(Edge.BEGIN), "$": At(Edge.END), ".": Chars(ASCII & ~(1 << 10))}


def parse(pattern: str) -> Node:
    """Raises InvalidPattern."""
    return _Parser(pattern).parse()


@dataclass(slots=True)
class _Group:
    """An open parenthesis: the choices before the last bar, what came since, and the flags to go back to."""

    choices: list[Node]
    items: list[Node]
    folds_outside: bool

    def node(self) -> Node:
        last = Sequence(tuple(self.items))
        return Choice((*self.choices, last)) if self.choices else last


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._folds = False
        self._names: set[str] = set()
        self._groups = [_Group([], [], False)]

    def parse(self) -> Node:
        after_repeat = False
        while self._more:
            char = self._text[self._at]
            repeats = char in "*+?{"
            if repeats:
                self._repeat(after_repeat)
            elif char == "(":
                self._open()
            elif char == ")":
                self._close()
            elif char == "|":
                self._at += 1
                group = self._groups[-1]
                group.choices.append(Sequence(tuple(group.items)))
                group.items = []
            elif char == "[":
                self._push(Chars(self._class()))
            elif char == "\\":
                self._escape()
            else:
                self._at += 1
                self._push(_SPECIAL.get(char) or self._literal(char))
            after_repeat = repeats
        if len(self._groups) > 1:
            raise InvalidPattern("missing closing )")
        return self._groups[0].node()

    @property
    def _more(self) -> bool:
        return self._at < len(self._text)

    def _pop(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _looking_at(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _push(self, node: Node) -> None:
        self._groups[-1].items.append(node)

    def _literal(self, char: str) -> Chars:
        return Chars(self._range(ord(char), ord(char)))

    def _range(self, lo: int, hi: int) -> int:
        bits = bits_of_range(lo, hi)
        if not self._folds:
            return bits
        for outside, inside in OUTSIDE_FOLDS.items():
            if lo <= outside <= hi:
                bits |= inside
        return folded(bits)

    def _named(self, bits: int, *, negated: bool) -> int:
        bits = folded(bits) if self._folds else bits
        return ASCII & ~bits if negated else bits

    # -- groups

    def _open(self) -> None:
        if len(self._groups) > MAX_DEPTH:
            raise InvalidPattern("expression nests too deeply")
        if not self._looking_at("(?"):
            self._at += 1
            self._groups.append(_Group([], [], self._folds))
        elif self._looking_at("(?P<") or self._looking_at("(?<"):
            begin = self._at + (4 if self._text[self._at + 2] == "P" else 3)
            end = self._text.find(">", begin)
            name = self._text[begin:end]
            if end < 0 or not name or not all(char == "_" or (char.isascii() and char.isalnum()) for char in name):
                raise InvalidPattern("invalid named capture")
            if name in self._names:
                raise InvalidPattern("duplicate capture group name")
            self._names.add(name)
            self._at = end + 1
            self._groups.append(_Group([], [], self._folds))
        else:
            self._flags()

    def _flags(self) -> None:
        """`(?i)`, `(?i:`, `(?-s:` …: only i makes a difference to names."""
        self._at += 2
        folds, sets, saw_flag = self._folds, True, False
        while self._more:
            char = self._pop()
            if char in "imsU":
                saw_flag = True
                if char == "i":
                    folds = sets
            elif char == "-" and sets:
                sets, saw_flag = False, False
            elif char in "):" and (sets or saw_flag):
                if char == ":":
                    self._groups.append(_Group([], [], self._folds))
                self._folds = folds
                return
            else:
                break
        raise InvalidPattern("invalid or unsupported Perl syntax")

    def _close(self) -> None:
        self._at += 1
        if len(self._groups) == 1:
            raise InvalidPattern("unexpected )")
        group = self._groups.pop()
        self._folds = group.folds_outside
        self._push(group.node())

    # -- repetition

    def _repeat(self, after_repeat: bool) -> None:
        """A brace that is no repetition is a character; RE2J takes what follows it for nested all the same."""
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._text[self._at], (-1, None))
        if least >= 0:
            self._at += 1
        else:
            counts = self._counts()
            if counts is None:
                self._push(self._literal(self._pop()))
                return
            least, most = counts
        if self._looking_at("?"):
            self._at += 1
        if after_repeat:
            raise InvalidPattern("invalid nested repetition operator")
        items = self._groups[-1].items
        if not items:
            raise InvalidPattern("missing argument to repetition operator")
        items[-1] = Repeat(items[-1], least, most)

    def _counts(self) -> tuple[int, int | None] | None:
        """What `{n}`, `{n,}` or `{n,m}` says; None when it is none of them."""
        end = self._text.find("}", self._at)
        body = self._text[self._at + 1 : end]
        least, comma, most = body.partition(",")
        if end < 0 or not _is_count(least) or (comma and most and not _is_count(most)):
            return None
        self._at = end + 1
        # A number too long to be read is too large as well.
        low = int(least[:9])
        high = None if comma and not most else int((most if comma else least)[:9])
        if low > MAX_REPEAT or (high is not None and (high > MAX_REPEAT or low > high)):
            raise InvalidPattern("invalid repeat count")
        return low, high

    # -- escapes and classes

    def _escape(self) -> None:
        follows = self._text[self._at + 1 : self._at + 2]
        edge = {"A": Edge.BEGIN, "z": Edge.END, "b": Edge.WORD, "B": Edge.NO_WORD}.get(follows)
        if edge is not None:
            self._at += 2
            self._push(At(edge))
        elif follows == "C":
            raise InvalidPattern("invalid escape sequence")
        elif follows == "Q":
            quoted, _, _ = self._text[self._at + 2 :].partition("\\E")
            self._at += 4 + len(quoted)
            for char in quoted:
                self._push(self._literal(char))
        else:
            named = self._escaped_class()
            if named is None:
                code = self._escaped_code()
                named = self._range(code, code)
            self._push(Chars(named))

    def _escaped_class(self) -> int | None:
        """`\\d`, `\\pL`, `\\p{Greek}` and their opposites."""
        follows = self._text[self._at + 1 : self._at + 2]
        if follows and follows.lower() in PERL:
            self._at += 2
            return self._named(PERL[follows.lower()], negated=follows.isupper())
        if follows not in ("p", "P"):
            return None
        self._at += 2
        name = self._pop() if self._more else ""
        if name == "{":
            end = self._text.find("}", self._at)
            name = self._text[self._at : end] if end >= 0 else ""
            self._at = end + 1
        negated = (follows == "P") is not name.startswith("^")
        bits = unicode_class(name.removeprefix("^"))
        if bits is None:
            raise InvalidPattern("invalid character class range")
        return self._named(bits, negated=negated)

    def _escaped_code(self) -> int:
        self._at += 1
        if not self._more:
            raise InvalidPattern("trailing backslash at end of expression")
        char = self._pop()
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in "01234567" and (char == "0" or (self._more and self._text[self._at] in "01234567")):
            digits = char
            while len(digits) < 3 and self._more and self._text[self._at] in "01234567":
                digits += self._pop()
            return int(digits, 8)
        if char == "x":
            code = self._hexadecimal()
            if code is not None:
                return code
        elif not (char.isascii() and char.isalnum()):
            return ord(char)
        raise InvalidPattern("invalid escape sequence")

    def _hexadecimal(self) -> int | None:
        if self._looking_at("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at + 1 : end].lstrip("0") if end > self._at + 1 else None
            self._at = end + 1
            digits = "0" if digits == "" else digits
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            digits = digits if len(digits) == 2 else None
        if digits is None or len(digits) > 6 or any(char not in "0123456789abcdefABCDEF" for char in digits):
            return None
        code = int(digits, 16)
        return code if code <= _LAST_RUNE else None

    def _class(self) -> int:
        self._at += 1
        negated = self._looking_at("^")
        self._at += negated
        bits, first = 0, True
        while first or not self._looking_at("]"):
            if not self._more:
                raise InvalidPattern("missing closing ]")
            first = False
            posix = self._posix_class()
            named = self._escaped_class() if posix is None and self._looking_at("\\") else posix
            bits |= self._class_range() if named is None else named
        self._at += 1
        return ASCII & ~bits if negated else bits

    def _posix_class(self) -> int | None:
        """`[:alpha:]`, `[:^alpha:]`"""
        end = self._text.find(":]", self._at + 2) if self._looking_at("[:") else -1
        if end < 0:
            return None
        name = self._text[self._at + 2 : end]
        bits = POSIX.get(name.removeprefix("^"))
        if bits is None:
            raise InvalidPattern("invalid character class range")
        self._at = end + 2
        return self._named(bits, negated=name.startswith("^"))

    def _class_range(self) -> int:
        lo = hi = self._class_code()
        if self._looking_at("-") and not self._looking_at("-]"):
            self._at += 1
            hi = self._class_code()
            if hi < lo:
                raise InvalidPattern("invalid character class range")
        return self._range(lo, hi)

    def _class_code(self) -> int:
        if not self._more:
            raise InvalidPattern("missing closing ]")
        return self._escaped_code() if self._looking_at("\\") else ord(self._pop())


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and (len(text) == 1 or text[0] != "0")
