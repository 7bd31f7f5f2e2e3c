"""The names of topics in their order, for lists that are asked for again and again: a part of ten thousand costs no more than a
part of ten.

They are sorted once, when somebody first asks; then each topic that comes or goes moves one name. What was made behind our back
(a table of the server's own) changes how many topics there are, and then they are sorted anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.log.port import Log


class TopicNames:
    """Of the topics that clients may see: those that do not begin with `hidden`."""

    def __init__(self, log: Log, hidden: str) -> None:
        self._log = log
        self._hidden = hidden
        self._names: list[str] | None = None
        self._counted = 0  # topics, the hidden ones among them, when the names were right

    def in_order(self) -> Sequence[str]:
        """As they are now; the next topic that comes or goes changes this very list."""
        topics = self._log.topics()
        if self._names is None or len(topics) != self._counted:
            self._names = sorted(name for name in topics if not name.startswith(self._hidden))
            self._counted = len(topics)
        return self._names

    def came(self, name: str) -> None:
        if self._names is not None and not name.startswith(self._hidden):
            at = bisect_left(self._names, name)
            if self._names[at : at + 1] != [name]:
                self._names.insert(at, name)
                self._counted += 1

    def went(self, name: str) -> None:
        if self._names is not None:
            at = bisect_left(self._names, name)
            if self._names[at : at + 1] == [name]:
                del self._names[at]
                self._counted -= 1
