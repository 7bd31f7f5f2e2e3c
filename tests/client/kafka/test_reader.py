from collections.abc import Callable
from typing import Any

import pytest

from headrace.client.kafka import ClientError, Cluster, Isolation, Reader, Refused, TopicPartition
from headrace.client.kafka.reader import Gap
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headrace.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.record.batch import TimestampType, encode_batch
from headrace.record.compression import Compression
from headrace.record.control import EndTransactionMarker, encode_marker
from headrace.record.event import Event

ORDERS = TopicPartition("orders", 0)


def batch(base: int, *values: bytes, **options: Any) -> bytes:
    events = [Event(value=value, timestamp_ms=1000 + base) for value in values]
    return bytes(encode_batch(events, base_offset=base, **options))


def in_transaction(base: int, producer_id: int, *values: bytes) -> bytes:
    return batch(base, *values, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def marker(base: int, producer_id: int, *, commit: bool) -> bytes:
    end = EndTransactionMarker(commit=commit, coordinator_epoch=0)
    return bytes(encode_marker(end, producer_id=producer_id, producer_epoch=0, now_ms=0, base_offset=base))


def serve(broker: Any, records: bytes, *, end: int = 100, code: int = 0, aborted: Any = None) -> None:
    """Answers every fetch with the same bytes, whatever offset was asked for, as a server does within one batch."""

    def answer(request: FetchRequest) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionData(
                            partition_index=p.partition,
                            error_code=code,
                            high_watermark=end,
                            last_stable_offset=end,
                            aborted_transactions=aborted,
                            records=records,
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    broker.on(FetchRequest, answer)


def read(broker: Any, start: int = 0, isolation: Isolation = Isolation.READ_COMMITTED) -> tuple[list[Any], Reader]:
    reader = Reader(Cluster(broker.address, timeout_s=5), {ORDERS: start}, isolation)
    return [(record.offset, record.value) for record in reader.poll()], reader


@pytest.mark.parametrize("compression", list(Compression))
def test_all_records_of_all_batches_are_read(broker: Any, compression: Compression) -> None:
    serve(broker, batch(0, b"a", b"b", compression=compression) + batch(2, b"c"))
    records, reader = read(broker)
    assert records == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert reader.positions[ORDERS] == 3
    assert reader.ends[ORDERS] == 100


def test_records_before_the_position_are_left_out(broker: Any) -> None:
    serve(broker, batch(0, b"a", b"b", b"c"))
    assert read(broker, start=1)[0] == [(1, b"b"), (2, b"c")]


def test_a_batch_cut_short_at_the_end_is_left_for_the_next_fetch(broker: Any) -> None:
    serve(broker, batch(0, b"a") + batch(1, b"b")[:-3])
    records, reader = read(broker)
    assert records == [(0, b"a")]
    assert reader.positions[ORDERS] == 1


def test_a_gap_left_by_compaction_is_passed_over(broker: Any) -> None:
    serve(broker, batch(5, b"f"))
    records, reader = read(broker)
    assert records == [(5, b"f")]
    assert reader.positions[ORDERS] == 6


def test_append_time_is_the_time_of_every_record(broker: Any) -> None:
    serve(broker, batch(0, b"a", timestamp_type=TimestampType.LOG_APPEND_TIME, now_ms=777))
    reader = Reader(Cluster(broker.address), {ORDERS: 0})
    (record,) = reader.poll()
    assert (record.timestamp_ms, record.timestamp_type) == (777, "append")


def test_aborted_transactions_are_left_out_when_committed_records_are_asked_for(broker: Any) -> None:
    log = (
        in_transaction(0, 1, b"aborted")
        + in_transaction(1, 2, b"committed")
        + batch(2, b"plain")
        + marker(3, 1, commit=False)
        + in_transaction(4, 1, b"second try")
        + marker(5, 2, commit=True)
        + marker(6, 1, commit=True)
    )
    serve(broker, log, aborted=[AbortedTransaction(producer_id=1, first_offset=0)])
    records, reader = read(broker)
    assert records == [(1, b"committed"), (2, b"plain"), (4, b"second try")]
    assert reader.positions[ORDERS] == 7  # behind the last marker, so that the end is reached


def test_uncommitted_records_are_read_when_asked_for_but_never_markers(broker: Any) -> None:
    serve(broker, in_transaction(0, 1, b"aborted") + marker(1, 1, commit=False))
    assert read(broker, isolation=Isolation.READ_UNCOMMITTED)[0] == [(0, b"aborted")]
    assert broker.received(FetchRequest)[0].isolation_level == 0


def test_records_deleted_before_they_were_read_are_reported_and_passed_over(broker: Any) -> None:
    serve(broker, b"", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    broker.on(ListOffsetsRequest, lambda _: offsets(50))
    records, reader = read(broker, start=10)
    assert records == []
    assert reader.gaps == [Gap(ORDERS, 10, 50)]
    assert reader.positions[ORDERS] == 50


def test_a_position_beyond_the_end_is_an_error(broker: Any) -> None:
    serve(broker, b"", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    broker.on(ListOffsetsRequest, lambda _: offsets(50))
    with pytest.raises(Refused, match="offset 60 is beyond the end, which is 50"):
        read(broker, start=60)


def offsets(offset: int) -> ListOffsetsResponse:
    one = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[one])])


def test_a_damaged_batch_is_an_error_after_the_good_ones_were_read(broker: Any) -> None:
    damaged = bytearray(batch(1, b"b"))
    damaged[-1] ^= 0xFF
    serve(broker, batch(0, b"a") + bytes(damaged))
    records, reader = read(broker)
    assert records == [(0, b"a")]
    with pytest.raises(ClientError, match=r"orders\[0\]: the batch at offset 1 can't be read: wrong CRC"):
        reader.poll()


def test_a_batch_that_never_fits_is_an_error_and_not_an_endless_loop(broker: Any) -> None:
    serve(broker, batch(0, b"a" * 100)[:50])
    with pytest.raises(ClientError, match="larger than a fetch"):
        read(broker)


def test_a_moved_leader_is_found_and_reading_goes_on(make_broker: Callable[..., Any]) -> None:
    second = make_broker(node_id=1)
    first = make_broker(peers=[second])
    serve(second, batch(0, b"a"))

    def moved(request: FetchRequest) -> FetchResponse:
        first.topics["orders"] = [1]
        data = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topic = request.topics[0]
        return FetchResponse(responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[data])])

    first.on(FetchRequest, moved)
    reader = Reader(Cluster(first.address), {ORDERS: 0})
    assert reader.poll() == []
    assert [record.value for record in reader.poll()] == [b"a"]


def test_a_server_that_comes_back_is_read_on(broker: Any, hang_up: Any) -> None:
    broker.on(FetchRequest, lambda _: hang_up)
    reader = Reader(Cluster(broker.address), {ORDERS: 0})
    assert reader.poll() == []
    serve(broker, batch(0, b"a"))
    assert [record.value for record in reader.poll()] == [b"a"]


def test_trouble_that_lasts_longer_than_the_timeout_is_raised(broker: Any, hang_up: Any) -> None:
    broker.on(FetchRequest, lambda _: hang_up)
    reader = Reader(Cluster(broker.address, timeout_s=0.1), {ORDERS: 0})
    with pytest.raises(ClientError, match="closed the connection"):
        list(iter(reader.poll, "never"))


def test_an_answer_for_a_partition_that_was_taken_away_is_dropped(make_broker: Callable[..., Any]) -> None:
    broker = make_broker(topics={"orders": [0, 0]})
    other = TopicPartition("orders", 1)
    reader = Reader(Cluster(broker.address), {ORDERS: 0, other: 0})
    both = batch(0, b"a")

    def take_away(request: FetchRequest) -> FetchResponse:
        reader.positions.pop(other, None)
        topic = request.topics[0]
        data = [PartitionData(partition_index=index, high_watermark=1, records=both) for index in (0, 1)]
        return FetchResponse(responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=data)])

    broker.on(FetchRequest, take_away)
    assert [(record.partition, record.value) for record in reader.poll()] == [(0, b"a")]


def test_an_old_server_without_topic_ids_is_asked_by_name(make_broker: Callable[..., Any]) -> None:
    broker = make_broker(versions={18: (0, 3), 3: (0, 4), 1: (4, 11)})
    serve(broker, batch(0, b"a"))
    assert read(broker)[0] == [(0, b"a")]
    assert broker.received(FetchRequest)[0].topics[0].topic == "orders"
