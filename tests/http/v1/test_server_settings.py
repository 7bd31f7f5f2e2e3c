"""The server's settings over HTTP: listed, changed while it runs, never with a secret in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    settings = {
        "kinesis.credentials": "AKIDEXAMPLE:wJalrXUtnFEMI",
        "headrace.archive.url": "file:///tmp/headrace-no-such-archive?token=hunter2",
        "headrace.archive.options": "region=eu-1,secret_access_key=hunter2",
        "remote.log.storage.system.enable": False,
        "num.partitions": 3,
    }
    with HeadraceServer(settings=settings) as started:
        yield started


@pytest.fixture
def v1(server: HeadraceServer) -> V1:
    return V1(server)


def test_a_setting_says_its_value_its_default_and_who_has_set_it(v1: V1) -> None:
    assert v1.get("/v1/settings/num.partitions") == {
        "name": "num.partitions",
        "value": "3",
        "default": "1",
        "source": "start",
        "type": "int",
        "dynamic": False,
        "effective": True,
        "secret": False,
        "description": "Partitions of a topic whose creator doesn't say.",
    }
    assert v1.get("/v1/settings/num.io.threads")["effective"] is False
    listed = v1.get("/v1/settings?limit=1000&effective=true")["settings"]
    assert all(each["effective"] for each in listed)
    assert len(listed) < len(v1.get("/v1/settings?limit=1000")["settings"])
    assert_problem(v1.ask("GET", "/v1/settings/num.partition"), 404, "unknown_setting")


def test_secrets_are_shown_to_nobody(v1: V1) -> None:
    content = v1.ask("GET", "/v1/settings?limit=1000").content
    assert b"wJalrXUtnFEMI" not in content
    assert b"hunter2" not in content
    credentials = v1.get("/v1/settings/kinesis.credentials")
    assert (credentials["value"], credentials["secret"], credentials["source"]) == (None, True, "start")
    assert v1.get("/v1/settings/headrace.archive.url")["value"] == "file:///tmp/headrace-no-such-archive"
    assert v1.get("/v1/settings/headrace.archive.options")["value"] == "region=eu-1,secret_access_key=…"


def test_the_list_is_in_parts_and_can_be_narrowed(v1: V1) -> None:
    names: list[str] = []
    after = ""
    while True:
        part = v1.get(f"/v1/settings?limit=100&after={after}")
        names += [each["name"] for each in part["settings"]]
        if part["next"] is None:
            break
        after = part["next"]
    assert names == sorted(set(names))
    assert len(names) > 250
    assert [each["name"] for each in v1.get("/v1/settings?text=HOW OFTEN RETENTION".replace(" ", "%20"))["settings"]] == [
        "log.retention.check.interval.ms"
    ]
    given = [each["name"] for each in v1.get("/v1/settings?set=true")["settings"]]
    assert "num.partitions" in given
    assert "num.network.threads" not in given
    assert all(each["dynamic"] for each in v1.get("/v1/settings?dynamic=true&limit=1000")["settings"])


def test_a_dynamic_setting_is_changed_taken_back_and_kept_over_a_restart(server: HeadraceServer, v1: V1) -> None:
    asked = {"settings": {"max.connections": 500, "kinesis.enforce.limits": True}}
    assert v1.ask("PATCH", "/v1/settings", {**asked, "validate_only": True}).status == 204
    assert v1.get("/v1/settings/max.connections")["source"] == "default"
    changed = v1.ask("PATCH", "/v1/settings", asked)
    assert [(each["name"], each["value"], each["source"]) for each in changed.body["settings"]] == [
        ("max.connections", "500", "changed"),
        ("kinesis.enforce.limits", "true", "changed"),
    ]
    server.stop()
    server.restart()
    assert v1.get("/v1/settings/max.connections")["value"] == "500"
    taken_back = v1.ask("PATCH", "/v1/settings", {"settings": {"max.connections": None, "kinesis.enforce.limits": None}})
    assert [each["source"] for each in taken_back.body["settings"]] == ["default", "default"]


@pytest.mark.parametrize(
    ("settings", "status", "code"),
    [
        ({"num.partitions": 4}, 409, "not_dynamic"),
        ({"max.conections": 4}, 400, "invalid_config"),
        ({"max.connections": "many"}, 400, "invalid_config"),
        ({"max.connections": 5, "max.connections.per.ip": -1}, 400, "invalid_config"),
        ({}, 400, "invalid_body"),
    ],
)
def test_a_change_that_can_not_be_changes_nothing(v1: V1, settings: dict[str, object], status: int, code: str) -> None:
    assert_problem(v1.ask("PATCH", "/v1/settings", {"settings": settings}), status, code)
    assert v1.get("/v1/settings/max.connections")["source"] == "default"


def test_only_administrators_change_them(v1: V1) -> None:
    for name, tags in (("paula", "policymaker"), ("mona", "monitoring")):
        v1.ask("PUT", f"/api/users/{name}", {"password": "x", "tags": tags}, user="guest:guest")
    body = {"settings": {"max.connections": 5}}
    assert_problem(v1.ask("PATCH", "/v1/settings", body, user="paula:x"), 403, "forbidden", "administrator")
    assert_problem(v1.ask("PATCH", "/v1/settings", body, user="mona:x"), 403, "forbidden")
    assert_problem(v1.ask("GET", "/v1/settings", user="paula:x"), 403, "forbidden")
    assert v1.ask("GET", "/v1/settings", user="mona:x").status == 200
