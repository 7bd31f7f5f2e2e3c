"""`headrace queue` against a running server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import queue_moving, queue_reading


@pytest.fixture
def name() -> str:
    return f"queue-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def queue(managed: Any, name: str) -> str:
    managed("queue", "declare", name)
    return name


def counts(managed: Any, queue: str) -> tuple[int, int]:
    shown = managed("queue", "show", queue, "--json").json["queues"][0]
    return shown["ready"], shown["unacknowledged"]


def bodies(managed: Any, queue: str) -> list[str]:
    return [message["body"] for message in managed("queue", "peek", queue, "--all", "--json").json_lines]


# -- list, show, declare, delete, purge


def test_a_queue_is_declared_once_and_then_exists(managed: Any, name: str) -> None:
    assert managed("queue", "declare", name).lines == [f"{name}: created"]
    assert managed("queue", "declare", name, "--json").json == {"queues": [{"name": name, "created": False}]}


def test_a_declared_queue_has_its_type_and_arguments(managed: Any, name: str) -> None:
    managed("queue", "declare", name, "--type", "quorum", "-a", "x-max-length=5", "-a", "x-dead-letter-exchange=")
    shown = managed("queue", "show", name, "--json").json["queues"][0]
    assert (shown["type"], shown["durable"]) == ("quorum", True)
    assert shown["arguments"] == {"x-queue-type": "quorum", "x-max-length": 5, "x-dead-letter-exchange": ""}


def test_other_settings_for_a_queue_that_exists_are_refused_in_the_servers_words(managed: Any, queue: str) -> None:
    result = managed("queue", "declare", queue, "--transient", "--json", code=1)
    assert "inequivalent arg 'durable'" in result.error["message"]
    assert result.error["code"] == "bad_request"


def test_list_sorts_filters_and_counts(managed: Any, queue: str) -> None:
    longer = f"{queue}-longer"
    managed("queue", "declare", longer, f"{queue}-empty")
    managed("queue", "publish", queue, "a")
    managed("queue", "publish", longer, "a", "b")
    by_name = [row["name"] for row in managed("queue", "list", queue, "--json").json["queues"]]
    assert by_name == [queue, f"{queue}-empty", longer]
    listed = managed("queue", "list", queue, "--sort", "messages", "--not-empty", "--json").json["queues"]
    assert [(row["name"], row["messages"]) for row in listed] == [(longer, 2), (queue, 1)]
    assert all(row["size_bytes"] > 0 for row in listed)
    assert managed("queue", "list", f"^{longer}$").lines[1].split()[:3] == [longer, "classic", "2"]


def test_list_of_all_vhosts_says_which(managed: Any, queue: str) -> None:
    lines = managed("queue", "list", queue, "--all-vhosts").lines
    assert lines[0].startswith("VHOST")
    assert lines[1].split()[:2] == ["/", queue]


def test_show_has_bindings_for_people(managed: Any, queue: str) -> None:
    managed("binding", "create", "amq.topic", queue, "a.*")
    text = managed("queue", "show", queue).text
    assert "classic, durable" in text
    assert "0 ready, 0 unacknowledged" in text
    assert ["amq.topic", "a.*", "-"] in [line.split() for line in text.splitlines()]


def test_a_mistyped_name_is_answered_with_the_one_that_was_meant(managed: Any, queue: str) -> None:
    for verb in (("show",), ("peek",), ("get",), ("purge",), ("delete",), ("retry-dead",), ("move", "x"), ("publish", "b")):
        result = managed("queue", verb[0], f"{queue}x", *verb[1:], code=1)
        assert result.err == f"headrace: there is no queue '{queue}x' in vhost '/'; did you mean '{queue}'?\n", verb


def test_delete_takes_the_queue_and_its_messages(managed: Any, queue: str) -> None:
    managed("queue", "publish", queue, "a")
    assert "queue" in managed("queue", "delete", queue, "--if-empty", code=1).err
    assert managed("queue", "delete", queue).lines == [f"{queue}: deleted"]
    managed("queue", "delete", queue, code=1)
    assert managed("queue", "delete", queue, "--if-exists").lines == [f"{queue}: does not exist"]


def test_purge_says_how_many_were_ready(managed: Any, queue: str) -> None:
    managed("queue", "publish", queue, "a", "b")
    assert managed("queue", "purge", queue, "--json").json == {"queues": [{"name": queue, "ready_before": 2}]}
    assert counts(managed, queue) == (0, 0)


def test_a_person_at_a_terminal_is_asked_before_messages_are_deleted(
    managed: Any, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("headrace.cli.managing._at_a_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, **_: asked.append(text))
    managed("queue", "publish", queue, "a")
    assert "nothing was changed" in managed("queue", "purge", queue, code=1).err
    assert "nothing was changed" in managed("queue", "delete", queue, code=1).err
    assert counts(managed, queue) == (1, 0)
    assert len(asked) == 2
    managed("queue", "purge", queue, "--yes")
    managed("queue", "delete", queue, "--yes")
    assert len(asked) == 2


def test_queues_of_another_vhost_are_apart(managed: Any, queue: str) -> None:
    vhost = f"vhost-{queue}"
    managed("vhost", "create", vhost)
    managed("queue", "declare", "only-here", "--vhost", vhost)
    assert managed("queue", "list", "-V", vhost, "--json").json["queues"][0]["vhost"] == vhost
    managed("queue", "show", "only-here", code=1)
    assert "vhost 'nowhere'" in managed("queue", "list", "--vhost", "nowhere", code=1).err
    managed("vhost", "delete", vhost)


def test_names_may_have_any_characters(managed: Any, name: str) -> None:
    strange = f"{name}/a b%2F?#é"
    managed("queue", "declare", strange)
    managed("queue", "publish", strange, "a")
    assert bodies(managed, strange) == ["a"]
    managed("queue", "delete", strange)


# -- peek, get


def test_peek_leaves_everything_as_it_was(managed: Any, queue: str) -> None:
    managed("queue", "publish", queue, "a", "b", "c")
    for _ in range(2):
        seen = managed("queue", "peek", queue, "--json").json_lines
        assert [(message["body"], message["redelivered"]) for message in seen] == [("a", False), ("b", False), ("c", False)]
    assert counts(managed, queue) == (3, 0)
    assert managed("queue", "get", queue, "--json").json["redelivered"] is False


def test_peek_takes_a_count_and_skips(managed: Any, queue: str) -> None:
    managed("queue", "publish", queue, "a", "b", "c", "d")
    assert managed("queue", "peek", queue, "-n", "2", "--skip", "1", "--body").lines == ["b", "c"]


def test_peek_of_all_reads_on_where_one_request_ends(managed: Any, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_reading, "READ_AT_ONCE", 2)
    managed("queue", "publish", queue, "a", "b", "c", "d", "e")
    assert managed("queue", "peek", queue, "--all", "-b").lines == ["a", "b", "c", "d", "e"]
    assert managed("queue", "get", queue, "--all", "-b").lines == ["a", "b", "c", "d", "e"]
    assert counts(managed, queue) == (0, 0)


def test_get_takes_the_oldest_off_the_queue_and_says_so(managed: Any, queue: str) -> None:
    managed("queue", "publish", queue, "a", "b")
    result = managed("queue", "get", queue, "--body")
    assert (result.lines, result.err) == (["a"], f"{queue}: 1 message taken off the queue\n")
    assert bodies(managed, queue) == ["b"]


def test_get_with_requeue_puts_them_back_in_their_places_and_flagged(managed: Any, queue: str) -> None:
    managed("queue", "publish", queue, "a", "b", "c")
    assert managed("queue", "get", queue, "-n", "2", "--requeue", "-b").lines == ["a", "b"]
    seen = managed("queue", "peek", queue, "--json").json_lines
    assert [(message["body"], message["redelivered"]) for message in seen] == [("a", True), ("b", True), ("c", False)]


def test_an_empty_queue_shows_nothing_and_is_no_error(managed: Any, queue: str) -> None:
    for verb in ("peek", "get"):
        result = managed("queue", verb, queue)
        assert (result.out, result.err) == (b"", f"{queue}: no messages\n")


def test_a_message_is_shown_with_all_that_belongs_to_it(managed: Any, queue: str) -> None:
    options = ("-P", "content-type=application/json", "-P", "priority=3", "-H", "n=1", "-H", "who=me")
    managed("queue", "publish", queue, '{"a": 1}', *options)
    lines = [line.split() for line in managed("queue", "peek", queue).lines]
    for line in (["content_type", "application/json"], ["delivery_mode", "persistent"], ["n", "1"], ["who", "me"]):
        assert line in lines
    assert lines[-1] == ['{"a":', "1}"]
    message = managed("queue", "get", queue, "--json").json
    assert message["properties"] == {"content_type": "application/json", "delivery_mode": 2, "priority": 3}
    assert (message["headers"], message["size_bytes"], message["body"]) == ({"n": 1, "who": "me"}, 8, '{"a": 1}')


def test_a_body_that_is_not_text_comes_as_base64_and_whole_when_asked_for(managed: Any, queue: str, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\xff\n\x00")
    managed("queue", "publish", queue, "--whole", "-F", str(tmp_path / "body"))
    assert managed("queue", "peek", queue, "--json").json["body_base64"] == "/woA"
    assert "(not text; in base64) /woA" in managed("queue", "peek", queue).text
    assert managed("queue", "get", queue, "--body").out == b"\xff\n\x00\n"


# -- publish


def test_lines_of_stdin_are_messages(managed: Any, queue: str) -> None:
    assert managed("queue", "publish", queue, stdin="a\nb\n").lines == ["2 messages published"]
    assert bodies(managed, queue) == ["a", "b"]


def test_what_get_prints_as_json_publish_takes_back(managed: Any, queue: str) -> None:
    managed("queue", "publish", queue, "text", "-H", 'list=[1,{"a":true}]', "-P", "message_id=7", "--transient")
    managed("queue", "publish", queue, "--whole", stdin=b"\xff\x00")
    taken = managed("queue", "get", queue, "--all", "--json")
    assert managed("queue", "publish", queue, "-f", "json", "--json", stdin=taken.out).json == {
        "exchange": "",
        "published": 2,
        "unrouted": 0,
    }
    assert managed("queue", "get", queue, "--all", "--json").out == taken.out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("nonsense", "not JSON"),
        ("[]", "a JSON object is needed"),
        ('{"payload": "x"}', "unknown field 'payload'"),
        ('{"body_base64": "?"}', "body_base64 is not base64"),
        ('{"headers": 5}', "headers is not an object"),
    ],
)
def test_a_line_that_is_no_message_is_named_and_the_ones_before_are_there(
    managed: Any, queue: str, line: str, complaint: str
) -> None:
    result = managed("queue", "publish", queue, "-f", "json", stdin='{"body": "a"}\n' + line + "\n", code=1)
    assert f"stdin, line 2: {complaint}" in result.err
    assert "1 message published" in result.err
    assert bodies(managed, queue) == ["a"]


# -- move, retry-dead


def test_move_takes_the_oldest_to_another_queue_in_order(managed: Any, queue: str) -> None:
    other = f"{queue}-other"
    managed("queue", "declare", other)
    managed("queue", "publish", queue, "a", "b", "c", "-H", "n=1")
    assert managed("queue", "move", queue, other, "-n", "2").lines == [f"{queue}: 2 messages moved to queue '{other}'"]
    assert (bodies(managed, queue), bodies(managed, other)) == (["c"], ["a", "b"])
    assert managed("queue", "peek", other, "-n", "1", "--json").json["headers"] == {"n": 1}


def test_move_goes_on_until_what_was_there_is_moved(managed: Any, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_moving, "MOVED_AT_ONCE", 2)
    other = f"{queue}-other"
    managed("queue", "declare", other)
    managed("queue", "publish", queue, *"abcde")
    moved = managed("queue", "move", queue, other, "--json").json
    assert moved == {"queue": queue, "destination": other, "exchange": None, "moved": 5, "left": 0}
    assert bodies(managed, other) == list("abcde")


def test_move_to_an_exchange_leaves_what_no_queue_takes(managed: Any, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_moving, "MOVED_AT_ONCE", 2)
    exchange, even = f"{queue}-exchange", f"{queue}-even"
    managed("exchange", "declare", exchange, "-t", "direct")
    managed("queue", "declare", even)
    managed("binding", "create", "amq.direct", queue, f"{queue}.odd")
    managed("binding", "create", "amq.direct", queue, f"{queue}.even")
    managed("binding", "create", exchange, even, f"{queue}.even")
    for number in range(1, 8):
        managed("exchange", "publish", "amq.direct", str(number), "-k", f"{queue}.{'odd' if number % 2 else 'even'}")
    result = managed("queue", "move", queue, "--exchange", exchange, code=1)
    assert result.lines == [f"{queue}: 3 messages moved to exchange '{exchange}'"]
    assert "4 messages stayed" in result.err
    assert (bodies(managed, queue), bodies(managed, even)) == (["1", "3", "5", "7"], ["2", "4", "6"])
    managed("queue", "move", queue, "--exchange", exchange, "--key", f"{queue}.even")
    assert counts(managed, queue) == (0, 0)


@pytest.fixture
def dead(managed: Any, queue: str) -> str:
    return f"{queue}-dead"


@pytest.fixture
def work(managed: Any, queue: str, dead: str) -> str:
    """A queue that holds one message; the one before it goes to `dead`."""
    name = f"{queue}-work"
    managed("queue", "declare", dead)
    settings = ("x-max-length=1", "x-dead-letter-exchange=", f"x-dead-letter-routing-key={dead}")
    managed("queue", "declare", name, *(word for setting in settings for word in ("-a", setting)))
    return name


def test_retry_dead_sends_dead_letters_back_and_leaves_others(
    managed: Any, work: str, dead: str, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    managed("queue", "publish", dead, "never died")
    managed("queue", "publish", work, "first", "second")
    eventually(lambda: counts(managed, dead) == (2, 0))
    managed("queue", "purge", work)
    result = managed("queue", "retry-dead", dead, code=1)
    assert result.lines == [f"{dead}: 1 message sent back"]
    assert f"1 message stayed in queue '{dead}'" in result.err
    assert (bodies(managed, work), bodies(managed, dead)) == (["first"], ["never died"])


def test_deaths_are_told_in_words(managed: Any, work: str, dead: str, eventually: Callable[[Callable[[], bool]], None]) -> None:
    managed("queue", "publish", work, "first", "second")
    eventually(lambda: counts(managed, dead) == (1, 0))
    text = managed("queue", "peek", dead).text
    assert f"maxlen in queue '{work}' (exchange '', key '{work}'), at 2" in text
    assert "x-first-death" not in text
    assert managed("queue", "peek", dead, "--json").json["headers"]["x-first-death-queue"] == work


@pytest.mark.parametrize(
    "arguments",
    [
        ("move", "q"),
        ("move", "q", "q"),
        ("move", "q", "r", "--exchange", "e"),
        ("move", "q", "r", "--key", "k"),
        ("get", "q", "--all", "-n", "1"),
        ("list", "("),
        ("list", "--sort", "age"),
        ("declare", "q", "-a", "novalue"),
        ("declare", "q", "-t", "quorum", "-a", "x-queue-type=classic"),
        ("publish", "q", "body", "--file", "f"),
        ("publish", "q", "body", "-P", "colour=red"),
        ("publish", "q", "body", "-P", "priority=high"),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_one_line(managed: Any, arguments: tuple[str, ...]) -> None:
    managed("queue", "declare", "q", "r")
    result = managed("queue", *arguments, code=2)
    assert result.err.count("\n") == 1


def test_watching_with_json_is_an_object_a_line(
    managed: Any, queue: str, start: Callable[..., Any], headrace_shared_server: Any
) -> None:
    running = start("queue", "list", queue, "--watch", "--every", "0.1", "--json", "--http", headrace_shared_server.http)
    for _ in range(2):
        assert json.loads(running.line())["queues"][0]["name"] == queue
    assert running.end(2)[0] == 130


def test_what_a_stream_has_not_is_said_with_what_there_is_instead(managed: Any, name: str) -> None:
    managed("queue", "declare", name, "-t", "stream")
    said = {
        ("peek", name): f"'headrace consume {name} --exit' reads it",
        ("get", name): f"'headrace consume {name} --exit' reads it",
        ("purge", name): f"'headrace topic trim {name} --to latest' empties it",
        ("move", name, "elsewhere"): "a route copies what is in it elsewhere",
        ("retry-dead", name): "a route copies what is in it elsewhere",
    }
    for words, instead in said.items():
        assert managed("queue", *words, code=1).err == f"headrace: queue '{name}' is a stream, which is a topic: {instead}\n"
    managed("queue", "delete", name)
