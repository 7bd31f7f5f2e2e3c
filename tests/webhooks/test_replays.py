"""Events that are sent again: one, a period, those that failed; over crashes, too."""

from __future__ import annotations

import pytest
from tests.webhooks.conftest import WebhookSite

from headrace.broker.routes.errors import InvalidRoute, RouteConflict
from headrace.broker.routes.route import Route
from headrace.broker.routes.sending import WantedAttempts
from headrace.record.request import iso
from headrace.webhooks import period
from headrace.webhooks.attempt_search import search
from headrace.webhooks.desk import Desk, make_sender


def desk(site: WebhookSite, name: str = "w") -> Desk:
    route: Route = site.broker.routes.get(name)
    return site.rig.run(make_sender(route, site.broker.routes.surroundings))


def delivered(site: WebhookSite, count: int) -> None:
    site.webhook()
    site.publish(*(b"%d" % number for number in range(count)))
    site.pass_time(2)
    assert site.committed() == count
    site.endpoint.sent.clear()


def test_one_attempt_is_sent_again_now(site: WebhookSite) -> None:
    delivered(site, 5)
    told = site.rig.run(desk(site).send_again(3))
    site.pass_time(1)
    assert site.endpoint.offsets == [3]
    assert told == {"webhook_id": site.endpoint.sent[0].id, "queued": True}
    assert (site.pending(), site.committed()) == ({}, 5)


def test_an_event_that_waits_for_its_next_attempt_has_it_now(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500
    site.webhook(first_pause_s=1000)
    site.publish(b"1")
    site.pass_time(1)
    site.endpoint.reply = lambda sent: 200
    site.rig.run(site.run_of().send_again(0, 0))
    site.pass_time(1)
    assert [sent.attempt for sent in site.endpoint.sent] == [1, 2]
    assert site.pending() == {}


def test_what_is_to_be_sent_again_is_remembered_over_a_crash(site: WebhookSite) -> None:
    delivered(site, 3)
    site.endpoint.reply = lambda sent: None
    site.rig.run(site.run_of().send_again(0, 1))
    site.endpoint.reply = lambda sent: 200
    site.crash()
    site.pass_time(1)
    assert site.endpoint.offsets[-1] == 1
    assert site.pending() == {}


def test_what_is_not_there_can_not_be_sent_again(site: WebhookSite) -> None:
    delivered(site, 3)
    with pytest.raises(InvalidRoute, match="no partition 7"):
        site.rig.run(site.run_of().send_again(7, 0))
    with pytest.raises(RouteConflict, match="has offsets 0 to 2"):
        site.rig.run(site.run_of().send_again(0, 3))
    site.rig.run(site.broker.routes.pause("w"))
    with pytest.raises(RouteConflict, match="is paused"):
        site.rig.run(desk(site).send_again(1))


def test_a_period_is_sent_again_and_the_position_stays(site: WebhookSite) -> None:
    delivered(site, 50)
    told = site.rig.run(site.run_of().replay({0: (10, 40)}))
    assert told == {"events": 30}
    site.pass_time(5)
    assert sorted(site.endpoint.offsets) == list(range(10, 40))
    assert (site.pending(), site.committed(), site.run_of().rows.jobs) == ({}, 50, {})


def test_a_period_goes_on_where_it_was_after_a_crash(site: WebhookSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(period, "ROWS_AT_ONCE", 5)
    delivered(site, 600)
    site.rig.run(site.run_of().replay({0: (0, 600)}))
    for _ in range(5):
        site.pass_time(0.05)
        site.crash()
    site.pass_time(30)
    assert sorted(set(site.endpoint.offsets)) == list(range(600))
    assert len(site.endpoint.offsets) < 700
    assert (site.pending(), site.run_of().rows.jobs) == ({}, {})


def test_what_failed_in_a_period_and_was_not_delivered_since_is_sent_again(site: WebhookSite) -> None:
    bad = {3, 4, 8}
    site.endpoint.reply = lambda sent: 400 if sent.offset in bad else 200
    site.webhook(max_attempts=1)
    site.publish(*(b"%d" % number for number in range(10)))
    site.pass_time(2)
    middle_ms = site.rig.clock.now_ms()
    site.pass_time(2)
    bad |= {11}
    site.publish(b"10", b"11")
    site.pass_time(2)
    bad.clear()
    site.rig.run(desk(site).send_again(attempt_of(site, 4)))
    site.pass_time(1)
    site.endpoint.sent.clear()
    told = site.rig.run(desk(site).send_failed_again(None, middle_ms))
    site.pass_time(5)
    assert sorted(site.endpoint.offsets) == [3, 8]
    assert told == {"attempts": 10}
    site.endpoint.sent.clear()
    site.rig.run(desk(site).send_failed_again(middle_ms, None))
    site.pass_time(5)
    assert site.endpoint.offsets == [11]
    assert (site.pending(), site.run_of().rows.jobs) == ({}, {})


def attempt_of(site: WebhookSite, offset: int) -> int:
    return next(number for number, one in enumerate(site.attempts()) if one["offset"] == offset)


def test_there_are_not_any_number_of_periods(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: None
    site.webhook()
    site.publish(*(b"%d" % number for number in range(10)))
    site.pass_time(1)
    run = site.run_of()
    run.engine.read_soon = lambda member: None  # type: ignore[method-assign,assignment]
    for _ in range(period.MAX_JOBS):
        site.rig.run(run.replay({0: (0, 10)}))
    with pytest.raises(RouteConflict, match="already"):
        site.rig.run(run.replay({0: (0, 10)}))


# --- looking for attempts


def test_attempts_are_found_newest_first_and_page_by_page(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500 if sent.offset % 5 == 0 else 200
    site.webhook(max_attempts=2, first_pause_s=1000)
    site.publish(*(b"%d" % number for number in range(50)))
    site.pass_time(2)
    site.rig.settle()
    topics = site.broker.topics

    def found(**wanted: object) -> tuple[list[int], int | None]:
        result = site.rig.run(search(topics, "w", WantedAttempts(**wanted)))  # type: ignore[arg-type]
        return [int(str(one["offset"])) for one in result.attempts], result.cursor

    everything = found(limit=1000)
    assert everything[1] is None
    assert len(everything[0]) == 50
    pages, cursor = [], None
    while True:
        page, cursor = found(limit=7, cursor=cursor)
        pages += page
        if cursor is None:
            break
    assert pages == everything[0]
    assert sorted(found(status="failed")[0]) == list(range(0, 50, 5))
    assert sorted(found(status="retrying")[0]) == list(range(0, 50, 5))
    assert found(status="given-up")[0] == []
    assert len(found(status="delivered")[0]) == 40
    assert found(event=(0, 17))[0] == [17]
    assert found(event=(1, 17))[0] == []
    assert found(since_ms=site.rig.clock.now_ms() + 1)[0] == []
    assert found(until_ms=1)[0] == []
    assert len(found(since_ms=1, until_ms=site.rig.clock.now_ms() + 1)[0]) == 50


def test_a_search_has_a_bound_and_goes_on_from_its_cursor(site: WebhookSite, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.webhooks import attempt_search

    monkeypatch.setattr(attempt_search, "STEP", 10)
    monkeypatch.setattr(attempt_search, "MAX_SCANNED", 20)
    delivered(site, 100)
    first = site.rig.run(search(site.broker.topics, "w", WantedAttempts(event=(0, 5))))
    assert (first.attempts, first.cursor) == ([], 80)
    found, cursor = [], first.cursor
    while cursor is not None:
        page = site.rig.run(search(site.broker.topics, "w", WantedAttempts(event=(0, 5), cursor=cursor)))
        found, cursor = found + page.attempts, page.cursor
    assert [one["offset"] for one in found] == [5]


def test_an_attempt_is_shown_with_its_request_and_without_secrets(site: WebhookSite) -> None:
    site.webhook(headers={"authorization": "Bearer t0ps3cret"})
    site.publish(b'{"a": 1}')
    site.pass_time(1)
    told = site.rig.run(desk(site).attempt(0))
    assert told is not None
    request = told["request"]
    assert isinstance(request, dict)
    assert (request["url"], request["body"]) == ("https://hooks.example/in", '{"a": 1}')
    sent = site.endpoint.sent[0].headers
    assert request["headers"] == sent | {"authorization": "(hidden)", "webhook-signature": "(hidden)"}
    assert told["at"] == iso(site.endpoint.sent[0].at_ms)
    assert site.rig.run(desk(site).attempt(99)) is None


def test_strange_records_in_the_topic_of_attempts_are_passed_over(site: WebhookSite) -> None:
    delivered(site, 1)
    for value in (b"nonsense", b"[]", b'{"result": "delivered"}', b"\xff", b""):
        site.publish(value, topic="w.attempts")
    found = site.rig.run(search(site.broker.topics, "w", WantedAttempts()))
    assert [one["id"] for one in found.attempts] == ["0"]


# --- a test delivery


def test_a_test_is_sent_and_told_and_closes_the_breaker(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500
    site.webhook(first_pause_s=80_000)
    site.publish(*(b"%d" % number for number in range(10)))
    site.pass_time(1)
    assert site.run_of().endpoint.limits.breaker.is_open
    told = site.rig.run(desk(site).test())
    assert (told["delivered"], told["status"], told["error"]) == (False, 500, "HTTP 500")
    assert site.run_of().endpoint.limits.breaker.is_open
    site.endpoint.reply = lambda sent: 200
    told = site.rig.run(desk(site).test())
    assert (told["delivered"], told["status"], told["error"]) == (True, 200, None)
    assert [sent.headers.get("headrace-test") for sent in site.endpoint.sent].count("true") == 2
    site.pass_time(1)
    assert site.committed() == 10


def test_a_paused_route_can_be_tested(site: WebhookSite) -> None:
    site.webhook(paused=True)
    told = site.rig.run(desk(site).test())
    assert (told["delivered"], len(site.endpoint.sent)) == (True, 1)
