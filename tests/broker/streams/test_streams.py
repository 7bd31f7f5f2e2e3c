"""Streams are made, found, seen and deleted: their own, and topics that nobody made as streams."""

from __future__ import annotations

import asyncio

import pytest
from tests.broker.streams.conftest import ACCOUNT, HALF, REGION, Site, check_shape

from headrace.broker.streams.altering import MAX_ON_DEMAND, Limits
from headrace.broker.streams.definition import Mode
from headrace.broker.streams.errors import (
    Busy,
    Exists,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    NotStored,
)
from headrace.broker.streams.registry import MAX_VIEWS
from headrace.broker.streams.stream import Status, Stream
from headrace.broker.topic_errors import PolicyViolation
from headrace.broker.topics import NewTopic
from headrace.log.errors import PartitionSealed


def names(site: Site, region: str = REGION, account: str = ACCOUNT) -> list[str]:
    return site.streams.names(account, region)


# --- making


def test_a_new_stream_is_a_topic_with_equal_shards(site: Site) -> None:
    stream = site.make("orders", 3)
    assert (stream.account, stream.region, stream.name) == (ACCOUNT, REGION, "orders")
    assert stream.arn == "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
    assert stream.status is Status.ACTIVE
    assert stream.mode is Mode.PROVISIONED
    assert stream.retention_hours == 24
    assert stream.max_record_bytes == 1024 * 1024
    assert 0 <= site.rig.clock.now_ms() - stream.created_ms < 100
    assert [shard.id for shard in stream.shards] == [f"shardId-00000000000{index}" for index in range(3)]
    assert [shard.created_ms for shard in stream.shards] == [stream.created_ms] * 3
    assert len(site.rig.log.topics()["orders"].partitions) == 3
    assert stream.topic.config["retention.ms"] == "86400000"
    check_shape(stream)


def test_what_was_made_is_there_after_a_crash(site: Site) -> None:
    stream = site.make("orders", 3, tags={"a": "1"}, max_record_kib=2048, warm_mibps=7, distribution="AUTO")
    site.crash()
    found = site.find("orders")
    assert found is not stream
    assert found.definition == stream.definition
    assert [repr(shard) for shard in found.shards] == [repr(shard) for shard in stream.shards]
    assert found.stream_id == stream.stream_id
    assert found.tags == {"a": "1"}
    assert (found.max_record_bytes, found.warm_mibps, found.distribution) == (2 * 1024 * 1024, 7, "AUTO")


def test_a_hash_key_finds_its_shard(site: Site) -> None:
    stream = site.make(shards=2)
    assert [stream.shard_for(key).index for key in (0, HALF - 1, HALF, (1 << 128) - 1)] == [0, 0, 1, 1]
    assert stream.partition(stream.shards[1]) is stream.topic.partitions[1]


def test_a_shard_is_found_by_its_id(site: Site) -> None:
    stream = site.make(shards=2)
    assert stream.shard("shardId-000000000001") is stream.shards[1]
    assert [stream.shard(text) for text in ("shardId-000000000002", "nonsense", "")] == [None, None, None]


def test_a_stream_on_demand_chooses_its_shards(site: Site) -> None:
    stream = site.make(mode=Mode.ON_DEMAND)
    assert (stream.mode, len(stream.open_shards)) == (Mode.ON_DEMAND, 4)


def test_the_same_name_twice_is_refused(site: Site) -> None:
    site.make()
    with pytest.raises(Exists, match=r"^Stream s under account 123456789012 already exists\.$"):
        site.make()


def test_of_two_who_make_the_same_one_wins(site: Site) -> None:
    async def both() -> list[Stream | BaseException]:
        work = (site.streams.create(ACCOUNT, REGION, "s") for _ in range(2))
        return await asyncio.gather(*work, return_exceptions=True)

    found = site.run(both())
    assert sorted(type(one).__name__ for one in found) == ["Exists", "Stream"]
    assert [topic.name for topic in site.topics.all()] == ["s"]


def test_a_stream_that_is_being_made_is_nobody_elses(site: Site) -> None:
    async def make_and_look() -> tuple[list[str], list[str]]:
        task = asyncio.ensure_future(site.streams.create(ACCOUNT, REGION, "s"))
        seen: list[str] = []
        while not task.done():
            seen += names(site, "eu-west-1")
            await asyncio.sleep(0)
        await task
        return seen, names(site, "eu-west-1")

    assert site.run(make_and_look()) == ([], [])


def test_the_same_name_in_other_regions_and_accounts_gets_topics_of_its_own(site: Site) -> None:
    first = site.make("s")
    second = site.make("s", region="eu-west-1")
    third = site.make("s", region="eu-west-1", account="210987654321")
    fourth = site.make("s", region="us-east-1", account="210987654321")
    assert [stream.topic.name for stream in (first, second, third, fourth)] == [
        "s",
        "s.eu-west-1",
        "s.eu-west-1.210987654321",
        "s.us-east-1",
    ]
    assert len({stream.stream_id for stream in (first, second, third, fourth)}) == 4
    site.crash()
    assert site.find("s", region="eu-west-1", account="210987654321").topic.name == "s.eu-west-1.210987654321"
    assert names(site, "eu-west-1") == ["s"]
    site.run(site.streams.delete(site.find("s")))
    assert names(site) == []
    assert names(site, "eu-west-1") == ["s"]


def test_no_free_topic_is_refused(site: Site) -> None:
    site.make("s")
    site.rig.create("s.eu-west-1")
    site.rig.create("s.eu-west-1.123456789012")
    with pytest.raises(Exists):
        site.make("s", region="eu-west-1")


def test_names_that_kafka_could_not_tell_apart_get_other_topics(site: Site) -> None:
    assert site.make("a.b").topic.name == "a.b"
    assert site.make("a_b").topic.name == "a_b.us-east-1"
    assert names(site) == ["a.b", "a_b"]


def test_a_name_that_no_topic_may_have(site: Site) -> None:
    assert site.make("..").topic.name == "...us-east-1"
    assert site.make("__consumer_offsets").topic.name == "__consumer_offsets.us-east-1"
    with pytest.raises(InvalidArgument, match="the server's own"):
        site.make("__headrace_streams")
    assert names(site) == ["..", "__consumer_offsets"]


def test_the_limit_of_shards_is_one_of_the_account_and_region() -> None:
    site = Site(settings={"kinesis.shard.limit": "5"})
    site.make("a", 3)
    site.make("b", 3, region="eu-west-1")
    with pytest.raises(
        LimitExceeded, match=r"Current shard count for the account: 3\. Limit: 5\. Number of additional .*: 3\."
    ):
        site.make("c", 3)
    stream = site.make("c", 2)
    with pytest.raises(LimitExceeded):
        site.split(stream, 0)
    with pytest.raises(LimitExceeded):
        site.run(site.streams.update_count(stream, 3))
    site.merge(stream, 0, 1)
    assert site.streams.limits(ACCOUNT, REGION) == Limits(5, 4, MAX_ON_DEMAND, 0)
    assert site.find("a").status is Status.ACTIVE
    site.rig.end()


def test_the_limit_of_streams_on_demand(site: Site) -> None:
    for number in range(MAX_ON_DEMAND):
        site.make(f"s{number}", mode=Mode.ON_DEMAND)
    with pytest.raises(LimitExceeded):
        site.make("one-more", mode=Mode.ON_DEMAND)
    stream = site.make("one-more")
    with pytest.raises(LimitExceeded):
        site.run(site.streams.set_mode(stream, Mode.ON_DEMAND))
    site.run(site.streams.delete(site.find("s0")))
    site.run(site.streams.set_mode(stream, Mode.ON_DEMAND))
    assert stream.mode is Mode.ON_DEMAND


def test_the_server_s_limit_of_partitions_holds() -> None:
    site = Site(settings={"max.partitions": "3"})
    with pytest.raises(LimitExceeded, match=r"max\.partitions"):
        site.make("s", 4)
    stream = site.make("s", 2)
    with pytest.raises(LimitExceeded, match=r"max\.partitions"):
        site.split(stream, 0)
    check_shape(stream)
    assert stream.status is Status.ACTIVE
    site.crash()
    assert names(site) == ["s"]
    site.rig.end()


def test_a_creation_goes_on_when_the_caller_goes_away(site: Site) -> None:
    caller = site.task(site.streams.create(ACCOUNT, REGION, "s"))
    caller.cancel()
    for _ in range(50):
        site.rig.turn()
        site.rig.pump()
    assert caller.cancelled()
    assert names(site) == ["s"]


def test_a_crash_while_it_is_made_leaves_it_made_or_nothing() -> None:
    seen = set()
    for seed in range(60):
        site = Site()
        task = site.task(site.streams.create(ACCOUNT, REGION, "s", shards=2))
        for _ in range(seed % 20):
            site.rig.turn()
            if seed % 3:
                site.rig.pump()
        was_made = task.done()
        site.crash(seed)
        found = site.streams.find(ACCOUNT, REGION, "s")
        there = found is not None and found.stored
        seen.add(there)
        assert there or (not was_made and found is None and not list(site.topics.all()))
        if found is not None:
            check_shape(found)
        else:
            check_shape(site.make())
        site.rig.end()
    assert seen == {True, False}


# --- finding


def test_streams_are_found_by_arn_and_id(site: Site) -> None:
    stream = site.make()
    site.rig.create("plain")
    plain = site.find("plain")
    assert site.streams.find_arn(stream.arn) is stream
    assert site.streams.find_arn(stream.arn + "/consumer/c:17") is stream
    assert site.streams.find_arn(stream.arn.replace("us-east-1", "eu-west-1")) is None
    assert site.streams.find_arn("nonsense") is None
    assert site.streams.find_id(ACCOUNT, REGION, stream.stream_id) is stream
    assert site.streams.find_id(ACCOUNT, "eu-west-1", stream.stream_id) is None
    assert site.streams.find_id(ACCOUNT, REGION, plain.stream_id) is plain
    assert site.streams.find_id(ACCOUNT, REGION, "0" * 20 + "-000") is None


# --- deleting


def test_a_deleted_stream_is_gone_with_its_topic(site: Site) -> None:
    stream = site.make()
    site.run(site.streams.delete(stream))
    assert (stream.gone, stream.status) == (True, Status.DELETING)
    assert names(site) == []
    assert "s" not in site.rig.log.topics()
    with pytest.raises(NotFound):
        site.run(site.streams.delete(stream))
    site.crash()
    assert names(site) == []
    assert site.make().stream_id != stream.stream_id


def test_a_topic_deleted_by_another_protocol_takes_the_stream_with_it(site: Site) -> None:
    stream = site.make(shards=2)
    site.run(site.streams.register_consumer(stream, "c"))
    site.run(site.topics.delete("s"))
    assert stream.gone
    assert site.streams.find(ACCOUNT, REGION, "s") is None
    site.rig.create("s", 3)
    again = site.find()
    assert not again.stored
    assert len(again.open_shards) == 3
    site.crash()
    assert not site.find().stored
    assert site.find().consumers == {}


def test_a_row_whose_topic_is_gone_after_a_crash_is_dropped(site: Site) -> None:
    stream = site.make(shards=2)
    site.split(stream, 0)
    site.run(site.streams.register_consumer(stream, "c"))
    site.run(site.rig.log.delete_topic("s"))  # and the power goes off before the row is
    site.rig.create("s", 1)
    site.crash()
    found = site.find()
    assert not found.stored
    check_shape(found)
    assert site.run(site.rig.log.table("__headrace_streams")).get(f"{ACCOUNT}/{REGION}/s".encode()) is None
    assert len(site.run(site.rig.log.table("__headrace_streams"))) == 0


def test_a_stream_with_consumers_is_deleted_only_on_demand(site: Site) -> None:
    stream = site.make()
    consumer = site.run(site.streams.register_consumer(stream, "c"))
    with pytest.raises(Busy, match="EnforceConsumerDeletion"):
        site.run(site.streams.delete(stream))
    assert stream.status is Status.ACTIVE
    site.run(site.streams.delete(stream, with_consumers=True))
    assert consumer.gone
    assert site.make().consumers == {}
    site.crash()
    assert site.find().consumers == {}


def test_a_server_that_deletes_no_topics_deletes_no_streams() -> None:
    site = Site(settings={"delete.topic.enable": "false"})
    stream = site.make()
    with pytest.raises(InvalidArgument, match="disabled"):
        site.run(site.streams.delete(stream))
    assert stream.status is Status.ACTIVE
    site.rig.end()


def test_a_topic_that_has_the_name_since_is_not_deleted_with_the_stream(site: Site) -> None:
    stream = site.make()

    async def delete_twice() -> list[BaseException | None]:
        async def by_kafka() -> None:
            await site.topics.delete("s")

        async def made_again() -> None:
            while "s" in site.rig.log.topics():  # noqa: ASYNC110  the log tells nobody
                await asyncio.sleep(0)
            await site.topics.create(NewTopic("s", 1))

        return await asyncio.gather(by_kafka(), site.streams.delete(stream), made_again(), return_exceptions=True)

    assert [type(one).__name__ for one in site.run(delete_twice())] == ["NoneType", "NotFound", "NoneType"]
    assert not site.find().stored


def test_those_who_wait_are_told_that_it_is_gone(site: Site) -> None:
    stream = site.make()
    waiting = site.task(stream.changed.wait())
    site.run(site.streams.delete(stream))
    assert waiting.done()


# --- topics that nobody made as streams


def test_a_topic_is_seen_as_a_stream_in_every_account_and_region(site: Site) -> None:
    site.rig.create("plain", 3, retention_ms="7200000")
    for account, region in ((ACCOUNT, REGION), ("210987654321", "eu-west-1")):
        stream = site.find("plain", account=account, region=region)
        assert names(site, region, account) == ["plain"]
        assert stream.arn == f"arn:aws:kinesis:{region}:{account}:stream/plain"
        assert not stream.stored
        assert stream.created_ms == 0
        assert stream.retention_hours == 2
        assert [shard.created_ms for shard in stream.shards] == [0, 0, 0]
        check_shape(stream)
        assert site.find("plain", account=account, region=region) is stream
    with pytest.raises(Exists):
        site.make("plain")


def test_internal_hidden_and_long_names_are_not_seen(site: Site) -> None:
    for name in ("__consumer_offsets", "__headrace_mine", "x" * 129):
        site.rig.create(name)
    site.rig.create("x" * 128)
    assert names(site) == ["x" * 128]
    assert site.streams.find(ACCOUNT, REGION, "__consumer_offsets") is None
    assert site.streams.find(ACCOUNT, REGION, "__headrace_mine") is None
    assert site.streams.find(ACCOUNT, REGION, "x" * 129) is None


def test_partitions_that_kafka_adds_show_at_once(site: Site) -> None:
    site.rig.create("plain", 2)
    stream = site.find("plain")
    site.run(site.topics.add_partitions("plain", 4))
    assert stream.shard_for((1 << 128) - 1).index == 3
    assert len(stream.shards) == len(stream.open_shards) == 4
    check_shape(stream)


def test_retention_that_kafka_changes_shows_at_once(site: Site) -> None:
    stream = site.make()
    for given, hours in (("172800000", 48), ("-1", 8760), ("1000", 1), ("3153600000000", 8760)):
        config = {"retention.ms": given, "segment.ms": "100"}
        site.run(site.topics.configure("s", lambda before, config=config: {**before, **config}))
        assert stream.retention_hours == hours
    site.rig.create("plain")
    assert site.find("plain").retention_hours == 168  # the server's default


def test_a_change_gives_the_topic_to_the_account_and_region_that_made_it(site: Site) -> None:
    site.rig.create("plain", 2)
    elsewhere = site.find("plain", region="eu-west-1")
    stream = site.find("plain")
    site.run(site.streams.add_tags(stream, {"a": "1"}))
    assert stream.stored
    assert site.find("plain") is stream
    assert names(site) == ["plain"]
    assert names(site, "eu-west-1") == []
    assert elsewhere.gone
    with pytest.raises(NotFound):
        site.run(site.streams.add_tags(elsewhere, {"a": "2"}))
    site.crash()
    found = site.find("plain")
    assert (found.stored, found.tags) == (True, {"a": "1"})
    assert [shard.created_ms for shard in found.shards] == [0, 0]
    assert names(site, "eu-west-1") == []


def test_of_two_regions_that_change_it_at_once_one_gets_it(site: Site) -> None:
    site.rig.create("plain", 2)
    views = [site.find("plain", region=region) for region in ("us-east-1", "eu-west-1")]

    async def both() -> list[BaseException | None]:
        return await asyncio.gather(*(site.streams.add_tags(view, {"a": "1"}) for view in views), return_exceptions=True)

    assert sorted(type(one).__name__ for one in site.run(both())) == ["NoneType", "NotFound"]
    assert [view.gone for view in views].count(True) == 1


def test_a_topic_that_is_resharded_is_a_stream_from_then_on(site: Site) -> None:
    site.rig.create("plain", 1)
    site.rig.write(b"before", topic="plain")
    stream = site.find("plain")
    site.split(stream, 0)
    check_shape(stream)
    assert stream.shards[0].closed_at == 1
    assert [shard.parent for shard in stream.open_shards] == [0, 0]
    site.crash()
    check_shape(site.find("plain"))
    with pytest.raises(PartitionSealed, match="shardId-000000000000 was split or merged"):
        site.rig.append(b"after", topic="plain")


def test_views_are_few_but_those_that_are_held_stay(site: Site) -> None:
    site.rig.create("plain", 1)
    held = site.find("plain", region="held")
    for number in range(MAX_VIEWS + 10):
        site.find("plain", region=f"r{number}")
    assert len(site.streams._registry._views) <= MAX_VIEWS + 1
    assert site.find("plain", region="held") is held
    site.run(site.topics.delete("plain"))
    assert held.gone


# --- partitions of a stream's topic


def test_kafka_may_not_add_partitions_to_a_stream(site: Site) -> None:
    site.make()
    with pytest.raises(PolicyViolation, match="use UpdateShardCount or SplitShard"):
        site.run(site.topics.add_partitions("s", 2))
    site.run(site.streams.delete(site.find()))
    site.run(site.topics.create(NewTopic("s", 1)))
    site.run(site.topics.add_partitions("s", 2))


def test_a_server_without_streams_has_no_table_of_them(site: Site) -> None:
    site.rig.create("plain")
    site.find("plain")
    assert "__headrace_streams" not in site.rig.log.topics()


def test_a_stream_that_the_log_does_not_take_is_not_there(site: Site) -> None:
    site.make("first")
    site.rig.disk.fail_next_syncs = 1
    with pytest.raises(NotStored):
        site.make()
    assert names(site) == ["first"]
