"""What dead-lettering writes down, compared with what RabbitMQ wrote for the same deaths, and which circles it ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.queues.dead_letter_headers import (
    Reason,
    carbon_copies,
    dead_letter_headers,
    dead_letter_keys,
    dead_letter_properties,
    is_cycle,
)
from headrace.record.amqp.properties import Properties, decode_properties, encode_properties
from headrace.record.amqp.tables import Timestamp, decode_table, encode_table

REASONS: list[Reason] = ["rejected", "expired", "maxlen", "delivery_limit"]


def died(headers: dict[str, object], queue: str, reason: Reason, time_s: int = 1_000, exchange: str = "x") -> dict[str, object]:
    return dead_letter_headers(headers, queue=queue, reason=reason, exchange=exchange, routing_keys=["k"], time_s=time_s)


def deaths(headers: dict[str, object]) -> list[tuple[object, object, object]]:
    entries = headers["x-death"]
    assert isinstance(entries, list)
    return [(entry["queue"], entry["reason"], entry["count"]) for entry in entries]


def test_the_first_death_of_a_message_as_rabbitmq_writes_it() -> None:
    before = {"CC": ["cc1"], "k": 1}
    after = dead_letter_headers(
        before,
        queue="src",
        reason="expired",
        exchange="",
        routing_keys=["src", "cc1"],
        time_s=1_794_799_493,
        expiration="1",
        dead_letter_key="rk2",
    )
    assert before == {"CC": ["cc1"], "k": 1}
    assert after == {
        "k": 1,
        "x-death": [
            {
                "count": 1,
                "reason": "expired",
                "queue": "src",
                "time": Timestamp(1_794_799_493),
                "exchange": "",
                "routing-keys": ["src", "cc1"],
                "original-expiration": "1",
            }
        ],
        "x-first-death-exchange": "",
        "x-first-death-queue": "src",
        "x-first-death-reason": "expired",
        "x-last-death-exchange": "",
        "x-last-death-queue": "src",
        "x-last-death-reason": "expired",
    }
    assert isinstance(after["x-death"], list)
    assert type(after["x-death"][0]["time"]) is Timestamp


def test_deaths_are_listed_newest_first_and_counted_by_queue_and_reason() -> None:
    headers = died({}, "a", "expired", 1)
    headers = died(headers, "b", "rejected", 2)
    headers = died(headers, "a", "rejected", 3)
    assert deaths(headers) == [("a", "rejected", 1), ("b", "rejected", 1), ("a", "expired", 1)]
    headers = died(headers, "b", "rejected", 4, exchange="other")
    assert deaths(headers) == [("b", "rejected", 2), ("a", "rejected", 1), ("a", "expired", 1)]
    entries = headers["x-death"]
    assert isinstance(entries, list)
    assert entries[0]["time"] == 2  # of its first death there; RabbitMQ leaves all but the count
    assert entries[0]["exchange"] == "x"
    assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == ("a", "expired")
    assert (headers["x-last-death-queue"], headers["x-last-death-exchange"]) == ("b", "other")


def test_a_message_loses_its_expiration_and_keeps_its_other_properties() -> None:
    raw = encode_properties(
        Properties(content_type="text/plain", headers={"CC": ["c"]}, delivery_mode=2, expiration="60", message_id="m")
    )
    after = decode_properties(dead_letter_properties(raw, queue="q", reason="expired", exchange="x", routing_key="k", time_s=5))
    assert after.expiration is None
    assert (after.content_type, after.delivery_mode, after.message_id) == ("text/plain", 2, "m")
    assert after.headers is not None
    assert after.headers["CC"] == ["c"]
    entries = after.headers["x-death"]
    assert isinstance(entries, list)
    assert entries[0]["original-expiration"] == "60"
    assert entries[0]["routing-keys"] == ["k", "c"]


def test_a_message_without_any_property_gets_headers() -> None:
    after = dead_letter_properties(b"\0\0", queue="q", reason="maxlen", exchange="x", routing_key="k", time_s=5)
    assert deaths(decode_properties(after).headers or {}) == [("q", "maxlen", 1)]


@pytest.mark.parametrize("raw", [b"", b"\x20\x00\xff", b"\x00\x80\x05ab", b"\x00\x00rest"])
def test_a_message_whose_properties_cannot_be_read_dies_with_a_trace_too(raw: bytes) -> None:
    after = dead_letter_properties(raw, queue="q", reason="expired", exchange="x", routing_key="k", time_s=5)
    assert is_cycle(decode_properties(after).headers or {}, "q", "expired")


def test_a_dead_letter_key_replaces_all_keys_and_takes_the_copies_away() -> None:
    headers: dict[str, object] = {"CC": ["c", 5, "d"]}
    assert dead_letter_keys("k", headers, None) == ("k", "c", "d")
    assert dead_letter_keys("k", headers, "dead") == ("dead",)
    assert "CC" in died(headers, "q", "rejected")
    assert "CC" not in dead_letter_headers(
        headers, queue="q", reason="rejected", exchange="x", routing_keys=["k"], time_s=1, dead_letter_key="dead"
    )
    assert carbon_copies({"CC": "not a list"}) == ()


def test_a_circle_of_queues_alone_ends_when_it_closes() -> None:
    headers = died({}, "a", "expired")
    assert is_cycle(headers, "a", "expired")
    assert not is_cycle(headers, "b", "expired")
    headers = died(headers, "b", "maxlen")
    assert is_cycle(headers, "a", "maxlen")
    assert is_cycle(headers, "b", "maxlen")
    assert not is_cycle(headers, "c", "maxlen")


def test_a_rejection_anywhere_in_the_circle_lets_it_go_on() -> None:
    headers = died(died({}, "retry", "rejected"), "wait", "expired")
    assert not is_cycle(headers, "retry", "expired")
    assert is_cycle(headers, "wait", "expired")
    assert not is_cycle(died({}, "a", "expired"), "a", "rejected")
    older = died(died(died({}, "a", "rejected"), "b", "expired"), "c", "expired")
    assert is_cycle(older, "b", "expired")  # the rejection was before the circle began


@pytest.mark.parametrize("strange", ["foo", 5, None, {"queue": "a"}, []])
def test_an_x_death_that_is_no_list_is_replaced(strange: object) -> None:
    assert deaths(died({"x-death": strange}, "a", "expired")) == [("a", "expired", 1)]
    assert not is_cycle({"x-death": strange}, "a", "expired")


def test_what_only_a_client_can_have_written_is_kept_and_breaks_the_circle() -> None:
    headers = died({"x-death": ["noise", {"queue": "a", "reason": "expired"}]}, "b", "expired")
    assert isinstance(headers["x-death"], list)
    assert headers["x-death"][1:] == ["noise", {"queue": "a", "reason": "expired"}]
    assert not is_cycle(headers, "a", "expired")
    assert is_cycle(headers, "b", "expired")


@pytest.mark.parametrize(("count", "expected"), [("many", 1), (-5, 1), (None, 1), (7, 8), (2**63 - 1, 2**63 - 1)])
def test_a_count_that_a_client_spoiled_starts_again(count: object, expected: int) -> None:
    headers = died({"x-death": [{"queue": "a", "reason": "expired", "count": count}]}, "a", "expired")
    assert deaths(headers) == [("a", "expired", expected)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["queue", "reason", "count", "x"]), inner),
    max_leaves=10,
)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(["x-death", "CC", "x-first-death-queue", "other"]), VALUES),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(REASONS)), min_size=1, max_size=12),
)
def test_whatever_the_headers_were_deaths_are_written_and_stay_few(
    headers: dict[str, object], history: list[tuple[str, Reason]]
) -> None:
    entries = headers.get("x-death")
    before = len(entries) if isinstance(entries, list) else 0
    for queue, reason in history:
        headers = died(headers, queue, reason)
        is_cycle(headers, queue, reason)
        assert decode_table(encode_table(headers))[0] == headers
    written = headers["x-death"]
    assert isinstance(written, list)
    assert (written[0]["queue"], written[0]["reason"]) == history[-1]
    assert len(written) <= before + len(set(history))
