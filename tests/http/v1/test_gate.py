"""Which Host and which Origin are let in."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.broker.settings import Settings
from headrace.http.problems import Problem
from headrace.http.v1.gate import Gate, is_preflight, preflight_headers
from headrace.web.visitors import MAX_REMEMBERED

LISTED = {"headrace.http.hosts": "broker.example,Other.Example", "headrace.http.origins": "https://app.example,null"}


def scope(path: str = "/v1/topics", method: str = "GET", **headers: str) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "headers": pairs}


def refused(gate: Gate, given: dict[str, Any]) -> tuple[int, str] | None:
    try:
        gate.admit(given)
    except Problem as problem:
        return problem.status, problem.code
    return None


@pytest.fixture
def gate() -> Gate:
    return Gate(Settings.from_mapping(LISTED))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "10.1.2.3:80", "localhost", "LOCALHOST:8080", "app.localhost:1",
     "localhost.", "broker.example:8080", "BROKER.example", "other.example"],
)  # fmt: skip
def test_an_address_localhost_and_a_listed_name_are_good_hosts(gate: Gate, host: str) -> None:
    assert refused(gate, scope(host=host)) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "broker.example.evil",
     "2130706433", "0x7f.1", "notlocalhost", "app.broker.example"],
)  # fmt: skip
def test_any_other_name_is_what_dns_rebinding_comes_with(gate: Gate, host: str) -> None:
    assert refused(gate, scope(host=host)) == (421, "host_not_allowed")


@pytest.mark.parametrize("host", ["", ":8080", "[::1", "a b", "\xff"])
def test_a_host_that_is_none_is_refused(gate: Gate, host: str) -> None:
    assert refused(gate, scope(host=host)) in ((400, "bad_host"), (421, "host_not_allowed"))


def test_without_an_origin_nobody_is_asked_for_one(gate: Gate) -> None:
    assert gate.admit(scope(host="localhost:8080", method="POST")) == b""


@pytest.mark.parametrize(
    ("host", "origin"),
    [("127.0.0.1:8080", "http://127.0.0.1:8080"), ("localhost:8080", "http://localhost:8080"), ("[::1]:80", "http://[::1]:80"),
     ("broker.example", "https://broker.example")],
)  # fmt: skip
def test_a_page_of_the_server_itself_is_let_in(gate: Gate, host: str, origin: str) -> None:
    assert gate.admit(scope(host=host, origin=origin)) == b""


@pytest.mark.parametrize("origin", ["https://app.example", "null"])
def test_a_listed_origin_is_let_in_and_told(gate: Gate, origin: str) -> None:
    assert gate.admit(scope(host="localhost:8080", origin=origin)) == origin.encode()


@pytest.mark.parametrize(
    "origin",
    ["http://app.example", "https://app.example:8443", "https://app.example.evil", "https://evil", "http://localhost:3000",
     "http://127.0.0.1:8081", "http://127.0.0.1", "file://", "ftp://localhost:8080", "localhost:8080", "chrome-extension://x"],
)  # fmt: skip
def test_any_other_origin_is_refused(gate: Gate, origin: str) -> None:
    assert refused(gate, scope(host="localhost:8080", origin=origin)) == (403, "origin_not_allowed")


def test_null_is_no_origin_to_trust_unless_it_is_listed() -> None:
    plain = Gate(Settings.from_mapping({}))
    assert refused(plain, scope(host="localhost", origin="null")) == (403, "origin_not_allowed")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_embeds_without_cors_is_refused(gate: Gate, site: str) -> None:
    embedded = scope(host="localhost", sec_fetch_site=site, sec_fetch_mode="no-cors")
    assert refused(gate, embedded) == (403, "origin_not_allowed")
    posted = scope(host="localhost", method="POST", sec_fetch_site=site, sec_fetch_mode="navigate")
    assert refused(gate, posted) == (403, "origin_not_allowed")


def test_a_link_to_the_server_may_be_followed(gate: Gate) -> None:
    assert refused(gate, scope(host="localhost", sec_fetch_site="cross-site", sec_fetch_mode="navigate")) is None
    assert refused(gate, scope(host="localhost", sec_fetch_site="none", sec_fetch_mode="navigate")) is None
    assert refused(gate, scope(host="localhost", sec_fetch_site="same-origin")) is None


def test_webhooks_come_from_anywhere_but_to_a_host_of_ours(gate: Gate) -> None:
    assert gate.admit(scope("/v1/receive/x", host="localhost", origin="https://evil", sec_fetch_site="cross-site")) == b""
    assert refused(gate, scope("/v1/receive/x", host="evil.example")) == (421, "host_not_allowed")


def test_settings_that_change_hold_at_once() -> None:
    settings = Settings.from_mapping({})
    gate = Gate(settings)
    assert refused(gate, scope(host="new.example")) == (421, "host_not_allowed")
    settings.set_dynamic({"headrace.http.hosts": "new.example"}, {})
    assert refused(gate, scope(host="new.example")) is None
    settings.set_dynamic({}, {})
    assert refused(gate, scope(host="new.example")) == (421, "host_not_allowed")


def test_what_is_remembered_of_hosts_has_a_bound(gate: Gate) -> None:
    for port in range(2 * MAX_REMEMBERED):
        assert refused(gate, scope(host=f"localhost:{port + 1}")) is None
    assert len(gate._visitors._good) == MAX_REMEMBERED


def test_a_preflight_is_told_what_it_asked_for() -> None:
    asked = scope(
        method="OPTIONS", access_control_request_method="PUT", access_control_request_headers="authorization, x-a",
        access_control_request_private_network="true",
    )  # fmt: skip
    assert is_preflight(asked)
    assert not is_preflight(scope(method="OPTIONS"))
    assert dict(preflight_headers(asked["headers"])) == {
        b"access-control-allow-methods": b"GET, HEAD, POST, PUT, PATCH, DELETE",
        b"access-control-max-age": b"600",
        b"access-control-allow-headers": b"authorization, x-a",
        b"access-control-allow-private-network": b"true",
    }
