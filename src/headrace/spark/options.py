"""Reading the options of a data source: names in any case, values as text, errors that name the option.

Spark hands options over with their names in lower case; errors and docs write them as Spark's Kafka connector does. What the
options mean is decided where they are used (`source/settings.py`, `sink/`, `connections.py`, `security.py`); this module knows
how a value is read and which names are left over at the end.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_TRUE, _FALSE = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0"})
_DURATION = re.compile(r"\s*(\d+)\s*(us|ms|s|m|min|h|d)?\s*")
_MILLISECONDS = {"us": 0.001, "ms": 1, None: 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class BadOption(ValueError):
    """An option that is missing, unknown, contradictory or of a wrong form. The text names it and says what is allowed."""


class Options:
    """Options by name; remembers which ones were asked for, so that the others can be refused."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {str(name).lower(): str(value) for name, value in given.items()}
        self._known: dict[str, str] = {}

    def text(self, name: str) -> str | None:
        self._known[name.lower()] = name
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def given(self, name: str) -> bool:
        return self.text(name) is not None

    def beginning_with(self, prefix: str) -> list[str]:
        """The names that were given and begin so."""
        return sorted(name for name in self._given if name.startswith(prefix.lower()))

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise BadOption(f"option {name} is '{value}': use true or false")

    def whole(self, name: str, *, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[+-]?\d+", value) or int(value) < least:
            raise BadOption(f"option {name} is '{value}': use a whole number, {least} or more")
        return int(value)

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        value = self.text(name)
        if value is None:
            return default
        allowed = list(allowed)
        for one in allowed:
            if value.lower() == one.lower():
                return one
        raise BadOption(f"option {name} is '{value}': use {' or '.join(allowed)}")

    def duration_s(self, name: str, default_s: float) -> float:
        """As Spark writes durations: 15m, 30s, 500ms; a bare number is milliseconds."""
        value = self.text(name)
        if value is None:
            return default_s
        found = _DURATION.fullmatch(value.lower())
        if found is None:
            raise BadOption(f"option {name} is '{value}': use a duration such as 500ms, 30s, 15m or 1h")
        return int(found[1]) * _MILLISECONDS[found[2]] / 1000

    def parsed_json(self, name: str) -> Any:
        value = self.text(name)
        if value is None:
            return None
        try:
            return json.loads(value)
        except ValueError as error:
            raise BadOption(f"option {name} is not JSON: {error}") from None

    def refuse_others(self, ignored: Iterable[str] = ()) -> None:
        """Raises for the first name that nobody has asked for."""
        ignored = {name.lower() for name in ignored}
        for name in sorted(self._given):
            if name not in self._known and name not in ignored:
                close = difflib.get_close_matches(name, [*self._known, *ignored], 1)
                meant = f"did you mean {self._known.get(close[0], close[0])}?" if close else "see docs/spark-source.md"
                raise BadOption(f"there is no option {name}; {meant}")
