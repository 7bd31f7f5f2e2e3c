"""Who is subscribed to what: one subscription for each consumer and shard.

Whoever subscribes again within `HOLD_S` of a subscription is refused, also when that one has ended since; later the new one
takes over and the old one ends with ResourceInUseException. (Both as on AWS. Where `kinesis.subscription.ms` is shorter than
that, so is the time.)

Bounds: there are not more subscriptions than registered consumers (20 of a stream) times shards, each with a connection or an
HTTP/2 stream of the web server's, and for those that have ended a place for `HOLD_S`. An event has `EVENT_BYTES` of records at
most, and less when there are many subscriptions, so that what peers have not read is about `UNSENT_BYTES` in all; but it has
one record at least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.data.shared import ENFORCE_LIMITS
from headrace.kinesis.fanout.events import Events
from headrace.kinesis.fanout.portions import Portions
from headrace.kinesis.fanout.subscription import End, Subscription, Terms, another_subscription

if TYPE_CHECKING:
    from headrace.broker.streams.consumers import Consumer
    from headrace.broker.streams.shard import Shard
    from headrace.kinesis.service import RawCall, Service

HOLD_S = 5.0
EVENT_BYTES = 1024 * 1024
LEAST_EVENT_BYTES = 16 * 1024
UNSENT_BYTES = 128 * 1024 * 1024
SUBSCRIPTION_MS = "kinesis.subscription.ms"


class Subscriptions:
    """Of one service."""

    def __init__(self, service: Service) -> None:
        self.clock = service.broker.clock
        self._traffic = service.traffic
        self.went = service.traffic.bytes_out
        self.portions = Portions()
        self.events = {encoding: Events(encoding) for encoding in Encoding}
        self._settings = service.settings
        self._newest: dict[tuple[Consumer, int], Subscription] = {}
        self._running: set[Subscription] = set()
        service.on_close.add(self._close)

    @property
    def event_bytes(self) -> int:
        return max(LEAST_EVENT_BYTES, min(EVENT_BYTES, UNSENT_BYTES // max(1, len(self._running))))

    def open(self, call: RawCall, consumer: Consumer, shard: Shard, offset: int) -> Subscription:
        """The subscription, which its caller runs. Raises KinesisError."""
        terms = Terms(self._settings.get_int(SUBSCRIPTION_MS), self._settings.get_bool(ENFORCE_LIMITS))
        place = (consumer, shard.index)
        before = self._newest.get(place)
        if before is not None:
            if self.clock.monotonic() < before.started_s + min(HOLD_S, terms.time_ms / 1000):
                raise another_subscription(consumer, shard.index)
            before.end(End.TAKEN_OVER)
        subscription = self._newest[place] = Subscription(self, call, consumer, shard, offset, terms)
        self._running.add(subscription)
        self._traffic.subscriptions = len(self._running)
        return subscription

    def ended(self, consumer: Consumer, index: int, subscription: Subscription) -> None:
        self._running.discard(subscription)
        self._traffic.subscriptions = len(self._running)
        held_s = subscription.started_s + HOLD_S - self.clock.monotonic()
        if held_s <= 0 or consumer.gone:
            self._forget(consumer, index, subscription)
        else:
            self.clock.call_later(held_s, lambda: self._forget(consumer, index, subscription))

    def _forget(self, consumer: Consumer, index: int, subscription: Subscription) -> None:
        if self._newest.get((consumer, index)) is subscription:
            del self._newest[consumer, index]

    def _close(self) -> None:
        for subscription in self._running:
            subscription.end(End.STOPPING)

    def __len__(self) -> int:
        return len(self._running)


_of_service: WeakKeyDictionary[Service, Subscriptions] = WeakKeyDictionary()


def subscriptions_of(service: Service) -> Subscriptions:
    found = _of_service.get(service)
    if found is None:
        found = _of_service[service] = Subscriptions(service)
    return found
