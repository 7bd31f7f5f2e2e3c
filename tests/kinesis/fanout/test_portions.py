"""What several subscriptions need is read and encoded once, and little of it is kept."""

from __future__ import annotations

import pytest

from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.fanout import portions
from headrace.kinesis.fanout.subscriptions import EVENT_BYTES


@pytest.fixture
def reads(monkeypatch):
    """Where pages were read that were not known yet."""
    found: list[int] = []
    read = portions.read_records

    async def counted(stream, shard, offset, **more):
        found.append(offset)
        return await read(stream, shard, offset, **more)

    monkeypatch.setattr(portions, "read_records", counted)
    return found


def test_five_consumers_of_a_shard_read_and_encode_once(stage, reads):
    stream = stage.stream()
    peers = [stage.subscribe(stage.consumer(stream, f"c{number}")) for number in range(5)]
    for number in range(10):
        stage.put(stream, b"%d" % number)
    assert [peer.data for peer in peers] == [[b"%d" % number for number in range(10)]] * 5
    assert reads == list(range(10))


def test_each_encoding_is_read_for_itself(stage, reads):
    stream = stage.stream()
    peers = [stage.subscribe(stage.consumer(stream, each.name), encoding=each) for each in Encoding]
    stage.put(stream, b"one")
    assert [peer.data for peer in peers] == [[b"one"]] * 3
    assert reads == [0, 0, 0]


def test_what_is_kept_of_pages_is_bounded(stage):
    stream = stage.stream()
    stage.subscribe(stage.consumer(stream))
    kept = stage.subscriptions.portions
    kept._max_bytes = 100_000
    for number in range(20):
        stage.put(stream, b"%d" % number * 10_000)
    assert 1 < len(kept._kept) < 10
    assert kept._bytes == sum(len(portion.encoded) for portion in kept._kept.values()) <= 100_000
    late = stage.subscribe(stage.consumer(stream, "late"))
    assert late.data == [b"%d" % number * 10_000 for number in range(20)]


def test_a_page_without_records_is_not_remembered(stage):
    stream = stage.stream()
    shard = stream.shards[0]

    def page():
        return stage.run(portions_kept.get(stream, shard, 0, Encoding.JSON, EVENT_BYTES))

    portions_kept = portions.Portions()
    assert page().count == 0
    stage.put(stream, b"one")
    assert page().count == 1


def test_readers_of_a_stream_made_again_do_not_get_the_old_ones_records(stage):
    stream = stage.stream()
    stage.put(stream, b"old")
    assert stage.subscribe(stage.consumer(stream)).data == [b"old"]
    stage.run(stage.broker.streams.delete(stream, with_consumers=True))
    again = stage.stream()
    stage.put(again, b"new")
    assert stage.subscribe(stage.consumer(again)).data == [b"new"]
