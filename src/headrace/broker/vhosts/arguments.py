"""What the `x-` arguments of a queue may be. The texts are RabbitMQ's, with its Erlang terms in them.

Each type of queue knows some arguments; one that another type knows is refused, one that no type knows is accepted and has no
effect. The lists are those of RabbitMQ 4, and what 3.x classic queues took (`x-queue-mode`, `x-queue-master-locator`). Two
groups work for more types here than there: `x-consumer-timeout` and `x-delayed-retry-*`, for classic queues too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.broker.exchanges.values import type_name
from headrace.broker.queues.errors import AmqpRefusal, precondition_failed
from headrace.broker.queues.stream_arguments import interval_ms
from headrace.record.amqp.tables import Timestamp

Arguments = Mapping[str, object]
Check = Callable[[object, Arguments], str | None]  # what is wrong, as Erlang would print it

QUEUE_TYPES = ("classic", "quorum", "stream")
OVERFLOWS = ("drop-head", "reject-publish", "reject-publish-dlx")
DEAD_LETTER_STRATEGIES = ("at-most-once", "at-least-once")
RETRY_TYPES = ("disabled", "all", "failed", "returned")
LEADER_LOCATORS = ("client-local", "balanced", "random", "least-leaders")
MAX_PRIORITY = 255
MAX_EXPIRY_MS = 315_360_000_000  # ten years


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool | Timestamp)


def _integer(value: object, arguments: Arguments) -> str | None:
    return None if is_integer(value) else f'"expected integer, got {type_name(value)}"'


def _not_negative(value: object, arguments: Arguments) -> str | None:
    if isinstance(value, int) and is_integer(value):
        return f"{{value_negative,{value}}}" if value < 0 else None
    return _integer(value, arguments)


def _positive(value: object, arguments: Arguments) -> str | None:
    return _not_negative(value, arguments) or ("{value_zero,0}" if value == 0 else None)


def _time_to_live(value: object, arguments: Arguments) -> str | None:
    wrong = _not_negative(value, arguments)
    if wrong is None and isinstance(value, int) and value > MAX_EXPIRY_MS:
        return f"{{value_too_large,{value}}}"
    return wrong


def _expires(value: object, arguments: Arguments) -> str | None:
    return "{value_zero,0}" if is_integer(value) and value == 0 else _time_to_live(value, arguments)


def _max_priority(value: object, arguments: Arguments) -> str | None:
    wrong = _not_negative(value, arguments)
    if wrong is None and isinstance(value, int) and value > MAX_PRIORITY:
        return f"{{max_value_exceeded,{value}}}"
    return wrong


def _boolean(value: object, arguments: Arguments) -> str | None:
    return None if isinstance(value, bool) else _unacceptable(value)


def _unacceptable(value: object) -> str:
    return f"{{unacceptable_type,{type_name(value)}}}"


def _text(value: object, arguments: Arguments) -> str | None:
    return None if type_name(value) == "longstr" else _unacceptable(value)


def _one_of(choices: tuple[str, ...], wrong: str) -> Check:
    def check(value: object, arguments: Arguments) -> str | None:
        return _text(value, arguments) or (None if value in choices else wrong.replace("~", str(value)))

    return check


def _dead_letter_key(value: object, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    return wrong or (None if "x-dead-letter-exchange" in arguments else "routing_key_but_no_dlx_defined")


def _version(value: object, arguments: Arguments) -> str | None:
    wrong = _not_negative(value, arguments)
    return wrong or (None if value in (1, 2) else f"\"unsupported queue version '{value}'\"")


def _max_age(value: object, arguments: Arguments) -> str | None:
    if not isinstance(value, str):
        return _unacceptable(value)
    return None if interval_ms(value) is not None else "invalid_max_age"


_queue_type = _one_of(QUEUE_TYPES, "\"unsupported queue type '~'\"")

# In the order in which they are checked.
_CHECKS: Mapping[str, Check] = {
    "x-expires": _expires,
    "x-message-ttl": _time_to_live,
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-dead-letter-strategy": _one_of(DEAD_LETTER_STRATEGIES, "invalid_dlx_strategy"),
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    "x-max-priority": _max_priority,
    "x-overflow": _one_of(OVERFLOWS, "invalid_overflow"),
    "x-queue-mode": _one_of(("default", "lazy"), "\"unsupported queue mode '~'\""),
    "x-queue-version": _version,
    "x-single-active-consumer": _boolean,
    "x-consumer-timeout": _not_negative,
    "x-consumer-disconnected-timeout": _not_negative,
    "x-quorum-initial-group-size": _positive,
    "x-max-age": _max_age,
    "x-stream-max-segment-size-bytes": _not_negative,
    "x-stream-filter-size-bytes": _not_negative,
    "x-initial-cluster-size": _positive,
    "x-queue-leader-locator": _one_of(LEADER_LOCATORS, "invalid_queue_locator_arg"),
    "x-delayed-retry-type": _one_of(RETRY_TYPES, "invalid_delayed_retry_type"),
    "x-delayed-retry-min": _positive,
    "x-delayed-retry-max": _positive,
}

# What each type knows, in the order in which a second declaration is compared.
KNOWN: Mapping[str, tuple[str, ...]] = {
    "classic": (
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        "x-queue-type",
        "x-queue-master-locator",
        "x-queue-leader-locator",
        "x-consumer-timeout",
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
    ),
    "quorum": (
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-message-ttl",
        "x-queue-leader-locator",
        "x-consumer-disconnected-timeout",
        "x-consumer-timeout",
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
    ),
    "stream": (
        "x-max-length-bytes",
        "x-queue-type",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    ),
}
_ALL_KNOWN = frozenset(name for names in KNOWN.values() for name in names) - {"x-consumer-timeout"}


def queue_kind(arguments: Arguments, resource: str) -> str:
    """What type of queue these arguments ask for. `resource` names the queue in the refusal."""
    if "x-queue-type" not in arguments:
        return "classic"
    value = arguments["x-queue-type"]
    wrong = _queue_type(value, arguments)
    if wrong is not None:
        raise _invalid("x-queue-type", resource, wrong)
    return str(value)


def check_queue_arguments(arguments: Arguments, resource: str) -> str:
    """The type of queue that may be declared with these arguments; raises `AmqpRefusal` if none may."""
    if "x-dead-letter-exchange" in arguments:
        check_exchange_name(arguments, "x-dead-letter-exchange", resource)
    kind = queue_kind(arguments, resource)
    known = KNOWN[kind]
    for name, check in _CHECKS.items():
        if name in arguments and name in known:
            wrong = check(arguments[name], arguments)
            if wrong is not None:
                raise _invalid(name, resource, wrong)
    for name in arguments:
        if name in _ALL_KNOWN and name not in known:
            raise precondition_failed(f"invalid arg '{name}' for {resource} of queue type rabbit_{kind}_queue")
    return kind


def check_exchange_name(arguments: Arguments, key: str, resource: str) -> None:
    """Of an argument that names an exchange."""
    kind = type_name(arguments[key])
    if kind != "longstr":
        raise precondition_failed(f"invalid type '{kind}' for arg '{key}' in {resource}")


def check_queue_properties(kind: str, resource: str, *, durable: bool, exclusive: bool, auto_delete: bool) -> None:
    """Quorum queues and streams are there for what must not be lost."""
    if kind == "classic":
        return
    for wrong, name in ((auto_delete, "auto-delete"), (exclusive, "exclusive-owner"), (not durable, "non-durable")):
        if wrong:
            raise precondition_failed(f"invalid property '{name}' for {resource}")


def _invalid(name: str, resource: str, wrong: str) -> AmqpRefusal:
    return precondition_failed(f"invalid arg '{name}' for {resource}: {wrong}")
