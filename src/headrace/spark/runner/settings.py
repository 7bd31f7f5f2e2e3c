"""What a pipeline can be told: the keyword arguments of its function, with `--set name=value`.

`bootstrap`, `checkpoint` and `tables` are filled by the runner. The type of a setting is that of its default; one whose
default is None takes text.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.spark.runner.errors import BadSetting

FILLED = ("bootstrap", "checkpoint", "tables")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def own_settings(function: Callable[..., Any]) -> dict[str, Any]:
    """The settings that a person may change, with their defaults."""
    return {name: value for name, value in _keywords(function).items() if name not in FILLED}


def arguments(function: Callable[..., Any], filled: Mapping[str, str], given: Mapping[str, str]) -> dict[str, Any]:
    """The keyword arguments for a call: what the runner fills in, as far as the function takes it, and what was given."""
    known = _keywords(function)
    own = {name: value for name, value in known.items() if name not in FILLED}
    chosen: dict[str, Any] = {name: value for name, value in filled.items() if name in known}
    for name, text in given.items():
        if name in FILLED:
            raise BadSetting(f"'{name}' is filled by the runner: use --server, --data or --tables")
        if name not in own:
            raise BadSetting(f"this pipeline has no setting '{name}'; {_there_are(name, own)}")
        chosen[name] = _value(name, text, own[name])
    return chosen


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """`name=value` as on the command line."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise BadSetting(f"{option} takes name=value, not {text!r}")
        found[name.strip()] = value
    return found


def _keywords(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = list(inspect.signature(function).parameters.values())
    takes = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {
        one.name: None if one.default is inspect.Parameter.empty else one.default for one in parameters[1:] if one.kind in takes
    }


def _there_are(name: str, own: Mapping[str, Any]) -> str:
    if not own:
        return "it has none"
    close = difflib.get_close_matches(name, own, 1)
    return f"did you mean '{close[0]}'?" if close else f"it has {', '.join(own)}"


def _value(name: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, bool):
            return _boolean(text)
        if isinstance(default, int | float):
            return type(default)(text)
    except ValueError:
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(default)]
        raise BadSetting(f"setting '{name}' takes {kind}, such as {str(default).lower()}, not {text!r}") from None
    return text


def _boolean(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ValueError(text)
    return text.lower() in _TRUE
