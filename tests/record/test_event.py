"""The Event that people make."""

from __future__ import annotations

import dataclasses

import pytest

from headrace.record.event import Event


def test_an_event_can_not_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Event(b"k").value = b"v"  # type: ignore[misc]


def test_the_friendly_way_takes_text_bytes_and_json() -> None:
    headers = {"source": "atm", "raw": b"\xff", "none": None}
    event = Event.of({"amount": 5, "wer": "Jürg"}, key="account-7", headers=headers)
    assert event.key == b"account-7"
    assert event.value == '{"amount":5,"wer":"Jürg"}'.encode()
    assert event.headers == (("source", b"atm"), ("raw", b"\xff"), ("none", None))
    assert event.json() == {"amount": 5, "wer": "Jürg"}
    assert Event.of("text", key=7) == Event(b"7", b"text")
    assert Event.of(bytearray(b"\x00\xff"), headers=[("a", "1"), ("a", "2")]).headers == (("a", b"1"), ("a", b"2"))
    assert Event.of(None, key=b"k") == Event(b"k", None)
    assert Event.of(3.5).value == b"3.5"
    with pytest.raises(TypeError):
        Event.of(object())


def test_reading_is_as_easy() -> None:
    event = Event(None, b"caf\xc3\xa9 \xff", (("a", b"1"), ("b", None), ("a", b"2")))
    assert event.text() == "café \ufffd"
    assert event.header("a") == b"2"
    assert event.header("b") is None
    assert event.header("c") is None
    assert Event().text() == ""
    assert Event().json() is None
    with pytest.raises(ValueError, match="Expecting"):
        Event(None, b"{").json()
