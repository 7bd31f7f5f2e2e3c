"""Every page of the console, with what the busy server has behind it: lists, one of each kind, tabs, and what is not there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.console.busy import DEAD, EXCHANGE, FEED, GROUP, QUEUE, STREAM, TOPIC, WEBHOOK

HEADING = "[role=heading][aria-level='1']"
LISTS = (
    "/",
    "/topics",
    "/groups",
    "/queues",
    "/exchanges",
    "/graph",
    "/dead-letters",
    "/streams",
    "/routes",
    "/pipelines",
    "/connections",
    "/storage",
    "/settings",
    "/users",
    "/health",
    "/audit",
)
BEHIND = (
    f"/topics/{TOPIC}",
    f"/groups/{GROUP}",
    f"/queues/%2F/{QUEUE}",
    f"/queues/%2F/{DEAD}",
    f"/exchanges/%2F/{EXCHANGE}",
    f"/dead-letters/%2F/{DEAD}",
    f"/streams/{STREAM}",
    f"/routes/{WEBHOOK}",
    f"/routes/{FEED}",
    f"/storage/{TOPIC}",
    "/users/guest",
)
TABS = (
    f"/topics/{TOPIC}?tab=messages",
    f"/topics/{TOPIC}?tab=live",
    f"/topics/{TOPIC}?tab=produce",
    f"/topics/{TOPIC}?tab=consumers",
    f"/topics/{TOPIC}?tab=settings",
    f"/topics/{TOPIC}?tab=messages&record=0:0",
    f"/routes/{WEBHOOK}?tab=attempts",
    f"/routes/{WEBHOOK}?tab=definition",
    f"/routes/{WEBHOOK}?tab=trial",
    f"/routes/{WEBHOOK}?tab=secrets",
    f"/streams/{STREAM}?tab=records",
    f"/streams/{STREAM}?tab=consumers",
    "/find?q=demo",
)
WRONG = ("/topics/not-there", "/queues/%2F/not-there", "/find?q=not-there")
LOADED_MS = 10_000
STILL = "*, ::before, ::after { transition: none !important; animation: none !important; }"  # nothing is halfway
# What is polled has come: no figure is still a placeholder, and nothing has been put into the page for a moment.
_FILLED = "() => [...document.querySelectorAll('.headrace-figure')].every(each => each.textContent !== '…')"
_SETTLED = """() => new Promise(done => {
    const end = () => { watch.disconnect(); done(true); };
    const watch = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(end, 250); });
    watch.observe(document.body, {childList: true, subtree: true});
    let timer = setTimeout(end, 250);
    setTimeout(end, 2000);
})"""


def opened(page: Any, path: str) -> None:
    """Its heading and what it asked for are there."""
    answer = page.goto(path)
    assert answer is None or answer.status == 200, path  # None: the page before put something into its address meanwhile
    page.wait_for_selector(HEADING)
    page.wait_for_function(_FILLED, timeout=LOADED_MS)
    page.evaluate(_SETTLED)


def picture_name(path: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", path.lower().replace("%2f", "")).strip("-") or "overview"


def picture_folder(factory: pytest.TempPathFactory) -> Path:
    """Where pictures are kept: the folder that HEADRACE_SCREENSHOTS names, or one that is thrown away."""
    folder = Path(os.environ.get("HEADRACE_SCREENSHOTS") or factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
