"""The levels of this process's loggers under the names Kafka's tools use (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from headrace.broker.audit import About, audited
from headrace.log.errors import InvalidConfig

ROOT = "root"

LEVELS: Mapping[str, int] = MappingProxyType(
    {
        "TRACE": 5,
        "DEBUG": logging.DEBUG,
        "INFO": logging.INFO,
        "WARN": logging.WARNING,
        "ERROR": logging.ERROR,
        "FATAL": logging.CRITICAL,
    }
)


def levels() -> dict[str, str]:
    """Every logger of this server, and the root, with the level in force."""
    found = {ROOT: _name(logging.getLogger().getEffectiveLevel())}
    for name in sorted(logging.root.manager.loggerDict):
        if name == "headrace" or name.startswith("headrace."):
            found[name] = _name(logging.getLogger(name).getEffectiveLevel())
    return found


def check_level(name: str, level: str | None) -> None:
    """Raises InvalidConfig unless this logger exists and may get this level; None gives it its parent's."""
    if level is not None and level not in LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )
    if name not in levels():
        raise InvalidConfig(f"Logger {name} does not exist!")


@audited("logger.set_level", lambda name, level: About(name, {"level": level}))
def set_level(name: str, level: str | None) -> None:
    """Raises InvalidConfig. Forgotten when the server ends."""
    check_level(name, level)
    logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])


def _name(number: int) -> str:
    named = [name for name, at_least in LEVELS.items() if number >= at_least]
    return named[-1] if named else "TRACE"
