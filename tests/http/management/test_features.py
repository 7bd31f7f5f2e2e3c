"""What tools ask before they use something, and what plugins of RabbitMQ would answer."""

from __future__ import annotations

import pytest
from tests.http.management.asking import Api


def test_feature_flags_are_enabled_and_can_be_enabled_again(api: Api) -> None:
    flags = api.get("/feature-flags")
    assert {"quorum_queue", "stream_queue", "user_limits"} <= {flag["name"] for flag in flags}
    assert {flag["state"] for flag in flags} == {"enabled"}
    for flag in flags:
        assert api.put(f"/feature-flags/{flag['name']}/enable") == 204
    assert api.put("/feature-flags/made-up/enable") == 400


def test_deprecated_features_are_in_use_when_they_are(api: Api, name: str) -> None:
    names = {feature["name"] for feature in api.get("/deprecated-features")}
    assert {"transient_nonexcl_queues", "global_qos"} <= names
    assert api.put(f"/queues/%2F/{name}", {"durable": False}) == 201
    assert [feature["name"] for feature in api.get("/deprecated-features/used")] == ["transient_nonexcl_queues"]
    assert api.delete(f"/queues/%2F/{name}") == 204


@pytest.mark.parametrize(
    "check",
    [
        "protocol-listener/amqp,http",
        "below-node-connection-limit",
        "metadata-store/initialized",
        "metadata-store/initialized/with-data",
        "quorum-queues-without-elected-leaders/all-vhosts/",
        "quorum-queues-without-elected-leaders/all-vhosts/pattern/.*",
        "quorum-queues-without-elected-leaders/vhost/%2F/",
        "quorum-queues-without-elected-leaders/vhost/%2F/pattern/.*",
    ],
)
def test_checks_of_newer_versions(api: Api, check: str) -> None:
    assert api.get(f"/health/checks/{check}")["status"] == "ok"


def test_listeners_that_are_missing_are_named(api: Api) -> None:
    answer = api.ask("GET", "/health/checks/protocol-listener/amqp,mqtt,stomp")
    assert (answer.status, answer.body["missing"]) == (503, ["mqtt", "stomp"])


@pytest.mark.parametrize("what", ["federation-links", "shovels", "stream/connections", "stream/publishers", "stream/consumers"])
def test_lists_of_plugins_are_empty(api: Api, what: str) -> None:
    assert api.get(f"/{what}") == api.get(f"/{what}/%2F") == []
    assert api.ask("GET", f"/{what}/nope").status == 404


def test_a_shovel_is_listed_as_one_that_does_not_run(api: Api, name: str) -> None:
    value = {
        "src-uri": ["amqp://u:secret@a/%2f", "amqp://b"],
        "src-queue": "q",
        "dest-uri": "amqp://c",
        "ack-mode": "on-confirm",
    }
    assert api.put(f"/parameters/shovel/%2F/{name}", {"value": value}) == 201
    (row,) = api.get("/shovels/%2F")
    assert [row] == api.get("/shovels")
    assert {key: row[key] for key in ("name", "vhost", "type", "state", "src_uri", "src_queue", "dest_uri")} == {
        "name": name,
        "vhost": "/",
        "type": "dynamic",
        "state": "terminated",
        "src_uri": "amqp://a/%2f",
        "src_queue": "q",
        "dest_uri": "amqp://c",
    }
    assert api.delete(f"/parameters/shovel/%2F/{name}") == 204


def test_attempts_to_log_in_are_counted(api: Api) -> None:
    node = api.get("/overview")["node"]

    def of_http() -> tuple[int, int]:
        row = next(row for row in api.get(f"/auth/attempts/{node}") if row["protocol"] == "http")
        return row["auth_attempts_succeeded"], row["auth_attempts_failed"]

    before = of_http()
    assert api.ask("GET", "/overview", user="guest:wrong").status == 401
    assert of_http() == (before[0] + 1, before[1] + 1)
    assert api.delete(f"/auth/attempts/{node}") == 204
    assert of_http() == (1, 0)
    assert api.ask("GET", "/auth/attempts/nope").status == 404


def test_a_hash_is_that_of_the_password(api: Api, name: str) -> None:
    hashed = api.get("/auth/hash_password/some%20secret")["ok"]
    assert api.put(f"/users/{name}", {"password_hash": hashed, "tags": "management"}) == 201
    assert api.get("/whoami", user=f"{name}:some secret")["name"] == name
    assert api.delete(f"/users/{name}") == 204


def test_memory_is_told_in_bytes_and_in_percent(api: Api) -> None:
    node = api.get("/overview")["node"]
    parts = api.get(f"/nodes/{node}/memory")["memory"]
    assert parts["total"]["rss"] > 0
    relative = api.get(f"/nodes/{node}/memory/relative")["memory"]
    assert relative["total"] == sum(value for name, value in relative.items() if name != "total") == 100
