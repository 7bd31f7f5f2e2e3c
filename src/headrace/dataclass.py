"""`dataclasses.dataclass` in a third of the time, for the 200 such classes that a server makes when it starts.

The standard library compiles every method of each class anew, half a millisecond in all: a tenth of a second of a start that
takes two. Here only `__init__` comes from there; `__eq__`, `__hash__` and `__repr__` are the same functions for all. To a type
checker it is the standard decorator.

What is frozen is so to the type checker alone: to guard it at run time as well would cost the time of two more methods for each
class, and of each field of every object. What users of the library get in their hands is made with the standard decorator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False, kw_only: bool = False
    ) -> Any:
        def make(cls: type) -> type:
            cls.__doc__ = cls.__doc__ or cls.__name__  # or the standard library would write one
            made = dataclasses.dataclass(repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            if "__repr__" not in made.__dict__:
                made.__repr__ = _repr
            if eq:
                _compare_by_value(made, hashable=frozen)
            return made

        return make if cls is None else make(cls)


def _compare_by_value(cls: Any, *, hashable: bool) -> None:
    own = cls.__dict__
    hashes = own.get("__hash__") is not None
    values = _values(tuple(each.name for each in dataclasses.fields(cls) if each.compare))
    if "__eq__" not in own:

        def equal(self: object, other: object) -> bool:
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        cls.__eq__ = equal
    if not hashes:
        cls.__hash__ = (lambda self: hash(values(self))) if hashable else None


def _values(names: tuple[str, ...]) -> Callable[[object], object]:
    return attrgetter(*names) if names else lambda owner: ()


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"
