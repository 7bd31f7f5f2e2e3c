"""A person with the console open: `python -m bench.console_browser URL [PATH …]` opens the overview and these pages in headless
Chromium, prints a JSON object with how long pages took to show something, and keeps them open until its standard input ends.

A time is from the request for the address to the moment that the page shows what it is about: of the first page with an empty
cache, of the others in the same browser. It runs at the lowest priority, for the browser would be on another machine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
DEADLINE_MS = 60_000
HEADING = "[role=heading][aria-level='1']"
LATER = ("/topics", "/groups", "/queues", "/routes")


def took_s(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def show(page: Any, path: str, what: str) -> float:
    def work() -> None:
        page.goto(path)
        page.wait_for_selector(what)

    return took_s(work)


def main(url: str, paths: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    os.nice(19)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 800})
        context.set_default_timeout(DEADLINE_MS)
        overview, other = context.new_page(), context.new_page()
        first = show(overview, "/", "text=Takes writes")
        later = sorted(show(other, path, HEADING) for path in LATER)
        other.close()
        for path in paths:
            show(context.new_page(), path, HEADING)
        print(json.dumps({"first_s": first, "later_s": later[len(later) // 2]}), flush=True)
        while sys.stdin.readline():
            pass
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
