"""`headrace exchange` and `headrace binding` against a running server."""

from __future__ import annotations

import uuid
from typing import Any

import pytest


@pytest.fixture
def names() -> tuple[str, str]:
    mark = uuid.uuid4().hex[:8]
    return f"exchange-{mark}", f"queue-{mark}"


@pytest.fixture
def bound(managed: Any, names: tuple[str, str]) -> tuple[str, str]:
    """A topic exchange and a queue that gets `a.*` from it."""
    exchange, queue = names
    managed("exchange", "declare", exchange, "--type", "topic")
    managed("queue", "declare", queue)
    managed("binding", "create", exchange, queue, "a.*")
    return names


def test_an_exchange_is_declared_with_its_settings(managed: Any, names: tuple[str, str]) -> None:
    exchange, _ = names
    options = ("-t", "fanout", "--internal", "--auto-delete", "--transient", "-a", "alternate-exchange=amq.fanout")
    assert managed("exchange", "declare", exchange, *options).lines == [f"{exchange}: created"]
    assert managed("exchange", "declare", exchange, *options).lines == [f"{exchange}: exists"]
    shown = managed("exchange", "list", exchange, "--json").json["exchanges"]
    assert shown == [
        {
            "name": exchange,
            "vhost": "/",
            "type": "fanout",
            "durable": False,
            "auto_delete": True,
            "internal": True,
            "arguments": {"alternate-exchange": "amq.fanout"},
            "policy": None,
        }
    ]


def test_the_exchange_without_a_name_is_listed_as_amq_default(managed: Any) -> None:
    lines = managed("exchange", "list", "^amq[.]").lines
    assert [line.split()[:2] for line in lines[1:3]] == [["amq.default", "direct"], ["amq.direct", "direct"]]


def test_show_has_the_bindings_in_both_directions(managed: Any, bound: tuple[str, str]) -> None:
    exchange, queue = bound
    managed("binding", "create", "amq.topic", exchange, "#", "--to-exchange")
    shown = managed("exchange", "show", exchange, "--json").json["exchanges"][0]
    assert shown["bindings"] == [{"destination": queue, "destination_type": "queue", "routing_key": "a.*", "arguments": {}}]
    assert shown["bound_to"] == [{"source": "amq.topic", "routing_key": "#", "arguments": {}}]
    text = managed("exchange", "show", exchange).text
    assert f"{queue}  queue  a.*" in text
    assert "amq.topic  #" in text


def test_delete_takes_exchanges_but_never_those_of_the_server(managed: Any, bound: tuple[str, str]) -> None:
    exchange, _ = bound
    managed("exchange", "delete", exchange, "--if-unused", code=1)
    assert managed("exchange", "delete", exchange).lines == [f"{exchange}: deleted"]
    assert f"there is no exchange '{exchange}'" in managed("exchange", "delete", exchange, code=1).err
    managed("exchange", "delete", exchange, "--if-exists")
    assert "amq.topic" in managed("exchange", "delete", "amq.topic", code=1).err


def test_published_messages_go_where_the_key_says(managed: Any, bound: tuple[str, str]) -> None:
    exchange, queue = bound
    managed("exchange", "publish", exchange, "one", "two", "-k", "a.b")
    seen = managed("queue", "get", queue, "--all", "--json").json_lines
    assert [(m["exchange"], m["routing_key"], m["body"]) for m in seen] == [(exchange, "a.b", "one"), (exchange, "a.b", "two")]


def test_a_line_of_json_brings_its_own_key_unless_one_is_given(managed: Any, bound: tuple[str, str]) -> None:
    exchange, queue = bound
    line = '{"routing_key": "a.own", "body": {"n": 1}}'
    managed("exchange", "publish", exchange, "-f", "json", line)
    managed("exchange", "publish", exchange, "-f", "json", line, "-k", "a.given")
    seen = managed("queue", "get", queue, "--all", "--json").json_lines
    assert [(m["routing_key"], m["body"]) for m in seen] == [("a.own", '{"n": 1}'), ("a.given", '{"n": 1}')]


def test_a_message_that_no_queue_took_is_an_error(managed: Any, bound: tuple[str, str]) -> None:
    exchange, _ = bound
    result = managed("exchange", "publish", exchange, "x", "-k", "nowhere", "--json", code=1)
    assert result.json == {"exchange": exchange, "published": 1, "unrouted": 1}
    assert f"headrace binding list --source {exchange}" in result.error["message"]


def test_the_default_exchange_needs_a_key(managed: Any, bound: tuple[str, str]) -> None:
    assert "needs --key" in managed("exchange", "publish", "amq.default", "x", code=2).err
    managed("exchange", "publish", "amq.default", "x", "-k", bound[1])
    assert managed("queue", "get", bound[1], "-b").lines == ["x"]


# -- bindings


def test_a_binding_is_created_once_and_listed(managed: Any, bound: tuple[str, str]) -> None:
    exchange, queue = bound
    assert managed("binding", "create", exchange, queue, "a.*").lines == [f"{exchange} -> {queue} (a.*): exists"]
    made = managed("binding", "create", exchange, queue, "a.*", "-a", "x-match=any", "--json").json
    assert made["created"]
    listed = managed("binding", "list", "--source", exchange, "--json").json["bindings"]
    assert {(b["destination"], b["routing_key"], tuple(b["arguments"].items())) for b in listed} == {
        (queue, "a.*", ()),
        (queue, "a.*", (("x-match", "any"),)),
    }
    assert len(managed("binding", "list", "--to", queue).lines) == 3
    assert len(managed("binding", "list", "--to", queue, "--default").lines) == 4


def test_a_binding_is_deleted_by_the_words_that_made_it(managed: Any, bound: tuple[str, str]) -> None:
    exchange, queue = bound
    managed("binding", "create", exchange, queue, "", "-a", "n=1")
    managed("binding", "create", exchange, queue)
    assert "there are" in managed("binding", "delete", exchange, queue, "b", code=1).err
    managed("binding", "delete", exchange, queue, "a.*")
    managed("binding", "delete", exchange, queue)
    left = managed("binding", "list", "--to", queue, "--json").json["bindings"]
    assert [(one["routing_key"], one["arguments"]) for one in left] == [("", {"n": 1})]
    managed("binding", "delete", exchange, queue, "--all")
    assert "there is no binding" in managed("binding", "delete", exchange, queue, code=1).err


def test_what_is_missing_at_an_end_of_a_binding_is_named(managed: Any, bound: tuple[str, str]) -> None:
    exchange, queue = bound
    assert f"no exchange '{exchange}x'" in managed("binding", "create", f"{exchange}x", queue, code=1).err
    assert f"no queue '{queue}x'" in managed("binding", "create", exchange, f"{queue}x", code=1).err
    assert "add --to-exchange" in managed("binding", "create", exchange, "amq.fanout", code=1).err
    managed("binding", "create", "", queue, code=2)
    managed("binding", "delete", exchange, queue, "k", "--all", code=2)
