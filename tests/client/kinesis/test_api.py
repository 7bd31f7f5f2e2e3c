"""What the calls ask, how lists of many pages become one, and how long is waited for what takes its time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.kinesis import api
from headrace.client.kinesis.api import Entry, Kinesis
from headrace.client.kinesis.errors import TimedOut
from headrace.client.kinesis.signing import Credentials
from headrace.client.kinesis.values import Consumer, Put, Shard, StreamName

SUMMARY = {
    "StreamName": "s",
    "StreamARN": "arn:aws:kinesis:us-east-1:123456789012:stream/s",
    "StreamStatus": "ACTIVE",
    "RetentionPeriodHours": 24,
    "OpenShardCount": 1,
}


@pytest.fixture
def kinesis(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kinesis]:
    monkeypatch.setattr(api, "_ASK_AGAIN_S", 0.0)
    with Kinesis(scripted.url, Credentials("any", "thing"), timeout_s=5) as made:
        yield made


def asked(scripted: Any) -> list[tuple[str, Any]]:
    return [(target.removeprefix("Kinesis_20131202."), given) for target, given, _ in scripted.asked]


def summary(**changed: object) -> dict[str, Any]:
    return {"StreamDescriptionSummary": SUMMARY | changed}


def test_streams_of_all_pages_are_one_list(scripted: Any, kinesis: Kinesis) -> None:
    one = {"StreamName": "a", "StreamStatus": "ACTIVE", "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}
    scripted.will_answer({"StreamNames": ["a"], "StreamSummaries": [one], "HasMoreStreams": True})
    scripted.will_answer({"StreamNames": ["b"], "HasMoreStreams": False})  # older servers have no summaries
    assert kinesis.streams() == [StreamName("a", None, "ACTIVE", "ON_DEMAND", None), StreamName("b")]
    assert asked(scripted) == [
        ("ListStreams", {"Limit": 1000}),
        ("ListStreams", {"Limit": 1000, "ExclusiveStartStreamName": "a"}),
    ]


def test_a_page_that_promises_more_and_has_nothing_ends_the_list(scripted: Any, kinesis: Kinesis) -> None:
    scripted.will_answer({"StreamNames": [], "HasMoreStreams": True})
    assert kinesis.streams() == []
    scripted.will_answer({"Tags": [], "HasMoreTags": True})
    assert kinesis.tags("s") == {}


def test_shards_of_all_pages_are_one_list(scripted: Any, kinesis: Kinesis) -> None:
    def shard(number: int, **more: object) -> dict[str, Any]:
        return {
            "ShardId": f"shardId-{number}",
            "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**127 - 1)},
            "SequenceNumberRange": {"StartingSequenceNumber": "1"},
            **more,
        }

    closed = shard(0, SequenceNumberRange={"StartingSequenceNumber": "1", "EndingSequenceNumber": "2"})
    child = shard(1, ParentShardId="shardId-0", AdjacentParentShardId="shardId-9")
    scripted.will_answer({"Shards": [closed], "NextToken": "more"})
    scripted.will_answer({"Shards": [child]})
    first, second = kinesis.shards("s")
    assert first == Shard("shardId-0", None, None, 0, 2**127 - 1, "1", "2")
    assert (first.open, first.parents, first.share) == (False, (), 0.5)
    assert (second.open, second.parents) == (True, ("shardId-0", "shardId-9"))
    assert asked(scripted) == [("ListShards", {"StreamName": "s"}), ("ListShards", {"NextToken": "more"})]


def test_consumers_of_all_pages_are_one_list(scripted: Any, kinesis: Kinesis) -> None:
    def consumer(name: str) -> dict[str, Any]:
        return {
            "ConsumerName": name,
            "ConsumerARN": f"arn/{name}",
            "ConsumerStatus": "ACTIVE",
            "ConsumerCreationTimestamp": 1.5,
        }

    scripted.will_answer({"Consumers": [consumer("a")], "NextToken": "more"})
    scripted.will_answer({"Consumers": [consumer("b")]})
    assert kinesis.consumers("arn") == [Consumer(name, f"arn/{name}", "ACTIVE", 1500) for name in "ab"]
    assert asked(scripted)[1] == ("ListStreamConsumers", {"StreamARN": "arn", "NextToken": "more"})


def test_tags_of_all_pages_are_one_table(scripted: Any, kinesis: Kinesis) -> None:
    scripted.will_answer({"Tags": [{"Key": "a", "Value": "1"}], "HasMoreTags": True})
    scripted.will_answer({"Tags": [{"Key": "b"}], "HasMoreTags": False})
    assert kinesis.tags("s") == {"a": "1", "b": ""}
    assert asked(scripted)[1] == ("ListTagsForStream", {"StreamName": "s", "ExclusiveStartTagKey": "a"})


def test_a_stream_that_is_being_made_is_waited_for(scripted: Any, kinesis: Kinesis) -> None:
    seen: list[int] = []
    scripted.will_answer(summary(StreamStatus="CREATING", OpenShardCount=0))
    scripted.will_answer(summary(StreamStatus="UPDATING", OpenShardCount=1))
    scripted.will_answer(summary(OpenShardCount=2))
    assert kinesis.wait_until_active("s", seen=seen.append).open_shards == 2
    assert seen == [0, 1, 2]


def test_a_stream_that_is_never_active_ends_with_words(scripted: Any) -> None:
    scripted.will_answer(summary(StreamStatus="CREATING"))
    scripted.will_answer(summary(StreamStatus="CREATING"))
    with (
        Kinesis(scripted.url, Credentials("any", "thing"), timeout_s=0.1) as kinesis,
        pytest.raises(TimedOut, match=r"^stream 's' is not active after 0\.1 s; it may become so later$"),
    ):
        kinesis.wait_until_active("s")


def test_a_stream_that_is_being_deleted_is_waited_for(scripted: Any, kinesis: Kinesis) -> None:
    scripted.will_answer(summary(StreamStatus="DELETING"))
    scripted.will_answer({"__type": "ResourceNotFoundException", "message": "gone"}, 400)
    kinesis.wait_until_gone("s")
    assert len(scripted.asked) == 2


@pytest.mark.parametrize(
    ("hours", "operation"),
    [(48, "IncreaseStreamRetentionPeriod"), (24, "DecreaseStreamRetentionPeriod"), (30, None)],
)
def test_retention_goes_up_or_down_by_what_it_is_now(
    scripted: Any, kinesis: Kinesis, hours: int, operation: str | None
) -> None:
    scripted.will_answer(summary(RetentionPeriodHours=30))
    scripted.will_answer({})
    assert kinesis.set_retention("s", hours) == 30
    expected = [] if operation is None else [(operation, {"StreamName": "s", "RetentionPeriodHours": hours})]
    assert asked(scripted)[1:] == expected


def test_records_are_put_as_base64_and_each_has_an_answer(scripted: Any, kinesis: Kinesis) -> None:
    scripted.will_answer(
        {
            "FailedRecordCount": 1,
            "Records": [
                {"SequenceNumber": "7", "ShardId": "shardId-0"},
                {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "slow down"},
            ],
        }
    )
    found = kinesis.put_records("s", [Entry(b"\xff", "a", "5"), Entry(b"", "b")])
    assert found == [
        Put("shardId-0", "7", None, None),
        Put(None, None, "ProvisionedThroughputExceededException", "slow down"),
    ]
    [(_, given)] = asked(scripted)
    assert given["Records"] == [
        {"Data": "/w==", "PartitionKey": "a", "ExplicitHashKey": "5"},
        {"Data": "", "PartitionKey": "b"},
    ]
