"""A stream is read through resharding with parents before children, whatever the server's answers look like."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from headrace.client.kinesis import reader
from headrace.client.kinesis.errors import NotFound, Refused
from headrace.client.kinesis.reader import StreamReader
from headrace.client.kinesis.start import Start
from headrace.client.kinesis.values import Page, Record, Shard


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_REST_S", 0.0)


class Stream:
    """As much of Kinesis as the reader asks; a shard is a list of data, an iterator is `shard:position`."""

    def __init__(self) -> None:
        self.data: dict[str, list[str]] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.closed: set[str] = set()
        self.begun: list[tuple[str, str]] = []
        self.page = 2
        self.after_page: Any = lambda: None
        self.ends_with_an_iterator = False

    def open(self, shard: str, *parents: str, data: str = "") -> None:
        self.data[shard] = list(data)
        self.parents[shard] = parents
        self.closed.update(parents)

    def shards(self, name: str) -> list[Shard]:
        return [
            Shard(one, *((*self.parents[one], None, None)[:2]), 0, 1, "0", "9" if one in self.closed else None)
            for one in self.data
        ]

    def iterator(self, name: str, shard: str, start: Start) -> str:
        if shard not in self.data:
            raise NotFound("shard", 400, "ResourceNotFoundException", "gone")
        self.begun.append((shard, start.kind))
        position = {
            "TRIM_HORIZON": 0,
            "AT_TIMESTAMP": 0,
            "LATEST": len(self.data[shard]),
            "AFTER_SEQUENCE_NUMBER": int(start.sequence_number or 0) + 1,
            "AT_SEQUENCE_NUMBER": int(start.sequence_number or 0),
        }[start.kind]
        return f"{shard}:{position}"

    def records(self, shard: str, iterator: str) -> Page:
        position = int(iterator.rpartition(":")[2])
        found = self.data[shard][position : position + self.page]
        end = position + len(found)
        left = len(self.data[shard]) - end
        records = [Record(shard, str(position + n), "key", data.encode(), 0) for n, data in enumerate(found)]
        over = shard in self.closed and not left and not self.ends_with_an_iterator
        self.after_page()
        return Page(records, None if over else f"{shard}:{end}", left)


@pytest.fixture
def stream() -> Stream:
    return Stream()


def read(stream: Stream, start: Start | None = None, **given: Any) -> str:
    whole = StreamReader(stream, "s", start or Start.trim_horizon(), **given)  # type: ignore[arg-type]
    return "".join(record.data.decode() for records in whole.until_end() for record in records)


def test_children_begin_when_their_parent_has_ended(stream: Stream) -> None:
    stream.open("a", data="12345")
    stream.open("b", "a", data="67")
    stream.open("c", "a", data="67")
    found = read(stream)
    assert found[:5] == "12345"
    assert sorted(found[5:]) == ["6", "6", "7", "7"]


def test_a_merged_child_waits_for_both_parents(stream: Stream) -> None:
    stream.open("a", data="1")
    stream.open("b", data="2223")
    stream.open("c", "a", "b", data="9")
    found = read(stream)
    assert sorted(found[:-1]) == list("12223")
    assert found[-1] == "9"


def test_a_long_line_of_descent_is_read_in_order_however_it_is_listed(stream: Stream) -> None:
    for name, parents in {"e": ("d",), "d": ("c",), "b": ("a",), "c": ("b",), "a": ()}.items():
        stream.open(name, *parents, data=name)
    assert read(stream) == "abcde"


def test_a_reshard_while_reading_is_followed(stream: Stream) -> None:
    stream.open("a", data="1234")

    def split() -> None:
        if "b" not in stream.data:
            stream.open("b", "a", data="5")
            stream.open("c", "a", data="5")

    stream.after_page = split
    feed = StreamReader(stream, "s", Start.trim_horizon()).forever()  # type: ignore[arg-type]
    assert b"".join(record.data for records in islice(feed, 4) for record in records) == b"123455"


def test_latest_begins_with_the_open_shards_and_takes_children_from_their_beginning(stream: Stream) -> None:
    stream.open("a", data="old")
    stream.open("b", "a", data="old")
    feed = StreamReader(stream, "s", Start.latest()).forever()  # type: ignore[arg-type]
    stream.data["b"] += "12"
    stream.open("c", "b", data="34")
    assert b"".join(record.data for records in islice(feed, 2) for record in records) == b"1234"
    assert stream.begun == [("b", "LATEST"), ("c", "TRIM_HORIZON")]


def test_a_time_counts_for_children_as_well(stream: Stream) -> None:
    stream.open("a", data="1")
    stream.open("b", "a", data="2")
    assert read(stream, Start.at_time(5)) == "12"
    assert stream.begun == [("a", "AT_TIMESTAMP"), ("b", "AT_TIMESTAMP")]


def test_shards_that_are_named_are_read_without_their_children(stream: Stream) -> None:
    stream.open("a", data="123")
    stream.open("b", "a", data="4")
    assert read(stream, Start.at("1"), only=["a"]) == "23"
    whole = StreamReader(stream, "s", Start.after("1"), only=["a"])  # type: ignore[arg-type]
    assert [record.data for records in whole.forever() for record in records] == [b"3"]
    assert whole.ended


def test_a_closed_shard_whose_last_page_still_has_an_iterator_ends_all_the_same(stream: Stream) -> None:
    stream.ends_with_an_iterator = True
    stream.open("a", data="123")
    stream.open("b", "a", data="4")
    assert read(stream) == "1234"


def test_an_expired_iterator_is_replaced_behind_the_last_record(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.open("a", data="12345")
    plain, refusals = stream.records, ["a:2"]

    def records(shard: str, iterator: str) -> Page:
        if iterator in refusals:
            refusals.remove(iterator)
            raise Refused("shard", 400, "ExpiredIteratorException", "too old")
        return plain(shard, iterator)

    monkeypatch.setattr(stream, "records", records)
    assert read(stream) == "12345"
    assert stream.begun == [("a", "TRIM_HORIZON"), ("a", "AFTER_SEQUENCE_NUMBER")]


def test_an_iterator_at_the_end_that_expired_before_anything_came_goes_on_from_when_it_was_asked_for(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.open("a")
    plain, refused = stream.records, []

    def records(shard: str, iterator: str) -> Page:
        if not refused:
            refused.append(iterator)
            stream.data["a"] += "1"
            raise Refused("shard", 400, "ExpiredIteratorException", "too old")
        return plain(shard, iterator)

    monkeypatch.setattr(stream, "records", records)
    feed = StreamReader(stream, "s", Start.latest()).forever()  # type: ignore[arg-type]
    assert [record.data for record in next(feed)] == [b"1"]
    assert stream.begun == [("a", "LATEST"), ("a", "AT_TIMESTAMP")]


def test_a_closed_shard_that_retention_took_meanwhile_is_passed_over(stream: Stream) -> None:
    stream.open("a", data="1")
    stream.open("b", "a", data="2")
    whole = StreamReader(stream, "s", Start.trim_horizon())  # type: ignore[arg-type]
    del stream.data["a"]
    assert [record.data for records in whole.until_end() for record in records] == [b"2"]


def test_an_open_shard_that_is_gone_is_an_error(stream: Stream) -> None:
    stream.open("a", data="1")
    whole = StreamReader(stream, "s", Start.trim_horizon())  # type: ignore[arg-type]
    del stream.data["a"]
    with pytest.raises(NotFound):
        next(whole.until_end())
