"""Classes made by `headrace.dataclass` behave as those of the standard library, but for being frozen at run time."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from headrace.dataclass import dataclass as ours

Maker = Callable[..., Any]


def classes(maker: Maker) -> dict[str, Any]:
    """The same classes by either decorator."""

    @maker(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2
        many: tuple[int, ...] = dataclasses.field(default=(), repr=False)
        note: str = dataclasses.field(default="", compare=False)
        kinds: ClassVar[int] = 3

    @maker(slots=True)
    class Counter:
        values: list[int] = dataclasses.field(default_factory=list)
        total: int = dataclasses.field(init=False, default=0)

        def __post_init__(self) -> None:
            self.total = sum(self.values)

    @maker(slots=True, eq=False)
    class Thing:
        name: str

    @maker
    class Empty:
        pass

    @maker(frozen=True, slots=True, kw_only=True)
    class Named:
        """With words of its own."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named) and self.name.lower() == other.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

        def __repr__(self) -> str:
            return f"<{self.name}>"

    @maker(frozen=True, slots=True)
    class Above:
        first: int

    @maker(frozen=True, slots=True)
    class Below(Above):
        second: int = 5

    made = (Point, Counter, Thing, Empty, Named, Above, Below)
    return {made_class.__name__: made_class for made_class in made}


def behaviour(maker: Maker) -> list[object]:
    made = classes(maker)
    point, counter, thing, empty, named, above, below = made.values()
    seen: list[object] = [
        [[field.name for field in dataclasses.fields(each)] for each in made.values()],
        point(1) == point(1, 2, (), "no matter"),
        point(1) == point(1, 3),
        point(1) != point(2),
        point(1) == 1,
        hash(point(1)) == hash(point(1, note="n")),
        len({point(1), point(1, 2), point(2)}),
        repr(point(1, many=(4,))).split("<locals>.")[-1],
        dataclasses.replace(point(1), y=9).y,
        dataclasses.asdict(point(1)),
        point.__match_args__,
        point.__slots__,
        point.kinds,
        counter([1, 2]).total,
        counter([1, 2]) == counter([1, 2]),
        counter.__hash__,
        thing("a") == thing("a"),
        hash(thing("a")) == hash(thing("a")),
        empty() == empty(),
        repr(empty()).split("<locals>.")[-1],
        named(name="A") == named(name="a"),
        len({named(name="A"), named(name="a")}),
        repr(named(name="A")),
        named.__doc__,
        above(1) == below(1),
        below(1) == below(1, 5),
        repr(below(1)).split("<locals>.")[-1],
        copy.copy(point(1)) == point(1),
    ]
    for broken in (lambda: point(), lambda: point(1, wrong=2), lambda: hash(counter()), lambda: named("A")):
        with pytest.raises(TypeError):
            broken()
    with pytest.raises(AttributeError):
        thing("a").other = 1
    return seen


def test_they_behave_as_those_of_the_standard_library() -> None:
    assert behaviour(ours) == behaviour(dataclasses.dataclass)


@ours(frozen=True, slots=True)
class Sent:
    text: str
    next: Sent | None = None


def test_they_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", Sent("b")))) == Sent("a", Sent("b"))


def test_one_that_holds_itself_can_be_shown() -> None:
    held: Any = Sent("a")
    held.next = held
    assert repr(held) == "Sent(text='a', next=...)"
