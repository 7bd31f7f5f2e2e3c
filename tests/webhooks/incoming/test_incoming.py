"""What comes in by a receive URL: verified before it is appended, once for each id also across a crash, durable when
answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.broker.routes.conftest import Site
from tests.webhooks.incoming.test_verifying import slack

from headrace.broker import Broker
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.receiving import Receipt, Receiver, Rejected
from headrace.broker.settings import Settings
from headrace.log.errors import LogError
from headrace.webhooks import received as received_module
from headrace.webhooks.incoming import make_intake

SECRET = "0123456789abcdef"
HEADERS = {"x-token": SECRET, "x-id": "1"}
SOURCE = {"type": "webhook", "scheme": "token", "header": "X-Token", "id_header": "X-Id", "secrets": [SECRET]}


class Gate(Site):
    """A site whose routes may receive webhooks, and one that does: `hooks`, into the topic `t`."""

    def __init__(self, *, source: dict[str, Any] | None = None, more: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.rig.run(self.rig.log.create_topic("t", 1))
        self.put(source or {}, more or {})

    def start(self) -> None:
        self.broker = Broker(self.rig.log, self.rig.clock, Settings.from_mapping(self.settings), "cluster")
        self.broker.routes.makers.intakes["webhook"] = make_intake
        self.rig.run(self.broker.start())
        self.rig.settle()

    def put(self, source: dict[str, Any], more: dict[str, Any]) -> None:
        destination = {"type": "topic", "topic": "t"}
        definition = RouteDefinition.of("hooks", {"source": {**SOURCE, **source}, "destination": destination, **more})
        self.rig.run(self.broker.routes.put(definition))

    @property
    def intake(self) -> Receiver:
        run = self.wait_for(lambda: self.broker.routes.get("hooks").run)
        intake = run.intake  # type: ignore[union-attr]
        assert isinstance(intake, Receiver)
        return intake

    def receive(self, body: bytes = b"{}", **headers: str) -> Receipt:
        given = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.rig.run(self.intake.receive(given, body))

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records("t")]


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.rig.end()


def test_a_request_becomes_an_event(gate):
    gate.put({"key_header": "X-Key", "headers": ["X-Event", "X-Missing", "Content-Type"]}, {})
    body = b'\xff\x00 {"any": bytes}'
    gate.receive(
        body, x_key="k\xe9y", x_event="made", content_type="application/json", content_encoding="x", x_other="not kept"
    )
    (record,) = gate.records("t")
    assert (record.key, record.value, record.timestamp_ms) == (b"k\xe9y", body, record.timestamp_ms)
    assert record.headers == (
        ("http.content-type", b"application/json"),
        ("http.content-encoding", b"x"),
        ("webhook.id", b"1"),
        ("http.x-event", b"made"),
    )


def test_without_a_key_header_there_is_no_key_and_no_body_is_an_empty_value(gate):
    gate.receive(b"")
    (record,) = gate.records("t")
    assert (record.key, record.value, record.headers) == (None, b"", (("webhook.id", b"1"),))


@pytest.mark.parametrize("headers", [{}, {"x-token": "wrong"}, {"x-token": ""}, {"x-id": "1"}])
def test_what_is_not_verified_is_not_appended(gate, headers):
    with pytest.raises(Rejected) as caught:
        gate.rig.run(gate.intake.receive(headers, b"{}"))
    assert str(caught.value) == ""
    assert gate.values() == []
    assert gate.intake.facts() == {"received": 0, "known": 0, "rejected": 1}


def test_what_can_not_be_right_is_rejected_before_the_body_is_read(gate):
    with pytest.raises(Rejected):
        gate.intake.glance({"x-id": "1"})
    gate.intake.glance({"x-token": "whatever"})


def test_an_id_that_is_known_is_answered_and_not_appended_again(gate):
    assert gate.receive(b"a") == Receipt(True)
    assert gate.receive(b"a") == Receipt(False)
    assert gate.receive(b"another body under the same id") == Receipt(False)
    assert gate.receive(b"b", x_id="2") == Receipt(True)
    assert gate.values() == [b"a", b"b"]
    assert gate.intake.facts() == {"received": 2, "known": 2, "rejected": 0}


def test_an_id_that_comes_twice_at_the_same_time_is_appended_once(gate):
    intake = gate.intake

    async def at_once() -> list[Receipt]:
        return await asyncio.gather(*(intake.receive(HEADERS, b"a") for _ in range(5)))

    assert sorted(receipt.new for receipt in gate.rig.run(at_once())) == [False] * 4 + [True]
    assert gate.values() == [b"a"]


def test_ids_of_different_routes_and_of_no_name_are_not_the_same(gate):
    assert gate.receive(b"a", x_id="") == Receipt(True)
    assert gate.receive(b"a", x_id="") == Receipt(True)
    assert gate.values() == [b"a", b"a"]


def test_an_id_is_forgotten_when_its_time_has_come(gate):
    gate.put({"remember_s": 60}, {})
    gate.receive(b"a")
    gate.rig.advance(59)
    assert gate.receive(b"a") == Receipt(False)
    gate.rig.advance(2)
    assert gate.receive(b"a") == Receipt(True)
    gate.rig.advance(61 + received_module.SWEEP_EVERY_S * 2)
    gate.settle()
    table = gate.rig.run(gate.rig.log.table(received_module.TABLE))
    assert dict(table.items()) == {}


def test_no_more_ids_are_remembered_than_may_be(gate, monkeypatch):
    monkeypatch.setattr(received_module, "MAX_IDS", 10)
    for number in range(30):
        gate.receive(b"a", x_id=str(number))
        gate.rig.advance(31)
    gate.settle()
    table = gate.rig.run(gate.rig.log.table(received_module.TABLE))
    assert len(table) == 10
    assert gate.receive(b"a", x_id="29") == Receipt(False)
    assert gate.receive(b"a", x_id="0") == Receipt(True)


def test_a_topic_that_was_made_anew_knows_no_ids(gate):
    gate.receive(b"a")
    gate.rig.run(gate.broker.topics.delete("t"))
    gate.rig.run(gate.rig.log.create_topic("t", 1))
    gate.restart()
    assert gate.receive(b"a") == Receipt(True)


def test_ids_are_known_after_a_restart_and_after_a_crash(gate):
    gate.receive(b"a")
    gate.restart()
    assert gate.receive(b"a") == Receipt(False)
    gate.crash()
    assert gate.receive(b"a") == Receipt(False)
    assert gate.values() == [b"a"]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12), st.integers(0, 30))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_crash_at_any_moment_neither_loses_what_was_answered_nor_doubles_what_is_sent_again(ids, turns):
    gate = Gate(held=True)
    answered = []
    for identity in ids[:-1]:
        gate.receive(identity.encode(), x_id=identity)
        answered.append(identity)
    intake = gate.intake
    last = gate.rig.loop.create_task(intake.receive({**HEADERS, "x-id": ids[-1]}, ids[-1].encode()))
    for turn in range(turns):
        gate.rig.turn()
        if turn % 3 == 2:
            gate.rig.pump()
    if last.done():
        answered.append(ids[-1])
    else:
        last.cancel()
    gate.crash()
    assert set(gate.values()) >= {identity.encode() for identity in answered}
    for identity in ids:  # the sender tries all of them again
        gate.receive(identity.encode(), x_id=identity)
    assert sorted(gate.values()) == sorted(identity.encode() for identity in set(ids))
    gate.rig.end()


def test_a_paused_route_has_nobody_to_receive(gate):
    intake = gate.intake
    gate.rig.run(gate.broker.routes.pause("hooks"))
    assert gate.broker.routes.get("hooks").run is None
    with pytest.raises(Exception, match="takes nothing now"):
        gate.rig.run(intake.receive(HEADERS, b"{}"))
    gate.rig.run(gate.broker.routes.resume("hooks"))
    assert gate.receive() == Receipt(True)


def test_while_the_log_takes_no_writes_nothing_is_answered_as_if_it_were_stored(gate):
    gate.receive(b"a")
    gate.rig.log.refusal = LogErrorForTest("the disk is full")
    with pytest.raises(LogError):
        gate.receive(b"b", x_id="2")
    gate.rig.log.refusal = None
    assert gate.receive(b"b", x_id="2") == Receipt(True)
    assert gate.values() == [b"a", b"b"]


class LogErrorForTest(LogError):
    pass


def test_what_the_filter_does_not_want_is_known_and_not_there(gate):
    gate.put({}, {"filter": "value.amount > 100"})
    assert gate.receive(b'{"amount": 5}', x_id="1") == Receipt(True)
    assert gate.receive(b'{"amount": 500}', x_id="2") == Receipt(True)
    assert gate.receive(b'{"amount": 5}', x_id="1") == Receipt(False)
    assert gate.values() == [b'{"amount": 500}']


def test_a_transform_makes_the_key_and_what_it_fails_on_is_a_dead_letter(gate):
    gate.put({}, {"transform": {"key": "value.customer"}})
    assert gate.receive(b'{"customer": "c7"}', x_id="1") == Receipt(True)
    assert gate.receive(b"no json", x_id="2") == Receipt(True)
    assert gate.receive(b"no json", x_id="2") == Receipt(False)
    assert [(record.key, record.value) for record in gate.records("t")] == [(b"c7", b'{"customer": "c7"}')]
    assert [record.value for record in gate.records("hooks.dead-letters")] == [b"no json"]


def test_what_the_topic_does_not_take_is_a_dead_letter(gate):
    gate.rig.run(gate.rig.log.configure_topic("t", {"max.message.bytes": "1000"}))
    assert gate.receive(b"x" * 2000) == Receipt(True)
    assert gate.receive(b"x" * 2000) == Receipt(False)
    assert gate.values() == []
    assert [record.value for record in gate.records("hooks.dead-letters")] == [b"x" * 2000]


def test_slack_hears_its_challenge_and_nothing_is_appended():
    gate = Gate()
    destination = {"type": "topic", "topic": "t"}
    source = {"type": "webhook", "scheme": "slack", "secrets": [SECRET]}
    gate.rig.run(gate.broker.routes.delete("hooks"))
    gate.rig.run(gate.broker.routes.put(RouteDefinition.of("hooks", {"source": source, "destination": destination})))
    body = b'{"type": "url_verification", "challenge": "c123"}'
    headers = slack(body, SECRET, gate.rig.clock.now_ms() // 1000)
    assert gate.rig.run(gate.intake.receive(headers, body)) == Receipt(False, {"challenge": "c123"})
    assert gate.values() == []
    gate.rig.end()
