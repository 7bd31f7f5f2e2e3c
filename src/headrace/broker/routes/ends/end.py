"""What every end of a route is: a frozen value with a `type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

Json = Mapping[str, object]


class End(Protocol):
    """A source or a destination. `of(given)`, a class method of each, reads it and raises InvalidRoute.

    One that makes something up, as a secret that nobody gave, or keeps what it had, also has

        def completed(self, before: End | None) -> End

    which is called once when a route is put, before it is stored, with the end whose place it takes (of whatever type; None for
    a new route). It may raise InvalidRoute."""

    kind: ClassVar[str]  # the member `type`

    def json(self) -> dict[str, object]:
        """All of it, secrets included, as it is stored: `of(json())` is equal to it."""
        ...

    def shown(self) -> dict[str, object]:
        """As people may see it: without secrets."""
        ...

    @property
    def label(self) -> str:
        """In a few words, for lists: `exchange orders`, `https://example.com/hook`."""
        ...
