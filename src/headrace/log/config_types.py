"""How one named setting is described, read and checked: for topics (`log.topic_config`), servers (`broker.settings`).

A `ConfigDef` holds a name under Apache Kafka's spelling, a type, a default, a validator and a sentence of explanation.
`ConfigDef.parse` turns the text that a client or an operator gave into a value, or raises `InvalidConfig` with the text
that Kafka gives for the same mistake, because tools and people search for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from enum import IntEnum

from headrace.dataclass import dataclass
from headrace.log.errors import InvalidConfig

Value = bool | int | float | str | tuple[str, ...] | None

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class ConfigType(IntEnum):
    """The numbers are those of DescribeConfigs v3 and later (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


Validator = Callable[[str, Value], None]  # (name, value); raises InvalidConfig

_BOUNDS = {
    ConfigType.INT: (-(2**31), MAX_INT),
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.LONG: (-(2**63), MAX_LONG),
}
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")  # the length is bounded: int() of a long text is quadratic
_REAL = re.compile(r"([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[dDfF]?")
_COMMA = re.compile(r"\s*,\s*")


def invalid_value(name: str, value: object, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {why}")


@dataclass(frozen=True, slots=True)
class ConfigDef:
    name: str
    type: ConfigType
    default: Value
    doc: str
    validator: Validator | None = None

    def parse(self, text: str) -> Value:
        """The value that `text` means; raises InvalidConfig."""
        value = parse_type(self.name, self.type, text)
        if self.validator is not None:
            self.validator(self.name, value)
        return value


def parse_type(name: str, kind: ConfigType, text: str) -> Value:
    trimmed = text.strip()
    if kind is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise invalid_value(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if kind in _BOUNDS:
        low, high = _BOUNDS[kind]
        number = int(trimmed) if _WHOLE.fullmatch(trimmed) else None
        if number is None or not low <= number <= high:
            raise invalid_value(name, text, f"Not a number of type {kind.name}")
        return number
    if kind is ConfigType.DOUBLE:
        match = _REAL.fullmatch(trimmed) if len(trimmed) <= 64 else None
        real = float(match[1]) if match else math.nan
        if not math.isfinite(real):  # Kafka lets NaN pass every range check; here it is no number
            raise invalid_value(name, text, "Not a number of type DOUBLE")
        return real
    if kind is ConfigType.LIST:
        return tuple(_COMMA.split(trimmed)) if trimmed else ()
    return trimmed


def render(value: Value) -> str | None:
    """A value as DescribeConfigs shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return repr(value).replace("e+", "E").replace("e", "E")  # as Java writes it
    return None if value is None else str(value)


def at_least(low: int) -> Validator:
    return between(low, None)


def between(low: float, high: float | None) -> Validator:
    def check(name: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if value < low:
            raise invalid_value(name, value, f"Value must be at least {low}")
        if high is not None and value > high:
            raise invalid_value(name, value, f"Value must be no more than {high}")

    return check


def one_of(*allowed: str, case_sensitive: bool = True) -> Validator:
    def check(name: str, value: Value) -> None:
        assert isinstance(value, str)
        if (value if case_sensitive else value.lower()) not in allowed:
            raise invalid_value(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def list_of(*allowed: str, empty_allowed: bool = False) -> Validator:
    def check(name: str, value: Value) -> None:
        assert isinstance(value, tuple)
        if not value and not empty_allowed:
            raise InvalidConfig(f"Configuration '{name}' must not be empty. Valid values include: [{', '.join(allowed)}]")
        for item in value:
            if not item:
                raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
            if item not in allowed:
                raise invalid_value(name, item, f"String must be one of: {', '.join(allowed)}")

    return check


def unique(items: Sequence[str]) -> tuple[str, ...]:
    """The items in their order, each once: Kafka drops repeated list values (KIP-1161)."""
    return tuple(dict.fromkeys(items))
