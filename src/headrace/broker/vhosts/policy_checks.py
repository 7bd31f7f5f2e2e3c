"""What a policy may say. The texts are RabbitMQ's, which its management API shows.

Settings of features that have no meaning on one node (mirroring, placement, federation) are accepted and have no effect, so
that policies of a RabbitMQ cluster can be taken over as they are. A setting that nobody knows is refused.

Patterns come from administrators; they are at most `MAX_PATTERN` characters, and the names they are tried on 255.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from headrace.broker.exchanges.values import printed
from headrace.broker.queues.stream_arguments import interval_ms
from headrace.broker.vhosts.arguments import (
    DEAD_LETTER_STRATEGIES,
    LEADER_LOCATORS,
    OVERFLOWS,
    RETRY_TYPES,
    is_integer,
)
from headrace.broker.vhosts.policies import Policy

APPLY_TO = ("queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all")
MAX_PATTERN = 1024

Valid = Callable[[object], bool]


class InvalidPolicy(ValueError):
    """The text says what is wrong with it."""


def _at_least(lowest: int) -> Valid:
    return lambda value: isinstance(value, int) and is_integer(value) and value >= lowest


def _between(lowest: int, highest: int) -> Valid:
    return lambda value: isinstance(value, int) and is_integer(value) and lowest <= value <= highest


def _one_of(*choices: object) -> Valid:
    return lambda value: not isinstance(value, bool) and value in choices


def _text(value: object) -> bool:
    return isinstance(value, str)


def _anything(value: object) -> bool:
    return True


_SETTINGS: Mapping[str, tuple[Valid, str]] = {
    "alternate-exchange": (_text, "alternate exchange name"),
    "consumer-disconnected-timeout": (_at_least(0), "consumer disconnected timeout"),
    "consumer-timeout": (_at_least(0), "consumer timeout"),
    "dead-letter-exchange": (_text, "dead letter exchange name"),
    "dead-letter-routing-key": (_text, "dead letter routing key"),
    "dead-letter-strategy": (_one_of(*DEAD_LETTER_STRATEGIES), "dead letter strategy"),
    "message-ttl": (_at_least(0), "message TTL"),
    "expires": (_at_least(1), "queue expiry"),
    "max-length": (_at_least(0), "maximum length"),
    "max-length-bytes": (_at_least(0), "maximum length in bytes"),
    "max-in-memory-length": (_at_least(0), "maximum memory in bytes"),
    "max-in-memory-bytes": (_at_least(0), "maximum memory in bytes"),
    "queue-mode": (_one_of("default", "lazy"), "queue-mode value"),
    "queue-version": (_one_of(1, 2), "queue-version value"),
    "overflow": (_one_of(*OVERFLOWS), "overflow value"),
    "delivery-limit": (is_integer, "delivery limit"),
    "max-age": (lambda value: isinstance(value, str) and interval_ms(value) is not None, "max age"),
    "queue-leader-locator": (_one_of(*LEADER_LOCATORS), "queue leader locator value"),
    "initial-cluster-size": (_at_least(0), "cluster size"),
    "stream-max-segment-size-bytes": (_between(0, 3_000_000_000), "segment size"),
    "stream-filter-size-bytes": (_between(16, 255), "filter size. Valid range is 16-255"),
    "target-group-size": (_at_least(1), "qq target count value"),
    "delayed-retry-type": (_one_of(*RETRY_TYPES), "delayed retry type. Must be one of: all, failed, returned, disabled"),
    "delayed-retry-min": (_at_least(1), "delayed retry minimum delay. Must be a positive integer"),
    "delayed-retry-max": (_at_least(1), "delayed retry maximum delay. Must be a positive integer"),
}
_WITHOUT_EFFECT = frozenset(
    (
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
        "ha-sync-batch-size",
        "ha-promote-on-shutdown",
        "ha-promote-on-failure",
        "queue-master-locator",
        "member-placement-tag",
        "federation-upstream",
        "federation-upstream-set",
        "federation-upstream-pattern",
    )
)
_FOR_OPERATORS = frozenset(
    (
        "expires",
        "message-ttl",
        "max-length",
        "max-length-bytes",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "delivery-limit",
        "queue-version",
        "overflow",
        "target-group-size",
        "delayed-retry-type",
        "delayed-retry-min",
        "delayed-retry-max",
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
    )
)


def checked_policy(
    name: str,
    vhost: str,
    pattern: object,
    definition: object,
    priority: object = 0,
    apply_to: object = "all",
    *,
    operator: bool = False,
) -> Policy:
    """The policy, or `InvalidPolicy`."""
    if not isinstance(priority, int) or not is_integer(priority):
        raise InvalidPolicy(f"priority should be a number, actually was {printed(priority)}")
    if apply_to not in APPLY_TO:
        choices = "should be one of: 'queues', 'classic_queues', 'quorum_queues', 'streams', 'exchanges', or 'all'"
        raise InvalidPolicy(f"apply-to '{apply_to}' unrecognised; {choices}")
    checked_pattern = check_pattern("pattern", pattern)
    return Policy(name, vhost, checked_pattern, _checked(definition, operator), priority, str(apply_to), operator)


def check_pattern(name: str, pattern: object) -> str:
    if not isinstance(pattern, str):
        raise InvalidPolicy(f"{name} should be a binary but was {printed(pattern)}")
    if len(pattern) > MAX_PATTERN:
        raise InvalidPolicy(f"{name} must not exceed {MAX_PATTERN} bytes")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidPolicy(f"{name} should be regular expression but is invalid: {error}") from None
    return pattern


def _checked(definition: object, operator: bool) -> Mapping[str, object]:
    if not isinstance(definition, Mapping):
        raise InvalidPolicy(f"definition must be a dictionary: {definition}")
    if not definition:
        raise InvalidPolicy("no policy provided")
    for name, value in definition.items():
        known = name in _SETTINGS or name in _WITHOUT_EFFECT
        if not known or (operator and name not in _FOR_OPERATORS):
            raise InvalidPolicy(f"[{{{printed(name)},{printed(value)}}}] are not recognised policy settings")
        valid, what = _SETTINGS.get(name, (_anything, ""))
        if not valid(value):
            raise InvalidPolicy(f"{printed(value)} is not a valid {what}")
    _check_retries(definition)
    return dict(definition)


def _check_retries(definition: Mapping[str, object]) -> None:
    mode = definition.get("delayed-retry-type", "disabled")
    shortest, longest = definition.get("delayed-retry-min"), definition.get("delayed-retry-max")
    if mode != "disabled" and shortest is None:
        raise InvalidPolicy(f"delayed-retry-min is required when delayed-retry-type is {mode}")
    if isinstance(shortest, int) and isinstance(longest, int) and longest < shortest:
        raise InvalidPolicy(f"delayed-retry-max ({longest}) must not be smaller than delayed-retry-min ({shortest})")
