"""Who may speak to the console."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_change_asked_for_by_a_foreign_page_is_refused(method: str) -> None:
    assert GATE.refusal(scope(method=method, host=HERE, origin=f"http://{HERE}")) is None
    assert "Origin" in (GATE.refusal(scope(method=method, host=HERE, origin="http://evil.example")) or "")


def test_a_foreign_page_may_link_here_and_not_load_anything_from_here() -> None:
    assert GATE.refusal(scope(host=HERE, sec_fetch_site="cross-site", sec_fetch_mode="navigate")) is None
    assert GATE.refusal(scope(host=HERE, sec_fetch_site="cross-site", sec_fetch_mode="no-cors")) is not None
