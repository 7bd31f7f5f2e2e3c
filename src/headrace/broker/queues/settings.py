"""What a queue was told: its `x-` arguments and the policies that apply to it, as values."""

from __future__ import annotations

from enum import StrEnum

from headrace.dataclass import dataclass


class Overflow(StrEnum):
    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class RetryOn(StrEnum):
    """Which returned messages wait before they are delivered again (`x-delayed-retry-type`)."""

    DISABLED = "disabled"
    ALL = "all"
    FAILED = "failed"  # nack and reject with requeue
    RETURNED = "returned"  # given back by a channel that went away


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """None means: no limit, or not set."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_priority: int = 0  # one lane more than this; fixed when the queue is declared
    delivery_limit: int | None = None
    single_active_consumer: bool = False
    consumer_timeout_ms: int | None = None
    retry_on: RetryOn = RetryOn.DISABLED
    retry_min_ms: int = 1000
    retry_max_ms: int = 60_000
    max_age_ms: int | None = None  # of a stream
