"""The parts by themselves: signatures, the schedule, limits, requests, alarms, rows, windows, definitions."""

from __future__ import annotations

import base64
import json
from math import inf
from uuid import UUID

import pytest
from standardwebhooks import Webhook
from tests.webhooks.conftest import SECRET, URL

from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.ends.secrets import Secret, secret_bytes
from headrace.broker.routes.ends.webhook import WebhookTarget
from headrace.broker.routes.errors import InvalidRoute
from headrace.record import Record
from headrace.record.request import is_json, iso
from headrace.testing.clock import SimulatedClock
from headrace.webhooks.alarms import Alarms
from headrace.webhooks.lanes import Lanes
from headrace.webhooks.limits import FIRST_OPEN_S, LONGEST_OPEN_S, OPEN_AFTER, Bucket, Limits
from headrace.webhooks.pending import Row
from headrace.webhooks.request import Origin, place_in, request_of
from headrace.webhooks.schedule import PAUSES_S, Schedule, asked_pause_s
from headrace.webhooks.signing import signature_of, signatures_of

TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")
ORIGIN = Origin("w", "orders", TOPIC_ID, 3, 17)
NOW_MS = 1_700_000_000_500


def target(**more: object) -> WebhookTarget:
    return WebhookTarget.of({"type": "webhook", "url": URL, "secrets": [SECRET], **more})


def schedule(**more: object) -> Schedule:
    return Schedule.of(target(**more))


# --- signing


def test_a_signature_is_the_one_of_the_reference_implementation() -> None:
    """The example of the specification's own libraries."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = signature_of(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_each_secret_signs_and_any_of_them_verifies() -> None:
    keys = [bytes([number]) * 32 for number in range(3)]
    header = signatures_of(keys, "msg_1", NOW_MS // 1000, b"{}")
    assert header.split(" ") == [signature_of(key, "msg_1", NOW_MS // 1000, b"{}") for key in keys]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "whsec_!!!",
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
    ],
)
def test_a_secret_that_is_none_is_refused_without_being_told(text: str) -> None:
    with pytest.raises(ValueError, match="a secret ") as caught:
        secret_bytes(text)
    assert not text or text.removeprefix("whsec_") == "" or text.removeprefix("whsec_") not in str(caught.value)


@pytest.mark.parametrize("size", [24, 32, 64])
def test_secrets_of_the_sizes_that_the_specification_allows_are_taken(size: int) -> None:
    assert secret_bytes("whsec_" + base64.b64encode(b"k" * size).decode()) == b"k" * size
    assert secret_bytes(base64.b64encode(b"k" * size).decode().rstrip("=")) == b"k" * size


def test_a_secret_made_up_is_one_of_32_bytes_and_is_not_printed() -> None:
    secret = Secret.new()
    assert len(secret.key) == 32
    assert secret.secret not in repr(secret)
    assert secret.secret != Secret.new().secret


# --- the schedule


def test_the_schedule_is_the_one_of_the_specification() -> None:
    plan = schedule()
    assert [plan.pause_s(number) for number in range(1, 10)] == list(PAUSES_S)
    assert PAUSES_S == (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
    assert plan.next_ms(9, NOW_MS, NOW_MS) == NOW_MS + 86_400_000
    assert plan.next_ms(10, NOW_MS, NOW_MS) is None


def test_a_pause_of_ones_own_doubles_up_to_the_longest() -> None:
    plan = schedule(first_pause_s=2, longest_pause_s=10, max_attempts=100)
    assert [plan.pause_s(number) for number in (1, 2, 3, 4, 99)] == [2, 4, 8, 10, 10]


def test_pauses_are_spread_over_their_own_length() -> None:
    plan = schedule()
    assert [plan.next_ms(1, 0, 0, spread=spread) for spread in (0.0, 0.5, 0.999)] == [2500, 5000, 7495]


def test_an_event_is_given_up_when_its_time_is_over() -> None:
    plan = schedule(retry_for_s=300, first_pause_s=100, longest_pause_s=100, max_attempts=100)
    assert plan.next_ms(1, 0, 0) == 100_000
    assert plan.next_ms(3, 0, 200_000) == 300_000
    assert plan.next_ms(4, 0, 200_001) is None


def test_what_an_answer_asks_for_counts_if_it_is_longer_but_not_for_ever() -> None:
    plan = schedule(retry_for_s=30 * 86_400)
    assert plan.next_ms(1, 0, 0, asked_s=60) == 60_000
    assert plan.next_ms(1, 0, 0, asked_s=1) == 5000
    assert plan.next_ms(1, 0, 0, asked_s=1e9) == 86_400_000


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (b"120", 120.0),
        (b" 7 ", 7.0),
        (b"0", 0.0),
        (b"99999999999", 86_400.0),
        (b"-5", None),
        (b"1.5", None),
        (b"soon", None),
        (b"", None),
        (b"9" * 200, None),
        (b"Tue, 14 Nov 2023 22:14:20 GMT", 59.5),
        (b"Tue, 14 Nov 2023 20:00:00 GMT", 0.0),
        (b"Tue, 14 Nov 2099 20:00:00 GMT", 86_400.0),
        (b"Sun Nov  6 08:49:37 1994", 0.0),
        (b"\xff\xfe", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value: bytes | None, seconds: float | None) -> None:
    assert asked_pause_s(value, NOW_MS) == seconds


# --- limits


def test_an_endpoint_earns_its_concurrency() -> None:
    limits = Limits(3, None, 0.0)
    allowed = []
    for _ in range(4):
        started = 0
        while limits.wait_s(0.0) == 0:
            limits.began()
            started += 1
        allowed.append(started)
        limits.succeeded()
        for _ in range(limits.in_flight):
            limits.ended()
    assert allowed == [1, 2, 3, 3]
    limits.began()
    limits.failed(0.0, 0.5)
    assert limits.allowance == 1


def test_the_breaker_opens_probes_with_one_and_closes() -> None:
    limits = Limits(8, None, 0.0)
    for number in range(OPEN_AFTER):
        assert limits.wait_s(0.0) == 0
        limits.began()
        assert limits.failed(0.0, 0.5) is (number == OPEN_AFTER - 1)
    assert limits.breaker.is_open
    assert limits.wait_s(0.0) == FIRST_OPEN_S
    assert limits.wait_s(FIRST_OPEN_S) == 0
    limits.began()
    assert limits.wait_s(1000.0) == inf  # one alone
    assert limits.failed(FIRST_OPEN_S, 0.5) is False
    assert limits.wait_s(FIRST_OPEN_S) == 2 * FIRST_OPEN_S
    limits.began()
    limits.succeeded()
    assert not limits.breaker.is_open
    assert limits.wait_s(0.0) == 0


def test_the_breaker_stays_open_for_longer_each_time_but_not_for_ever() -> None:
    limits = Limits(1, None, 0.0)
    now, pauses = 0.0, []
    for _ in range(OPEN_AFTER + 9):
        limits.began()
        limits.failed(now, 0.5)
        pauses.append(limits.wait_s(now))
        now += pauses[-1]
    assert pauses == [0.0] * (OPEN_AFTER - 1) + [5.0, 10.0, 20.0, 40.0, 80.0, 160.0] + [LONGEST_OPEN_S] * 4


def test_those_under_way_when_the_breaker_opens_do_not_prolong_it() -> None:
    limits = Limits(100, None, 0.0)
    limits.allowance = 2 * OPEN_AFTER
    for _ in range(2 * OPEN_AFTER):
        limits.began()
    for _ in range(2 * OPEN_AFTER):
        limits.failed(0.0, 0.5)
    assert limits.wait_s(0.0) == FIRST_OPEN_S


def test_an_answer_that_asks_for_a_pause_gets_it_from_everybody() -> None:
    limits = Limits(8, None, 0.0)
    limits.began()
    limits.failed(0.0, 0.5, asked_s=30)
    assert limits.wait_s(10.0) == 20.0
    limits.began()
    limits.failed(0.0, 0.5, asked_s=1e9)
    assert limits.wait_s(0.0) == 3600.0


def test_a_rate_is_kept() -> None:
    bucket = Bucket(2.0, 0.0)
    sent, now = 0, 0.0
    while now < 10.0:
        wait = bucket.wait_s(now)
        if wait:
            now += wait
        else:
            bucket.take()
            sent += 1
    assert sent == 21  # two at once, and one each half second until the tenth
    assert Bucket(None, 0.0).wait_s(0.0) == 0


# --- alarms


def test_one_timer_rings_for_everybody_at_their_times() -> None:
    clock = SimulatedClock()
    alarms = Alarms(clock)
    rung: list[tuple[str, float]] = []
    for name, delay in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("never", 2.5)):
        alarms.set(name, delay, lambda name=name: rung.append((name, clock.monotonic())))  # type: ignore[misc]
    alarms.set("a", 1.5, lambda: rung.append(("a again", clock.monotonic())))
    alarms.cancel("never")
    clock.advance(10)
    assert rung == [("a again", 1.5), ("b", 2.0), ("c", 3.0)]
    assert len(alarms) == 0


def test_alarms_that_were_replaced_take_no_room() -> None:
    clock = SimulatedClock()
    alarms = Alarms(clock)
    for number in range(20_000):
        alarms.set(number % 10, 1000.0 + number, lambda: None)
    assert len(alarms._heap) <= 1001


# --- requests


def request(value: bytes | None, key: bytes | None = None, headers: tuple = (), **more: object) -> tuple[dict[str, str], bytes]:
    record = Record(17, NOW_MS, key, value, headers)
    made = request_of(record, ORIGIN, target(**more), attempt=2, now_ms=NOW_MS)
    return {name.decode(): text.decode() for name, text in made.headers}, made.body


def test_a_value_is_sent_as_it_is_with_the_rest_in_headers() -> None:
    headers, body = request(b'{"a": 1}', b"customer-7", (("trace", b"abc"), ("trace", None), ("raw", b"\xff")))
    signature = headers.pop("webhook-signature")
    assert body == b'{"a": 1}'
    assert headers == {
        "user-agent": headers["user-agent"],
        "content-type": "application/json",
        "headrace-timestamp": "2023-11-14T22:13:20.500Z",
        "headrace-key": "customer-7",
        "headrace-headers": '[["trace", "abc"], ["trace", null], ["raw", {"base64": "/w=="}]]',
        "headrace-topic": "orders",
        "headrace-partition": "3",
        "headrace-offset": "17",
        "headrace-route": "w",
        "headrace-attempt": "2",
        "webhook-id": ORIGIN.message_id,
        "webhook-timestamp": "1700000000",
    }
    assert signature == signature_of(secret_bytes(SECRET), ORIGIN.message_id, 1_700_000_000, body)
    assert headers["user-agent"].startswith("Headrace/")


@pytest.mark.parametrize(
    ("value", "headers", "expected"),
    [
        (b"{}", (), "application/json"),
        (b"[1, 2", (), "text/plain; charset=utf-8"),
        (b"12", (), "application/json"),
        (b"hello", (), "text/plain; charset=utf-8"),
        (b"", (), "text/plain; charset=utf-8"),
        (b"\xff\x00", (), "application/octet-stream"),
        (b'"\xff"', (), "application/octet-stream"),
        (None, (), "application/octet-stream"),
        (b"<a/>", (("content-type", b"application/xml"),), "application/xml"),
        (b"<a/>", (("amqp.content-type", b"text/xml"),), "text/xml"),
        (b"{}", (("content-type", b"evil\r\nx: y"),), "application/json"),
    ],
)
def test_the_content_type_says_what_the_value_is(value: bytes | None, headers: tuple, expected: str) -> None:
    assert request(value, headers=headers)[0]["content-type"] == expected


def test_a_tombstone_is_an_empty_body_that_says_so() -> None:
    headers, body = request(None)
    assert (body, headers["headrace-tombstone"]) == (b"", "true")
    assert "headrace-tombstone" not in request(b"")[0]


def test_no_byte_of_a_key_or_header_reaches_the_head_of_a_request_unescaped() -> None:
    headers, _ = request(b"x", b"a\r\nhost: evil", (("x\r\ny", b"\r\n\r\nGET /"),))
    assert headers["headrace-key-base64"] == base64.b64encode(b"a\r\nhost: evil").decode()
    assert json.loads(headers["headrace-headers"]) == [["x\r\ny", "\r\n\r\nGET /"]]
    for text in headers.values():
        assert text.isascii()
        assert text.isprintable()


def test_what_is_too_long_for_a_head_is_left_out_and_said_so() -> None:
    headers, _ = request(b"x", b"k" * 5000, (("h", b"v" * 9000),))
    assert headers["headrace-omitted"] == "key, headers"
    assert "headrace-key" not in headers
    assert "headrace-headers" not in headers


def test_an_event_is_an_envelope_of_the_form_that_the_specification_recommends() -> None:
    headers, body = request(b'{"a": 1.10}', b"customer-7", (("type", b"order.created"),), content="event")
    assert headers["content-type"] == "application/json"
    assert b'"data":{"a": 1.10}' in body  # not written anew
    assert json.loads(body) == {
        "type": "order.created",
        "timestamp": "2023-11-14T22:13:20.500Z",
        "data": {"a": 1.1},
        "topic": "orders",
        "partition": 3,
        "offset": 17,
        "key": "customer-7",
        "headers": [["type", "order.created"]],
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"hello", {"data": "hello"}), (b"\xff", {"data_base64": "/w=="}), (None, {"data": None}), (b"", {"data": ""})],
)
def test_an_envelope_holds_any_value(value: bytes | None, expected: dict[str, object]) -> None:
    told = json.loads(request(value, b"\xfe", content="event")[1])
    assert {name: told[name] for name in expected} == expected
    assert (told["type"], told["key_base64"]) == ("orders", "/g==")


def test_the_reference_library_verifies_a_request_with_any_of_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    secrets = [Secret.new(), Secret.new(), Secret("whsec_" + base64.b64encode(b"o" * 32).decode(), until_ms=1)]
    sent_to = target(secrets=[one.json() for one in secrets])
    now_ms = time.time_ns() // 1_000_000
    made = request_of(Record(17, NOW_MS, None, b'{"a":1}'), ORIGIN, sent_to, attempt=1, now_ms=now_ms)
    headers = {name.decode(): text.decode() for name, text in made.headers}
    assert made.signatures == 2
    for secret in secrets[:2]:
        assert Webhook(secret.secret).verify(made.body, headers) == {"a": 1}
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(secrets[2].secret).verify(made.body, headers)


def test_an_id_says_where_the_event_stands_and_differs_between_routes() -> None:
    assert "." not in ORIGIN.message_id
    assert place_in(ORIGIN.message_id) == (3, 17)
    assert place_in("msg_test_1234") is None
    other = Origin("another", "orders", TOPIC_ID, 3, 17)
    assert other.message_id != ORIGIN.message_id


@pytest.mark.parametrize("text", [b"{", b"", b"nul", b"[1]]", b"NaN", b"[" * 100_000])
def test_what_is_no_json_is_not_taken_for_it(text: bytes) -> None:
    assert not is_json(text)


@pytest.mark.parametrize("when_ms", [-1, 0, 1 << 62, -(1 << 62)])
def test_any_time_that_a_record_may_claim_can_be_written(when_ms: int) -> None:
    assert iso(when_ms).endswith("Z")


# --- rows and lanes


def test_a_row_is_read_as_it_was_written() -> None:
    row = Row(1, 2, 3, 4, 5, 503, "HTTP 503", b"\x01\x02")
    again = Row.of(1, 2, row.value())
    assert (again.attempts, again.first_ms, again.next_ms, again.status, again.error, again.lane) == (
        3, 4, 5, 503, "HTTP 503", b"\x01\x02",
    )  # fmt: skip


def test_a_lane_lets_one_go_at_a_time_in_order() -> None:
    lanes: Lanes[str] = Lanes()
    lane = (0, b"k")
    assert [lanes.enter(lane, one) for one in "abc"] == [True, False, False]
    assert [lanes.leave(lane), lanes.leave(lane), lanes.leave(lane)] == ["b", "c", None]
    assert lanes.enter(lane, "d")


# --- definitions


def test_a_definition_is_stored_as_it_is_and_shown_without_secrets() -> None:
    made = target(headers={"X-Token": "t0ps3cret"}, order="key", rate_per_s=2.5, first_pause_s=1).completed(None)
    assert WebhookTarget.of(made.json()) == made
    shown = json.dumps(made.shown())
    assert SECRET not in shown
    assert "t0ps3cret" not in shown
    assert "secret" not in shown
    assert SECRET not in repr(made)
    assert "t0ps3cret" not in repr(made)


def test_what_is_shown_can_be_sent_back_and_changes_nothing() -> None:
    made = target(headers={"X-Token": "t0ps3cret"}).completed(None)
    assert WebhookTarget.of(made.shown()).completed(made) == made


def test_a_target_without_a_secret_gets_one() -> None:
    made = WebhookTarget.of({"type": "webhook", "url": URL}).completed(None)
    assert len(made.secrets) == 1
    assert made.secrets[0].secret.startswith("whsec_")


def test_a_new_secret_signs_first_and_old_ones_end() -> None:
    old, new, newest = Secret(SECRET), Secret.new(), Secret.new()
    first = target().rotated(new, old_until_ms=100, now_ms=0)
    assert first.secrets == (new, Secret(old.secret, 100))
    second = first.rotated(newest, old_until_ms=500, now_ms=50)
    assert second.secrets == (newest, Secret(new.secret, 500), Secret(old.secret, 100))
    third = second.rotated(Secret.new(), old_until_ms=900, now_ms=200)
    assert [one.until_ms for one in third.secrets] == [None, 900, 500]
    assert target().rotated(new, old_until_ms=0, now_ms=0).secrets == (new,)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"url": "ftp://x/"}, "https://host/path"),
        ({"url": "https://user:pw@x/"}, "without user"),
        ({"url": "https://x/ y"}, "https://host/path"),
        ({"url": "https://"}, "https://host/path"),
        ({"url": 5}, "must be a text"),
        ({"secrets": ["whsec_short"]}, "base64"),
        ({"secrets": "whsec_x"}, "list"),
        ({"secrets": [SECRET] * 6}, "at most 5"),
        ({"secrets": [{"secret": SECRET, "until_ms": 5}]}, "must not end"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 1000}, "timeout_s"),
        ({"timeout_s": True}, "timeout_s"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 1.5}, "max_attempts"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 1000}, "concurrency"),
        ({"rate_per_s": 0}, "rate_per_s"),
        ({"rate_per_s": "fast"}, "rate_per_s"),
        ({"order": "topic"}, "none, key, partition"),
        ({"content": "xml"}, "value, event"),
        ({"headers": {"Host": "x"}}, "set by the server"),
        ({"headers": {"Content-Length": "1"}}, "set by the server"),
        ({"headers": {"Webhook-Signature": "v1,x"}}, "set by the server"),
        ({"headers": {"webhook-id": "x"}}, "set by the server"),
        ({"headers": {"Headrace-Topic": "x"}}, "set by the server"),
        ({"headers": {"x y": "z"}}, "not a name"),
        ({"headers": {"x": "a\r\nb"}}, "printable ASCII"),
        ({"headers": {"x": 1}}, "printable ASCII"),
        ({"headers": {"x": "1", "X": "2"}}, "twice"),
        ({"headers": {str(number): "x" for number in range(40)}}, "32 at most"),
        ({"headers": []}, "must be an object"),
        ({"color": "red"}, "not known"),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused_with_the_reason(given: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidRoute, match=text):
        WebhookTarget.of({"type": "webhook", "url": URL, **given})


def test_a_header_without_a_value_needs_one_to_keep() -> None:
    with pytest.raises(InvalidRoute, match="none to keep"):
        target(headers={"X-Token": None}).completed(None)


def test_a_route_does_not_read_its_own_attempts() -> None:
    with pytest.raises(InvalidRoute, match="own attempts"):
        RouteDefinition.of("w", {"topic": "w.attempts", "destination": {"type": "webhook", "url": URL}})
