"""Whatever is sent, there is an answer with a status that says whose mistake it is, and never an error of ours."""

from __future__ import annotations

import random
from urllib.parse import quote_from_bytes

import pytest
from tests.http.management.asking import Api

PATHS = [
    "/queues/%2F/{}",
    "/exchanges/%2F/{}",
    "/bindings/%2F/e/amq.topic/q/{}",
    "/bindings/%2F/e/{}/e/amq.topic/x",
    "/vhosts/{}",
    "/users/{}",
    "/permissions/{}/guest",
    "/policies/%2F/{}",
    "/parameters/{}/%2F/x",
    "/connections/{}",
    "/channels/{}",
    "/queues/{}/q/get",
    "/queues/%2F/{}/peek?count={}",
    "/exchanges/%2F/{}/publish",
    "/health/checks/port-listener/{}",
    "/health/checks/protocol-listener/{}",
    "/definitions/{}",
    "/definitions?download={}",
    "/user-limits/{}",
    "/user-limits/{}/max-channels",
    "/auth/hash_password/{}",
    "/auth/attempts/{}",
    "/feature-flags/{}/enable",
    "/topic-permissions/%2F/{}/{}",
    "/shovels/{}",
    "/vhosts/{}/deletion/protection",
    "/queues?lengths_age={}&lengths_incr={}",
    "/queues?page={}&page_size={}&name={}&use_regex=true&sort={}&columns={}",
    "/{}",
    "/{}/{}/{}",
]
VALUES: list[bytes] = [
    b"",
    b"x",
    b"%2e%2e",
    b"\xff\xfe",
    b"\x00",
    b"a/b",
    b"a b+c~d",
    "grüße".encode(),
    b"-1",
    b"9" * 50,
    b"x" * 300,
    b"(((((a+)+)+)+)+",
    b"..",
]
BODIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"1",
    b'"text"',
    b"\xff\xff",
    b'{"arguments": {"x-max-length": {}}}',
    b'{"arguments": {"x": 1e999}}',
    b'{"arguments": {"' + b"k" * 300 + b'": 1}}',
    b'{"arguments": {"x": 99999999999999999999999999}}',
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"arguments":' + b'{"a":' * 70 + b"1" + b"}" * 71,
    b'{"count": -1, "ackmode": "ack_requeue_true", "encoding": "auto"}',
    b'{"count": 1e5, "ackmode": [], "encoding": {}}',
    b'{"tags": 5, "password": 5, "password_hash": "!", "definition": [], "pattern": 5, "value": null}',
    b'{"tags": [1], "password": {}, "definition": {"max-length": "x"}, "pattern": "(", "priority": "x"}',
    b'{"properties": 5, "routing_key": 5, "payload": 5, "payload_encoding": 5}',
    b'{"properties": {"headers": 5, "priority": 999}, "routing_key": "", "payload": "", "payload_encoding": "string"}',
    b'{"properties": {"app_id": "' + b"x" * 300 + b'"}, "routing_key": "", "payload": "", "payload_encoding": "string"}',
    b'{"queues": 5}',
    b'{"queues": [5], "bindings": {}}',
    b'{"type": 5, "durable": 5}',
    b'{"routing_key": "' + b"x" * 300 + b'"}',
    b'{"routing_key": "\\ud800", "payload": "\\ud800", "properties": {"app_id": "\\ud800"}, "payload_encoding": "string"}',
]


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_nothing_that_is_sent_makes_the_server_fail(api: Api, method: str) -> None:
    chance = random.Random(method)
    for path in PATHS:
        for value in VALUES:
            wanted = path.replace("{}", quote_from_bytes(value, safe="%."))
            if method == "DELETE" and wanted.startswith("/vhosts/%2F"):
                continue
            raw = chance.choice(BODIES) if method in ("PUT", "POST") else None
            answer = api.ask(method, wanted, raw=raw)
            assert answer.status < 500 or answer.status == 503, (method, wanted, raw, answer)


@pytest.mark.parametrize("raw", BODIES, ids=lambda raw: repr(raw[:40]))
def test_bodies_that_make_no_sense_are_refused_or_ignored(api: Api, name: str, raw: bytes) -> None:
    for method, path in (
        ("PUT", f"/queues/%2F/{name}"),
        ("PUT", f"/exchanges/%2F/{name}"),
        ("POST", "/exchanges/%2F/amq.default/publish"),
        ("POST", f"/queues/%2F/{name}/get"),
        ("POST", f"/queues/%2F/{name}/move"),
        ("POST", f"/bindings/%2F/e/amq.topic/q/{name}"),
        ("PUT", f"/users/{name}"),
        ("PUT", f"/vhosts/{name}"),
        ("PUT", f"/policies/%2F/{name}"),
        ("PUT", f"/vhost-limits/{name}/max-queues"),
        ("PUT", f"/user-limits/{name}/max-channels"),
        ("PUT", f"/parameters/shovel/%2F/{name}"),
        ("PUT", f"/parameters/federation-upstream/%2F/{name}"),
        ("PUT", f"/parameters/vhost-limits/{name}/limits"),
        ("GET", "/shovels"),
        ("PUT", f"/global-parameters/{name}"),
        ("POST", "/definitions"),
        ("POST", "/users/bulk-delete"),
    ):
        answer = api.ask(method, path, raw=raw)
        assert answer.status < 500, (method, path, raw, answer)
    for path in (f"/vhosts/{name}", f"/users/{name}", f"/policies/%2F/{name}", f"/queues/%2F/{name}", f"/exchanges/%2F/{name}"):
        api.delete(path)
    for component in ("shovel", "federation-upstream"):
        api.delete(f"/parameters/{component}/%2F/{name}")


def test_a_body_that_is_too_large_is_not_read(api: Api) -> None:
    answer = api.ask("POST", "/definitions", raw=b"", headers={"content-length": "50000000"})
    assert answer.status == 400


def test_methods_that_a_resource_has_not_are_named(api: Api) -> None:
    answer = api.ask("PATCH", "/queues")
    assert (answer.status, answer.headers["allow"]) == (405, "HEAD, GET, OPTIONS")
    assert api.ask("GET", "/../metrics").status == 404
