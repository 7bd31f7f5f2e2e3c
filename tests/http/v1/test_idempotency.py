"""Idempotency-Key: a publish that is sent again is answered again and not stored again, also after a crash."""

from __future__ import annotations

import base64
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.http.management.asking import Api
from tests.http.v1.topic_api import TopicApi, assert_problem

from headrace.testing import HeadraceServer, wait_until


@pytest.fixture
def new(headrace_shared_server: HeadraceServer) -> TopicApi:
    """A name that no topic has yet."""
    return TopicApi(headrace_shared_server, f"once-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def topic(new: TopicApi) -> TopicApi:
    return new.create(1)


def key(text: str) -> dict[str, str]:
    return {"Idempotency-Key": text}


def test_the_same_request_gets_the_same_answer_and_is_stored_once(new: TopicApi) -> None:
    topic = new.create(3)
    first = topic.publish({"key": "k", "value": 1}, key('"a"'))
    again = topic.publish({"key": "k", "value": 1}, key("a"))  # with the quotes of structured fields or without
    assert first.status == again.status == 200
    assert first.content == again.content
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    many = [{"key": f"k{n}", "value": n} for n in range(500)]
    first, again = topic.publish(many, key("b")), topic.publish(many, key("b"))
    assert first.content == again.content
    assert len(first.body["events"]) == 500
    raw, raw_again = topic.value(b"x", key("c"), "?key=k"), topic.value(b"x", key("c"), "?key=k")
    assert raw.content == raw_again.content
    lines = b'{"value": 1}\n{"value": 2}\n'
    assert topic.lines(lines, key("d")).content == topic.lines(lines, key("d")).content
    assert len(topic.events(limit=10_000)) == 1 + 500 + 1 + 2
    for place in first.body["events"][::50]:
        assert topic.one(place["partition"], place["offset"]).body["timestamp"] == place["timestamp"]


def test_another_request_under_the_same_key_is_refused(topic: TopicApi) -> None:
    topic.publish({"value": 1}, key("a"))
    for other in (
        topic.publish({"value": 2}, key("a")),
        topic.publish({"value": 1}, key("a"), partition=0),
        topic.value(b'{"value": 1}', key("a")),
        topic.lines(b'{"value": 1}', key("a")),
    ):
        assert_problem(other, 422, "idempotency_key_reused")
    assert topic.values() == [1]


def test_a_key_belongs_to_a_user_and_a_topic(topic: TopicApi) -> None:
    other = TopicApi(topic.server, topic.topic + "-2").create(1)
    topic.publish({"value": 1}, key("a"))
    other.publish({"value": 2}, key("a"))
    management = Api(topic.server.http)
    management.put(f"/users/{topic.topic}", {"password": "p", "tags": ""})
    management.put(f"/permissions/%2f/{topic.topic}", {"configure": ".*", "write": ".*", "read": ".*"})
    login = {"Authorization": "Basic " + base64.b64encode(f"{topic.topic}:p".encode()).decode()}
    topic.publish({"value": 3}, {**key("a"), **login})
    assert topic.values() == [1, 3]
    assert other.values() == [2]


def test_a_request_that_was_refused_may_be_mended(topic: TopicApi) -> None:
    assert topic.publish({"value": 1, "partition": 9}, key("a")).status == 400
    assert topic.publish(b"nonsense", key("a")).status == 400
    assert topic.publish({"value": 1}, key("a")).status == 200
    assert topic.values() == [1]


@pytest.mark.parametrize("text", ["", '""', "x" * 256, "ä"])
def test_a_key_that_is_none_is_refused(topic: TopicApi, text: str) -> None:
    assert_problem(topic.publish({"value": 1}, key(text)), 400, "invalid_idempotency_key")
    assert topic.values() == []


def test_a_stream_without_a_length_can_have_no_key(topic: TopicApi) -> None:
    assert_problem(topic.lines(iter([b'{"value": 1}']), key("a")), 411, "length_needed")


def test_the_same_request_many_times_at_once_is_stored_once(topic: TopicApi) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: topic.publish({"value": 1}, key("a")), range(48)))
    assert {answer.content for answer in answers} == {answers[0].content}
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert topic.values() == [1]


def test_a_topic_with_its_own_time_answers_the_time_that_it_stored(new: TopicApi) -> None:
    topic = new.create(1, message_timestamp_type="LogAppendTime")
    for number in range(20):
        first = topic.publish({"value": number}, key(str(number)))
        assert topic.publish({"value": number}, key(str(number))).content == first.content
        assert topic.one(0, number).body["timestamp"] == first.body["timestamp"]


def test_a_topic_that_is_made_anew_knows_no_keys(topic: TopicApi) -> None:
    topic.publish({"value": 1}, key("a"))
    topic.delete()
    topic.create(1)
    assert topic.publish({"value": 2}, key("a")).status == 200
    assert topic.values() == [2]


def test_keys_are_forgotten_after_their_time_and_beyond_their_number(headrace_factory: Any) -> None:
    server = headrace_factory(
        durability="flush", headrace_http_idempotency_max_keys=3, headrace_http_idempotency_window_ms=86_400_000
    )
    topic = TopicApi(server, "bounded").create(1)
    for number in range(4):
        topic.publish({"value": number}, key(f"k{number}"))
    assert [topic.publish({"value": n}, key(f"k{n}")).body["offset"] for n in (1, 2, 3)] == [1, 2, 3]
    assert topic.publish({"value": 0}, key("k0")).body["offset"] == 4  # the oldest was forgotten
    server.restart(headrace_http_idempotency_window_ms=1000)
    first = topic.publish({"value": 0}, key("short")).body["offset"]
    wait_until(lambda: topic.publish({"value": 0}, key("short")).body["offset"] > first)


@pytest.mark.parametrize("durability", ["fsync", "flush"])
def test_what_was_answered_before_a_crash_is_answered_again_after_it(headrace_factory: Any, durability: str) -> None:
    server = headrace_factory(durability=durability)
    topic = TopicApi(server, "crash").create(2)
    one = topic.publish({"key": "k", "value": 1}, key("one"))
    many = [{"key": f"k{n}", "value": n} for n in range(100)]
    several = topic.publish(many, key("many"))
    server.crash()
    server.restart()
    assert topic.publish({"key": "k", "value": 1}, key("one")).content == one.content
    assert topic.publish(many, key("many")).content == several.content
    assert_problem(topic.publish({"value": 2}, key("one")), 422, "idempotency_key_reused")
    assert len(topic.events(limit=10_000)) == 101


def test_requests_that_are_sent_until_they_are_answered_are_stored_once_through_crashes(headrace_factory: Any) -> None:
    """Each of them again and again under its key, while the server is killed under them."""
    server: HeadraceServer = headrace_factory()
    topic = TopicApi(server, "retried").create(3)
    stop = threading.Event()
    answered: list[tuple[int, bytes]] = []

    def work(worker: int) -> None:
        number = 0
        while not stop.is_set():
            wanted = worker * 1_000_000 + number
            body = [{"key": f"k{n}", "value": wanted} for n in range(4)]
            while True:
                try:
                    answer = topic.publish(body, key(str(wanted)))
                except OSError:
                    if stop.is_set():
                        return
                    stop.wait(0.01)
                    continue
                if answer.status == 200:
                    answered.append((wanted, answer.content))
                    break
                assert answer.status == 503, answer
            number += 1

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(3):
            count = len(answered)
            wait_until(lambda: len(answered) > count + 30)  # noqa: B023
            server.crash()
            server.restart()
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    found: dict[int, int] = {}
    position: dict[str, str] = {}
    while True:
        page = topic.read(limit=10_000, **position).body
        if not page["events"]:
            break
        for event in page["events"]:
            found[event["value"]] = found.get(event["value"], 0) + 1
        position = {"position": page["next"]}
    assert all(count == 4 for count in found.values()), "all of a request, and once"
    assert {wanted for wanted, _ in answered} <= found.keys()
