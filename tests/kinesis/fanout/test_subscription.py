"""What a subscription sends, and when it ends."""

from __future__ import annotations

import pytest
from tests.kinesis.fanout.conftest import HORIZON, SHARD
from tests.kinesis.inside import ACCOUNT

from headrace.kinesis.codec.encoding import Encoding, Moment
from headrace.kinesis.fanout.subscription import HEARTBEAT_S
from headrace.record import Compression


def test_the_answer_is_an_event_stream_that_begins_at_once(stage):
    peer = stage.subscribe(stage.consumer(stage.stream()))
    assert peer.status == 200
    assert peer.headers[b"content-type"] == b"application/vnd.amazon.eventstream"
    assert peer.messages == [
        (
            {":event-type": "initial-response", ":content-type": "application/x-amz-json-1.1", ":message-type": "event"},
            {},
        )
    ]
    assert not peer.ended


def test_an_event_in_json_has_every_member(stage):
    stream = stage.stream()
    offset = stage.put(stream, b"one")
    made_ms = stage.clock.now_ms()
    peer = stage.subscribe(stage.consumer(stream))
    number = stream.shards[0].sequence_number(offset)
    headers, event = peer.messages[1]
    assert headers == {
        ":event-type": "SubscribeToShardEvent",
        ":content-type": "application/x-amz-json-1.1",
        ":message-type": "event",
    }
    arrived = event["Records"][0].pop("ApproximateArrivalTimestamp")
    assert abs(arrived * 1000 - made_ms) < 10
    assert event == {
        "Records": [{"Data": "b25l", "PartitionKey": "k", "SequenceNumber": number}],
        "ContinuationSequenceNumber": number,
        "MillisBehindLatest": 0,
    }


def test_an_event_in_cbor_has_every_member(stage):
    stream = stage.stream()
    offset = stage.put(stream, b"\x00\xff")
    peer = stage.subscribe(stage.consumer(stream), encoding=Encoding.CBOR)
    number = stream.shards[0].sequence_number(offset)
    assert [headers[":content-type"] for headers, _ in peer.messages] == ["application/x-amz-cbor-1.1"] * 2
    event = peer.events[0]
    arrived = event["Records"][0].pop("ApproximateArrivalTimestamp")
    assert isinstance(arrived, Moment)
    assert event == {
        "Records": [{"Data": b"\x00\xff", "PartitionKey": "k", "SequenceNumber": number}],
        "ContinuationSequenceNumber": number,
        "MillisBehindLatest": 0,
    }


def test_what_is_put_is_pushed_without_asking(stage):
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))
    for number in range(20):
        stage.put(stream, b"%d" % number)
        assert peer.data == [b"%d" % each for each in range(number + 1)]
    assert [len(event["Records"]) for event in peer.events] == [1] * 20


def test_a_batch_is_one_event_whatever_its_compression(stage):
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))
    for compression in Compression:
        stage.put(stream, *(b"%d" % number for number in range(50)), compression=compression)
    assert [len(event["Records"]) for event in peer.events] == [50] * len(Compression)


# --- where it begins


def test_it_begins_where_the_position_says(stage):
    stream = stage.stream()
    stage.put(stream, b"0")
    stage.advance(10)
    between_s = stage.clock.now_ms() / 1000
    stage.advance(10)
    second = stage.put(stream, b"1", b"2")
    number = stream.shards[0].sequence_number(second)
    positions = {
        "horizon": HORIZON,
        "at": {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": number},
        "after": {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": number},
        "time": {"Type": "AT_TIMESTAMP", "Timestamp": between_s},
        "start": {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": stream.shards[0].starting_sequence_number},
        "latest": {"Type": "LATEST"},
    }
    peers = {name: stage.subscribe(stage.consumer(stream, name), position) for name, position in positions.items()}
    stage.put(stream, b"3")
    assert {name: peer.data for name, peer in peers.items()} == {
        "horizon": [b"0", b"1", b"2", b"3"],
        "at": [b"1", b"2", b"3"],
        "after": [b"2", b"3"],
        "time": [b"1", b"2", b"3"],
        "start": [b"0", b"1", b"2", b"3"],
        "latest": [b"3"],
    }


def test_what_retention_took_is_passed_over(stage):
    stream = stage.stream()
    stage.put(stream, b"0", b"1", b"2")
    number = stream.shards[0].sequence_number(0)
    stage.put(stream, b"3")
    stage.run(stream.topic.partitions[0].trim(3))
    peer = stage.subscribe(stage.consumer(stream), {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": number})
    assert peer.data == [b"3"]


def test_the_continuation_number_goes_on_after_everything_that_was_sent(stage):
    stream = stage.stream()
    stage.put(stream, *(b"%d" % number for number in range(7)))
    first = stage.subscribe(stage.consumer(stream, "first"))
    number = first.events[-1]["ContinuationSequenceNumber"]
    stage.put(stream, b"7")
    second = stage.subscribe(stage.consumer(stream, "second"), {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": number})
    assert second.data == [b"7"]


def test_the_continuation_number_of_an_empty_shard_leaves_nothing_out(stage):
    stream = stage.stream()
    idle = stage.subscribe(stage.consumer(stream, "idle"), {"Type": "LATEST"})
    stage.advance(HEARTBEAT_S)
    number = idle.events[-1]["ContinuationSequenceNumber"]
    stage.put(stream, b"first")
    after = stage.subscribe(stage.consumer(stream, "after"), {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": number})
    assert after.data == [b"first"]


# --- signs of life


def test_an_idle_subscription_says_that_it_lives(stage):
    stream = stage.stream()
    offset = stage.put(stream, b"one")
    peer = stage.subscribe(stage.consumer(stream))
    for count in range(1, 4):
        stage.advance(HEARTBEAT_S)
        assert (
            peer.events[1:]
            == [
                {
                    "Records": [],
                    "ContinuationSequenceNumber": stream.shards[0].sequence_number(offset),
                    "MillisBehindLatest": 0,
                }
            ]
            * count
        )


def test_a_busy_subscription_sends_nothing_but_records(stage):
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))
    for number in range(10):
        stage.advance(HEARTBEAT_S - 1)
        stage.put(stream, b"%d" % number)
    assert [len(event["Records"]) for event in peer.events] == [1] * 10


def test_records_begin_the_wait_for_a_sign_of_life_anew(stage):
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))
    stage.advance(HEARTBEAT_S)
    stage.advance(HEARTBEAT_S - 1)
    stage.put(stream, b"one")
    stage.advance(HEARTBEAT_S - 1)
    assert [len(event["Records"]) for event in peer.events] == [0, 1]
    stage.advance(1)
    assert [len(event["Records"]) for event in peer.events] == [0, 1, 0]


def test_it_says_how_far_behind_a_reader_is(stage):
    stream = stage.stream()
    stage.put(stream, b"x" * 700_000)
    stage.advance(60)
    stage.put(stream, b"y" * 700_000)
    peer = stage.subscribe(stage.consumer(stream))
    first, second = peer.events
    assert 60_000 <= first["MillisBehindLatest"] < 61_000
    assert second["MillisBehindLatest"] == 0


# --- the end


def test_a_closed_shard_ends_with_its_children_and_without_a_continuation(stage):
    stream = stage.stream()
    stage.put(stream, b"one")
    peer = stage.subscribe(stage.consumer(stream))
    stage.run(stage.broker.streams.split(stream, stream.shards[0], 2**127))
    stage.settle()
    assert peer.data == [b"one"]
    assert peer.events[-1] == {
        "Records": [],
        "MillisBehindLatest": 0,
        "ChildShards": [
            {
                "ShardId": "shardId-000000000001",
                "ParentShards": [SHARD],
                "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**127 - 1)},
            },
            {
                "ShardId": "shardId-000000000002",
                "ParentShards": [SHARD],
                "HashKeyRange": {"StartingHashKey": str(2**127), "EndingHashKey": str(2**128 - 1)},
            },
        ],
    }
    assert peer.ended
    assert peer.exception is None
    assert len(stage.subscriptions) == 0


def test_a_shard_that_is_closed_already_is_sent_to_its_end(stage):
    stream = stage.stream(shards=2)
    stage.put(stream, b"one", shard=1)
    stage.run(stage.broker.streams.merge(stream, *stream.shards))
    consumer = stage.consumer(stream)
    empty, full = stage.subscribe(consumer), stage.subscribe(consumer, shard="shardId-000000000001")
    assert (empty.data, full.data) == ([], [b"one"])
    for peer in (empty, full):
        assert [child["ShardId"] for child in peer.events[-1]["ChildShards"]] == ["shardId-000000000002"]
        assert peer.events[-1]["ChildShards"][0]["ParentShards"] == [SHARD, "shardId-000000000001"]
        assert peer.ended


def test_a_subscription_ends_when_its_time_is_over(make_stage):
    stage = make_stage(kinesis_subscription_ms=60_000)
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))
    stage.advance(59)
    assert not peer.ended
    stage.advance(1)
    assert peer.ended
    assert peer.exception is None
    assert len(stage.subscriptions) == 0


def test_a_deleted_stream_ends_it_with_an_exception(stage):
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))
    stage.run(stage.broker.streams.delete(stream, with_consumers=True))
    stage.settle()
    assert peer.messages[-1][0] == {
        ":exception-type": "ResourceNotFoundException",
        ":content-type": "application/x-amz-json-1.1",
        ":message-type": "exception",
    }
    assert peer.exception == ("ResourceNotFoundException", f"Stream orders under account {ACCOUNT} not found.")
    assert peer.ended


def test_a_topic_deleted_by_another_protocol_ends_it_too(stage):
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream), encoding=Encoding.CBOR)
    stage.run(stage.broker.topics.delete("orders"))
    stage.settle()
    assert peer.exception == ("ResourceNotFoundException", f"Stream orders under account {ACCOUNT} not found.")
    assert peer.messages[-1][0][":content-type"] == "application/x-amz-cbor-1.1"


def test_a_deregistered_consumer_ends_it_with_an_exception(stage):
    stream = stage.stream()
    gone, stays = stage.consumer(stream, "gone"), stage.consumer(stream, "stays")
    peers = stage.subscribe(gone), stage.subscribe(stays)
    stage.run(stage.broker.streams.deregister_consumer(gone))
    stage.settle()
    assert peers[0].exception == ("ResourceNotFoundException", f"Consumer {gone.arn}, account {ACCOUNT} not found.")
    assert peers[0].ended
    assert not peers[1].ended


def test_a_peer_that_leaves_ends_it(stage):
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))
    watchers = len(stream.topic.partitions[0].watchers)
    stage.call(peer.leave)
    stage.settle()
    assert len(stage.subscriptions) == 0
    assert len(stream.topic.partitions[0].watchers) == watchers - 1
    assert not stream.changed._watching
    stage.put(stream, b"to nobody")
    assert peer.data == []


def test_a_server_that_stops_ends_it_without_an_exception(stage):
    peer = stage.subscribe(stage.consumer(stage.stream()))
    stage.call(stage.service.close)
    stage.settle()
    assert peer.ended
    assert peer.exception is None


def test_a_log_that_can_not_be_read_ends_it_with_an_exception(stage, monkeypatch):
    from headrace.log.errors import StorageError

    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))

    async def broken(*_: object, **__: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr("headrace.kinesis.fanout.portions.read_records", broken)
    stage.put(stream, b"one")
    assert peer.exception == ("InternalFailureException", "The request processing has failed because of an unknown error.")
    assert peer.ended


@pytest.mark.parametrize("fault", [RuntimeError("what is this"), KeyError("x")])
def test_a_fault_ends_one_subscription_and_no_other(stage, monkeypatch, fault):
    from headrace.kinesis.fanout import portions

    stream, other = stage.stream(), stage.stream("other")
    peers = stage.subscribe(stage.consumer(stream)), stage.subscribe(stage.consumer(other))
    read = portions.read_records

    async def broken(asked, *given: object, **more: object):
        if asked is stream:
            raise fault
        return await read(asked, *given, **more)

    monkeypatch.setattr(portions, "read_records", broken)
    stage.put(stream, b"one")
    stage.put(other, b"one")
    assert peers[0].exception[0] == "InternalFailureException"
    assert peers[1].data == [b"one"]
