"""How many connections and channels a user may have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from tests.http.management.asking import Api

from headrace.testing import HeadraceServer

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def user(api: Api, name: str) -> Iterator[str]:
    assert api.put(f"/users/{name}", {"password": "secret", "tags": "management"}) == 201
    assert api.put(f"/permissions/%2F/{name}", EVERYTHING) == 201
    yield name
    api.delete(f"/users/{name}")


def connected(server: HeadraceServer, user: str) -> Any:
    parameters = pika.URLParameters(server.amqp)
    parameters.credentials = pika.PlainCredentials(user, "secret")
    return pika.BlockingConnection(parameters)


def test_a_user_has_no_more_connections_than_allowed(server: HeadraceServer, api: Api, user: str) -> None:
    assert api.put(f"/user-limits/{user}/max-connections", {"value": 1}) == 204
    with connected(server, user):
        text = f"NOT_ALLOWED - connection refused for user '{user}': user connection limit (1) is reached"
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=re.escape(text)):
            connected(server, user)
        assert api.put(f"/user-limits/{user}/max-connections", {"value": -1}) == 204
        connected(server, user).close()


def test_a_user_has_no_more_channels_than_allowed(server: HeadraceServer, api: Api, user: str) -> None:
    assert api.put(f"/user-limits/{user}/max-channels", {"value": 1}) == 204
    connection = connected(server, user)
    connection.channel()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as refused:
        connection.channel()
    text = f"NOT_ALLOWED - number of channels opened for user '{user}' has reached the maximum allowed user limit of 1"
    assert (refused.value.reply_code, refused.value.reply_text) == (530, text)
    assert api.delete(f"/user-limits/{user}/max-channels") == 204
    with connected(server, user) as again:
        assert again.channel().channel_number != again.channel().channel_number


def test_limits_are_listed_exported_and_cleared(api: Api, user: str) -> None:
    assert api.get(f"/user-limits/{user}") == []
    assert api.put(f"/user-limits/{user}/max-connections", {"value": 10}) == 204
    assert api.put(f"/user-limits/{user}/max-channels", {"value": 100}) == 204
    row = {"user": user, "value": {"max-connections": 10, "max-channels": 100}}
    assert api.get(f"/user-limits/{user}", user=f"{user}:secret") == [row]
    assert row in api.get("/user-limits")
    exported = next(each for each in api.get("/definitions")["users"] if each["name"] == user)
    assert exported["limits"] == row["value"]
    assert api.delete(f"/users/{user}") == 204
    assert api.ask("POST", "/definitions", {"users": [exported]}).status == 204
    assert api.get(f"/user-limits/{user}") == [row]
    for kind in ("max-connections", "max-channels", "max-channels"):
        assert api.delete(f"/user-limits/{user}/{kind}") == 204
    assert api.get(f"/user-limits/{user}") == []


def test_limits_are_there_after_a_restart(headrace_server: HeadraceServer) -> None:
    assert Api(headrace_server.http).put("/user-limits/guest/max-channels", {"value": 1}) == 204
    headrace_server.crash()
    headrace_server.restart()
    assert Api(headrace_server.http).get("/user-limits/guest") == [{"user": "guest", "value": {"max-channels": 1}}]


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("max-chan", {"value": 100}, 'Unrecognised terms [{<<"max-chan">>,100}] in user-limits'),
        ("max-channels", {"value": "x"}, 'max-channels should be a number, actually was <<"x">>'),
        ("max-channels", {"value": True}, "max-channels should be a number, actually was true"),
        ("max-channels", {}, "[{key_missing,value}]"),
    ],
)
def test_what_is_no_limit_is_refused_as_there(api: Api, user: str, kind: str, body: object, reason: str) -> None:
    answer = api.ask("PUT", f"/user-limits/{user}/{kind}", body)
    assert (answer.status, answer.body) == (400, {"error": "bad_request", "reason": reason})


def test_limits_in_definitions_are_checked_too(api: Api, user: str) -> None:
    answer = api.ask("POST", "/definitions", {"users": [{"name": user, "password_hash": "", "limits": {"max-chan": 1}}]})
    assert answer.status == 400
    assert answer.body["reason"].startswith(f"users[0] ('{user}'): Unrecognised terms")


def test_limits_are_the_administrators_to_set_and_everybodys_own_to_see(api: Api, user: str) -> None:
    me = f"{user}:secret"
    for method, path in (("PUT", f"/user-limits/{user}/max-channels"), ("GET", "/user-limits"), ("GET", "/user-limits/guest")):
        assert api.ask(method, path, {"value": 1} if method == "PUT" else None, user=me).status == 401
    assert api.ask("PUT", "/user-limits/nobody/max-channels", {"value": 1}).status == 404
    assert api.ask("GET", "/user-limits/nobody").status == 404
