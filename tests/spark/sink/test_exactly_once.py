"""The exactly-once sink on Headrace and on a real Kafka, driven as Spark would drive it but without Spark: retries, replays,
zombies and lost markers, each on purpose."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.spark.sink.writing import batch, rows, settings, values, work

from headrace.client.kafka.groups import committed_offsets, delete_group
from headrace.client.kafka.transactions import Fenced, Transaction
from headrace.spark.sink import exactly_once, producing
from headrace.spark.sink.exactly_once import CannotReplay, write_exactly_once
from headrace.spark.sink.markers import Marker, leave_marker, read_marker
from headrace.testing import wait_until


@pytest.fixture
def query() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def topic(brokers) -> str:
    return brokers.topic(3)


def eventually(brokers, topic: str, expected: list[bytes]) -> bool:
    """Kafka ends a transaction a moment after it said so."""
    return wait_until(lambda: len(values(brokers, topic)) >= len(expected), what="rows") and values(brokers, topic) == expected


def numbers(count: int, first: int = 0) -> list[bytes]:
    return sorted(b"%d" % n for n in range(first, first + count))


def test_a_batch_that_is_replayed_is_not_written_again(brokers, topic, query):
    sink = settings(brokers, topic)
    tally, skipped = write_exactly_once(rows(500), sink, work(query, 0))
    assert (tally.rows, tally.topics, skipped) == (500, {topic}, False)
    for _ in range(2):
        tally, skipped = write_exactly_once(rows(500), sink, work(query, 0))
        assert (tally.rows, skipped) == (500, True)
    leave_marker(brokers.cluster, f"headrace-spark-{query}", Marker(0, 500, 0), [topic])
    assert write_exactly_once(rows(100, first=500), sink, work(query, 1))[1] is False
    assert eventually(brokers, topic, numbers(600))


def test_each_task_has_its_own_marker(brokers, topic, query):
    sink = settings(brokers, topic)
    for task in range(5):  # more tasks than the topic has partitions
        assert write_exactly_once(rows(10, first=10 * task), sink, work(query, 0, task))[1] is False
    for task in range(5):
        assert write_exactly_once(rows(10, first=10 * task), sink, work(query, 0, task))[1] is True
    assert eventually(brokers, topic, numbers(50))


def test_the_marker_tells_rows_and_bytes(brokers, topic, query):
    write_exactly_once(rows(10), settings(brokers, topic), work(query, 4, task=7, lasting=False))
    transaction = Transaction.begin(brokers.cluster, f"headrace-spark-{query}-7")  # waits for the end of the one before
    assert transaction.producer.epoch > 0
    assert read_marker(brokers.cluster, f"headrace-spark-{query}-7") == Marker(4, 10, 10 * 2 + 10)


def test_an_attempt_that_dies_in_the_middle_leaves_nothing_and_the_next_one_writes_everything(brokers, topic, query):
    def dying() -> Iterator:
        yield from rows(300)
        raise MemoryError

    with pytest.raises(MemoryError):
        write_exactly_once(dying(), settings(brokers, topic), work(query))
    assert write_exactly_once(rows(400), settings(brokers, topic), work(query))[1] is False
    assert eventually(brokers, topic, numbers(400))


def test_a_zombie_is_fenced_and_writes_nothing(brokers, topic, query, monkeypatch):
    """The second attempt begins and ends while the first one is in the middle of its rows."""
    monkeypatch.setattr(producing, "CHUNK_BYTES", 10_000)
    monkeypatch.setattr(exactly_once, "links", lambda endpoint: {})  # as in two processes
    sink = settings(brokers, topic)

    def interrupted() -> Iterator:
        yield from rows(4000, per_batch=1000)
        assert write_exactly_once(rows(5000), sink, work(query))[1] is False
        yield from rows(1000, first=4000)

    with pytest.raises(Fenced, match="taken over by another attempt"):
        write_exactly_once(interrupted(), sink, work(query))
    assert eventually(brokers, topic, numbers(5000))


def test_a_late_attempt_finds_what_the_first_one_committed(brokers, topic, query):
    """The first attempt commits after the second one was started, before that one begins its transaction."""
    sink = settings(brokers, topic)

    def slow() -> Iterator:
        assert write_exactly_once(rows(100), sink, work(query))[1] is False
        yield from rows(100)

    assert write_exactly_once(slow(), sink, work(query))[1] is True
    assert eventually(brokers, topic, numbers(100))


@pytest.mark.parametrize("changed", [rows(99), rows(100, first=1000), iter(())], ids=["rows", "bytes", "none"])
def test_a_replay_with_other_rows_is_an_error_and_not_a_loss(brokers, topic, query, changed):
    write_exactly_once(rows(100), settings(brokers, topic), work(query))
    Transaction.begin(brokers.cluster, f"headrace-spark-{query}-0")
    with pytest.raises(CannotReplay, match="The query gives its tasks other rows than before"):
        write_exactly_once(changed, settings(brokers, topic), work(query))
    assert eventually(brokers, topic, numbers(100))


def test_content_may_vary_where_only_rows_are_compared(brokers, topic, query):
    sink = settings(brokers, topic, replay_check="rows")
    write_exactly_once(rows(100), sink, work(query))
    assert write_exactly_once(rows(100, first=1000), sink, work(query))[1] is True
    with pytest.raises(CannotReplay):
        write_exactly_once(rows(101), sink, work(query))
    assert eventually(brokers, topic, numbers(100))


def test_a_checkpoint_that_was_turned_back_is_an_error(brokers, topic, query):
    sink = settings(brokers, topic, missing_markers="write")
    write_exactly_once(rows(10), sink, work(query, 5))
    with pytest.raises(CannotReplay, match="the checkpoint is older than what was written"):
        write_exactly_once(rows(10), sink, work(query, 3))


def test_missing_markers_are_an_error_unless_the_option_says_to_write(brokers, topic, query):
    with pytest.raises(CannotReplay, match="the markers of this query are gone"):
        write_exactly_once(rows(10), settings(brokers, topic), work(query, 3))
    assert write_exactly_once(rows(10), settings(brokers, topic, missing_markers="write"), work(query, 3))[1] is False
    assert eventually(brokers, topic, numbers(10))


def test_a_task_that_never_wrote_may_where_the_query_has_markers(brokers, topic, query):
    leave_marker(brokers.cluster, f"headrace-spark-{query}", Marker(6, 0, 0), [topic])
    assert write_exactly_once(rows(10), settings(brokers, topic), work(query, 7, task=12))[1] is False


def test_a_task_without_rows_begins_no_transaction(brokers, topic, query):
    tally, skipped = write_exactly_once(iter(()), settings(brokers, topic), work(query))
    assert (tally.rows, skipped) == (0, False)
    assert Transaction.begin(brokers.cluster, f"headrace-spark-{query}-0").producer.epoch == 0


def test_an_attempt_at_a_write_that_is_over_writes_nothing(brokers, topic, query):
    """As a speculative copy may that comes when the driver has ended the write and forgotten its markers."""
    once = work(query, lasting=False)
    write_exactly_once(rows(10), settings(brokers, topic), once)
    Transaction.begin(brokers.cluster, once.transactional_id)
    leave_marker(brokers.cluster, once.name, Marker(0, 10, 0), [topic])
    delete_group(brokers.cluster, once.group)
    with pytest.raises(CannotReplay, match="this write is over"):
        write_exactly_once(rows(10), settings(brokers, topic), once)
    assert eventually(brokers, topic, numbers(10))


def test_rows_of_several_topics_share_one_transaction_and_one_marker(brokers, query):
    one, two = brokers.topic(2), brokers.topic(1)
    made = batch(value=[b"a", b"b", b"c"], topic=[one, two, one])
    sink = settings(brokers, None)
    tally, _ = write_exactly_once(iter([made]), sink, work(query))
    assert tally.topics == {one, two}
    assert write_exactly_once(iter([made]), sink, work(query))[1] is True
    brokers.delete(one)
    wait_until(lambda: len(committed_offsets(brokers.cluster, f"headrace-spark-{query}-0")) == 1, what="offsets to go")
    assert write_exactly_once(iter([made]), sink, work(query))[1] is True  # the other topic's marker is there
    assert values(brokers, two) == [b"b"]
