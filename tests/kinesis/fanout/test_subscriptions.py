"""One subscription for each consumer and shard, what is refused before it begins, and what slow or many readers cost."""

from __future__ import annotations

import asyncio

import pytest
from tests.kinesis.fanout.conftest import HORIZON, SHARD
from tests.kinesis.inside import ACCOUNT, REGION

from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.fanout.subscription import GRACE_S, HEARTBEAT_S
from headrace.kinesis.fanout.subscriptions import EVENT_BYTES, HOLD_S, LEAST_EVENT_BYTES, UNSENT_BYTES

BUSY = (
    "ResourceInUseException",
    f"Another active subscription exists for this consumer: {ACCOUNT}:orders:{SHARD}:reader",
)

# --- the second of the same


def test_a_second_subscription_within_five_seconds_is_refused(stage):
    stream = stage.stream()
    consumer = stage.consumer(stream)
    first = stage.subscribe(consumer)
    stage.advance(HOLD_S - 0.1)
    second = stage.subscribe(consumer)
    assert second.error == (400, *BUSY)
    assert second.headers[b"x-amzn-errortype"] == b"ResourceInUseException"
    stage.put(stream, b"one")
    assert first.data == [b"one"]


def test_a_later_one_takes_over_and_the_first_ends(stage):
    stream = stage.stream()
    consumer = stage.consumer(stream)
    first = stage.subscribe(consumer)
    stage.advance(HOLD_S)
    second = stage.subscribe(consumer)
    assert first.exception == BUSY
    assert first.ended
    stage.put(stream, b"one")
    assert (first.data, second.data) == ([], [b"one"])
    assert len(stage.subscriptions) == 1
    assert stage.subscribe(consumer).error == (400, *BUSY)


def test_one_that_has_ended_is_in_the_way_for_five_seconds_too(stage):
    consumer = stage.consumer(stage.stream())
    stage.call(stage.subscribe(consumer).leave)
    stage.settle()
    assert stage.subscribe(consumer).error == (400, *BUSY)
    stage.advance(HOLD_S)
    assert stage.subscribe(consumer).status == 200


def test_a_subscription_may_follow_at_once_on_one_that_had_its_time(make_stage):
    stage = make_stage(kinesis_subscription_ms=2_000)
    consumer = stage.consumer(stage.stream())
    first = stage.subscribe(consumer)
    stage.advance(2)
    assert first.ended
    assert stage.subscribe(consumer).status == 200


def test_a_consumer_registered_again_under_its_name_is_another_one(stage):
    stream = stage.stream()
    consumer = stage.consumer(stream)
    stage.subscribe(consumer)
    stage.run(stage.broker.streams.deregister_consumer(consumer))
    assert stage.subscribe(stage.consumer(stream)).status == 200


def test_consumers_and_shards_are_not_in_each_others_way(stage):
    stream = stage.stream(shards=3)
    consumers = [stage.consumer(stream, f"c{number}") for number in range(3)]
    peers = [stage.subscribe(each, shard=shard.id) for each in consumers for shard in stream.shards]
    assert [peer.status for peer in peers] == [200] * 9
    for shard in stream.shards:
        stage.put(stream, shard.id.encode(), shard=shard.index)
    assert [peer.data for peer in peers] == [[shard.id.encode()] for _ in consumers for shard in stream.shards]


def test_nothing_is_remembered_of_subscriptions_that_are_long_over(stage):
    stream = stage.stream()
    for number in range(20):
        consumer = stage.consumer(stream, f"c{number}")
        stage.call(stage.subscribe(consumer).leave)
        stage.settle()
    stage.advance(HOLD_S)
    assert len(stage.subscriptions) == 0
    assert stage.subscriptions._newest == {}


# --- refused before it begins


def refused(stage, given, encoding=Encoding.JSON):
    peer = stage.ask(given, encoding)
    assert not peer.started
    assert peer.ended
    return peer.error


def asked(consumer, position=HORIZON, shard=SHARD):
    return {"ConsumerARN": getattr(consumer, "arn", consumer), "ShardId": shard, "StartingPosition": position}


@pytest.mark.parametrize("encoding", Encoding)
def test_an_unknown_consumer_is_refused(stage, encoding):
    arn = stage.stream().arn + "/consumer/nobody:1700000000"
    status, kind, message = refused(stage, asked(arn), encoding)
    assert (status, kind.split("#")[-1], message) == (
        400,
        "ResourceNotFoundException",
        f"Consumer {arn}, account {ACCOUNT} not found.",
    )


def test_a_consumer_of_an_earlier_life_is_refused(stage):
    stream = stage.stream()
    arn = f"{stream.arn}/consumer/reader:{stage.clock.now_ms() // 1000 - 1}"
    stage.consumer(stream)
    assert refused(stage, asked(arn))[:2] == (400, "ResourceNotFoundException")


def test_a_consumer_of_another_region_is_refused(stage):
    arn = stage.consumer(stage.stream()).arn.replace(REGION, "eu-west-1")
    assert refused(stage, asked(arn))[:2] == (400, "ResourceNotFoundException")


def test_an_unknown_shard_is_refused(stage):
    consumer = stage.consumer(stage.stream())
    assert refused(stage, asked(consumer, shard="shardId-000000000005")) == (
        400,
        "ResourceNotFoundException",
        f"Shard shardId-000000000005 in stream orders under account {ACCOUNT} does not exist",
    )


def test_numbers_that_do_not_belong_there_are_refused(stage):
    stream = stage.stream()
    stage.run(stage.broker.streams.split(stream, stream.shards[0], 2**127))
    consumer = stage.consumer(stream)
    _, first, second = stream.shards

    def told(number):
        return refused(stage, asked(consumer, {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": number}, first.id))

    assert told(second.sequence_number(0)) == (
        400,
        "InvalidArgumentException",
        f"Invalid StartingSequenceNumber. It encodes {second.id}, while it was used in a call to a shard with {first.id}",
    )
    number = first.sequence_number(5)  # there are no five records
    status, kind, message = told(number)
    assert (status, kind) == (400, "InvalidArgumentException")
    assert message.startswith(f"StartingSequenceNumber {number} used in SubscribeToShard on shard {first.id} in stream orders")


@pytest.mark.parametrize(
    ("position", "kind"),
    [
        ({"Type": "AT_SEQUENCE_NUMBER"}, "InvalidArgumentException"),
        ({"Type": "AT_TIMESTAMP"}, "InvalidArgumentException"),
        ({"Type": "AT_TIMESTAMP", "Timestamp": 99_999_999_999.0}, "InvalidArgumentException"),
        ({"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": "x"}, "ValidationException"),
        ({"Type": "SOMEWHERE"}, "ValidationException"),
        ({}, "ValidationException"),
        ("TRIM_HORIZON", "SerializationException"),
    ],
)
def test_a_position_that_is_none_is_refused(stage, position, kind):
    assert refused(stage, asked(stage.consumer(stage.stream()), position))[:2] == (400, kind)


@pytest.mark.parametrize("missing", ["ConsumerARN", "ShardId", "StartingPosition"])
def test_every_parameter_is_needed(stage, missing):
    given = asked(stage.consumer(stage.stream()))
    del given[missing]
    assert refused(stage, given)[:2] == (400, "ValidationException")


def test_a_dry_run_begins_nothing(stage):
    consumer = stage.consumer(stage.stream())
    assert refused(stage, asked(consumer) | {"DryRun": True})[1] == "DryRunOperationException"
    assert stage.subscribe(consumer).status == 200


def test_what_was_refused_is_in_nobodys_way(stage):
    consumer = stage.consumer(stage.stream())
    refused(stage, asked(consumer, {"Type": "AT_SEQUENCE_NUMBER"}))
    assert stage.subscribe(consumer).status == 200


@pytest.mark.parametrize("deleted", ["stream", "consumer"])
def test_what_is_deleted_while_the_position_is_found_is_refused(stage, monkeypatch, deleted):
    stream = stage.stream()
    consumer = stage.consumer(stream)

    async def slow(*_, **__):
        streams = stage.broker.streams
        await (streams.delete(stream, with_consumers=True) if deleted == "stream" else streams.deregister_consumer(consumer))
        return 0

    monkeypatch.setattr("headrace.kinesis.fanout.subscribing.starting_offset", slow)
    peer = stage.ask(asked(consumer))
    for _ in range(20):
        stage.advance(0.01)
    assert peer.error[:2] == (400, "ResourceNotFoundException")
    assert peer.error[2].startswith(deleted.capitalize())


def test_a_peer_that_leaves_while_its_position_is_found_begins_nothing(stage, monkeypatch):
    consumer = stage.consumer(stage.stream())
    found = stage.call(asyncio.Event)

    async def slow(*_, **__):
        await found.wait()
        return 0

    monkeypatch.setattr("headrace.kinesis.fanout.subscribing.starting_offset", slow)
    peer = stage.subscribe(consumer)
    stage.call(peer.leave)
    stage.call(found.set)
    stage.settle()
    assert not peer.started
    assert len(stage.subscriptions) == 0
    assert stage.subscribe(consumer).status == 200


def test_a_server_that_stops_takes_no_new_one(stage):
    consumer = stage.consumer(stage.stream())
    stage.call(stage.service.close)
    assert refused(stage, asked(consumer))[:2] == (503, "ServiceUnavailable")


# --- slow readers


def test_a_peer_that_does_not_read_gets_one_event_and_no_more(stage):
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))
    peer.reads = False
    for number in range(50):
        stage.put(stream, b"%d" % number * 20_000)
    stage.advance(3 * HEARTBEAT_S)
    assert len(peer.events) == 1
    stage.call(peer.read_on)
    stage.settle()
    assert peer.data == [b"%d" % number * 20_000 for number in range(50)]
    assert max(peer.writes) < 2 * EVENT_BYTES


def test_a_slow_reader_holds_nobody_up(stage):
    stream = stage.stream()
    slow, quick = stage.subscribe(stage.consumer(stream, "slow")), stage.subscribe(stage.consumer(stream, "quick"))
    slow.reads = False
    for number in range(10):
        stage.put(stream, b"%d" % number)
    assert (len(slow.data), len(quick.data)) == (1, 10)
    stage.call(slow.read_on)
    stage.settle()
    assert slow.data == quick.data


def test_a_peer_that_leaves_with_everything_unread_is_forgotten(stage):
    stream = stage.stream()
    peer = stage.subscribe(stage.consumer(stream))
    peer.reads = False
    stage.put(stream, b"one")
    stage.put(stream, b"two")
    stage.call(peer.leave)
    stage.settle()
    assert len(stage.subscriptions) == 0


@pytest.mark.parametrize("why", ["its time is over", "another one took over"])
def test_a_peer_that_does_not_take_its_last_event_is_cut(make_stage, why):
    stage = make_stage(kinesis_subscription_ms=60_000)
    stream = stage.stream()
    consumer = stage.consumer(stream)
    peer = stage.subscribe(consumer)
    peer.reads = False
    stage.put(stream, b"one")
    if why == "its time is over":
        stage.advance(60)
        left = 0
    else:
        stage.advance(HOLD_S)
        assert stage.subscribe(consumer).data == [b"one"]
        left = 1
    stage.advance(GRACE_S - 1)
    assert not peer.was_cut
    stage.advance(1)
    assert peer.was_cut
    assert len(stage.subscriptions) == left


def test_records_are_cut_into_events_and_one_of_them_is_always_sent(stage):
    stream = stage.stream()
    for _ in range(3):
        stage.put(stream, *(b"x" * 90_000 for _ in range(10)))
    peer = stage.subscribe(stage.consumer(stream))
    assert len(peer.data) == 30
    assert all(sum(90_001 for _ in event["Records"]) <= EVENT_BYTES for event in peer.events)


def test_many_subscriptions_have_smaller_events(stage):
    stage.subscribe(stage.consumer(stage.stream()))
    subscriptions = stage.subscriptions
    assert subscriptions.event_bytes == EVENT_BYTES
    subscriptions._running |= {object() for _ in range(4095)}
    assert subscriptions.event_bytes == UNSENT_BYTES // 4096
    subscriptions._running |= {object() for _ in range(40_000)}
    assert subscriptions.event_bytes == LEAST_EVENT_BYTES
    subscriptions._running = {each for each in subscriptions._running if type(each) is not object}


def test_limits_hold_each_consumer_to_two_mebibytes_a_second(make_stage):
    stage = make_stage(kinesis_enforce_limits="true")
    stream = stage.stream()
    for _ in range(10):
        stage.put(stream, b"x" * 1_000_000)
    peers = [stage.subscribe(stage.consumer(stream, name)) for name in ("one", "two")]
    seen = []
    for _ in range(4):
        seen.append([len(peer.data) for peer in peers])
        stage.advance(1)
    assert seen == [[3, 3], [5, 5], [7, 7], [9, 9]]  # three, because the last of them may leave a debt
