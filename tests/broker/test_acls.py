"""ACLs: which ones a filter finds, what is kept through crashes, and what happens at the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker import acls as module
from headrace.broker.acls import Acl, AclFilter, Acls, Operation, PatternType, PermissionType, ResourceType
from headrace.broker.topic_errors import InvalidRequest, PolicyViolation
from headrace.log.errors import RecoveryFailed, StorageError

ANY = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, PermissionType.ANY)
READ_ORDERS = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, PermissionType.ALLOW)

NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "kafka-cluster"])
PRINCIPALS = st.sampled_from(["User:x", "User:y", "User:*"])
HOSTS = st.sampled_from(["*", "10.0.0.1"])
TYPES = [kind for kind in ResourceType if kind > ResourceType.ANY and kind != ResourceType.CLUSTER]
ACLS = st.builds(
    Acl,
    st.sampled_from(TYPES),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    PRINCIPALS,
    HOSTS,
    st.sampled_from([Operation.READ, Operation.WRITE, Operation.ALL]),
    st.sampled_from([PermissionType.ALLOW, PermissionType.DENY]),
)
FILTERS = st.builds(
    AclFilter,
    st.sampled_from([ResourceType.ANY, *TYPES]),
    st.none() | NAMES,
    st.sampled_from([PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]),
    st.none() | PRINCIPALS,
    st.none() | HOSTS,
    st.sampled_from([Operation.ANY, Operation.READ, Operation.WRITE, Operation.ALL]),
    st.sampled_from([PermissionType.ANY, PermissionType.ALLOW, PermissionType.DENY]),
)


class FragileLog:
    """One table; what was put is safe only after `synced`, and either may fail."""

    def __init__(self) -> None:
        self.durable: dict[bytes, bytes] = {}
        self.rows: dict[bytes, bytes] = {}
        self.fails_put = False
        self.fails_sync = False

    async def table(self, name: str, slot: int = 0) -> FragileLog:
        assert name == "__headrace_acls"
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
        await asyncio.sleep(0)
        if self.fails_sync:
            raise StorageError("gone")
        self.durable = dict(self.rows)

    def crash(self) -> None:
        self.rows = dict(self.durable)


async def started(log: FragileLog, **limits: int) -> Acls:
    acls = Acls(log, **limits)  # type: ignore[arg-type]
    await acls.start()
    return acls


def topic(name: str) -> Acl:
    return replace(READ_ORDERS, resource_name=name)


def test_what_was_answered_survives_a_crash() -> None:
    async def scenario() -> None:
        log = FragileLog()
        acls = await started(log)
        odd = replace(READ_ORDERS, resource_name='a"\0\u20ac, []', host="", principal=":", pattern_type=PatternType.PREFIXED)
        assert not await acls.create([READ_ORDERS, odd, topic("gone")])
        assert await acls.delete([replace(ANY, resource_name="gone")]) == [[topic("gone")]]
        log.crash()
        assert (await started(log)).matching(ANY) == [READ_ORDERS, odd]

    asyncio.run(scenario())


def test_an_acl_that_is_there_is_a_success_and_there_once() -> None:
    async def scenario() -> None:
        acls = await started(FragileLog())
        assert not await acls.create([READ_ORDERS, READ_ORDERS])
        assert not await acls.create([READ_ORDERS])
        assert acls.matching(ANY) == [READ_ORDERS]

    asyncio.run(scenario())


def test_a_repeated_create_is_not_a_success_before_the_first_is_durable() -> None:
    async def scenario() -> None:
        log = FragileLog()
        acls = await started(log)
        log.fails_sync = True
        first, second = await asyncio.gather(acls.create([READ_ORDERS]), acls.create([READ_ORDERS]))
        assert isinstance(first[READ_ORDERS], StorageError)
        assert isinstance(second[READ_ORDERS], StorageError)

    asyncio.run(scenario())


def test_when_the_disk_refuses_nothing_has_changed() -> None:
    async def scenario() -> None:
        log = FragileLog()
        acls = await started(log)
        await acls.create([READ_ORDERS])
        log.fails_put = True
        assert isinstance((await acls.create([topic("new")]))[topic("new")], StorageError)
        with pytest.raises(StorageError):
            await acls.delete([ANY])
        assert acls.matching(ANY) == [READ_ORDERS]

    asyncio.run(scenario())


def test_a_row_that_cannot_be_read_stops_the_start_instead_of_allowing_more() -> None:
    for row in (b"", b"{}", b"[1]", b"\xff", b'["TOPIC","a","LITERAL","User:x","*","LEVITATE","DENY"]'):
        log = FragileLog()
        log.rows[row] = b""
        with pytest.raises(RecoveryFailed, match="__headrace_acls"):
            asyncio.run(started(log))


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (PatternType.MATCH, "abc", ["*", "a…", "ab…"]),
        (PatternType.MATCH, "a", ["*", "a", "a…"]),
        (PatternType.MATCH, "*", ["*"]),
        (PatternType.MATCH, None, ["*", "a", "a…", "ab…"]),
        (PatternType.ANY, "a", ["a", "a…"]),
        (PatternType.ANY, "abc", []),
        (PatternType.ANY, "", []),
        (PatternType.LITERAL, "a", ["a"]),
        (PatternType.LITERAL, None, ["*", "a"]),
        (PatternType.PREFIXED, "a", ["a…"]),
        (PatternType.PREFIXED, "abc", []),
        (PatternType.PREFIXED, None, ["a…", "ab…"]),
        (PatternType.UNKNOWN, None, []),
    ],
)
def test_pattern_types_find_what_kafka_finds(pattern: PatternType, name: str | None, found: list[str]) -> None:
    def made(text: str) -> Acl:
        kind = PatternType.PREFIXED if text.endswith("…") else PatternType.LITERAL
        return replace(topic(text.rstrip("…")), pattern_type=kind)

    wanted = replace(ANY, pattern_type=pattern, resource_name=name)
    assert [text for text in ("*", "a", "a…", "ab…") if wanted.matches(made(text))] == found


@given(st.lists(ACLS, max_size=20), FILTERS)
def test_an_index_finds_what_looking_at_every_acl_finds(given_acls: list[Acl], wanted: AclFilter) -> None:
    async def scenario() -> None:
        acls = await started(FragileLog())
        await acls.create(given_acls)
        assert set(acls.matching(wanted)) == {acl for acl in given_acls if wanted.matches(acl)}

    asyncio.run(scenario())


@given(st.lists(ACLS, max_size=20), st.lists(FILTERS, max_size=4))
def test_delete_removes_exactly_what_it_reports(given_acls: list[Acl], filters: list[AclFilter]) -> None:
    async def scenario() -> None:
        log = FragileLog()
        acls = await started(log)
        await acls.create(given_acls)
        told = await acls.delete(filters)
        removed = set()
        for wanted, matching in zip(filters, told, strict=True):
            assert isinstance(matching, list)
            assert set(matching) == {acl for acl in given_acls if wanted.matches(acl)}
            removed |= set(matching)
        log.crash()
        assert set((await started(log)).matching(ANY)) == set(acls.matching(ANY)) == set(given_acls) - removed

    asyncio.run(scenario())


def test_two_deletes_at_once_remove_once() -> None:
    async def scenario() -> None:
        log = FragileLog()
        acls = await started(log)
        await acls.create([READ_ORDERS, topic("other")])
        await asyncio.gather(acls.delete([ANY]), acls.delete([ANY]))
        assert len(acls) == 0
        assert not log.durable
        assert not await acls.create([READ_ORDERS])

    asyncio.run(scenario())


def test_beyond_the_number_of_acls_each_one_is_refused_until_there_is_room() -> None:
    async def scenario() -> None:
        acls = await started(FragileLog(), max_acls=2)
        refused = await acls.create([topic("a"), topic("b"), topic("c"), topic("a")])
        assert list(refused) == [topic("c")]
        assert isinstance(refused[topic("c")], PolicyViolation)
        assert str(refused[topic("c")]) == "There can be no more than 2 ACLs."
        await acls.delete([replace(ANY, resource_name="a")])
        assert not await acls.create([topic("c")])

    asyncio.run(scenario())


def test_the_size_of_all_acls_is_bounded_also_after_a_restart() -> None:
    async def scenario() -> None:
        log = FragileLog()
        limit = 3 * topic("x" * 100).size_bytes
        acls = await started(log, max_bytes=limit)
        assert not await acls.create([topic(letter * 100) for letter in "abc"])
        acls = await started(log, max_bytes=limit)
        refused = await acls.create([topic("d" * 100)])
        assert isinstance(refused[topic("d" * 100)], PolicyViolation)
        await acls.delete([replace(ANY, resource_name="a" * 100)])
        assert not await acls.create([topic("d" * 100)])

    asyncio.run(scenario())


def test_filters_that_match_the_same_acls_again_and_again_are_refused() -> None:
    async def scenario() -> None:
        acls = await started(FragileLog(), max_bytes=10 * READ_ORDERS.size_bytes)
        await acls.create([READ_ORDERS])
        with pytest.raises(PolicyViolation, match="too often"):
            await acls.delete([ANY] * 11)
        with pytest.raises(PolicyViolation, match="excessively large"):
            await acls.delete([replace(ANY, resource_name="none")] * (module.MAX_CHANGES + 1))
        assert acls.matching(ANY) == [READ_ORDERS]
        assert await acls.delete([ANY] * 10) == [[READ_ORDERS]] * 10

    asyncio.run(scenario())


def test_too_many_changes_in_one_request_change_nothing() -> None:
    async def scenario() -> None:
        acls = await started(FragileLog())
        unnamed = topic("")
        refused = await acls.create([topic(f"t{number}") for number in range(module.MAX_CHANGES + 1)] + [unnamed])
        assert str(refused[unnamed]) == "Invalid empty resource name"
        del refused[unnamed]  # type: ignore[attr-defined]
        assert len(refused) == module.MAX_CHANGES + 1
        assert {str(why) for why in refused.values()} == {"Unable to perform excessively large batch operation."}
        assert len(acls) == 0
        assert not await acls.create([topic(f"t{number}") for number in range(module.MAX_CHANGES)])
        await acls.create([topic("one more")])
        with pytest.raises(InvalidRequest, match=r"^Cannot remove more than 10000 acls in a single delete operation\.$"):
            await acls.delete([replace(ANY, resource_name="t1"), ANY])
        assert len(acls) == module.MAX_CHANGES + 1

    asyncio.run(scenario())
