"""Whether what is declared a second time is what is there already. The texts are RabbitMQ's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.broker.exchanges.values import printed, type_name
from headrace.broker.queues.errors import precondition_failed

_ABSENT = object()
_CLASSIC = (_ABSENT, "classic")
_INTEGERS = frozenset(
    ("byte", "short", "signedint", "long", "decimal", "unsignedbyte", "unsignedshort", "unsignedint"),
)
_FLOATS = frozenset(("float", "double"))


def check_field(name: str, resource: str, current: object, received: object) -> None:
    if current != received:
        raise precondition_failed(
            f"inequivalent arg '{name}' for {resource}: received {_bare(received)} but current is {_bare(current)}"
        )


def check_arguments(names: Iterable[str], resource: str, current: Mapping[str, object], received: Mapping[str, object]) -> None:
    """Only these arguments are compared; others may differ."""
    for name in names:
        old, new = current.get(name, _ABSENT), received.get(name, _ABSENT)
        if old is new or (name == "x-queue-type" and old in _CLASSIC and new in _CLASSIC):
            continue
        if old is _ABSENT or new is _ABSENT:
            raise precondition_failed(
                f"inequivalent arg '{name}' for {resource}: received {_typed(new)} but current is {_typed(old)}"
            )
        if _class(old) != _class(new) or old != new:
            raise precondition_failed(
                f"inequivalent arg '{name}' for {resource}: received {_bare(new)} but current is {_bare(old)}"
            )


def _class(value: object) -> str:
    """Numbers of different widths are the same if their values are."""
    name = type_name(value)
    return "int" if name in _INTEGERS else "float" if name in _FLOATS else name


def _typed(value: object) -> str:
    return "none" if value is _ABSENT else f"the value {_bare(value)} of type '{type_name(value)}'"


def _bare(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    return f"'{value if isinstance(value, str) else printed(value)}'"
