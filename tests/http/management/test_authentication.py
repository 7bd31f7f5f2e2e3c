"""Who is let in, and how far."""

from __future__ import annotations

import pytest
from tests.http.management.asking import Api

LOGIN_FAILED = {"error": "not_authorized", "reason": "Login failed"}


@pytest.fixture
def user(api: Api, name: str) -> str:
    assert api.put(f"/users/{name}", {"password": "secret", "tags": "management"}) == 201
    return f"{name}:secret"


@pytest.mark.parametrize("credentials", [None, "guest:wrong", "nobody:guest", "guest", ":", "guest:"])
def test_without_the_right_password_nothing_is_answered(api: Api, credentials: str | None) -> None:
    for path in ("/overview", "/queues/%2F/q", "/health/checks/alarms"):
        answer = api.ask("GET", path, user=credentials)
        assert (answer.status, answer.body) == (401, LOGIN_FAILED)
        assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


@pytest.mark.parametrize("header", ["Basic !!!", "Basic", "Bearer x", "Basic " + "A" * 5000, "Basic /////w=="])
def test_credentials_that_can_not_be_read_are_refused(api: Api, header: str) -> None:
    assert api.ask("GET", "/overview", user=None, headers={"authorization": header}).status in (400, 401)


def test_a_user_without_a_tag_is_refused(api: Api, name: str) -> None:
    assert api.put(f"/users/{name}", {"password": "secret", "tags": ""}) == 201
    answer = api.ask("GET", "/overview", user=f"{name}:secret")
    assert (answer.status, answer.body) == (401, {"error": "not_authorised", "reason": "Not management user"})


def test_management_sees_its_own_virtual_hosts_and_nothing_of_others(api: Api, name: str, user: str) -> None:
    for vhost in (f"{name}.mine", f"{name}.other"):
        assert api.put(f"/vhosts/{vhost}") == 201
        assert api.put(f"/queues/{vhost}/q") == 201
    assert api.put(f"/permissions/{name}.mine/{name}", {"configure": "", "write": "", "read": ""}) == 201
    assert {row["vhost"] for row in api.get("/queues", user=user)} == {f"{name}.mine"}
    assert {row["name"] for row in api.get("/vhosts", user=user)} == {f"{name}.mine"}
    assert {row["vhost"] for row in api.get("/bindings", user=user)} == {f"{name}.mine"}
    assert api.get("/overview", user=user)["object_totals"]["queues"] == 1
    for method, path in (("GET", "/queues/{}/q"), ("PUT", "/queues/{}/x"), ("DELETE", "/queues/{}/q"), ("GET", "/vhosts/{}")):
        assert api.ask(method, path.format(f"{name}.other"), user=user).status == 401
    # Its permissions there allow nothing.
    assert api.ask("PUT", f"/queues/{name}.mine/x", {}, user=user).status == 401
    assert api.ask("DELETE", f"/queues/{name}.mine/q", user=user).status == 401
    assert api.ask("GET", f"/queues/{name}.mine/q/peek", user=user).status == 401
    assert api.delete(f"/vhosts/{name}.mine") == api.delete(f"/vhosts/{name}.other") == 204


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/users"),
        ("PUT", "/users/x"),
        ("PUT", "/vhosts/x"),
        ("DELETE", "/vhosts/%2F"),
        ("GET", "/permissions"),
        ("GET", "/nodes"),
        ("GET", "/definitions"),
        ("POST", "/definitions"),
        ("PUT", "/policies/%2F/x"),
        ("PUT", "/operator-policies/%2F/x"),
        ("PUT", "/cluster-name"),
        ("GET", "/parameters"),
    ],
)
def test_management_is_not_enough_for_everything(api: Api, user: str, method: str, path: str) -> None:
    answer = api.ask(method, path, {} if method != "GET" else None, user=user)
    assert (answer.status, answer.body["error"]) == (401, "not_authorised")


def test_monitoring_sees_everything_and_changes_nothing(api: Api, name: str) -> None:
    assert api.put(f"/users/{name}", {"password": "secret", "tags": "monitoring"}) == 201
    watcher = f"{name}:secret"
    assert api.put(f"/queues/%2F/{name}") == 201
    assert name in {row["name"] for row in api.get("/queues", user=watcher)}
    assert api.get("/nodes", user=watcher)
    for method, path in (("DELETE", ""), ("DELETE", "/contents"), ("GET", "/peek"), ("POST", "/get")):
        body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"} if method == "POST" else None
        assert api.ask(method, f"/queues/%2F/{name}{path}", body, user=watcher).status == 401
    assert api.delete(f"/queues/%2F/{name}") == 204


def test_permissions_are_those_of_amqp(api: Api, name: str, user: str) -> None:
    assert api.put(f"/permissions/%2F/{name}", {"configure": f"^{name}", "write": "^amq.default$", "read": ""}) == 201
    assert api.put(f"/queues/%2F/{name}.mine", user=user) == 201
    assert api.put(f"/queues/%2F/other-{name}", user=user) == 401
    message = {"properties": {}, "routing_key": f"{name}.mine", "payload": "x", "payload_encoding": "string"}
    assert api.ask("POST", "/exchanges/%2F/amq.default/publish", message, user=user).status == 200
    refused = api.ask("POST", "/exchanges/%2F/amq.topic/publish", message, user=user)
    assert refused.status == 400
    assert refused.body["reason"].startswith("403 ACCESS_REFUSED - write access to exchange 'amq.topic'")
    assert api.ask("GET", f"/queues/%2F/{name}.mine/peek", user=user).status == 401
    assert api.delete(f"/queues/%2F/{name}.mine", user=user) == 204


def test_what_tells_how_to_log_in_is_for_everybody(api: Api) -> None:
    assert api.ask("GET", "/auth", user=None).status == 200
