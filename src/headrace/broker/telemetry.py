"""Clients that push their own metrics (KIP-714): what each is asked for, and whether a push is in order.

A client instance is known by the id it was given, and gets the metrics of every subscription that matches it. Nobody here
takes the metrics in: a push is checked, counted and forgotten, as with a receiver that does nothing. At most `MAX_INSTANCES`
are remembered; the one that was silent longest is forgotten, and is told of its subscription again when it comes back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from uuid import UUID, uuid4

from headrace.broker.client_metrics import ALL, DEFAULT_INTERVAL_MS, ClientMetrics
from headrace.broker.topic_errors import InvalidRequest, ThrottlingQuotaExceeded
from headrace.clock import Clock
from headrace.dataclass import dataclass
from headrace.log.errors import LogError
from headrace.record import crc32c

MAX_INSTANCES = 16_384
ACCEPTED_COMPRESSION_TYPES = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy, in the order we like them
NO_ID, ONE_ID = UUID(int=0), UUID(int=1)
_KNOWN_COMPRESSION_TYPES = range(5)


class UnknownSubscriptionId(LogError):
    """What the client was asked for has changed since: it asks again."""


class TelemetryTooLarge(LogError):
    """More than telemetry.max.bytes in one push."""


class UnsupportedCompression(LogError):
    """A compression type that does not exist."""


@dataclass(slots=True)
class Instance:
    """One client, as it was last told what to push."""

    instance_id: UUID
    version: int
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int
    asked_ms: float = -1e18
    pushed_ms: float = -1e18
    terminating: bool = False
    may_ask_again: bool = False  # its last push failed in a way that a new answer helps with


@dataclass(frozen=True, slots=True)
class Push:
    instance_id: UUID
    subscription_id: int
    terminating: bool
    compression_type: int
    size_bytes: int


class Telemetry:
    def __init__(
        self,
        metrics: ClientMetrics,
        clock: Clock,
        max_bytes: int,
        *,
        new_uuid: Callable[[], UUID] = uuid4,
        limit: int = MAX_INSTANCES,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._new_uuid = new_uuid
        self._limit = limit
        self._instances: OrderedDict[UUID, Instance] = OrderedDict()
        self.max_bytes = max_bytes
        self.pushes: Counter[str] = Counter()  # what became of them, for the metrics

    @property
    def wanted(self) -> bool:
        """Whether anybody subscribed to metrics; as long as nobody did, clients are not told of the APIs at all."""
        return bool(self._metrics.subscriptions())

    def ask(self, instance_id: UUID, client: Mapping[str, str]) -> Instance:
        """What this client is to push. Raises ThrottlingQuotaExceeded when it asks too often."""
        if instance_id == NO_ID:
            instance_id = self._new_uuid()
        instance = self._instance(instance_id, client)
        now_ms = self._clock.monotonic() * 1000
        if now_ms - max(instance.asked_ms, instance.pushed_ms) < instance.interval_ms and not instance.may_ask_again:
            raise ThrottlingQuotaExceeded("The request arrived before the next push interval time.")
        instance.asked_ms = now_ms
        instance.may_ask_again = False
        return instance

    def push(self, push: Push, client: Mapping[str, str]) -> None:
        """Raises InvalidRequest, ThrottlingQuotaExceeded, UnknownSubscriptionId, UnsupportedCompression, TelemetryTooLarge."""
        if push.instance_id in (NO_ID, ONE_ID):
            raise InvalidRequest("The client instance id is not valid.")
        instance = self._instance(push.instance_id, client)
        try:
            self._check(push, instance)
        except LogError as error:
            instance.may_ask_again = isinstance(error, UnknownSubscriptionId | UnsupportedCompression)
            self.pushes["refused"] += 1
            raise
        finally:
            instance.terminating = push.terminating
        instance.may_ask_again = False
        self.pushes["accepted"] += 1

    def _check(self, push: Push, instance: Instance) -> None:
        now_ms = self._clock.monotonic() * 1000
        if instance.terminating:
            raise InvalidRequest("The client has said before that it is terminating.")
        in_time = instance.asked_ms > instance.pushed_ms or now_ms - instance.pushed_ms >= instance.interval_ms
        if not in_time and not push.terminating:
            raise ThrottlingQuotaExceeded("The request arrived before the next push interval time.")
        instance.pushed_ms = now_ms
        if push.subscription_id != instance.subscription_id:
            raise UnknownSubscriptionId("The subscription of the client has changed.")
        if push.compression_type not in _KNOWN_COMPRESSION_TYPES:
            raise UnsupportedCompression(f"There is no compression type {push.compression_type}.")
        if push.size_bytes > self.max_bytes:
            raise TelemetryTooLarge(f"More than {self.max_bytes} bytes.")

    def _instance(self, instance_id: UUID, client: Mapping[str, str]) -> Instance:
        known = self._instances.get(instance_id)
        if known is not None and known.version == self._metrics.version:
            self._instances.move_to_end(instance_id)
            return known
        matching = [
            found
            for found in self._metrics.subscriptions()
            if found.matches({**client, "client_instance_id": str(instance_id)})
        ]
        names = tuple(sorted({name for found in matching for name in found.metrics}))
        if ALL in names:
            names = (ALL,)
        interval_ms = min((found.interval_ms for found in matching), default=DEFAULT_INTERVAL_MS)
        subscription_id = _signed(crc32c(f"{names}{interval_ms}".encode()) ^ (hash(instance_id.int) & 0xFFFFFFFF))
        instance = Instance(instance_id, self._metrics.version, subscription_id, names, interval_ms)
        self._instances[instance_id] = instance
        if len(self._instances) > self._limit:
            self._instances.popitem(last=False)
        return instance


def _signed(number: int) -> int:
    return number - 2**32 if number >= 2**31 else number
