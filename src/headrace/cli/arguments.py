"""Reading the values of options that several commands take: positions, `name=value`, `topic:partitions`."""

from __future__ import annotations

import time
from collections.abc import Iterable

from headrace.cli.escapes import BadEscape, unescape
from headrace.cli.moments import FORMS, NotATime, moment_ms
from headrace.cli.positions import NotAPosition, Position, parse_position
from headrace.cli.session import UsageError


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def position(text: str, option: str) -> Position:
    try:
        return parse_position(text, now_ms())
    except NotAPosition as error:
        raise UsageError(f"{option}: {error}") from None


def moment(text: str, option: str) -> int:
    try:
        found = moment_ms(text, now_ms())
    except NotATime as error:
        raise UsageError(f"{option}: {error}") from None
    if found is None:
        raise UsageError(f"{option}: {text!r} is not a time: use {FORMS}")
    return found


def delimiter(text: str, option: str) -> bytes:
    try:
        return unescape(text)
    except BadEscape as error:
        raise UsageError(f"{option}: {error}") from None


def settings(given: Iterable[str]) -> dict[str, str]:
    """`retention.ms=60000 cleanup.policy=compact`"""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--config: {text!r} is not a setting: use name=value")
        found[name.strip()] = value
    return found


def topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """`orders` is all of a topic, `orders:0,2` some of its partitions, as in Kafka's own tools."""
    topic, colon, numbers = text.partition(":")
    if not topic:
        raise UsageError(f"--topic: {text!r} has no topic name")
    if not colon:
        return topic, None
    try:
        return topic, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise UsageError(f"--topic: {text!r} is not a topic with partitions: use orders:0,2") from None
