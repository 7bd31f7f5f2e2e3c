"""Refusals that were taken from RabbitMQ 3.10.8, and where that has no such argument from the sources of 4.x."""

from __future__ import annotations

import pytest

from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.queues.stream_arguments import interval_ms
from headrace.broker.vhosts.arguments import check_queue_arguments
from headrace.record.amqp.tables import Int32

INTEGER = '"expected integer, got longstr"'
REFUSED = [
    ("classic", "x-expires", 0, "{value_zero,0}"),
    ("classic", "x-expires", -1, "{value_negative,-1}"),
    ("classic", "x-expires", "1", INTEGER),
    ("classic", "x-expires", 2**40, "{value_too_large,1099511627776}"),
    ("classic", "x-expires", True, '"expected integer, got bool"'),
    ("classic", "x-message-ttl", -1, "{value_negative,-1}"),
    ("classic", "x-message-ttl", "1", INTEGER),
    ("classic", "x-message-ttl", None, '"expected integer, got void"'),
    ("classic", "x-message-ttl", 1.5, '"expected integer, got double"'),
    ("classic", "x-message-ttl", 2**40, "{value_too_large,1099511627776}"),
    ("classic", "x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    ("classic", "x-dead-letter-routing-key", Int32(1), "{unacceptable_type,signedint}"),
    ("classic", "x-max-length", -1, "{value_negative,-1}"),
    ("classic", "x-max-length", "a", INTEGER),
    ("classic", "x-max-length-bytes", -1, "{value_negative,-1}"),
    ("classic", "x-max-priority", 256, "{max_value_exceeded,256}"),
    ("classic", "x-max-priority", -1, "{value_negative,-1}"),
    ("classic", "x-overflow", "no", "invalid_overflow"),
    ("classic", "x-overflow", Int32(1), "{unacceptable_type,signedint}"),
    ("classic", "x-queue-mode", "no", "\"unsupported queue mode 'no'\""),
    ("classic", "x-queue-version", 3, "\"unsupported queue version '3'\""),
    ("classic", "x-single-active-consumer", Int32(1), "{unacceptable_type,signedint}"),
    ("classic", "x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
    ("no", None, None, "\"unsupported queue type 'no'\""),
    ("", None, None, "\"unsupported queue type ''\""),
    (Int32(1), None, None, "{unacceptable_type,signedint}"),
    (None, None, None, "{unacceptable_type,void}"),
    ("quorum", "x-dead-letter-strategy", "no", "invalid_dlx_strategy"),
    ("quorum", "x-max-length", "a", INTEGER),
    ("quorum", "x-quorum-initial-group-size", 0, "{value_zero,0}"),
    ("quorum", "x-queue-leader-locator", "no", "invalid_queue_locator_arg"),
    ("stream", "x-max-age", "1", "invalid_max_age"),
    ("stream", "x-max-age", Int32(1), "{unacceptable_type,signedint}"),
    ("stream", "x-max-length-bytes", -1, "{value_negative,-1}"),
]
NOT_OF_THIS_TYPE = [
    ("classic", "x-dead-letter-strategy"),
    ("classic", "x-max-age"),
    ("classic", "x-delivery-limit"),
    ("classic", "x-quorum-initial-group-size"),
    ("classic", "x-stream-max-segment-size-bytes"),
    ("classic", "x-max-in-memory-length"),
    ("classic", "x-initial-cluster-size"),
    ("quorum", "x-max-priority"),
    ("quorum", "x-queue-mode"),
    ("quorum", "x-queue-version"),
    ("quorum", "x-max-age"),
    ("quorum", "x-queue-master-locator"),
    ("stream", "x-expires"),
    ("stream", "x-message-ttl"),
    ("stream", "x-max-length"),
    ("stream", "x-max-priority"),
    ("stream", "x-overflow"),
    ("stream", "x-single-active-consumer"),
    ("stream", "x-delivery-limit"),
]
ACCEPTED = [
    ("classic", {"x-message-ttl": 0, "x-expires": 2**32, "x-max-length": 0, "x-max-priority": 255}),
    ("classic", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k", "x-overflow": "reject-publish-dlx"}),
    ("classic", {"x-queue-mode": "lazy", "x-queue-version": 2, "x-single-active-consumer": False}),
    ("classic", {"x-foo": 1, "x-consumer-timeout": 1, "x-delayed-retry-type": "all", "x-cancel-on-ha-failover": True}),
    ("quorum", {"x-delivery-limit": -1, "x-dead-letter-strategy": "at-least-once", "x-max-in-memory-length": 1}),
    ("stream", {"x-max-age": "1h", "x-stream-max-segment-size-bytes": 1, "x-initial-cluster-size": 1, "x-consumer-timeout": 1}),
]
QUEUE = "queue 'q' in vhost '/'"


@pytest.mark.parametrize(("kind", "name", "value", "wrong"), REFUSED)
def test_values_that_make_no_sense_are_refused(kind: object, name: str | None, value: object, wrong: str) -> None:
    arguments = {"x-queue-type": kind, **({name: value} if name else {})}
    with pytest.raises(AmqpRefusal) as refusal:
        check_queue_arguments(arguments, QUEUE)
    assert refusal.value.text == f"invalid arg '{name or 'x-queue-type'}' for {QUEUE}: {wrong}"
    assert refusal.value.code == 406


@pytest.mark.parametrize(("kind", "name"), NOT_OF_THIS_TYPE)
def test_arguments_of_other_types_are_refused(kind: str, name: str) -> None:
    with pytest.raises(AmqpRefusal) as refusal:
        check_queue_arguments({"x-queue-type": kind, name: "x"}, QUEUE)
    assert refusal.value.text == f"invalid arg '{name}' for {QUEUE} of queue type rabbit_{kind}_queue"


@pytest.mark.parametrize(("kind", "arguments"), ACCEPTED)
def test_arguments_that_are_accepted(kind: str, arguments: dict[str, object]) -> None:
    assert check_queue_arguments({"x-queue-type": kind, **arguments}, QUEUE) == kind


def test_a_dead_letter_exchange_is_a_name_whatever_the_type_of_the_queue() -> None:
    with pytest.raises(AmqpRefusal) as refusal:
        check_queue_arguments({"x-queue-type": "stream", "x-dead-letter-exchange": Int32(1)}, QUEUE)
    assert refusal.value.text == f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in {QUEUE}"


def test_ages_of_streams() -> None:
    day_ms = 86_400_000
    assert [interval_ms(text) for text in ("1Y", "2M", "3D", "4h", "5m", "6s")] == [
        365 * day_ms, 60 * day_ms, 3 * day_ms, 14_400_000, 300_000, 6000,
    ]  # fmt: skip
    assert [interval_ms(text) for text in ("", "0s", "1", "h", "1w", "1h ", "-1h", "9" * 30 + "s")] == [None] * 8
