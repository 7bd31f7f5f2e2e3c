"""The Kinesis API as the console asks for it, and what it draws of shards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest

from headrace.console.access import Credentials, Server, ServerError
from headrace.console.kinesis_access import KinesisAccess, kinesis_url

pytest.importorskip("nicegui", reason="NiceGUI is not installed")

ANN = Credentials("ann", "secret")


def kinesis(answer: Callable[[httpx.Request], httpx.Response], *, region: str = "", read_only: bool = False) -> KinesisAccess:
    def with_overview(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/overview":
            return httpx.Response(200, json={"listeners": {"kinesis": "127.0.0.1:4567"}})
        return answer(request)

    server = Server("http://server", read_only=read_only, transport=httpx.MockTransport(with_overview))
    return KinesisAccess(server.access(ANN), region)


def test_a_call_goes_unsigned_to_the_address_that_the_server_names() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((str(request.url), request.headers["x-amz-target"], json.loads(request.content)))
        assert "authorization" not in request.headers
        return httpx.Response(200, json={"ok": 1})

    assert asyncio.run(kinesis(answer).call("ListShards", {"StreamName": "s"})) == {"ok": 1}
    assert asked == [("http://127.0.0.1:4567/", "Kinesis_20131202.ListShards", {"StreamName": "s"})]


def test_a_server_that_wants_signatures_gets_those_of_the_person() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if "authorization" not in request.headers:
            return httpx.Response(400, json={"__type": "MissingAuthenticationTokenException", "message": "no"})
        assert "Credential=ann/" in request.headers["authorization"]
        assert "/us-east-1/kinesis/" in request.headers["authorization"]
        return httpx.Response(200, json={})

    assert asyncio.run(kinesis(answer).call("ListStreams", {})) == {}


def test_another_region_is_said_by_the_signature() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert "/eu-west-1/kinesis/" in request.headers["authorization"]
        return httpx.Response(200, json={})

    assert asyncio.run(kinesis(answer, region="eu-west-1").call("ListStreams", {})) == {}


def test_what_kinesis_refuses_is_told_in_its_own_words() -> None:
    said = httpx.Response(400, json={"__type": "com.aws#ResourceInUseException", "message": "it is busy"})
    with pytest.raises(ServerError, match=r"^it is busy \(ResourceInUseException\)$") as refused:
        asyncio.run(kinesis(lambda _: said).call("SplitShard", {}))
    assert refused.value.status == 400


def test_read_only_asks_and_changes_nothing() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["x-amz-target"].rpartition(".")[2])
        return httpx.Response(200, json={})

    async def try_all() -> None:
        access = kinesis(answer, read_only=True)
        for operation in ("ListStreams", "DescribeStreamSummary", "GetRecords"):
            await access.call(operation, {})
        for operation in ("CreateStream", "PutRecord", "SplitShard", "MergeShards", "UpdateShardCount", "DeleteStream"):
            with pytest.raises(ServerError, match="read-only"):
                await access.call(operation, {})

    asyncio.run(try_all())
    assert asked == ["ListStreams", "DescribeStreamSummary", "GetRecords"]


def test_streams_with_a_text_in_their_name_are_found_over_many_answers() -> None:
    names = [f"a{number:04}" for number in range(2500)] + ["orders", "orders-eu", "rides"]

    def answer(request: httpx.Request) -> httpx.Response:
        wanted = json.loads(request.content)
        behind = [name for name in names if name > wanted.get("ExclusiveStartStreamName", "")]
        part = behind[: wanted["Limit"]]
        body = {"StreamSummaries": [{"StreamName": name} for name in part], "HasMoreStreams": len(part) < len(behind)}
        return httpx.Response(200, json=body)

    found, following = asyncio.run(kinesis(answer).streams("orders", None, 1))
    assert ([one["StreamName"] for one in found], following) == (["orders"], "orders")
    found, following = asyncio.run(kinesis(answer).streams("orders", "orders", 5))
    assert ([one["StreamName"] for one in found], following) == (["orders-eu"], None)


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
