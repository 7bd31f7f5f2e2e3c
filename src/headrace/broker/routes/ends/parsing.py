"""Reading members of a JSON object, with words for what is wrong: everything here raises InvalidRoute.

`where` is what stands before the member's name in those words, such as `destination.`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.broker.routes.ends.end import Json
from headrace.broker.routes.errors import InvalidRoute
from headrace.broker.topics import HIDDEN_PREFIX, check_name
from headrace.log.errors import InvalidName

MAX_SHORT_STRING = 255  # of AMQP, in bytes


def check_members(given: Json, known: Collection[str], where: str) -> None:
    """A member that is not known is refused, so that a misspelt one is not taken for its default."""
    unknown = [str(name) for name in given if name not in known]
    if unknown:
        raise InvalidRoute(f"{where}{unknown[0][:100]} is not known; there are: {', '.join(sorted(known))}")


def text(given: Json, member: str, where: str, default: str | None = None, *, max_bytes: int = MAX_SHORT_STRING) -> str:
    value = given.get(member, default)
    if not isinstance(value, str):
        raise InvalidRoute(f"{where}{member} must be a text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRoute(f"{where}{member} must be a text that can be written in UTF-8") from None
    if size > max_bytes:
        raise InvalidRoute(f"{where}{member} has more than {max_bytes} bytes")
    return value


def flag(given: Json, member: str, where: str, *, default: bool) -> bool:
    value = given.get(member, default)
    if not isinstance(value, bool):
        raise InvalidRoute(f"{where}{member} must be true or false")
    return value


def number(given: Json, member: str, where: str, default: float, *, least: float, most: float) -> float:
    value = given.get(member, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidRoute(f"{where}{member} must be a number from {least:g} to {most:g}")
    return float(value)


def integer(given: Json, member: str, where: str, default: int, *, least: int, most: int) -> int:
    value = given.get(member, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidRoute(f"{where}{member} must be a whole number from {least} to {most}")
    return value


def one_of(given: Json, member: str, where: str, choices: Collection[str], default: str | None = None) -> str:
    value = given.get(member, default)
    if not isinstance(value, str) or value not in choices:
        raise InvalidRoute(f"{where}{member} must be one of: {', '.join(choices)}")
    return value


def texts(given: Json, member: str, where: str, *, max_count: int = 100, max_bytes: int = MAX_SHORT_STRING) -> tuple[str, ...]:
    """A list of texts; none unless given."""
    value = given.get(member, ())
    if not isinstance(value, list | tuple) or len(value) > max_count:
        raise InvalidRoute(f"{where}{member} must be a list of at most {max_count} texts")
    return tuple(text({member: one}, member, where, max_bytes=max_bytes) for one in value)


def member_object(given: Json, member: str, where: str) -> Json:
    """An object; empty unless given."""
    value = given.get(member, {})
    if not isinstance(value, Mapping):
        raise InvalidRoute(f"{where}{member} must be an object")
    return value


def topic_name(given: Json, member: str, where: str) -> str:
    topic = given.get(member)
    if not isinstance(topic, str):
        raise InvalidRoute(f"{where}{member} must be the name of a topic")
    try:
        check_name(topic)
    except InvalidName as error:
        raise InvalidRoute(str(error)) from None
    if topic.startswith(HIDDEN_PREFIX):
        raise InvalidRoute(f"topics whose names begin with '{HIDDEN_PREFIX}' are the server's own")
    return topic
