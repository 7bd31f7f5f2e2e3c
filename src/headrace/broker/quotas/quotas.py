"""Which quota holds for a client, and what that client has used of it.

For each kind of quota the most specific entity wins, in Kafka's order:

    user and client id · user and any client · user · any user and client id · any user and any client · any user ·
    client id · any client

Those for whom the same entity's quota holds share a meter when the quota is for a user as such, and have one each, by
client id, otherwise. At most `MAX_METERS` meters of each kind are kept; beyond, the one used longest ago is forgotten.

`enforced` is false while there is no quota for users or clients, and then nobody has to ask anything else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import field

from headrace.broker.audit import About, audited
from headrace.broker.quotas.entity import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Alteration,
    Entity,
    EntityFilter,
)
from headrace.broker.quotas.rate import TokenBucket, WindowedRate, Windows
from headrace.broker.quotas.store import Quotas, QuotaStore
from headrace.broker.settings import Settings
from headrace.clock import Clock
from headrace.dataclass import dataclass
from headrace.log.errors import LogError
from headrace.log.port import Log

MAX_METERS = 10_000
ANONYMOUS = "ANONYMOUS"  # the name of every client's principal, while there is no authentication
MAX_THROTTLE_MS = 2**31 - 1

_Key = tuple[str, str, str]  # kind of quota, user or "", client id or ""


@dataclass(slots=True)
class ClientMeters:
    """What holds for one user and client id now; None where nothing limits it. Stale when `generation` is not that of
    the quotas any more."""

    generation: int
    produce: WindowedRate | None
    fetch: WindowedRate | None
    request: WindowedRate | None
    mutation: TokenBucket | None


@dataclass(slots=True)
class Throttled:
    """How often and how long clients had to wait, for one kind of quota."""

    times: int = 0
    total_ms: int = 0


@dataclass(slots=True)
class _Meters:
    """The meters of all clients, the one used last at the end."""

    limit: int = MAX_METERS
    rates: OrderedDict[_Key, WindowedRate] = field(default_factory=OrderedDict)
    buckets: OrderedDict[_Key, TokenBucket] = field(default_factory=OrderedDict)


def _told(quotas: ClientQuotas, alterations: Sequence[Alteration], *, validate_only: bool = False) -> About | None:
    if validate_only:
        return None
    return About(", ".join(str(each.entity) for each in alterations[:3]), {"count": len(alterations)})


class ClientQuotas:
    def __init__(self, log: Log, clock: Clock, settings: Settings, *, max_meters: int = MAX_METERS) -> None:
        self._log = log
        self._clock = clock
        self._store = QuotaStore(log)
        self._windows = _windows(settings, "quota")
        self._controller_windows = _windows(settings, "controller.quota")
        self._meters = _Meters(max_meters)
        self._changed: list[Callable[[], None]] = []
        self.request_bound_ms = self._windows.size_ms  # nobody waits longer for its use of time, as in Kafka
        self.enforced = False
        self.addresses_limited = False
        self.generation = 0
        self.throttled: dict[str, Throttled] = {}

    async def start(self) -> None:
        await self._store.start()
        self._renew()

    def now_ms(self) -> float:
        return self._clock.monotonic() * 1000

    # -- the quotas

    def matching(self, wanted: EntityFilter) -> list[tuple[Entity, Quotas]]:
        return self._store.matching(wanted)

    @audited("quotas.change", _told)
    async def alter(self, alterations: Sequence[Alteration], *, validate_only: bool = False) -> dict[Entity, LogError | None]:
        """What became of each entity, in the order they were first named. In force at once, durable when it returns."""
        try:
            results = self._store.alter(alterations, validate_only=validate_only)
            if not validate_only:
                self._renew()
                await self._log.synced()
        except LogError as error:
            return {alteration.entity: error for alteration in alterations}
        return results

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Calls `changed` after each change of the quotas."""
        self._changed.append(changed)

    def _renew(self) -> None:
        self.generation += 1
        kinds = [entity.types for entity in self._store.entities()]
        self.addresses_limited = any(IP in types for types in kinds)
        self.enforced = any(IP not in types for types in kinds)
        for changed in tuple(self._changed):
            changed()

    # -- who is limited by which

    def meters_of(self, client_id: str, user: str = ANONYMOUS) -> ClientMeters:
        return ClientMeters(
            self.generation,
            self._rate(PRODUCER_BYTE_RATE, user, client_id),
            self._rate(CONSUMER_BYTE_RATE, user, client_id),
            self._rate(REQUEST_PERCENTAGE, user, client_id),
            self._bucket(user, client_id),
        )

    def limit_of(self, kind: str, user: str, client_id: str) -> tuple[float, _Key] | None:
        """The number that holds, and which clients use it up together."""
        for named_user in (user, None):
            if client_id:
                for named_client in (client_id, None):
                    found = self._store.get(Entity.of({USER: named_user, CLIENT_ID: named_client})).get(kind)
                    if found is not None:
                        return found, (kind, user, client_id)
            found = self._store.get(Entity.of({USER: named_user})).get(kind)
            if found is not None:
                return found, (kind, user, "")
        if client_id:
            for named_client in (client_id, None):
                found = self._store.get(Entity.of({CLIENT_ID: named_client})).get(kind)
                if found is not None:
                    return found, (kind, "", client_id)
        return None

    def _rate(self, kind: str, user: str, client_id: str) -> WindowedRate | None:
        found = self.limit_of(kind, user, client_id)
        return None if found is None else self._rate_for(found[1], found[0])

    def _rate_for(self, key: _Key, limit: float) -> WindowedRate:
        rates = self._meters.rates
        rate = rates.get(key)
        if rate is None:
            rate = rates[key] = WindowedRate(self._windows, limit)
            if len(rates) > 4 * self._meters.limit:  # four kinds share the room
                rates.popitem(last=False)
        else:
            rates.move_to_end(key)
            rate.limit = limit
        return rate

    def _bucket(self, user: str, client_id: str) -> TokenBucket | None:
        found = self.limit_of(CONTROLLER_MUTATION_RATE, user, client_id)
        if found is None:
            return None
        limit, key = found
        buckets = self._meters.buckets
        bucket = buckets.get(key)
        if bucket is None:
            bucket = buckets[key] = TokenBucket(self._controller_windows, limit, self.now_ms())
            if len(buckets) > self._meters.limit:
                buckets.popitem(last=False)
        else:
            buckets.move_to_end(key)
            bucket.limit = limit
        return bucket

    # -- addresses

    def connected(self, address: str) -> int:
        """A connection was made from there; returns for how many milliseconds it must not be served, 0 when it may."""
        for named in (address, None):
            limit = self._store.get(Entity.of({IP: named})).get(CONNECTION_CREATION_RATE)
            if limit is not None:
                break
        else:
            return 0
        rate = self._rate_for((CONNECTION_CREATION_RATE, address, ""), limit)
        now_ms = self.now_ms()
        rate.record(1, now_ms)
        wait_ms = min(rate.excess_ms(now_ms), self._windows.size_ms)
        if wait_ms:
            rate.record(-1, now_ms)  # a connection that is not served is not counted
            self.note(CONNECTION_CREATION_RATE, wait_ms)
        return wait_ms

    def note(self, kind: str, wait_ms: int) -> None:
        """Somebody has to wait; for the metrics."""
        throttled = self.throttled.setdefault(kind, Throttled())
        throttled.times += 1
        throttled.total_ms += wait_ms


def _windows(settings: Settings, prefix: str) -> Windows:
    return Windows(settings.get_int(f"{prefix}.window.num"), settings.get_int(f"{prefix}.window.size.seconds") * 1000)
