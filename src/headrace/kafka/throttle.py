"""How a connection is slowed down when its client is above a quota (KIP-13, KIP-124, KIP-219, KIP-599).

The answer goes out at once and says how long to pause (`throttle_time_ms`), and for that time the connection is not read
from: a client that ignores the field is slowed all the same, by its own full socket. Only Fetch holds back what it would
have sent: it answers with nothing, so that the bytes don't leave.

A connection has a `Throttle` only while there are quotas for clients; otherwise its requests pay for one test of an
attribute. Each request gets a `Ticket`: who sent it, by the client id of its header, and what it used.

Time is what the event loop spends on a request until its handler first waits: 100 % is one core's worth.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from headrace.broker.quotas import ClientMeters, ClientQuotas
from headrace.broker.quotas.entity import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from headrace.broker.quotas.quotas import MAX_THROTTLE_MS
from headrace.broker.quotas.rate import WindowedRate
from headrace.broker.topic_errors import ThrottlingQuotaExceeded
from headrace.clock import Timer

if TYPE_CHECKING:
    from headrace.kafka.connection import KafkaConnection

_ALL_BYTES = 2**31 - 1
_CLIENT_ID_AT = 10  # in a request: key, version, correlation id, length of the client id


class Throttle:
    """What one connection owes. `muted`: it is not read from, and what was read already waits."""

    __slots__ = ("_client", "_connection", "_meters", "_quotas", "_timer", "_until_ms", "muted", "ticket")

    def __init__(self, connection: KafkaConnection, quotas: ClientQuotas) -> None:
        self._connection = connection
        self._quotas = quotas
        self._client = b""
        self._meters = quotas.meters_of("")
        self._timer: Timer | None = None
        self._until_ms = 0.0
        self.muted = False
        self.ticket = Ticket(self, self._meters, 0)  # of the request that is being handled

    def begin(self, view: memoryview, start: int, stop: int, client_length: int) -> bool:
        """A request is about to be handled; False when it has to wait."""
        if self.muted:
            return False
        client = bytes(view[start + _CLIENT_ID_AT : min(stop, start + _CLIENT_ID_AT + max(client_length, 0))])
        if client != self._client or self._meters.generation != self._quotas.generation:
            self._client = client
            self._meters = self._quotas.meters_of(client.decode(errors="replace"))
        self.ticket = Ticket(self, self._meters, stop - start)
        return True

    def mute(self, kind: str, wait_ms: int) -> None:
        self._quotas.note(kind, wait_ms)
        until_ms = self._quotas.now_ms() + wait_ms
        if until_ms <= self._until_ms:
            return
        self._until_ms = until_ms
        if self._timer is not None:
            self._timer.cancel()
        self.muted = True
        self._timer = self._connection.broker.clock.call_later(wait_ms / 1000, self._unmute)
        self._connection.stop_reading()

    def _unmute(self) -> None:
        self._timer = None
        self.muted = False
        if not self._quotas.enforced:
            self._connection.throttle = None
        self._connection.unmuted()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def now_ms(self) -> float:
        return self._quotas.now_ms()

    @property
    def request_bound_ms(self) -> int:
        return self._quotas.request_bound_ms


class Ticket:
    """One request of a client that may be limited."""

    __slots__ = ("_began_s", "_delivered_ms", "_meters", "_mutation_ms", "_size", "_spent_s", "_throttle")

    def __init__(self, throttle: Throttle, meters: ClientMeters, size: int) -> None:
        self._throttle = throttle
        self._meters = meters
        self._size = size
        self._began_s = perf_counter()  # 0: it doesn't run any more
        self._spent_s = 0.0
        self._mutation_ms = 0
        self._delivered_ms = 0

    def produced(self, acks: int) -> int:
        """A produce was handled; for how long its client has to pause."""
        sent_ms = _spend(self._throttle, self._meters.produce, self._size)
        return self._mute(PRODUCER_BYTE_RATE, sent_ms, self._time_ms() if acks else 0)

    @property
    def most_fetched(self) -> int:
        """How much one answer may hold without being above the quota by itself."""
        rate = self._meters.fetch
        return _ALL_BYTES if rate is None else min(_ALL_BYTES, int(rate.most_at_once))

    def fetched(self, size: int) -> tuple[int, bool]:
        """How long the client has to pause, and whether it gets these bytes.

        Bytes that are held back are not counted, and the client asks for them again. A single batch that is too large for
        the quota's whole window would be held back for ever: when nothing else was sent lately it goes out, and the
        client pays for it with its pause.
        """
        time_ms = self._time_ms()
        rate = self._meters.fetch
        if rate is None or not size:
            return self._mute(REQUEST_PERCENTAGE, 0, time_ms), True
        rate.forget_old(self._throttle.now_ms())
        oversized = size > rate.most_at_once and rate.total <= 0
        sent_ms = _spend(self._throttle, rate, size)
        sent = not sent_ms or oversized
        if not sent:
            rate.record(-size, self._throttle.now_ms())
        return self._mute(CONSUMER_BYTE_RATE, sent_ms, time_ms), sent

    def delivered(self, size: int) -> None:
        """Records go out with a ShareFetch. They are acquired and can't be held back; the client pays with its next pause."""
        self._delivered_ms = _spend(self._throttle, self._meters.fetch, size)

    def mutate(self, partitions: int, *, strict: bool) -> None:
        """Partitions are about to be made or removed (KIP-599). Raises ThrottlingQuotaExceeded if `strict` and earlier
        ones were too many; a client of an older version is slowed instead."""
        bucket = self._meters.mutation
        if bucket is None:
            return
        now_ms = self._throttle.now_ms()
        if strict:
            owed_ms = bucket.excess_ms(now_ms)
            if owed_ms:
                self._mutation_ms = owed_ms
                raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
        bucket.record(partitions, now_ms)
        if not strict:
            self._mutation_ms = bucket.excess_ms(now_ms)

    def answered(self) -> int:
        """An answer that is neither Produce nor Fetch is about to be sent; for how long its client has to pause."""
        if self._delivered_ms > self._mutation_ms:
            return self._mute(CONSUMER_BYTE_RATE, self._delivered_ms, self._time_ms())
        return self._mute(CONTROLLER_MUTATION_RATE, self._mutation_ms, self._time_ms())

    def park(self) -> None:
        """The request waits from now on, which costs nothing."""
        if self._began_s:
            self._spent_s, self._began_s = perf_counter() - self._began_s, 0.0

    def _time_ms(self) -> int:
        """For how long the client has to pause for the time that its request took."""
        self.park()
        return min(_spend(self._throttle, self._meters.request, self._spent_s * 100), self._throttle.request_bound_ms)

    def _mute(self, kind: str, wait_ms: int, time_ms: int) -> int:
        if time_ms > wait_ms:
            kind, wait_ms = REQUEST_PERCENTAGE, time_ms
        if wait_ms <= 0:
            return 0
        wait_ms = min(wait_ms, MAX_THROTTLE_MS)
        self._throttle.mute(kind, wait_ms)
        return wait_ms


def _spend(throttle: Throttle, rate: WindowedRate | None, amount: float) -> int:
    if rate is None:
        return 0
    now_ms = throttle.now_ms()
    rate.record(amount, now_ms)
    return rate.excess_ms(now_ms)
