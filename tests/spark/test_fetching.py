"""Reading pieces of a partition: from a broker that makes every trouble on purpose, and from a real server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.client.kafka.conftest import TOPIC_ID, FakeBroker, HangUp

from headrace.client.kafka import ClientError, Cluster, Producer, TimedOut, TopicPartition, end_offsets
from headrace.client.kafka.connection import Landing
from headrace.client.kafka.fetch import parse_fetched
from headrace.client.kafka.topics import create_topic, delete_records
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.schema import decode, encode
from headrace.kafka.messages.api_versions import ApiVersionsRequest
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
from headrace.record.batch import encode_batch
from headrace.record.compression import Compression
from headrace.record.control import EndTransactionMarker, encode_marker
from headrace.record.event import Event
from headrace.spark import fetching
from headrace.spark.fetching import read_piece
from headrace.spark.pieces import Piece, ReadSettings
from headrace.spark.source.losses import DataLoss


@pytest.fixture
def make_broker() -> Iterator[Callable[..., FakeBroker]]:
    made: list[FakeBroker] = []

    def make(**given: Any) -> FakeBroker:
        made.append(FakeBroker(**given))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def broker(make_broker: Callable[..., FakeBroker]) -> FakeBroker:
    return make_broker()


def batch(base: int, *values: bytes, **options: Any) -> bytes:
    return bytes(encode_batch([Event(None, value, timestamp_ms=1000) for value in values], base_offset=base, **options))


def in_transaction(base: int, producer_id: int, *values: bytes) -> bytes:
    return batch(base, *values, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


@dataclass
class FakeLog:
    """A partition's batches, given out as a server does: from the one that has the offset on, as many as fit, one at least."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)  # first offset, last offset, bytes
    start: int = 0
    end: int = 0
    stable: int | None = None
    aborted: list[AbortedTransaction] = field(default_factory=list)
    trouble: list[int | HangUp] = field(default_factory=list)  # instead of the next answers

    def add(self, data: bytes) -> None:
        base = int.from_bytes(data[:8], "big")
        last = base + int.from_bytes(data[23:27], "big")
        self.batches.append((base, last, data))
        self.end = last + 1

    def serve(self, broker: FakeBroker) -> None:
        broker.on(FetchRequest, self.fetch)
        broker.on(ListOffsetsRequest, self.list_offsets)

    def fetch(self, request: FetchRequest) -> FetchResponse | HangUp:
        asked = request.topics[0].partitions[0]
        code, records = 0, b""
        if self.trouble:
            trouble = self.trouble.pop(0)
            if isinstance(trouble, HangUp):
                return trouble
            code = trouble
        elif not self.start <= asked.fetch_offset <= self.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            readable = self.end if self.stable is None or request.isolation_level == 0 else self.stable
            for base, last, data in self.batches:
                if last >= asked.fetch_offset and base < readable:
                    if records and len(records) + len(data) > asked.partition_max_bytes:
                        break
                    records += data
        part = PartitionData(
            partition_index=asked.partition,
            error_code=code,
            high_watermark=self.end,
            last_stable_offset=self.end if self.stable is None else self.stable,
            aborted_transactions=self.aborted,
            records=records,
        )
        topic = FetchableTopicResponse(topic=request.topics[0].topic, topic_id=request.topics[0].topic_id, partitions=[part])
        return FetchResponse(responses=[topic])

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        asked = request.topics[0].partitions[0]
        offset = self.start if asked.timestamp == -2 else self.end
        part = ListOffsetsPartitionResponse(partition_index=asked.partition_index, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=request.topics[0].name, partitions=[part])])


@pytest.fixture
def log(broker: FakeBroker) -> FakeLog:
    """Offsets 0 to 99 in batches of five."""
    made = FakeLog()
    for base in range(0, 100, 5):
        made.add(batch(base, *[b"%d" % (base + i) for i in range(5)]))
    made.serve(broker)
    return made


@pytest.fixture
def small_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of the log's batches in each answer, and more."""
    monkeypatch.setattr(fetching, "FETCH_BYTES", 300)
    monkeypatch.setattr(fetching, "SMALLEST_FETCH_BYTES", 300)


def read(broker: FakeBroker, start: int, end: int, *, timeout_s: float = 5, **settings: Any) -> list[tuple[int, bytes]]:
    return read_from(Cluster(broker.address, timeout_s=timeout_s), start, end, **settings)


def read_from(cluster: Cluster, start: int, end: int, **settings: Any) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for made in read_piece(cluster, Piece("orders", 0, start, end), ReadSettings(**settings)):
        made.validate(full=True)
        found += zip(made.column("offset").to_pylist(), made.column("value").to_pylist(), strict=True)
    return found


def numbered(start: int, end: int) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset) for offset in range(start, end)]


def test_a_piece_is_read_exactly(broker: FakeBroker, log: FakeLog) -> None:
    assert read(broker, 7, 93) == numbered(7, 93)
    assert read(broker, 0, 100) == numbered(0, 100)
    assert read(broker, 10, 11) == numbered(10, 11)
    assert read(broker, 10, 10) == []


@pytest.mark.usefixtures("small_fetches")
def test_a_long_piece_takes_many_fetches_each_from_where_the_last_one_ended(broker: FakeBroker, log: FakeLog) -> None:
    assert read(broker, 0, 100) == numbered(0, 100)
    asked = [request.topics[0].partitions[0].fetch_offset for request in broker.received(FetchRequest)]
    assert asked == sorted(set(asked))
    assert len(asked) > 5
    assert asked[0] == 0


@pytest.mark.usefixtures("small_fetches")
def test_the_next_fetch_is_under_way_while_a_batch_is_handed_over(
    broker: FakeBroker, log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "ROWS_PER_BATCH", 2)
    reading = read_piece(Cluster(broker.address, timeout_s=5), Piece("orders", 0, 0, 100), ReadSettings())
    assert next(reading).num_rows == 2
    waited_for(lambda: len(broker.received(FetchRequest)) == 2)
    reading.close()


def waited_for(condition: Callable[[], bool]) -> None:
    import time

    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.001)


def test_a_short_piece_of_a_long_log_does_not_fetch_much_beyond_its_end(broker: FakeBroker) -> None:
    log = FakeLog()
    for base in range(0, 5000, 100):
        log.add(batch(base, *[b"x" * 1000] * 100))
    log.serve(broker)
    assert len(read(broker, 0, 200)) == 200
    assert max(request.max_bytes for request in broker.received(FetchRequest)) < 300_000


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_batches_have_as_many_rows_as_allowed_across_fetches(
    broker: FakeBroker, log: FakeLog, monkeypatch: pytest.MonkeyPatch, rows: int, small_fetches: None
) -> None:
    monkeypatch.setattr(fetching, "ROWS_PER_BATCH", rows)
    made = list(read_piece(Cluster(broker.address, timeout_s=5), Piece("orders", 0, 0, 100), ReadSettings()))
    assert [one.num_rows for one in made] == [rows] * (100 // rows) + ([100 % rows] if 100 % rows else [])


def test_a_record_of_100_mb_is_read(broker: FakeBroker) -> None:
    log = FakeLog()
    log.add(batch(0, b"before", bytes(100 << 20), b"after"))
    log.serve(broker)
    sizes = [len(value) for _, value in read(broker, 0, 3, timeout_s=60)]
    assert sizes == [6, 100 << 20, 5]


@pytest.mark.parametrize("compression", list(Compression))
def test_all_compressions_are_read(broker: FakeBroker, compression: Compression) -> None:
    log = FakeLog()
    log.add(batch(0, *[b"%d" % i for i in range(50)], compression=compression))
    log.add(batch(60, *[b"%d" % i for i in range(60, 90)], compression=compression))
    log.serve(broker)
    assert read(broker, 3, 80) == numbered(3, 50) + numbered(60, 80)


def test_gaps_up_to_the_end_of_the_piece_are_no_reason_to_wait(broker: FakeBroker) -> None:
    log = FakeLog()
    log.add(batch(0, b"0"))
    log.add(batch(90, b"90"))
    log.serve(broker)
    assert read(broker, 0, 50) == [(0, b"0")]
    assert read(broker, 20, 50) == []


def test_aborted_records_and_markers_are_left_out_of_committed_reads(broker: FakeBroker) -> None:
    log = FakeLog(aborted=[AbortedTransaction(producer_id=7, first_offset=0)])
    log.add(in_transaction(0, 7, b"aborted"))
    log.add(in_transaction(1, 8, b"committed"))
    for offset, producer, commit in ((2, 7, False), (3, 8, True)):
        end = EndTransactionMarker(commit=commit, coordinator_epoch=0)
        log.add(bytes(encode_marker(end, producer_id=producer, producer_epoch=0, now_ms=0, base_offset=offset)))
    log.serve(broker)
    assert read(broker, 0, 4) == [(1, b"committed")]
    assert [request.isolation_level for request in broker.received(FetchRequest)] == [1]
    assert read(broker, 0, 4, read_committed=False) == [(0, b"aborted"), (1, b"committed")]
    assert broker.received(FetchRequest)[-1].isolation_level == 0


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_is_read(make_broker: Callable[..., FakeBroker], version: int) -> None:
    broker = make_broker()
    broker.versions[FetchRequest.api_key] = (4, version)
    log = FakeLog(aborted=[AbortedTransaction(producer_id=9, first_offset=50)])
    log.add(batch(0, b"0", b"1"))
    log.serve(broker)
    assert read(broker, 0, 2) == numbered(0, 2)


@pytest.mark.parametrize("version", range(4, 19))
def test_an_answer_is_parsed_as_the_codec_does(version: int) -> None:
    part = PartitionData(
        partition_index=3,
        error_code=6,
        high_watermark=10,
        last_stable_offset=9,
        aborted_transactions=[AbortedTransaction(producer_id=4, first_offset=5)],
        records=batch(0, b"x"),
    )
    topic = FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=[part])
    body = memoryview(bytes(encode(FetchResponse(throttle_time_ms=8, responses=[topic]), version)))
    found = parse_fetched(body, version)
    known = decode(FetchResponse, version, body).responses[0].partitions[0]
    assert found.error_code == known.error_code == 6
    assert found.throttle_ms == 8
    assert (found.high_watermark, found.last_stable_offset) == (10, 9)
    assert found.aborted == [(5, 4)]
    assert bytes(found.records) == known.records
    for cut in range(len(body) - (2 if version < 12 else 6)):
        with pytest.raises(Exception):  # noqa: B017, PT011  whatever it is, `receive_fetch` makes a ProtocolViolation of it
            parse_fetched(body[:cut], version)


# Trouble that passes


@pytest.mark.usefixtures("small_fetches")
@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.KAFKA_STORAGE_ERROR])
def test_troubles_that_pass_are_sat_out(broker: FakeBroker, log: FakeLog, code: int) -> None:
    log.trouble = [code]
    assert read(broker, 0, 50) == numbered(0, 50)
    reading = read_piece(Cluster(broker.address, timeout_s=5), Piece("orders", 0, 0, 100), ReadSettings())
    log.trouble = [code, code]
    assert sum(one.num_rows for one in reading) == 100


@pytest.mark.usefixtures("small_fetches")
def test_a_connection_that_breaks_in_the_middle_loses_and_repeats_nothing(
    broker: FakeBroker, log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "ROWS_PER_BATCH", 4)
    reading = read_piece(Cluster(broker.address, timeout_s=5), Piece("orders", 0, 0, 100), ReadSettings())
    offsets = next(reading).column("offset").to_pylist()
    log.trouble = [HangUp(), HangUp()]
    for made in reading:
        offsets += made.column("offset").to_pylist()
    assert offsets == list(range(100))


@pytest.mark.usefixtures("small_fetches")
def test_a_leader_that_moved_is_found_again(make_broker: Callable[..., FakeBroker]) -> None:
    old, new = make_broker(node_id=0), make_broker(node_id=1)
    old.peers, new.peers = [new], [old]
    log = FakeLog()
    for base in range(0, 50, 5):
        log.add(batch(base, *[b"%d" % (base + i) for i in range(5)]))
    log.serve(new)

    def moved(request: FetchRequest) -> FetchResponse | HangUp:
        if request.topics[0].partitions[0].fetch_offset < 20:
            return log.fetch(request)
        old.topics = new.topics = {"orders": [1]}
        log.trouble = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        return log.fetch(request)

    old.on(FetchRequest, moved)
    assert read(old, 0, 50) == numbered(0, 50)
    assert new.received(FetchRequest)


def test_trouble_that_stays_is_raised_as_it_is(broker: FakeBroker, log: FakeLog) -> None:
    log.trouble = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1000
    with pytest.raises(ClientError, match=r"orders\[0\].*NOT_LEADER_OR_FOLLOWER"):
        read(broker, 0, 50, timeout_s=0.2)


def test_a_server_that_is_gone_is_told_by_its_address(broker: FakeBroker, log: FakeLog) -> None:
    cluster = Cluster(broker.address, timeout_s=0.3)
    assert read_from(cluster, 0, 10) == numbered(0, 10)
    broker.close()
    with pytest.raises(ClientError, match=broker.address):
        read_from(cluster, 10, 20)


def test_what_does_not_become_stable_in_time_is_told_with_the_offsets(broker: FakeBroker, log: FakeLog) -> None:
    log.stable = 50
    with pytest.raises(TimedOut, match=r"orders\[0\]: offset 50 could not.*read up to 50 and should be up to 60"):
        read(broker, 40, 60, timeout_s=0.2)


def test_records_that_become_stable_while_waiting_are_read(broker: FakeBroker, log: FakeLog) -> None:
    log.stable = 50
    answer = log.fetch

    def later(request: FetchRequest) -> FetchResponse | HangUp:
        found = answer(request)
        log.stable = None
        return found

    broker.on(FetchRequest, later)
    assert read(broker, 40, 60) == numbered(40, 60)


# Trouble that does not


def test_records_that_are_gone_fail_the_read(broker: FakeBroker, log: FakeLog) -> None:
    log.start = 30
    with pytest.raises(DataLoss, match=r"offsets 10 to 29 of orders\[0\] are gone, its oldest record is 30.*failOnDataLoss"):
        read(broker, 10, 60)


def test_records_that_are_gone_are_passed_over_with_a_warning_where_that_is_allowed(
    broker: FakeBroker, log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.start = 30
    with caplog.at_level(logging.WARNING, "headrace.spark"):
        assert read(broker, 10, 60, fail_on_data_loss=False) == numbered(30, 60)
        assert read(broker, 10, 20, fail_on_data_loss=False) == []
    assert "offsets 10 to 29 of orders[0] are gone, its oldest record is 30" in caplog.text
    assert "offsets 10 to 19 of orders[0] are gone" in caplog.text


def test_a_partition_that_ends_before_the_piece_is_a_loss_too(broker: FakeBroker, log: FakeLog) -> None:
    with pytest.raises(DataLoss, match=r"offsets 150 to 199 of orders\[0\] are gone, it ends at 100"):
        read(broker, 150, 200)
    assert read(broker, 150, 200, fail_on_data_loss=False) == []


def test_a_topic_that_is_gone_is_a_loss(broker: FakeBroker, log: FakeLog) -> None:
    broker.topics = {}
    with pytest.raises(DataLoss, match="not there any more"):
        read(broker, 0, 10, timeout_s=0.2)
    assert read(broker, 0, 10, timeout_s=0.2, fail_on_data_loss=False) == []


def test_a_refusal_that_no_patience_changes_is_raised_at_once(broker: FakeBroker, log: FakeLog) -> None:
    log.trouble = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(ClientError, match="TOPIC_AUTHORIZATION_FAILED"):
        read(broker, 0, 10)
    assert len(broker.received(FetchRequest)) == 1


def test_a_corrupt_batch_is_told_with_its_place(broker: FakeBroker, log: FakeLog) -> None:
    damaged = bytearray(batch(0, b"value"))
    damaged[-3] ^= 1
    log.batches = [(0, 0, bytes(damaged))]
    with pytest.raises(ClientError, match=r"orders\[0\]: a batch from offset 0 on can't be read: wrong CRC"):
        read(broker, 0, 1)


def test_bytes_that_are_no_batch_do_not_loop_for_ever(broker: FakeBroker, log: FakeLog) -> None:
    for nonsense in (b"x" * 200, batch(0, b"too early")):
        log.batches = [(5, 99, nonsense)]
        with pytest.raises(ClientError, match=r"orders\[0\]: what the server sent for offset 10"):
            read(broker, 10, 60)


# Connections and memory


def test_the_connection_is_kept_for_the_next_piece(broker: FakeBroker, log: FakeLog) -> None:
    cluster = Cluster(broker.address, timeout_s=5)
    for start in range(0, 100, 10):
        assert read_from(cluster, start, start + 10) == numbered(start, start + 10)
    assert len(broker.received(ApiVersionsRequest)) == 2  # one connection for metadata, one for fetches


@pytest.mark.usefixtures("small_fetches")
def test_a_piece_that_is_given_up_leaves_nothing_for_the_next_one(
    broker: FakeBroker, log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "ROWS_PER_BATCH", 2)
    cluster = Cluster(broker.address, timeout_s=5)
    for _ in range(3):
        reading = read_piece(cluster, Piece("orders", 0, 0, 100), ReadSettings())
        next(reading)
        reading.close()
        assert read_from(cluster, 50, 60) == numbered(50, 60)


@pytest.mark.usefixtures("small_fetches")
def test_two_pieces_are_read_side_by_side(broker: FakeBroker, log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "ROWS_PER_BATCH", 2)
    cluster = Cluster(broker.address, timeout_s=5)
    one, other = (read_piece(cluster, Piece("orders", 0, start, start + 50), ReadSettings()) for start in (0, 50))
    offsets = [made.column("offset").to_pylist() for pair in zip(one, other, strict=True) for made in pair]
    assert sorted(offset for pair in offsets for offset in pair) == list(range(100))


def test_memory_for_answers_is_used_again_and_given_back() -> None:
    landing = Landing(kept_bytes=2 << 20)
    room = landing.room(100)
    assert landing.room(1 << 20) is room
    landing.keep(memoryview(bytearray(50 << 20)))
    assert len(landing.room(40 << 20)) == 50 << 20
    assert len(landing.room(100)) == 2 << 20


# A real server


def test_a_server_gives_what_was_written_whatever_the_compression(headrace_server: Any) -> None:
    cluster = Cluster(headrace_server.kafka)
    create_topic(cluster, "orders", partitions=1)
    written = []
    for compression in Compression:
        producer = Producer(cluster, compression=compression)
        for number in range(100):
            event = Event(b"k%d" % number if number % 3 else None, b"v" * number, (("n", b"%d" % number),) * (number % 2))
            producer.send("orders", event)
            written.append((event.key, event.value, [{"key": k, "value": v} for k, v in event.headers] or None))
        producer.flush()
    end = end_offsets(cluster, [TopicPartition("orders", 0)])[TopicPartition("orders", 0)]
    made = list(read_piece(cluster, Piece("orders", 0, 0, end), ReadSettings(include_headers=True)))
    assert [(row["key"], row["value"], row["headers"]) for one in made for row in one.to_pylist()] == written
    assert [row["offset"] for one in made for row in one.to_pylist()] == list(range(500))
    delete_records(cluster, {TopicPartition("orders", 0): 120})
    with pytest.raises(DataLoss):
        list(read_piece(cluster, Piece("orders", 0, 100, 200), ReadSettings()))
    left = read_from(cluster, 100, 200, fail_on_data_loss=False)
    assert [offset for offset, _ in left] == list(range(120, 200))
