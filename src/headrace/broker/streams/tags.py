"""Tags of streams and consumers: texts under texts, at most fifty of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.broker.streams.errors import InvalidArgument, LimitExceeded

MAX_TAGS = 50
MAX_KEY_LENGTH = 128
MAX_VALUE_LENGTH = 256


def with_tags(tags: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Raises InvalidArgument, LimitExceeded."""
    for key, value in more.items():
        if not 0 < len(key) <= MAX_KEY_LENGTH or len(value) > MAX_VALUE_LENGTH:
            raise InvalidArgument(
                f"A tag has a key of 1 to {MAX_KEY_LENGTH} characters and a value of at most {MAX_VALUE_LENGTH}."
            )
    after = {**tags, **more}
    if len(after) > MAX_TAGS:
        raise LimitExceeded(f"A resource can have at most {MAX_TAGS} tags, and this would be {len(after)}.")
    return after


def without_tags(tags: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    gone = frozenset(keys)
    return {key: value for key, value in tags.items() if key not in gone}
