"""Who may speak to the console."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from tests.console.opened import attached

from headrace.console.security import Gate


async def nothing(scope, receive, send) -> None:
    raise AssertionError("not reached")


GATE = Gate(nothing, names=["console.example"])
HERE = "127.0.0.1:8090"


def scope(kind: str = "http", method: str = "GET", **headers: str) -> dict:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": kind, "method": method, "headers": pairs}


@pytest.mark.parametrize("host", [HERE, "localhost:8090", "[::1]:8090", "192.0.2.7", "console.example", "Console.Example:8090"])
def test_addresses_localhost_and_given_names_are_ours(host: str) -> None:
    assert GATE.refusal(scope(host=host)) is None


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8090", "a b", "[::1"])
def test_any_other_name_is_refused(host: str) -> None:
    assert "Host" in (GATE.refusal(scope(host=host)) or "")


def test_a_request_without_a_host_is_refused() -> None:
    assert "Host" in (GATE.refusal(scope()) or "")


def test_a_websocket_is_taken_from_our_own_pages_alone() -> None:
    assert GATE.refusal(scope("websocket", host=HERE, origin=f"http://{HERE}")) is None
    assert "Origin" in (GATE.refusal(scope("websocket", host=HERE)) or "")
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1:8091",
        f"http://{HERE}.evil.example",
        "http://localhost:8090",
    ):
        assert "Origin" in (GATE.refusal(scope("websocket", host=HERE, origin=origin)) or ""), origin


def test_a_body_that_is_too_large_or_has_no_length_is_refused() -> None:
    for length in ("4194304", "0"):
        assert GATE.refusal(scope(method="POST", host=HERE, content_length=length)) is None
    for length in ("4194305", "9" * 30, "-1"):
        assert "a body of more than 4,194,304" in (GATE.refusal(scope(method="POST", host=HERE, content_length=length)) or "")
    assert "a body" in (GATE.refusal(scope(method="POST", host=HERE, transfer_encoding="chunked")) or "")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"])
def test_whatever_a_foreign_page_asks_for_is_refused(method: str) -> None:
    assert GATE.refusal(scope(method=method, host=HERE)) is None
    assert GATE.refusal(scope(method=method, host=HERE, origin=f"http://{HERE}")) is None
    for origin in ("http://evil.example", "null", "http://127.0.0.1:8091"):
        assert "Origin" in (GATE.refusal(scope(method=method, host=HERE, origin=origin)) or "")


def test_a_foreign_page_may_link_here_and_not_load_anything_from_here() -> None:
    assert GATE.refusal(scope(host=HERE, sec_fetch_site="cross-site", sec_fetch_mode="navigate")) is None
    assert GATE.refusal(scope(host=HERE, sec_fetch_site="cross-site", sec_fetch_mode="no-cors")) is not None


SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a console in a process of its own. Its server is not there, which does not matter to those who are not let in."""
    pytest.importorskip("nicegui", reason="NiceGUI is not installed")
    with attached(SimpleNamespace(http="http://127.0.0.1:9")) as console:
        yield urlsplit(console.listeners["console"]).netloc


def asked(address: str, method: str, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    connection.close()
    return answer


def test_the_console_opens_its_websocket_to_its_own_pages_and_to_no_others(address: str) -> None:
    assert asked(address, "GET", SOCKET, **UPGRADE, Origin=f"http://{address}").status == 101
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        assert asked(address, "GET", SOCKET, **UPGRADE, Origin=origin).status == 403, origin
    assert asked(address, "GET", SOCKET, **UPGRADE).status == 403


def test_the_console_refuses_requests_that_were_forged_by_another_site(address: str) -> None:
    polling = SOCKET.replace("websocket", "polling")
    assert asked(address, "POST", polling, Origin="http://evil.example").status == 403
    assert asked(address, "GET", polling, Origin="http://evil.example").status == 403
    assert asked(address, "GET", "/", Host="evil.example").status == 403
    assert asked(address, "GET", "/topics", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}).status == 403


def test_no_other_site_may_frame_a_page_or_read_it_and_a_page_loads_nothing_from_elsewhere(address: str) -> None:
    answer = asked(address, "GET", "/login")
    assert answer.status == 200
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["frame-ancestors"], policy["base-uri"]) == ("'self'", "'none'", "'self'")
    assert not any("http:" in each or "https:" in each or "*" in each for each in policy.values())
