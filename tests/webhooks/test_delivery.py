"""Events of a topic sent to an endpoint: what is sent, when again, where the route stands; on a simulated disk and clock."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from tests.webhooks.conftest import Reply, Sent, WebhookSite, answer

from headrace.broker.routes.route import State
from headrace.log.errors import DiskFull
from headrace.record import Event, encode_batch, twin
from headrace.webhooks.limits import OPEN_AFTER
from headrace.webhooks.outbound import Refused, TimedOut, Unreachable


def fails(*offsets: int) -> object:
    return lambda sent: 500 if sent.offset in offsets else 200


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def pause_s(attempt: dict[str, Any]) -> float | None:
    return None if attempt["next_at"] is None else round(seconds_between(attempt["at"], attempt["next_at"]))


# --- delivering


def test_each_event_is_sent_and_the_position_follows(site: WebhookSite) -> None:
    site.publish(b"1", b"2")
    site.webhook()
    site.publish(b"3")
    site.pass_time(1)
    assert [sent.body for sent in site.endpoint.sent] == [b"1", b"2", b"3"]
    assert site.committed() == 3
    assert site.broker.routes.get("w").counts.delivered == 3
    assert [(one["offset"], one["attempt"], one["result"], one["status"]) for one in site.attempts()] == [
        (0, 1, "delivered", 200),
        (1, 1, "delivered", 200),
        (2, 1, "delivered", 200),
    ]


def test_a_route_with_nothing_to_do_has_no_task_and_no_timer(site: WebhookSite) -> None:
    site.webhook()
    site.publish(b"1")
    site.pass_time(5)
    run = site.run_of()
    assert (len(run._attempting), run.engine._readers, len(run.engine.alarms)) == (0, set(), 0)
    assert run.engine._commit_timer is None


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_success(site: WebhookSite, status: int) -> None:
    site.endpoint.reply = lambda sent: status
    site.webhook()
    site.publish(b"1")
    site.pass_time(1)
    assert (site.attempts()[0]["result"], site.pending(), site.committed()) == ("delivered", {}, 1)


@pytest.mark.parametrize("reply", [100, 301, 302, 307, 400, 401, 404, 429, 500, 502, 503, 504])
def test_any_other_status_is_a_failure(site: WebhookSite, reply: int) -> None:
    site.endpoint.reply = lambda sent: reply
    site.webhook()
    site.publish(b"1")
    site.pass_time(1)
    (attempt,) = site.attempts()
    assert (attempt["result"], attempt["status"], attempt["error"]) == ("failed", reply, f"HTTP {reply}")
    assert (site.pending(), site.committed()) == ({(0, 0): 1}, 1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimedOut("no answer within 20 s"), "timeout"),
        (Unreachable("nobody listens"), "connect"),
        (Unreachable("no such host", "resolve"), "resolve"),
        (Refused("10.0.0.1 is not a public address"), "refused"),
    ],
)
def test_an_endpoint_without_an_answer_is_a_failure_that_says_why(site: WebhookSite, error: Exception, kind: str) -> None:
    site.endpoint.reply = lambda sent: error  # type: ignore[assignment,return-value]
    site.webhook()
    site.publish(b"1")
    site.pass_time(1)
    (attempt,) = site.attempts()
    assert (attempt["result"], attempt["status"], attempt["error"], attempt["kind"]) == ("failed", None, str(error), kind)
    assert site.pending() == {(0, 0): 1}


def test_an_attempt_is_recorded_with_all_that_helps_and_no_secret(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: answer(503, retry_after="60")
    route = site.webhook(headers={"authorization": "Bearer t0ps3cret"})
    site.publish(b"1")
    site.pass_time(1)
    (attempt,) = site.attempts()
    now_ms = site.endpoint.sent[0].at_ms
    assert attempt == {
        "webhook_id": site.endpoint.sent[0].id,
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "attempt": 1,
        "at": attempt["at"],
        "duration_ms": 0,
        "result": "failed",
        "status": 503,
        "error": "HTTP 503",
        "kind": None,
        "address": "192.0.2.7",
        "response": "body of 503",
        "signatures": 1,
        "next_at": attempt["next_at"],
    }
    assert now_ms % 1000 == int(attempt["at"][-4:-1])
    told = json.dumps(attempt)
    assert "whsec_" not in told
    assert "t0ps3cret" not in told
    assert route.definition.target.secrets[0].secret not in told  # type: ignore[attr-defined]


def test_an_event_is_sent_with_the_same_id_by_every_attempt_restart_and_replay(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500
    site.webhook(first_pause_s=1)
    site.publish(b"1")
    site.pass_time(2)
    site.crash()
    site.pass_time(4)
    site.endpoint.reply = lambda sent: 200
    site.pass_time(60)
    site.rig.run(site.run_of().send_again(0, 0))
    site.pass_time(1)
    assert len(site.endpoint.sent) >= 4
    assert len({sent.id for sent in site.endpoint.sent}) == 1
    assert [sent.attempt for sent in site.endpoint.sent][-1] == 1  # what is sent again begins anew
    stamps = [int(sent.headers["webhook-timestamp"]) for sent in site.endpoint.sent]
    assert stamps == [sent.at_ms // 1000 for sent in site.endpoint.sent]


def test_an_event_that_fails_for_days_holds_nobody_back(site: WebhookSite) -> None:
    site.endpoint.reply = fails(0)  # type: ignore[assignment]
    site.webhook()
    site.publish(*(b"%d" % number for number in range(100)))
    site.pass_time(3)
    assert site.broker.routes.get("w").counts.delivered == 99
    assert site.committed() == 100
    assert site.pending() == {(0, 0): 1}


# --- the schedule


def test_attempts_follow_the_schedule_and_then_a_dead_letter_says_why(site: WebhookSite) -> None:
    site.random.random = lambda: 0.5  # type: ignore[method-assign]
    site.endpoint.reply = fails(0)  # type: ignore[assignment]
    site.webhook(first_pause_s=1, longest_pause_s=10, max_attempts=6)
    site.publish(b"1")
    for number in range(30):  # others go well, so that the breaker stays closed
        site.pass_time(1.01)
        site.publish(b"other %d" % number)
    tries = [one for one in site.attempts() if one["offset"] == 0]
    assert [pause_s(one) for one in tries] == [1, 2, 4, 8, 10, None]
    assert [later["at"] for later in tries[1:]] == [earlier["next_at"] for earlier in tries[:-1]]
    assert [(one["attempt"], one["result"]) for one in tries] == [
        *((number, "failed") for number in range(1, 6)), (6, "given-up"),
    ]  # fmt: skip
    assert site.pending() == {}
    (letter,) = site.records("w.dead-letters")
    headers = dict(letter.headers)
    assert letter.value == b"1"
    assert headers["__dlq.errors.message"] == b"given up after 6 attempts in 25 s, the last one with: HTTP 500"
    assert (headers["__dlq.errors.topic"], headers["__dlq.errors.offset"]) == (b"t", b"0")
    assert site.broker.routes.get("w").counts.dead_lettered == 1


def test_what_can_not_be_delivered_is_skipped_where_that_is_asked_for(site: WebhookSite) -> None:
    site.endpoint.reply = fails(1)  # type: ignore[assignment]
    route = site.webhook(on_failure="skip", max_attempts=2, first_pause_s=1)
    site.publish(b"1", b"2", b"3")
    site.pass_time(10)
    assert (route.counts.delivered, route.counts.skipped, route.counts.dead_lettered) == (2, 1, 0)
    assert site.broker.topics.get("w.dead-letters") is None
    assert (site.pending(), site.committed()) == ({}, 3)


def test_an_event_with_one_attempt_is_dead_lettered_without_ever_having_a_row(site: WebhookSite) -> None:
    site.endpoint.reply = fails(0)  # type: ignore[assignment]
    site.webhook(max_attempts=1)
    site.publish(b"1", b"2")
    site.pass_time(1)
    assert [record.value for record in site.records("w.dead-letters")] == [b"1"]
    assert (site.pending(), site.committed()) == ({}, 2)


def test_an_answer_that_asks_for_time_is_given_it(site: WebhookSite) -> None:
    replies: list[Reply] = [answer(429, retry_after="120"), 200, 200]
    site.endpoint.reply = lambda sent: replies.pop(0)
    site.webhook(concurrency=1)
    site.publish(b"1")
    site.pass_time(1)
    site.publish(b"2")  # another event does not get through in the meantime
    site.pass_time(300)
    first, *others = site.endpoint.sent
    assert [round((sent.at_ms - first.at_ms) / 1000) for sent in others] == [120, 120]
    assert (site.pending(), site.committed()) == ({}, 2)


# --- an endpoint that is down


def test_the_breaker_opens_lets_one_event_try_and_closes(site: WebhookSite) -> None:
    site.random.random = lambda: 0.5  # type: ignore[method-assign]
    site.endpoint.reply = lambda sent: Unreachable("nobody listens")
    route = site.webhook()
    site.publish(*(b"%d" % number for number in range(50)))
    site.pass_time(1)
    assert len(site.endpoint.sent) == OPEN_AFTER
    assert route.state is State.BLOCKED
    assert route.error == f"{OPEN_AFTER} attempts in a row have failed, the last one with: nobody listens"
    assert site.committed() == OPEN_AFTER
    assert site.run_of().reading.outstanding == 1  # the one that is tried next; the others are not in memory
    site.pass_time(12)
    assert len(site.endpoint.sent) == OPEN_AFTER + 1
    site.endpoint.reply = lambda sent: 200
    site.pass_time(600)
    assert (route.state, route.error) == (State.RUNNING, None)
    assert site.committed() == 50
    assert site.pending() == {}
    assert route.counts.delivered == 50


def test_nothing_is_tried_while_the_breaker_is_open_and_others_are_undisturbed(site: WebhookSite) -> None:
    site.rig.create("u")
    site.endpoint.reply = lambda sent: 500 if sent.headers["headrace-topic"] == "t" else 200
    site.webhook()
    site.webhook("other", "u")
    site.publish(*(b"%d" % number for number in range(20)))
    site.pass_time(1)
    before = len(site.endpoint.sent)
    site.publish(*(b"%d" % number for number in range(20)), topic="u")
    site.pass_time(2)
    assert len(site.endpoint.sent) == before + 20
    assert site.broker.routes.get("other").counts.delivered == 20
    assert site.broker.routes.get("other").state is State.RUNNING


def test_410_disables_the_route_until_somebody_resumes_it(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 410
    site.webhook()
    site.publish(b"1")
    site.pass_time(5)
    route = site.broker.routes.get("w")
    assert route.state is State.DISABLED
    assert route.error == "the endpoint answered 410 Gone: it wants no more events"
    site.publish(b"2")
    site.pass_time(600)
    assert len(site.endpoint.sent) == 1
    site.restart()
    route = site.broker.routes.get("w")
    assert route.state is State.DISABLED
    site.endpoint.reply = lambda sent: 200
    site.rig.run(site.broker.routes.resume("w"))
    site.pass_time(60)
    assert sorted(set(site.endpoint.offsets)) == [0, 1]
    assert (route.state, site.pending(), site.committed()) == (State.RUNNING, {}, 2)


def test_an_endpoint_that_fails_for_days_on_end_is_disabled_also_over_a_restart(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500
    site.webhook(disable_after_s=400)
    site.publish(*(b"%d" % number for number in range(200)))
    site.pass_time(300)
    assert site.broker.routes.get("w").state is State.BLOCKED
    site.restart()
    site.pass_time(300)
    route = site.broker.routes.get("w")
    assert route.state is State.DISABLED
    assert str(route.error).startswith("the endpoint has failed for ")
    assert str(route.error).endswith(" on end, the last time with: HTTP 500")


def test_an_endpoint_that_recovers_begins_anew_with_its_days(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500
    site.webhook(disable_after_s=600, first_pause_s=1)
    site.publish(*(b"%d" % number for number in range(200)))
    site.pass_time(400)
    site.endpoint.reply = lambda sent: 200
    site.pass_time(400)
    assert site.committed() == 200
    site.endpoint.reply = lambda sent: 500
    site.publish(*(b"%d" % number for number in range(20)))
    site.pass_time(400)
    assert site.broker.routes.get("w").state is State.BLOCKED


# --- limits


def test_no_more_requests_at_once_than_are_allowed(site: WebhookSite) -> None:
    held: list[Sent] = []

    def reply(sent: Sent) -> Reply:
        held.append(sent)
        return 200

    site.endpoint.reply = reply
    site.webhook(concurrency=3)
    site.publish(*(b"%d" % number for number in range(60)))
    site.pass_time(1)
    assert site.endpoint.most_at_once == 3
    assert len(held) == 60


def test_an_endpoint_that_hangs_holds_one_request(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: None
    site.webhook(concurrency=50)
    site.publish(*(b"%d" % number for number in range(60)))
    site.pass_time(1)
    assert len(site.endpoint.hanging) == 1


def test_the_rate_is_kept(site: WebhookSite) -> None:
    site.webhook(rate_per_s=5)
    site.publish(*(b"%d" % number for number in range(60)))
    site.pass_time(6.05)
    assert len(site.endpoint.sent) == 35  # five at once, and five each second
    site.pass_time(6)
    assert len(site.endpoint.sent) == 60


# --- filters


def test_retention_takes_what_was_not_delivered_and_it_is_counted(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500
    route = site.webhook()
    site.publish(*(b"%d" % number for number in range(20)))
    site.pass_time(1)
    site.rig.run(site.rig.partition("t").trim(15))
    site.endpoint.reply = lambda sent: 200
    site.pass_time(1000)
    assert route.counts.lost + route.counts.delivered == 20
    assert route.counts.lost >= 14
    assert site.pending() == {}
    assert site.committed() == 20
    assert "gone" in {one["result"] for one in site.attempts()}


def test_a_batch_that_can_not_be_read_is_a_dead_letter(site: WebhookSite) -> None:
    site.publish(b"1")
    batch = encode_batch([Event(b"k", b"x" * 50)], now_ms=1)
    batch[22] = 4  # says that it is compressed with zstd
    batch[17:21] = twin.crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    site.rig.call(lambda: site.rig.partition("t").append(batch))
    site.publish(b"3")
    site.webhook()
    site.pass_time(1)
    assert [sent.body for sent in site.endpoint.sent] == [b"1", b"3"]
    (letter,) = site.records("w.dead-letters")
    assert letter.value is None
    assert b"can't be read" in dict(letter.headers)["__dlq.errors.message"]
    assert site.committed() == 3


# --- crashes, pauses, changes


def test_what_failed_is_remembered_over_a_crash(site: WebhookSite) -> None:
    site.endpoint.reply = fails(1)  # type: ignore[assignment]
    site.webhook()
    site.publish(b"1", b"2", b"3")
    site.pass_time(1)
    site.crash()
    site.pass_time(1)
    assert site.pending() == {(0, 1): 1}
    site.endpoint.reply = lambda sent: 200
    site.pass_time(30)
    assert site.endpoint.offsets == [0, 1, 2, 1]
    assert site.pending() == {}


def test_only_what_was_under_way_is_repeated_after_a_crash(site: WebhookSite) -> None:
    site.webhook()
    site.publish(*(b"%d" % number for number in range(20)))
    site.pass_time(1)
    site.endpoint.reply = lambda sent: None
    site.publish(b"under way")
    site.pass_time(1)
    site.crash()
    site.endpoint.reply = lambda sent: 200
    site.pass_time(1)
    assert site.endpoint.offsets == [*range(21), 20]


def test_a_request_that_does_not_end_is_broken_off_when_the_route_is_paused_and_sent_again_later(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: None
    site.webhook()
    site.publish(b"1")
    site.pass_time(1)
    site.rig.run(site.broker.routes.pause("w"))
    assert site.broker.routes.get("w").state is State.PAUSED
    site.endpoint.reply = lambda sent: 200
    site.rig.run(site.broker.routes.resume("w"))
    site.pass_time(1)
    assert site.endpoint.offsets == [0, 0]
    assert site.committed() == 1


def test_the_rows_of_a_route_go_with_it(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500
    site.webhook()
    site.publish(b"1", b"2")
    site.pass_time(1)
    pending = site.run_of().engine.pending
    assert len(pending) == 2
    site.rig.run(site.broker.routes.delete("w"))
    assert len(pending) == 0
    site.webhook(start="latest")
    site.crash()
    site.pass_time(600)
    assert len(site.endpoint.sent) == 2


def test_the_rows_of_a_topic_that_was_made_anew_go(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500
    site.webhook()
    site.publish(b"1")
    site.pass_time(1)
    site.rig.run(site.broker.topics.delete("t"))
    site.rig.create("t")
    for created in site.broker.topics.on_create:
        site.rig.call(lambda created=created: created("t"))  # type: ignore[misc]
    site.pass_time(1)
    assert site.pending() == {}


def test_a_route_that_gets_another_url_sends_what_failed_there(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500
    site.webhook()
    site.publish(b"1")
    site.pass_time(1)
    site.endpoint.reply = lambda sent: 200
    site.webhook(url="https://other.example/in")
    site.pass_time(60)
    assert [sent.url for sent in site.endpoint.sent] == ["https://hooks.example/in", "https://other.example/in"]


def test_a_topic_that_grows_is_followed(site: WebhookSite) -> None:
    site.webhook()
    site.publish(b"1")
    site.pass_time(1)
    site.rig.run(site.broker.topics.add_partitions("t", 3))
    site.publish(b"2", partition=2)
    site.pass_time(1)
    assert [sent.body for sent in site.endpoint.sent] == [b"1", b"2"]
    assert site.committed(partition=2) == 1


def test_nothing_is_sent_while_the_log_takes_no_writes(site: WebhookSite) -> None:
    """What fails could not be remembered."""
    site.webhook()
    site.publish(b"1")
    site.pass_time(1)
    site.publish(b"2")
    site.rig.log.refusal = DiskFull("no space")
    site.rest()
    sent = len(site.endpoint.sent)
    site.pass_time(5)
    assert len(site.endpoint.sent) - sent <= 1
    site.rig.log.refusal = None
    site.pass_time(30)
    assert site.endpoint.offsets[-1] == 1
    assert site.committed() == 2


# --- filters and transforms


def test_a_filter_and_a_transform_come_before_the_endpoint(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500 if sent.attempt == 1 and sent.offset == 2 else 200
    route = site.webhook(filter="value.n > 1", transform={"value": "{'m': value.n}"}, first_pause_s=1)
    site.publish(b'{"n": 1}', b'{"n": 2}', b'{"n": 3}', b"nonsense")
    site.wait_for(lambda: site.committed() == 4)
    site.pass_time(5)
    assert [(sent.offset, json.loads(sent.body)) for sent in site.endpoint.sent] == [
        (1, {"m": 2}),
        (2, {"m": 3}),
        (2, {"m": 3}),
    ]
    assert (route.counts.filtered, route.counts.dead_lettered, route.counts.delivered) == (1, 1, 2)
    (letter,) = site.records("w.dead-letters")
    assert letter.value == b"nonsense"
    assert site.pending() == {}


def test_a_dead_letter_is_the_event_and_not_what_the_transform_made_of_it(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 400
    site.webhook(transform={"value": "{'m': value.n}"}, max_attempts=2, first_pause_s=1)
    site.publish(b'{"n": 1}')
    site.wait_for(lambda: site.broker.routes.get("w").counts.dead_lettered == 1)
    (letter,) = site.records("w.dead-letters")
    assert letter.value == b'{"n": 1}'
