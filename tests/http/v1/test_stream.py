"""Server-sent events: whatever happens in between, a reader that comes back with Last-Event-ID sees every event once."""

from __future__ import annotations

import random
import uuid

import pytest
from tests.http.v1.asking import V1, EventStream, Sent, assert_problem

from headrace.testing import HeadraceServer, wait_until
from headrace.testing.plugin import HeadraceFactory


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def topic(v1: V1) -> str:
    name = f"stream-{uuid.uuid4().hex[:8]}"
    assert v1.ask("POST", "/v1/topics", {"name": name, "partitions": 3}).status == 201
    return name


def values(events: list[Sent]) -> list[object]:
    return [event.data["value"] for event in events]


def places(events: list[Sent]) -> list[tuple[int, int]]:
    return [(event.data["partition"], event.data["offset"]) for event in events]


def test_a_stream_begins_at_the_end_and_shows_what_comes(v1: V1, topic: str) -> None:
    v1.publish(topic, "before")
    with v1.stream(topic) as stream:
        assert stream.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.answer.headers["cache-control"] == "no-store"
        stream.opened()
        assert stream.retry_ms == 1000
        v1.publish(topic, {"n": 1}, partition=2)
        (event,) = stream.take(1)
    assert event.name == "message"
    assert {**event.data, "timestamp": 0} == {
        "partition": 2, "offset": event.data["offset"], "timestamp": 0, "key": None, "value": {"n": 1}, "headers": [],
    }  # fmt: skip
    assert event.id.endswith(f".{event.data['offset'] + 1}")


def test_from_says_where_it_begins(v1: V1, topic: str) -> None:
    for partition in range(3):
        v1.publish(topic, *(f"{partition}-{number}" for number in range(3)), partition=partition)
    with v1.stream(topic, from_="earliest") as stream:
        assert sorted(values(stream.take(9))) == [f"{partition}-{number}" for partition in range(3) for number in range(3)]
    with v1.stream(topic, from_=2, partition=1) as stream:
        assert places(stream.take(1)) == [(1, 2)]
    with v1.stream(topic, from_="2001-01-01T00:00:00Z", partition=0) as stream:
        assert values(stream.take(3)) == ["0-0", "0-1", "0-2"]
    with v1.stream(topic, from_="2101-01-01T00:00:00+02:00", partition=0) as stream:
        stream.opened()
        v1.publish(topic, "later", partition=0)
        assert values(stream.take(1)) == ["later"]


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_that_comes_back_again_and_again_sees_each_event_once(v1: V1, topic: str, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(12):
        partition = chance.randrange(3)
        v1.publish(topic, *range(chance.randrange(1, 8)), partition=partition)
    total = sum(each["end_offset"] for each in v1.get(f"/v1/topics/{topic}")["partitions"])
    seen: list[Sent] = []
    last = None
    while len(seen) < total:
        with v1.stream(topic, last, from_="earliest") as stream:
            seen += stream.take(min(chance.randrange(1, 9), total - len(seen)))
            last = stream.last_event_id
    assert len(set(places(seen))) == total
    for partition in range(3):
        offsets = [offset for index, offset in places(seen) if index == partition]
        assert offsets == sorted(offsets) == list(range(len(offsets)))
    with v1.stream(topic, last) as stream:
        v1.publish(topic, "new", partition=1)
        assert values(stream.take(1)) == ["new"]


def test_a_reader_that_has_seen_nothing_yet_misses_nothing_either(v1: V1, topic: str) -> None:
    with v1.stream(topic) as stream:
        position = stream.opened().last_event_id
    v1.publish(topic, "while it was away", partition=2)
    with v1.stream(topic, position) as stream:
        assert values(stream.take(1)) == ["while it was away"]
    with v1.stream(topic, position=position) as stream:
        assert values(stream.take(1)) == ["while it was away"]


def test_a_stream_goes_on_after_the_server_was_killed(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory(num_partitions=2)
    v1 = V1(server)
    for number in range(20):
        v1.publish("t", number, partition=number % 2)
    with v1.stream("t", from_="earliest") as stream:
        seen = stream.take(7)
        last = stream.last_event_id
    server.crash()
    server.restart()
    for number in range(20, 30):
        v1.publish("t", number, partition=number % 2)
    with v1.stream("t", last, from_="earliest") as stream:
        seen += stream.take(23)
    assert sorted(values(seen)) == list(range(30))
    assert len(set(places(seen))) == 30


def test_what_retention_took_is_a_gap(v1: V1, topic: str) -> None:
    with v1.stream(topic, from_="earliest", partition=0) as stream:
        position = stream.opened().last_event_id
    v1.publish(topic, *range(5), partition=0)
    assert v1.ask("POST", f"/v1/topics/{topic}/trim", {"before": 3, "partition": 0}).status == 200
    with v1.stream(topic, position, partition=0) as stream:
        gap, event = stream.take(2)
    assert (gap.name, gap.data) == ("gap", {"partition": 0, "from": 0, "to": 3})
    assert places([event]) == [(0, 3)]
    with v1.stream(topic, gap.id, partition=0) as stream:
        assert places(stream.take(1)) == [(0, 3)]


def test_a_topic_that_is_deleted_ends_the_stream_and_nobody_has_to_come_back(v1: V1, topic: str) -> None:
    v1.publish(topic, 1, partition=0)
    with v1.stream(topic, from_="earliest") as stream:
        first = stream.take(1)[0]
        assert v1.ask("DELETE", f"/v1/topics/{topic}").status == 204
        end = stream.take(1)[0]
        assert (end.name, end.data) == ("end", {"reason": "the topic was deleted"})
        assert stream.next() is None
    back = EventStream(v1, f"/v1/topics/{topic}/stream", first.id)
    assert (back.answer.status, back.answer.read()) == (204, b"")
    back.close()
    assert_problem(v1.ask("GET", f"/v1/topics/{topic}/stream"), 404, "unknown_topic")


def test_a_topic_that_was_made_anew_is_another_one(v1: V1, topic: str) -> None:
    v1.publish(topic, *range(5), partition=0)
    with v1.stream(topic, from_="latest") as stream:
        position = stream.opened().last_event_id
    v1.ask("DELETE", f"/v1/topics/{topic}")
    v1.ask("POST", "/v1/topics", {"name": topic, "partitions": 1})
    v1.publish(topic, "new life")
    with v1.stream(topic, position) as stream:
        reset, event = stream.take(2)
    assert (reset.name, reset.data) == ("reset", {"reason": "the topic was deleted and made anew"})
    assert values([event]) == ["new life"]


def test_a_topic_in_memory_that_lost_its_end_is_read_from_its_start(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory(num_partitions=1)
    v1 = V1(server)
    v1.ask("POST", "/v1/topics", {"name": "m", "config": {"durability": "memory"}})
    v1.publish("m", *range(5))
    with v1.stream("m", from_="latest") as stream:
        position = stream.opened().last_event_id
    server.crash()
    server.restart()
    v1.publish("m", "after")
    with v1.stream("m", position) as stream:
        found = stream.take(2)
    assert [event.name for event in found] == ["reset", "message"]
    assert values(found[1:]) == ["after"]


def test_partitions_that_are_added_are_followed_from_their_beginning(v1: V1, topic: str) -> None:
    with v1.stream(topic) as stream:
        position = stream.opened().last_event_id
        v1.ask("PATCH", f"/v1/topics/{topic}", {"partitions": 5})
        v1.publish(topic, "in a new one", partition=4)
        event = stream.take(1)[0]
    assert (event.data["value"], len(event.id.split("."))) == ("in a new one", 6)
    with v1.stream(topic, position) as stream:
        assert values(stream.take(1)) == ["in a new one"]


def test_a_filter_leaves_out_and_the_position_moves_on_all_the_same(v1: V1, topic: str) -> None:
    v1.publish(topic, *({"n": number} for number in range(50)), partition=0)
    with v1.stream(topic, from_="earliest", partition=0, filter="value.n % 10 == 3") as stream:
        found = stream.take(5)
    assert places(found) == [(0, 3), (0, 13), (0, 23), (0, 33), (0, 43)]
    with v1.stream(topic, found[2].id, partition=0, filter="value.n % 10 == 3") as stream:
        assert places(stream.take(2)) == [(0, 33), (0, 43)]


def test_heartbeats_carry_the_position_over_what_was_left_out(headrace_factory: HeadraceFactory) -> None:
    v1 = V1(headrace_factory(settings={"headrace.http.heartbeat.ms": 200, "num.partitions": 1}))
    v1.publish("t", *range(10))
    with v1.stream("t", from_="earliest", filter="false") as stream:
        assert stream.opened().last_event_id.endswith(".0")
        wait_until(lambda: (stream._line([], []), stream.last_event_id.endswith(".10"))[1], what="the position to move")
        wait_until(lambda: (stream._line([], []), stream.comments >= 3)[1], what="more heartbeats")


def test_text_of_any_kind_stays_on_its_line(v1: V1, topic: str) -> None:
    texts = ["two\nlines", "\r\n\r\ndata: forged\n\n", "\u2028", '{"a":\n1}', "\x00", ":", "id: 5"]
    v1.publish(topic, *texts, partition=0)
    with v1.stream(topic, from_="earliest", partition=0) as stream:
        assert values(stream.take(len(texts))) == texts


def test_many_events_come_in_few_writes_and_all_of_them(v1: V1, topic: str) -> None:
    for _ in range(5):
        v1.publish(topic, *("x" * 1000 for _ in range(2000)), partition=0)
    with v1.stream(topic, from_="earliest", partition=0) as stream:
        assert places(stream.take(10_000)) == [(0, offset) for offset in range(10_000)]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("from=nowhere", 400, "invalid_from"),
        ("from=--1", 400, "invalid_from"),
        ("from=99999999999999999999", 400, "invalid_from"),
        ("partition=x", 400, "unknown_partition"),
        ("partition=3", 404, "unknown_partition"),
        ("position=x", 400, "invalid_position"),
        ("position=abcdef.1.2.3.", 400, "invalid_position"),
        ("filter=value.n%20%3E", 400, "invalid_filter"),
        ("filter=" + "x" * 5000, 400, "invalid_filter"),
        ("form=earliest", 400, "unknown_parameter"),
    ],
)
def test_what_makes_no_sense_is_a_problem(v1: V1, topic: str, query: str, status: int, code: str) -> None:
    assert_problem(v1.ask("GET", f"/v1/topics/{topic}/stream?{query}"), status, code)


def test_a_forged_last_event_id_is_a_problem_and_a_foreign_one_a_reset(v1: V1, topic: str) -> None:
    for forged in ("1", "'; drop", "abcdef." + "9" * 30, "abcdef." + "1." * 300 + "1"):
        answer = v1.ask("GET", f"/v1/topics/{topic}/stream", headers={"Last-Event-ID": forged})
        assert_problem(answer, 400, "invalid_position")
    with v1.stream(topic, "AAAAAA.1.2.3") as stream:
        assert stream.take(1)[0].name == "reset"


def test_a_position_beyond_the_end_is_a_reset(v1: V1, topic: str) -> None:
    v1.publish(topic, "here", partition=0)
    with v1.stream(topic, partition=0) as stream:
        life = stream.opened().last_event_id.partition(".")[0]
    with v1.stream(topic, f"{life}.0:999", partition=0) as stream:
        reset, event = stream.take(2)
    assert (reset.name, reset.data) == ("reset", {"partition": 0, "from": 999, "to": 0})
    assert values([event]) == ["here"]


def test_a_head_request_is_answered_and_ends(v1: V1, topic: str) -> None:
    answer = v1.ask("HEAD", f"/v1/topics/{topic}/stream")
    assert (answer.status, answer.content) == (200, b"")


def test_tables_of_the_server_are_no_topics(v1: V1) -> None:
    assert_problem(v1.ask("GET", "/v1/topics/__headrace_routes/stream"), 404, "unknown_topic")


def test_who_may_not_read_a_topic_gets_no_stream(v1: V1, topic: str) -> None:
    v1.ask("PUT", "/api/users/half", {"password": "half", "tags": "management"}, user="guest:guest")
    v1.ask("PUT", "/api/permissions/%2F/half", {"configure": "", "write": ".*", "read": "^other"}, user="guest:guest")
    assert_problem(v1.ask("GET", f"/v1/topics/{topic}/stream", user="half:half"), 403, "forbidden")
