"""What there is a limit on, and what happens at it."""

from __future__ import annotations

import pytest
from tests.webhooks.conftest import WebhookSite

from headrace.broker.routes.route import State
from headrace.webhooks import engine, giving_up, reading
from headrace.webhooks.outbound import Answer


def test_a_route_stops_reading_when_too_many_events_wait_and_says_so(
    site: WebhookSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_PENDING", 20)
    bad = True
    site.endpoint.reply = lambda sent: 400 if bad and sent.offset % 2 else 200
    route = site.webhook(first_pause_s=1000)
    site.publish(*(b"%d" % number for number in range(200)))
    site.pass_time(5)
    assert len(site.pending()) == 20
    assert route.state is State.BLOCKED
    assert route.error is not None
    assert "20 events wait for another attempt" in route.error
    assert site.committed() == 40
    bad = False
    site.rig.run(site.run_of().send_again(0, 1))
    site.pass_time(3000)
    assert (site.pending(), site.committed(), route.state) == ({}, 200, State.RUNNING)
    assert sorted(set(site.endpoint.offsets)) == list(range(200))


def test_there_is_a_limit_on_rows_of_all_routes_together(site: WebhookSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_ROWS", 10)
    site.endpoint.reply = lambda sent: 400 if sent.offset % 2 else 200
    site.webhook(first_pause_s=1000)
    site.publish(*(b"%d" % number for number in range(500)))
    site.pass_time(5)
    assert 10 <= len(site.pending()) <= 10 + reading.WINDOW


def test_an_endpoint_that_is_slow_holds_few_events_in_memory(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: None
    site.webhook()
    site.publish(*(b"%d" % number for number in range(1000)))
    site.pass_time(1)
    assert site.run_of().reading.outstanding == reading.PER_REQUEST


def test_memory_is_given_back_to_the_byte(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500 if sent.offset % 3 == 0 else 200
    site.webhook(order="key", first_pause_s=1)
    site.publish(*(b"x" * 10_000 for _ in range(60)))
    site.pass_time(2)
    site.endpoint.reply = lambda sent: 200
    site.pass_time(400)
    run = site.run_of()
    assert (run.held_bytes, run.engine.held_bytes, run.engine.in_flight) == (0, 0, 0)
    assert site.committed() == 60


def test_routes_wait_for_memory_and_go_on_when_there_is_some(site: WebhookSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_HELD_BYTES", 30_000)
    site.webhook()
    site.webhook("v")
    site.publish(*(b"x" * 10_000 for _ in range(50)))
    site.pass_time(5)
    assert site.committed() == 50
    assert site.committed("v") == 50


def test_requests_of_all_routes_have_a_limit_that_no_route_can_use_up(
    site: WebhookSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_IN_FLIGHT", 8)
    slow: set[str] = set()
    site.endpoint.reply = lambda sent: None if sent.headers["headrace-route"] in slow else 200
    for number in range(4):
        site.rig.create(f"t{number}")
        site.webhook(f"w{number}", f"t{number}")
        site.publish(*(b"%d" % one for one in range(30)), topic=f"t{number}")
    site.pass_time(2)  # all of them have earned their concurrency
    slow |= {"w0", "w1", "w2"}
    for number in range(4):
        site.publish(*(b"%d" % one for one in range(30)), topic=f"t{number}")
    site.pass_time(5)
    assert len(site.endpoint.hanging) <= 6  # four that share half of the places, and two first ones
    assert site.committed("w3", "t3") == 60


def test_dead_letters_that_can_not_be_written_stop_the_route_and_are_not_lost(site: WebhookSite) -> None:
    site.rig.create("w.dead-letters", max_message_bytes="10")
    site.endpoint.reply = lambda sent: 400
    route = site.webhook(max_attempts=1)
    site.publish(*(b"%d" % number for number in range(200)))
    site.pass_time(300)
    assert len(site.run_of().giving_up) <= giving_up.MAX_OWED + 8
    assert route.state is State.BLOCKED
    assert not site.committed()
    site.endpoint.reply = lambda sent: 200
    site.rig.run(site.broker.topics.configure("w.dead-letters", lambda before: {}))
    site.pass_time(600)
    assert site.committed() == 200
    letters = [record.value for record in site.records("w.dead-letters")]
    assert len(letters) + route.counts.delivered >= 200


def test_an_endless_answer_is_kept_to_its_beginning(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: Answer(500, [], b"x" * 100_000, "192.0.2.7")
    site.webhook()
    site.publish(b"1")
    site.pass_time(1)
    assert len(site.attempts()[0]["response"]) == 1024
