"""`headrace route` against a server."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from headrace.testing import wait_until


@pytest.fixture
def cli(managed: Any, headrace: Any) -> Any:
    return headrace


@pytest.fixture
def names() -> tuple[str, str, str]:
    tail = uuid.uuid4().hex[:8]
    return f"route-{tail}", f"topic-{tail}", f"queue-{tail}"


def test_a_route_is_made_looked_at_replayed_and_deleted(cli: Any, names: tuple[str, str, str]) -> None:
    route, topic, queue = names
    cli("topic", "create", topic, "--partitions", "1")
    cli("queue", "declare", queue)
    cli("produce", topic, "a", "b", "c")
    made = cli("route", "create", route, "--topic", topic, "--exchange", "amq.default", "--routing-key", queue)
    assert made.lines == [f"{route}: running"]

    def shown() -> dict[str, Any]:
        return cli("route", "show", route, "--json").json["routes"][0]

    wait_until(lambda: shown()["lag"] == 0 and shown()["delivered"] == 3, what="three deliveries")
    lag = cli("group", "lag", f"headrace.route.{route}")
    assert topic in lag.text
    assert any(line.split()[:2] == [route, topic] for line in cli("route", "list").lines)
    text = cli("route", "show", route).text
    assert f"exchange amq.default key '{queue}'" in text
    assert f"dead-letter to {route}.dead-letters" in text
    assert cli("route", "pause", route).lines == [f"{route}: paused"]
    assert cli("route", "replay", route, "--from", "1").lines == [f"{route}: 2 to deliver"]
    assert cli("route", "resume", route, "--json").json["routes"][0]["state"] == "running"
    wait_until(lambda: shown()["delivered"] == 5, what="two more")
    assert cli("route", "delete", route).lines == [f"{route}: deleted"]
    assert cli("route", "delete", route, "--if-exists").lines == [f"{route}: does not exist"]


def test_a_route_that_waits_says_for_what(cli: Any, names: tuple[str, str, str]) -> None:
    route, topic, _ = names
    made = cli("route", "create", route, "-t", topic, "-x", "amq.topic", "--optional", "--on-failure", "skip")
    assert made.lines == [f"{route}: waiting (there is no topic '{topic}')"]
    (shown,) = cli("route", "list", f"^{route}$", "--json").json["routes"]
    assert (shown["on_failure"], shown["destination"]["mandatory"]) == ("skip", False)
    assert "there is no topic" in cli("route", "list", route).text
    cli("route", "delete", route)


def test_mistakes_are_told_in_one_sentence(cli: Any, names: tuple[str, str, str]) -> None:
    route, topic, _ = names
    assert "there is no route" in cli("route", "show", route, code=1).err
    assert "is no place to begin" in cli("route", "replay", route, "--from", "sideways", code=2).err
    wrong = cli("route", "create", "a b", "-t", topic, "-x", "x", "--json", code=1)
    assert wrong.error["code"] == "invalid"
    assert "name of a route" in wrong.error["message"]
    cli("route", "create", route, "-t", topic, "-x", "amq.topic", "--paused")
    assert f"did you mean '{route}'?" in cli("route", "pause", route[:-1], code=1).err
    assert "reads topic" in cli("route", "create", route, "-t", "other", "-x", "amq.topic", code=1).err
    cli("route", "delete", route)


def test_a_route_between_topics_filters_and_can_be_tried_before(cli: Any, names: tuple[str, str, str]) -> None:
    route, topic, target = names
    cli("topic", "create", topic, "--partitions", "1")
    cli("produce", topic, '{"n": 1}', '{"n": 200}', "no json")
    shape = ("--filter", "value.n > 100", "--value", "string(value.n)")
    tried = cli("route", "test", "--topic", topic, *shape, "--json").json["results"]
    assert [one["outcome"] for one in tried] == ["dropped", "passed", "failed"]
    lines = cli("route", "test", "--topic", topic, *shape).lines
    assert lines[:3] == ['dropped  {"value": {"n": 1}}', 'passed   {"value": {"n": 200}}', '      →  {"value": 200}']
    cli("route", "create", route, "--topic", topic, "--to-topic", target, *shape, "--on-failure", "skip")

    def shown() -> dict[str, Any]:
        return cli("route", "show", route, "--json").json["routes"][0]

    wait_until(lambda: shown()["lag"] == 0 and shown()["delivered"] == 1, what="a delivery")
    assert (shown()["filtered"], shown()["skipped"]) == (1, 1)
    text = cli("route", "show", route).text
    assert "filter        value.n > 100" in text
    assert f"topic {target}" in cli("route", "list", route).text
    moved = cli("route", "replay", route, "--from", "0", "--to", "2")
    assert moved.lines == [f"{route}: 2 to deliver"]
    wait_until(lambda: shown()["replay"] is None and shown()["replayed"] == 1, what="the period")
    assert cli("route", "cancel-replay", route).lines == [f"{route}: delivers no period"]
    cli("route", "delete", route)


def test_a_route_is_made_of_a_file_and_of_members(cli: Any, names: tuple[str, str, str], tmp_path: Path) -> None:
    route, topic, target = names
    file = tmp_path / "route.json"
    definition = {"topic": topic, "destination": {"type": "topic", "topic": target}, "filter": "offset > 5", "paused": True}
    file.write_text(json.dumps(definition))
    made = cli("route", "create", route, "--definition", str(file), "--json").json
    assert (made["filter"], made["state"]) == ("offset > 5", "paused")
    changed = cli(
        "route", "create", route, "-t", topic, "--to-topic", target, "--set", "partition=same", "--paused", "--json"
    ).json
    assert changed["destination"] == {"type": "topic", "topic": target, "partition": "same", "timestamp": True}
    cli("route", "delete", route)


def test_a_route_has_one_source_and_one_destination(cli: Any, names: tuple[str, str, str]) -> None:
    route, topic, target = names
    assert "exactly one of --exchange" in cli("route", "create", route, "-t", topic, code=2).err
    assert (
        "not --exchange and --to-topic"
        in cli("route", "create", route, "-t", topic, "-x", "x", "--to-topic", target, code=2).err
    )
    assert "exactly one of --topic" in cli("route", "create", route, "--to-topic", target, code=2).err
    assert "is not GROUP:PORT" in cli("route", "create", route, "-t", topic, "--to-udp", "239.1.1.1", code=2).err
    assert "is not NAME=VALUE" in cli("route", "create", route, "-t", topic, "--to-topic", target, "--set", "x", code=2).err
    assert (
        "filter: line 1, column 8"
        in cli("route", "create", route, "-t", topic, "--to-topic", target, "--filter", "value >", code=1).err
    )
    assert "give either --topic or --events" in cli("route", "test", "--filter", "true", code=2).err
