"""How messages are shown to people: what is hostile stays harmless, and deaths are told in words."""

from headrace.cli.managing import typed_settings
from headrace.cli.messages import death_text, message_text
from headrace.client.management import Message


def message(body: bytes = b"", *, key: str = "k", **headers: object) -> Message:
    return Message("e", key, False, {}, headers, body, None)


def body_of(body: bytes, *, terminal: bool) -> str:
    return message_text(message(body), 1, terminal=terminal).split("\n", 1)[1]


def test_a_terminal_never_gets_control_characters_of_a_message() -> None:
    hostile = Message("e\x1b[2J", "k\n", False, {"type": "\x07"}, {"h\r": "\x1b]0;x"}, b"\x1b[31m\tred\xc2\x9b", None)
    shown = message_text(hostile, 1, terminal=True)
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert shown.count("\n") == 3
    assert r"\x1b[31m    red\x9b" in shown


def test_json_is_laid_out_on_a_terminal_and_left_alone_in_a_pipe() -> None:
    assert body_of(b'{"a":[1]}', terminal=True) == '{\n  "a": [\n    1\n  ]\n}'
    assert body_of(b'{"a":[1]}', terminal=False) == '{"a":[1]}'


def test_what_only_looks_like_json_is_text() -> None:
    assert body_of(b"{no", terminal=True) == "{no"
    assert body_of(b"[" * 5_000, terminal=True) == "[" * 5_000


def test_bytes_that_are_not_text_are_base64() -> None:
    assert body_of(b"\xff", terminal=True) == "(not text; in base64) /w=="


def test_a_death_is_told_with_reason_count_place_and_time() -> None:
    where = {"queue": "work", "exchange": "orders", "routing-keys": ["a", "b"]}
    told = death_text({"reason": "rejected", "count": 3, "time": 1_767_225_600, **where})
    assert told == "rejected 3 times in queue 'work' (exchange 'orders', key 'a, b'), first at 2026-01-01T00:00:00.000Z"
    once = death_text({"reason": "expired", "count": 1, "queue": "q", "exchange": "", "original-expiration": "5"})
    assert once == "expired in queue 'q' (exchange '', key ''), had expiration 5"


def test_deaths_hide_the_headers_that_repeat_them_and_no_others() -> None:
    deaths = [{"reason": "expired", "count": 1, "queue": "q", "exchange": "", "routing-keys": ["q"]}]
    shown = message_text(message(**{"x-death": deaths, "x-first-death-queue": "q", "mine": 1}), 1, terminal=False)
    assert "died" in shown
    assert "mine" in shown
    assert "x-first-death-queue" not in shown


def test_an_x_death_that_a_publisher_made_up_is_shown_as_it_is() -> None:
    for made_up in (5, [], [1], [{"a": 1}], {"reason": "x"}):
        assert "x-death" in message_text(message(**{"x-death": made_up}), 1, terminal=False)
    odd = [{"reason": 1, "count": "many", "time": "yesterday", "routing-keys": 7}]
    assert "died" in message_text(message(**{"x-death": odd}), 1, terminal=False)


def test_values_that_read_as_json_are_that_and_others_are_text() -> None:
    given = ["n=5", "f=1.5", "b=true", "t=text", 's="5"', "l=[1]", "e=", "nan=NaN", "eq=a=b"]
    assert typed_settings(given, "-a") == {
        "n": 5,
        "f": 1.5,
        "b": True,
        "t": "text",
        "s": "5",
        "l": [1],
        "e": "",
        "nan": "NaN",
        "eq": "a=b",
    }
