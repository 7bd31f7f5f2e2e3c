"""Quotas: which one holds for a client, what is refused, what survives a crash, and what happens at the bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from headrace.broker.quotas import CLIENT_ID, IP, USER, Alteration, ClientQuotas, Entity, EntityFilter
from headrace.broker.quotas.store import MAX_CHANGES, QuotaStore
from headrace.broker.settings import Settings
from headrace.broker.topic_errors import InvalidRequest, PolicyViolation
from headrace.log.errors import RecoveryFailed, StorageError
from headrace.testing.clock import SimulatedClock

ALL = EntityFilter({}, frozenset(), strict=False)
ORDER = (
    {USER: "ANONYMOUS", CLIENT_ID: "app"},
    {USER: "ANONYMOUS", CLIENT_ID: None},
    {USER: "ANONYMOUS"},
    {USER: None, CLIENT_ID: "app"},
    {USER: None, CLIENT_ID: None},
    {USER: None},
    {CLIENT_ID: "app"},
    {CLIENT_ID: None},
)


class FragileLog:
    """One table; what was put is safe only after `synced`, and either may fail."""

    def __init__(self) -> None:
        self.durable: dict[bytes, bytes] = {}
        self.rows: dict[bytes, bytes] = {}
        self.fails_put = False
        self.fails_sync = False

    async def table(self, name: str, slot: int = 0) -> FragileLog:
        assert name == "__headrace_client_quotas"
        return self

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        return self.rows.items()

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        if self.fails_put:
            raise StorageError("no room")
        for key, value in rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    async def synced(self) -> None:
        if self.fails_sync:
            raise StorageError("gone")
        self.durable = dict(self.rows)

    def crash(self) -> None:
        self.rows = dict(self.durable)


async def started(log: FragileLog, clock: SimulatedClock | None = None, **limits: int) -> ClientQuotas:
    quotas = ClientQuotas(log, clock or SimulatedClock(), Settings(), **limits)  # type: ignore[arg-type]
    await quotas.start()
    return quotas


def setting(parts: Mapping[str, str | None], **values: float | None) -> Alteration:
    return Alteration(Entity.of(parts), tuple(values.items()))


def test_the_most_specific_quota_holds() -> None:
    async def scenario() -> None:
        quotas = await started(FragileLog())
        for number, parts in reversed(list(enumerate(ORDER, start=1))):
            await quotas.alter([setting(parts, producer_byte_rate=number)])
            meters = quotas.meters_of("app")
            assert meters.produce is not None
            assert meters.produce.limit == number
            assert meters.fetch is None
        for number, parts in enumerate(ORDER, start=1):
            assert quotas.meters_of("app").produce.limit == number  # type: ignore[union-attr]
            await quotas.alter([setting(parts, producer_byte_rate=None)])
        assert quotas.meters_of("app").produce is None
        assert not quotas.enforced

    asyncio.run(scenario())


def test_a_user_shares_its_quota_and_clients_of_a_default_have_one_each() -> None:
    async def scenario() -> None:
        quotas = await started(FragileLog())
        await quotas.alter([setting({CLIENT_ID: None}, consumer_byte_rate=10)])
        assert quotas.meters_of("a").fetch is quotas.meters_of("a").fetch
        assert quotas.meters_of("a").fetch is not quotas.meters_of("b").fetch
        assert quotas.meters_of("").fetch is None  # a client without an id is no client of the default
        await quotas.alter([setting({USER: None}, consumer_byte_rate=10)])
        assert quotas.meters_of("a").fetch is quotas.meters_of("").fetch

    asyncio.run(scenario())


def test_a_new_limit_holds_for_what_was_used_before() -> None:
    async def scenario() -> None:
        quotas = await started(FragileLog())
        await quotas.alter([setting({CLIENT_ID: "a"}, producer_byte_rate=1000)])
        before = quotas.meters_of("a")
        assert before.produce is not None
        before.produce.record(10_000, 0)
        assert before.produce.excess_ms(0) == 0
        await quotas.alter([setting({CLIENT_ID: "a"}, producer_byte_rate=500)])
        assert before.generation != quotas.generation
        assert quotas.meters_of("a").produce.excess_ms(0) == 10_000  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_the_meters_are_bounded_and_the_oldest_is_forgotten() -> None:
    async def scenario() -> None:
        quotas = await started(FragileLog(), max_meters=5)
        await quotas.alter([setting({CLIENT_ID: None}, producer_byte_rate=1, controller_mutation_rate=1)])
        first = quotas.meters_of("0")
        for number in range(100):
            quotas.meters_of(str(number))
        assert len(quotas._meters.rates) == 20
        assert len(quotas._meters.buckets) == 5
        assert quotas.meters_of("0").produce is not first.produce

    asyncio.run(scenario())


def test_what_was_answered_survives_a_crash_and_what_was_not_may_not() -> None:
    async def scenario() -> None:
        log = FragileLog()
        quotas = await started(log)
        odd = {USER: 'a"\0\u20ac', CLIENT_ID: None}
        await quotas.alter(
            [setting(odd, producer_byte_rate=1, request_percentage=12.5), setting({IP: None}, connection_creation_rate=3)]
        )
        await quotas.alter([setting({IP: None}, connection_creation_rate=None)])
        log.crash()
        again = await started(log)
        assert again.matching(ALL) == [(Entity.of(odd), {"producer_byte_rate": 1.0, "request_percentage": 12.5})]
        assert again.enforced
        assert not again.addresses_limited
        log.fails_put = True
        results = await again.alter([setting({USER: "x"}, producer_byte_rate=1)])
        assert isinstance(results[Entity.of({USER: "x"})], StorageError)
        assert len(again.matching(ALL)) == 1
        log.fails_put, log.fails_sync = False, True
        results = await again.alter([setting({USER: "x"}, producer_byte_rate=1)])
        assert isinstance(results[Entity.of({USER: "x"})], StorageError)

    asyncio.run(scenario())


def test_a_row_that_cannot_be_read_stops_the_start() -> None:
    for key, value in ((b"", b"{}"), (b"[]", b"{}"), (b"{}", b"x"), (b"{}", b'{"a": "b"}'), (b"\xff", b"{}")):
        log = FragileLog()
        log.rows[key] = value
        with pytest.raises(RecoveryFailed, match="__headrace_client_quotas"):
            asyncio.run(started(log))


@pytest.mark.parametrize(
    ("parts", "key", "value", "why"),
    [
        ({}, "producer_byte_rate", 1, "Invalid empty client quota entity"),
        ({"tribe": "x"}, "producer_byte_rate", 1, "Unhandled client quota entity type: tribe"),
        ({USER: ""}, "producer_byte_rate", 1, "Empty user not supported"),
        ({IP: "10.0.0.1", USER: "x"}, "connection_creation_rate", 1, "IP entity should not be combined"),
        ({IP: "no address"}, "connection_creation_rate", 1, "no address is not a valid IP or resolvable host."),
        ({IP: "::1"}, "producer_byte_rate", 1, "Invalid configuration key producer_byte_rate"),
        ({USER: "x"}, "connection_creation_rate", 1, "Invalid configuration key connection_creation_rate"),
        ({USER: "x"}, "speed", 1, "Invalid configuration key speed"),
        ({USER: "x"}, "producer_byte_rate", 0, "Quota producer_byte_rate must be greater than 0"),
        ({USER: "x"}, "producer_byte_rate", float("nan"), "Quota producer_byte_rate must be greater than 0"),
        ({USER: "x"}, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        ({USER: "x"}, "consumer_byte_rate", 1e19, "Proposed value for consumer_byte_rate is too large for a LONG."),
        ({IP: "::1"}, "connection_creation_rate", 1e10, "connection_creation_rate is too large for an INT."),
    ],
)
def test_a_wrong_quota_is_refused_and_says_why(parts: dict[str, str | None], key: str, value: float, why: str) -> None:
    async def scenario() -> None:
        log = FragileLog()
        quotas = await started(log)
        fine = setting({CLIENT_ID: "fine"}, request_percentage=0.5)
        results = await quotas.alter([Alteration(Entity.of(parts), ((key, value),)), fine])
        refused = results[Entity.of(parts)]
        assert isinstance(refused, InvalidRequest)
        assert why in str(refused)
        assert [entity for entity, _ in quotas.matching(ALL)] == [fine.entity]  # each entity succeeds or fails by itself

    asyncio.run(scenario())


def test_what_is_named_twice_is_refused() -> None:
    async def scenario() -> None:
        quotas = await started(FragileLog())
        twice = Alteration(Entity.of({USER: "x"}), (("producer_byte_rate", 1), ("producer_byte_rate", 2)))
        assert "Duplicate quota key" in str((await quotas.alter([twice]))[twice.entity])
        once = setting({USER: "x"}, producer_byte_rate=1)
        assert "Ignoring duplicate entity" in str((await quotas.alter([once, once]))[once.entity])
        assert not quotas.matching(ALL)

    asyncio.run(scenario())


def test_a_trial_changes_nothing() -> None:
    async def scenario() -> None:
        log = FragileLog()
        quotas = await started(log)
        assert await quotas.alter([setting({USER: "x"}, producer_byte_rate=1)], validate_only=True) == {
            Entity.of({USER: "x"}): None
        }
        assert not quotas.matching(ALL)
        assert not log.rows

    asyncio.run(scenario())


def test_entities_bytes_and_changes_are_bounded() -> None:
    async def scenario() -> None:
        store = QuotaStore(FragileLog(), max_entities=2, max_bytes=200)  # type: ignore[arg-type]
        await store.start()
        store.alter([setting({USER: name}, producer_byte_rate=1) for name in "ab"], validate_only=False)
        with pytest.raises(PolicyViolation, match="no more than 2"):
            store.alter([setting({USER: "c"}, producer_byte_rate=1)], validate_only=False)
        store.alter(
            [setting({USER: "a"}, producer_byte_rate=None), setting({USER: "c"}, producer_byte_rate=1)], validate_only=False
        )
        store.alter([setting({USER: "b"}, producer_byte_rate=None)], validate_only=False)
        with pytest.raises(PolicyViolation, match="200 bytes"):
            store.alter([setting({USER: "l" * 200}, producer_byte_rate=1)], validate_only=False)
        assert list(store.entities()) == [Entity.of({USER: "c"})]
        many = [setting({USER: str(number)}, producer_byte_rate=1) for number in range(MAX_CHANGES + 1)]
        with pytest.raises(PolicyViolation, match="excessively large"):
            store.alter(many, validate_only=False)

    asyncio.run(scenario())


def test_a_filter_picks_by_name_by_default_and_by_type() -> None:
    async def scenario() -> None:
        quotas = await started(FragileLog())
        entities = [
            Entity.of(parts) for parts in ({USER: "x"}, {USER: None}, {USER: "x", CLIENT_ID: "y"}, {CLIENT_ID: "y"}, {IP: None})
        ]
        await quotas.alter(
            [
                Alteration(entity, (("connection_creation_rate" if entity.types == {IP} else "request_percentage", 1.0),))
                for entity in entities
            ]
        )

        def found(exact: dict[str, str | None], any_name: set[str], strict: bool) -> list[int]:
            picked = quotas.matching(EntityFilter(exact, frozenset(any_name), strict))
            return [entities.index(entity) for entity, _ in picked]

        assert found({}, set(), False) == [0, 1, 2, 3, 4]
        assert found({}, set(), True) == []
        assert found({USER: "x"}, set(), False) == [0, 2]
        assert found({USER: "x"}, set(), True) == [0]
        assert found({USER: None}, set(), True) == [1]
        assert found({}, {USER}, False) == [0, 1, 2]
        assert found({CLIENT_ID: "y"}, {USER}, True) == [2]

    asyncio.run(scenario())


def test_an_address_that_connects_too_often_has_to_wait_and_only_what_was_served_counts() -> None:
    async def scenario() -> None:
        clock = SimulatedClock()
        quotas = await started(FragileLog(), clock)
        assert quotas.connected("10.0.0.1") == 0
        await quotas.alter(
            [setting({IP: None}, connection_creation_rate=2), setting({IP: "10.0.0.9"}, connection_creation_rate=1000)]
        )
        assert not quotas.enforced
        served = sum(quotas.connected("10.0.0.1") == 0 for _ in range(100))
        assert served == 20  # ten seconds' worth at once
        assert 0 < quotas.connected("10.0.0.1") <= 1000
        assert quotas.connected("10.0.0.2") == 0
        assert all(quotas.connected("10.0.0.9") == 0 for _ in range(100))
        clock.advance(12)
        assert quotas.connected("10.0.0.1") == 0

    asyncio.run(scenario())
