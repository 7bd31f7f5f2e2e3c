"""What holds for a queue: its own arguments and the policies that apply to it, resolved as RabbitMQ resolves them.

Where both say something, the smaller number counts; for names and modes the argument does, except that a quorum queue's
overflow and retries, and all of a stream's limits, follow the policy.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.queues.settings import Overflow, QueueSettings, RetryOn
from headrace.broker.queues.stream_arguments import interval_ms
from headrace.broker.vhosts.arguments import Arguments, is_integer

DEFAULT_DELIVERY_LIMIT = 20  # of quorum queues, since RabbitMQ 4.0; a negative limit is none

Definition = Mapping[str, object]  # of a policy, or of a policy and an operator policy together


def queue_settings(kind: str, arguments: Arguments, policy: Definition) -> QueueSettings:
    number = _Numbers(arguments, policy)
    text = _Texts(arguments, policy)
    policy_first = kind != "classic"
    exchange = text("dead-letter-exchange")
    retry_on, retry_min_ms, retry_max_ms = _retries(number, text("delayed-retry-type", policy_first=policy_first))
    return QueueSettings(
        message_ttl_ms=number("message-ttl"),
        expires_ms=number("expires"),
        max_length=number("max-length"),
        max_length_bytes=_stream_bytes(arguments, policy) if kind == "stream" else number("max-length-bytes"),
        overflow=_overflow(kind, text("overflow", policy_first=policy_first)),
        dead_letter_exchange=exchange,
        dead_letter_routing_key=text("dead-letter-routing-key") if exchange is not None else None,
        max_priority=_integer(arguments.get("x-max-priority")) or 0,
        delivery_limit=_delivery_limit(arguments, policy) if kind == "quorum" else None,
        single_active_consumer=arguments.get("x-single-active-consumer") is True,
        consumer_timeout_ms=number("consumer-timeout"),
        retry_on=retry_on,
        retry_min_ms=retry_min_ms,
        retry_max_ms=retry_max_ms,
        max_age_ms=_max_age_ms(arguments, policy) if kind == "stream" else None,
    )


class _Numbers:
    """The smaller of what the argument and the policy say."""

    def __init__(self, arguments: Arguments, policy: Definition) -> None:
        self._arguments = arguments
        self._policy = policy

    def __call__(self, name: str) -> int | None:
        said = (_integer(self._arguments.get(f"x-{name}")), _integer(self._policy.get(name)))
        values = [value for value in said if value is not None and value >= 0]
        return min(values) if values else None


class _Texts:
    """What the argument says, or else the policy; the other way round with `policy_first`."""

    def __init__(self, arguments: Arguments, policy: Definition) -> None:
        self._arguments = arguments
        self._policy = policy

    def __call__(self, name: str, *, policy_first: bool = False) -> str | None:
        said = [self._arguments.get(f"x-{name}"), self._policy.get(name)]
        if policy_first:
            said.reverse()
        return next((value for value in said if isinstance(value, str)), None)


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, int) and is_integer(value) else None


def _overflow(kind: str, mode: str | None) -> Overflow:
    if mode is None or (kind == "quorum" and mode == Overflow.REJECT_PUBLISH_DLX):  # which quorum queues have not
        return Overflow.DROP_HEAD
    return Overflow(mode)


def _delivery_limit(arguments: Arguments, policy: Definition) -> int | None:
    said = (_integer(arguments.get("x-delivery-limit")), _integer(policy.get("delivery-limit")))
    limits = [limit for limit in said if limit is not None]
    if not limits:
        return DEFAULT_DELIVERY_LIMIT
    # A negative limit is no limit: the other one, if there is one, is the more careful.
    limit = max(limits) if min(limits) < 0 else min(limits)
    return limit if limit >= 0 else None


def _stream_bytes(arguments: Arguments, policy: Definition) -> int | None:
    said = _integer(policy.get("max-length-bytes"))
    return said if said is not None else _integer(arguments.get("x-max-length-bytes"))


def _max_age_ms(arguments: Arguments, policy: Definition) -> int | None:
    said = policy.get("max-age", arguments.get("x-max-age"))
    return interval_ms(said) if isinstance(said, str) else None


def _retries(number: _Numbers, mode: str | None) -> tuple[RetryOn, int, int]:
    """Without a shortest wait there is none; without a longest one it does not grow."""
    shortest = number("delayed-retry-min")
    if mode is None or mode == RetryOn.DISABLED or not shortest:
        defaults = QueueSettings()
        return RetryOn.DISABLED, defaults.retry_min_ms, defaults.retry_max_ms
    return RetryOn(mode), shortest, max(number("delayed-retry-max") or shortest, shortest)
