"""Settling deliveries: acknowledged, rejected or given back; all of it as runs of tags, see `unacked`.

In a transaction nothing of this reaches the queues before the commit; the deliveries are out of the channel's hands at once,
so that a second settlement of the same tag is an error there too.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from headrace.amqp.methods import BasicAck, BasicNack, BasicRecover, BasicRecoverAsync, BasicRecoverOk, BasicReject
from headrace.amqp.unacked import Delivered
from headrace.broker.queues.errors import not_implemented, precondition_failed

if TYPE_CHECKING:
    from headrace.amqp.channel import Channel, Handlers

CONSUMER_TIMEOUT_MS = 30 * 60 * 1000  # RabbitMQ's consumer_timeout


class Verdict(Enum):
    ACK = "ack"
    REQUEUE = "requeue"
    REJECT = "reject"


def acknowledge(channel: Channel, first: int, last: int, multiple: bool) -> None:
    """Each tag from `first` to `last`, or everything up to `last`."""
    before = channel.unacked.count
    _settle(channel, first, last, multiple, Verdict.ACK)
    channel.acknowledged += before - channel.unacked.count


def _settle(channel: Channel, first: int, last: int, multiple: bool, verdict: Verdict) -> None:
    unacked = channel.unacked
    unknown: int | None = None
    if not multiple:
        deliveries, unknown = unacked.take(first, last)
    elif last == 0:
        deliveries = unacked.take_all()
    else:
        taken = unacked.take_up_to(last)
        if taken is None:
            raise precondition_failed(f"unknown delivery tag {last}")
        deliveries = taken
    if channel.transaction is not None:
        channel.transaction.settle(verdict, deliveries)
    else:
        carry_out(verdict, deliveries)
    if unknown is not None:
        raise precondition_failed(f"unknown delivery tag {unknown}")


def carry_out(verdict: Verdict, deliveries: Iterable[Delivered]) -> None:
    for _, messages, consumer, queue, lane, offset, _ in deliveries:
        if verdict is Verdict.ACK:
            queue.ack(lane, offset, messages)
        elif verdict is Verdict.REQUEUE:
            queue.requeue(lane, offset, messages)
        else:
            queue.reject(lane, offset, messages)
        if consumer is not None:
            consumer.settled(messages)


def give_back(channel: Channel, deliveries: Iterable[Delivered]) -> None:
    """Nobody said anything about them, and nobody will."""
    for delivered in deliveries:
        delivered.queue.requeue(delivered.lane, delivered.first_offset, delivered.messages, failed=False)
        if delivered.consumer is not None:
            delivered.consumer.settled(delivered.messages)


def look_for_timeouts(channel: Channel, now: float) -> None:
    """A delivery that has not been settled for too long closes the channel."""
    oldest = channel.unacked.oldest()
    if oldest is None:
        return
    limit_ms = oldest.queue.settings.consumer_timeout_ms or CONSUMER_TIMEOUT_MS
    if (now - oldest.stamp) * 1000 > limit_ms:
        raise precondition_failed(
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {limit_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )


def _ack(channel: Channel, method: BasicAck) -> None:
    acknowledge(channel, method.delivery_tag, method.delivery_tag, method.multiple)


def _nack(channel: Channel, method: BasicNack) -> None:
    verdict = Verdict.REQUEUE if method.requeue else Verdict.REJECT
    _settle(channel, method.delivery_tag, method.delivery_tag, method.multiple, verdict)


def _reject(channel: Channel, method: BasicReject) -> None:
    verdict = Verdict.REQUEUE if method.requeue else Verdict.REJECT
    _settle(channel, method.delivery_tag, method.delivery_tag, False, verdict)


def _recover(channel: Channel, method: BasicRecover) -> None:
    _recover_all(channel, method.requeue)
    channel.send(BasicRecoverOk())


def _recover_async(channel: Channel, method: BasicRecoverAsync) -> None:
    _recover_all(channel, method.requeue)


def _recover_all(channel: Channel, requeue: bool) -> None:
    if not requeue:
        raise not_implemented("requeue=false")
    give_back(channel, channel.unacked.take_all())


HANDLERS: Handlers = {
    BasicAck: _ack,
    BasicNack: _nack,
    BasicReject: _reject,
    BasicRecover: _recover,
    BasicRecoverAsync: _recover_async,
}
