"""examples/direct/sse_page.py does what it says, in a real browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.testing import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "direct" / "sse_page.py"
CHROMIUM = Path("/usr/bin/chromium")

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(150),
]


@pytest.fixture
def page_url() -> Iterator[str]:
    command = [sys.executable, EXAMPLE, "--port", "0", "--every", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as example:
        try:
            assert example.stdout is not None
            found = re.search(r"open (http://127\.0\.0\.1:\d+/)", example.stdout.readline())
            assert found is not None
            yield found[1]
        finally:
            example.send_signal(signal.SIGINT)
            assert example.wait(60) == 0


def numbers(page: Any) -> list[int]:
    """Of the measurements on the page, the first one first."""
    found: list[int] = page.evaluate("[...document.querySelectorAll('#events li')].map(item => item.value)")
    return found[::-1]


def opened(context: Any, url: str) -> list[int]:
    """The page until it shows some measurements; it is closed then."""
    page = context.new_page()
    page.goto(url)
    wait_until(lambda: len(numbers(page)) >= 3, timeout_s=60, what="three measurements on the page")
    page.evaluate("source.close()")
    found = numbers(page)
    assert re.fullmatch(r"cellar: \d+(\.\d+)? °C", page.inner_text("#events li >> nth=0"))
    page.close()
    assert found == list(range(found[0], found[0] + len(found)))
    return found


def test_a_page_that_remembers_goes_on_where_it_was_and_one_that_does_not_begins_anew(page_url: str) -> None:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context()
        first = opened(context, page_url)
        forgetful = opened(context, f"{page_url}?forget")
        assert forgetful[0] > first[-1]
        again = opened(context, page_url)
        assert again[0] == first[-1] + 1
        browser.close()
