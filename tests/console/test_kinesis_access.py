"""The Kinesis API as the console asks for it, and what it draws of shards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.console.answering import Answering, Asked, Said, shown

from headrace.console.access import Credentials, ServerError
from headrace.console.kinesis_access import KinesisAccess, kinesis_url

pytest.importorskip("nicegui", reason="NiceGUI is not installed")

ANN = Credentials("ann", "secret")


@asynccontextmanager
async def kinesis_of(answer: Answering, *, region: str = "", read_only: bool = False) -> AsyncIterator[KinesisAccess]:
    """Of a server that names its own address as that of Kinesis."""

    def with_overview(asked: Asked) -> Said:
        if asked.path == "/v1/overview":
            return Said.json(200, {"listeners": {"kinesis": server.url.removeprefix("http://")}})
        return answer(asked)

    async with shown(with_overview, read_only=read_only) as server:
        yield KinesisAccess(server.access(ANN), region)


def called(answer: Answering, operation: str, parameters: dict, region: str = "") -> object:
    async def call() -> object:
        async with kinesis_of(answer, region=region) as kinesis:
            return await kinesis.call(operation, parameters)

    return asyncio.run(call())


def test_a_call_goes_unsigned_to_the_address_that_the_server_names() -> None:
    seen = []

    def answer(asked: Asked) -> Said:
        seen.append((asked.path, asked.headers["x-amz-target"], asked.headers["content-type"], json.loads(asked.content)))
        assert "authorization" not in asked.headers
        return Said.json(200, {"ok": 1})

    assert called(answer, "ListShards", {"StreamName": "s"}) == {"ok": 1}
    assert seen == [("/", "Kinesis_20131202.ListShards", "application/x-amz-json-1.1", {"StreamName": "s"})]


def test_a_server_that_wants_signatures_gets_those_of_the_person() -> None:
    def answer(asked: Asked) -> Said:
        if "authorization" not in asked.headers:
            return Said.json(400, {"__type": "MissingAuthenticationTokenException", "message": "no"})
        assert "Credential=ann/" in asked.headers["authorization"]
        assert "/us-east-1/kinesis/" in asked.headers["authorization"]
        return Said.json(200, {})

    assert called(answer, "ListStreams", {}) == {}


def test_another_region_is_said_by_the_signature() -> None:
    def answer(asked: Asked) -> Said:
        assert "/eu-west-1/kinesis/" in asked.headers["authorization"]
        return Said.json(200, {})

    assert called(answer, "ListStreams", {}, region="eu-west-1") == {}


def test_what_kinesis_refuses_is_told_in_its_own_words() -> None:
    said = Said.json(400, {"__type": "com.aws#ResourceInUseException", "message": "it is busy"})
    with pytest.raises(ServerError, match=r"^it is busy \(ResourceInUseException\)$") as refused:
        called(lambda _: said, "SplitShard", {})
    assert refused.value.status == 400


def test_a_stream_that_is_not_there_is_not_found_as_anything_else_is() -> None:
    said = Said.json(400, {"__type": "ResourceNotFoundException", "message": "no such stream"})
    with pytest.raises(ServerError, match="no such stream") as missing:
        called(lambda _: said, "DescribeStreamSummary", {})
    assert missing.value.status == 404


def test_read_only_asks_and_changes_nothing() -> None:
    seen = []

    def answer(asked: Asked) -> Said:
        seen.append(asked.headers["x-amz-target"].rpartition(".")[2])
        return Said.json(200, {})

    async def try_all() -> None:
        async with kinesis_of(answer, read_only=True) as kinesis:
            for operation in ("ListStreams", "DescribeStreamSummary", "GetRecords"):
                await kinesis.call(operation, {})
            for operation in ("CreateStream", "PutRecord", "SplitShard", "MergeShards", "UpdateShardCount", "DeleteStream"):
                with pytest.raises(ServerError, match="read-only"):
                    await kinesis.call(operation, {})

    asyncio.run(try_all())
    assert seen == ["ListStreams", "DescribeStreamSummary", "GetRecords"]


def test_streams_with_a_text_in_their_name_are_found_over_many_answers() -> None:
    names = [f"a{number:04}" for number in range(2500)] + ["orders", "orders-eu", "rides"]

    def answer(asked: Asked) -> Said:
        wanted = json.loads(asked.content)
        behind = [name for name in names if name > wanted.get("ExclusiveStartStreamName", "")]
        part = behind[: wanted["Limit"]]
        body = {"StreamSummaries": [{"StreamName": name} for name in part], "HasMoreStreams": len(part) < len(behind)}
        return Said.json(200, body)

    async def look() -> None:
        async with kinesis_of(answer) as kinesis:
            found, following = await kinesis.streams("orders", None, 1)
            assert ([one["StreamName"] for one in found], following) == (["orders"], "orders")
            found, following = await kinesis.streams("orders", "orders", 5)
            assert ([one["StreamName"] for one in found], following) == (["orders-eu"], None)

    asyncio.run(look())


def test_an_address_that_means_any_is_that_of_the_server() -> None:
    assert kinesis_url("http://server:8080", "127.0.0.1:4567") == "http://127.0.0.1:4567"
    assert kinesis_url("http://server:8080", "0.0.0.0:4567") == "http://server:4567"
    assert kinesis_url("http://[::1]:8080", "[::]:4567") == "http://[::1]:4567"


def shard(number: int, first: float, last: float, *of: int, is_open: bool = True) -> dict:
    """`first` and `last` are shares of all hash keys."""
    keys = {"StartingHashKey": str(int(first * 2**128)), "EndingHashKey": str(int(last * 2**128) - 1)}
    numbers = {"StartingSequenceNumber": "0"} | ({} if is_open else {"EndingSequenceNumber": "9"})
    names = dict(zip(("ParentShardId", "AdjacentParentShardId"), (f"shardId-{one:012}" for one in of), strict=False))
    return {"ShardId": f"shardId-{number:012}", "HashKeyRange": keys, "SequenceNumberRange": numbers, **names}


def test_children_are_drawn_above_their_parents_where_their_keys_are() -> None:
    from headrace.console.pages.stream.lineage import layout, short

    shards = [
        shard(0, 0, 0.5, is_open=False),
        shard(1, 0.5, 0.75, 99),  # of one that is gone
        shard(2, 0.75, 1, 99, is_open=False),
        shard(3, 0, 0.25, 0, is_open=False),
        shard(4, 0.25, 0.5, 0, is_open=False),
        shard(5, 0, 0.5, 3, 4),
        shard(6, 0.75, 1, 2),
    ]
    drawn = [[(one and short(one["ShardId"]), width) for one, width in row] for row in layout(shards)]
    assert drawn == [
        [("0", 50.0), ("1", 25.0), ("2", 25.0)],
        [("3", 25.0), ("4", 25.0), (None, 25.0), ("6", 25.0)],
        [("5", 50.0)],
    ]


def test_a_shard_is_split_inside_its_keys_wherever_one_points() -> None:
    from headrace.console.pages.stream.acting import middle

    whole = shard(0, 0, 1)
    assert middle(whole, 50) == 2**127
    assert middle(whole, 25) == 2**126
    assert middle(whole, 0) == 1
    assert middle(whole, 100) == 2**128 - 1


def test_quantiles_are_the_bounds_that_so_many_stay_below() -> None:
    from headrace.console.pages.health import quantile_ms

    bounds = [0.001, 0.01, 0.1]
    assert quantile_ms(bounds, [0, 0, 0, 0], 0.5) is None
    assert quantile_ms(bounds, [98, 1, 1, 0], 0.5) == 1.0
    assert quantile_ms(bounds, [98, 1, 1, 0], 0.99) == 10.0
    assert quantile_ms(bounds, [0, 0, 0, 5], 0.99) == 100.0


def test_a_text_is_looked_for_as_it_is() -> None:
    from fnmatch import fnmatchcase

    from headrace.console.pages.find import glob

    for text in ("a*b", "what?", "x[1]", "plain"):
        assert fnmatchcase(f"before-{text}-behind", glob(text))
        assert not fnmatchcase("before-other-behind", glob(text))
