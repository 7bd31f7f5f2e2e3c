"""`headrace policy`, `vhost`, `definitions` and `connection` against a running server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex[:8]


@pytest.fixture
def vhost(managed: Any, mark: str) -> Iterator[str]:
    name = f"vhost-{mark}"
    managed("vhost", "create", name, "-d", "for a test")
    yield name
    managed("vhost", "delete", name, "--if-exists")


def test_vhosts_are_made_listed_and_deleted(managed: Any, vhost: str) -> None:
    assert managed("vhost", "create", vhost).lines == [f"{vhost}: exists"]
    listed = {row["name"]: row["description"] for row in managed("vhost", "list", "--json").json["vhosts"]}
    assert listed[vhost] == "for a test"
    assert any(line.startswith(vhost) for line in managed("vhost", "list").lines)
    assert managed("vhost", "delete", vhost).lines == [f"{vhost}: deleted"]
    assert f"there is no vhost '{vhost}'" in managed("vhost", "delete", vhost, code=1).err
    assert managed("vhost", "delete", vhost, "--if-exists", "--json").json == {"vhosts": [{"name": vhost, "deleted": False}]}


def test_a_policy_is_set_seen_on_its_queues_and_cleared(managed: Any, vhost: str) -> None:
    managed("queue", "declare", "work", "other", "-V", vhost)
    words = ("limits", "^wo", "max-length=5", "overflow=reject-publish", "-p", "3", "--apply-to", "queues", "-V", vhost)
    assert managed("policy", "set", *words).lines == ["limits: set"]
    assert managed("policy", "set", *words, "--json").json["replaced"]
    assert managed("policy", "list", "-V", vhost, "--json").json["policies"] == [
        {
            "name": "limits",
            "vhost": vhost,
            "pattern": "^wo",
            "apply_to": "queues",
            "priority": 3,
            "definition": {"max-length": 5, "overflow": "reject-publish"},
        }
    ]
    policies = {row["name"]: row["policy"] for row in managed("queue", "list", "-V", vhost, "--json").json["queues"]}
    assert policies == {"work": "limits", "other": None}
    assert "limits: max-length=5" in managed("queue", "show", "work", "-V", vhost).text
    assert managed("policy", "clear", "limits", "-V", vhost).lines == ["limits: cleared"]
    assert "there is no policy 'limits'" in managed("policy", "clear", "limits", "-V", vhost, code=1).err


def test_a_policy_with_a_setting_that_is_none_is_refused(managed: Any, vhost: str) -> None:
    assert "colour" in managed("policy", "set", "p", ".*", "colour=red", "-V", vhost, code=1).err
    managed("policy", "set", "p", "(", "max-length=1", "-V", vhost, code=2)
    managed("policy", "set", "p", ".*", "novalue", "-V", vhost, code=2)


def test_what_is_wrong_is_said_without_the_words_of_others(managed: Any, vhost: str, tmp_path: Path) -> None:
    refused = managed("policy", "set", "p", "x", "max-length=-1", "-V", vhost, code=1).err
    assert refused == "headrace: policy 'p': -1 is not a valid maximum length\n"
    nowhere = tmp_path / "nowhere" / "file.json"
    assert managed("definitions", "export", str(nowhere), code=1).err == f"headrace: {nowhere}: No such file or directory\n"
    assert "Value error" not in managed("queue", "list", "--sort", "x", code=2).err


def test_what_was_exported_is_imported_elsewhere(managed: Any, vhost: str, mark: str, tmp_path: Path) -> None:
    managed("queue", "declare", "work", "-t", "quorum", "-V", vhost)
    managed("exchange", "declare", "orders", "-t", "topic", "-V", vhost)
    managed("binding", "create", "orders", "work", "a.*", "-V", vhost)
    managed("policy", "set", "limits", "^wo", "max-length=5", "-V", vhost)
    file = tmp_path / "definitions.json"
    told = managed("definitions", "export", str(file), "-V", vhost).text
    for part in ("queues 1", "exchanges 1", "bindings 1", "policies 1"):
        assert part in told
    assert file.stat().st_mode & 0o077 == 0
    other = f"other-{mark}"
    managed("vhost", "create", other)
    try:
        planned = managed("definitions", "import", str(file), "-V", other, "--dry-run", "--json").json
        done = managed("definitions", "import", str(file), "-V", other, "--json").json
        again = managed("definitions", "import", str(file), "-V", other).lines
        for told_of in (planned, done):
            assert {kind: row["new"] for kind, row in told_of["definitions"].items()} == {
                "queues": 1,
                "exchanges": 1,
                "bindings": 1,
                "policies": 1,
            }
        assert ["queues", "1", "0", "0", "1", "0"] in [line.split() for line in again]
        shown = managed("queue", "show", "work", "-V", other, "--json").json["queues"][0]
        assert (shown["type"], shown["policy"]) == ("quorum", "limits")
        assert [b["routing_key"] for b in shown["bindings"] if b["source"] == "orders"] == ["a.*"]
    finally:
        managed("vhost", "delete", other)


def test_everything_is_exported_to_stdout(managed: Any, vhost: str) -> None:
    found = managed("definitions", "export").json
    assert vhost in [one["name"] for one in found["vhosts"]]
    assert "guest" in [one["name"] for one in found["users"]]


def test_definitions_come_from_stdin_too(managed: Any, vhost: str) -> None:
    queue = {"name": "made", "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
    result = managed("definitions", "import", "-", "--json", stdin=json.dumps({"queues": [queue]}))
    assert result.json["definitions"]["queues"]["new"] == 1
    managed("queue", "show", "made", "-V", vhost)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("nonsense", "is not JSON"), ("[]", "a JSON object is needed"), ('{"queues": [1]}', "'queues' is not a list of objects")],
)
def test_a_file_without_definitions_is_named(managed: Any, tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    result = managed("definitions", "import", str(file), code=1)
    assert complaint in result.err
    assert str(file) in result.err
    assert "missing.json: No such file" in managed("definitions", "import", str(tmp_path / "missing.json"), code=1).err


def test_definitions_of_a_vhost_that_is_not_there_say_so(managed: Any) -> None:
    assert "there is no vhost 'nowhere'" in managed("definitions", "export", "-V", "nowhere", code=1).err


# -- what AMQP clients do is seen


@pytest.fixture
def client(headrace_shared_server: Any, mark: str) -> Iterator[pika.BlockingConnection]:
    parameters = pika.URLParameters(headrace_shared_server.amqp)
    parameters.client_properties = {"connection_name": f"client-{mark}"}
    connection = pika.BlockingConnection(parameters)
    yield connection
    if connection.is_open:
        connection.close()


def test_a_connection_is_listed_and_closed_with_a_reason(managed: Any, client: pika.BlockingConnection, mark: str) -> None:
    listed = managed("connection", "list", "--json").json["connections"]
    (found,) = [one for one in listed if f"client-{mark}" in one["client"]]
    assert (found["user"], found["vhost"]) == ("guest", "/")
    assert any(f"client-{mark}" in line for line in managed("connection", "list").lines)
    assert managed("connection", "close", found["name"], "--reason", "go away").lines == [f"{found['name']}: closed"]
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="go away"):
        client.process_data_events(time_limit=30)
    assert "there is no connection" in managed("connection", "close", found["name"], code=1).err
    managed("connection", "close", "x", "--reason", "two\nlines", code=2)


def test_peek_is_not_seen_by_a_consumer_and_shows_only_what_is_ready(
    managed: Any, client: pika.BlockingConnection, mark: str, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    queue = f"queue-{mark}"
    managed("queue", "declare", queue)
    managed("queue", "publish", queue, "held", "ready")
    channel = client.channel()
    channel.basic_qos(prefetch_count=1)
    held: list[int] = []
    channel.basic_consume(queue, lambda _channel, method, *_: held.append(method.delivery_tag), consumer_tag=mark)
    while not held:
        client.process_data_events(time_limit=1)
    assert managed("queue", "peek", queue, "-b").lines == ["ready"]
    shown = managed("queue", "show", queue, "--json").json["queues"][0]
    assert (shown["ready"], shown["unacknowledged"], shown["consumers"]) == (1, 1, 1)
    assert [(one["tag"], one["prefetch"]) for one in shown["consumer_details"]] == [(mark, 1)]
    assert mark in managed("queue", "show", queue).text
    managed("queue", "delete", queue, "--if-unused", code=1)
    channel.close()
    eventually(lambda: managed("queue", "peek", queue, "-b").lines == ["held", "ready"])
    seen = managed("queue", "peek", queue, "--json").json_lines
    assert [message["redelivered"] for message in seen] == [True, False]


def test_a_rejected_message_tells_of_it_and_is_retried(managed: Any, client: pika.BlockingConnection, mark: str) -> None:
    work, dead = f"work-{mark}", f"dead-{mark}"
    managed("queue", "declare", dead)
    managed("queue", "declare", work, "-a", "x-dead-letter-exchange=", "-a", f"x-dead-letter-routing-key={dead}")
    managed("queue", "publish", work, "x", "-H", "keep=me")
    channel = client.channel()
    method, _, _ = channel.basic_get(work)
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.close()
    assert f"rejected in queue '{work}'" in managed("queue", "peek", dead).text
    assert managed("queue", "retry-dead", dead, "--json").json == {"queue": dead, "retried": 1, "left": 0}
    message = managed("queue", "get", work, "--json").json
    assert (message["body"], message["headers"]) == ("x", {"keep": "me"})
