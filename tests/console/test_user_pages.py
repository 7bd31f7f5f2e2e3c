"""Users in a real browser: made, given permissions, changed and deleted; their passwords and hashes are in no page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.opened import CHROMIUM, a_page, with_console
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer, wait_until

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(180),
]

PASSWORD, LATER = "correct horse battery", "another one entirely"
GUEST = "guest:guest"


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with with_console() as started:
        yield started


def dialog(page: Any) -> Any:
    return page.locator(".q-dialog:visible .q-card")


def logs_in(v1: V1, user: str, password: str) -> bool:
    return v1.ask("GET", "/api/whoami", user=f"{user}:{password}").status == 200


def test_a_user_is_made_allowed_changed_and_deleted(browser: Any, server: HeadraceServer) -> None:
    v1 = V1(server)
    with a_page(browser, server) as page:
        received: list[str] = []
        page.on("websocket", lambda socket: socket.on("framereceived", lambda text: received.append(str(text))))
        page.goto("/users")
        page.get_by_role("button", name="New user").click()
        dialog(page).get_by_label("Name").fill("ann/of the <b>shop</b>")
        dialog(page).get_by_label("Password").fill(PASSWORD)
        dialog(page).get_by_label("Tags").click()
        page.get_by_role("option", name="monitoring").click()
        page.keyboard.press("Escape")
        dialog(page).get_by_role("button", name="Create").click()
        page.get_by_role("heading", name="ann/of the <b>shop</b>").wait_for()
        page.get_by_text("monitoring · has a password").wait_for()
        page.get_by_text("None: it may connect to no virtual host").wait_for()
        path = "/api/users/ann%2Fof%20the%20%3Cb%3Eshop%3C%2Fb%3E"
        name = "ann/of the <b>shop</b>"
        assert logs_in(v1, name, PASSWORD)

        page.get_by_role("button", name="Permissions").click()
        dialog(page).get_by_label("Write").fill("^orders$")
        dialog(page).get_by_label("Configure").fill("")
        dialog(page).get_by_role("button", name="Give").click()
        page.get_by_role("cell", name="^orders$").wait_for()
        [allowed] = v1.ask("GET", f"{path}/permissions", user=GUEST).body
        assert (allowed["configure"], allowed["write"], allowed["read"]) == ("", "^orders$", ".*")

        page.get_by_role("button", name="Tags", exact=True).click()
        dialog(page).get_by_label("Tags").click()
        page.get_by_role("option", name="policymaker").click()
        page.keyboard.press("Escape")
        dialog(page).get_by_role("button", name="Change").click()
        page.get_by_text("policymaker · has a password").wait_for()
        assert logs_in(v1, name, PASSWORD)  # the password is as it was

        page.get_by_role("button", name="Password", exact=True).click()
        dialog(page).get_by_label("Password").fill(LATER)
        dialog(page).get_by_role("button", name="Change").click()
        page.get_by_text("The password is changed").wait_for()
        assert (logs_in(v1, name, PASSWORD), logs_in(v1, name, LATER)) == (False, True)
        kept = v1.ask("GET", path, user=GUEST).body
        assert len(v1.ask("GET", f"{path}/permissions", user=GUEST).body) == 1

        page.get_by_role("button", name="Delete").click()
        dialog(page).get_by_label("Type the name to confirm").fill(name)
        dialog(page).get_by_role("button", name="Delete").click()
        page.wait_for_url("**/users")
        page.get_by_role("link", name="guest").wait_for()
        assert v1.ask("GET", path, user=GUEST).status == 404
        shown = "".join(received) + page.content()
        assert not any(secret in shown for secret in (PASSWORD, LATER, kept["password_hash"]))


def test_who_is_no_administrator_is_told_so(browser: Any, server: HeadraceServer) -> None:
    v1 = V1(server)
    assert v1.ask("PUT", "/api/users/bob", {"password": PASSWORD, "tags": "management"}, user=GUEST).status in (201, 204)
    with a_page(browser, server) as page:
        page.goto("/login?to=%2Fusers")
        page.get_by_label("User").fill("bob")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_label("Password").press("Enter")
        page.get_by_text("only a user with the tag administrator sees users").wait_for()
        page.goto("/users/guest")
        page.get_by_text("only a user with the tag administrator sees users").wait_for()
        page.get_by_role("button", name="bob").click()
        page.get_by_text("Log out").click()
    wait_until(lambda: v1.ask("DELETE", "/api/users/bob", user=GUEST).status == 204, what="bob to go")
