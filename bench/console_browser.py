"""Somebody who opens pages of the console: `python -m bench.console_browser URL VISITS PATH=>SHOWN …`, in headless Chromium.

It opens the overview with an empty cache, so many times, each time in a browser context of its own, and after the last of them
each of the other pages, as often. A time is from the request for the address to the first frame in which the page shows
what it is about: `SHOWN` is a selector, with a text behind `:::` if what it selects must have one, and that is on the screen.
The clock is the page's own (`performance.now()`, whose zero is the beginning of the navigation), so nothing of what drives the
browser is in it.

It prints a JSON object: `first_s`, a list, and `later_s`, by path.
"""

from __future__ import annotations

import json
import sys
from statistics import median
from typing import Any

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
DEADLINE_MS = 30_000
OVERVIEW = "#app *:::Takes writes"
_SHOWN = """
([selector, text]) => {
  for (const found of document.querySelectorAll(selector)) {
    if (found.getClientRects().length && (!text || found.textContent.includes(text))) return performance.now() / 1000;
  }
  return false;
}
"""


def shown_after_s(page: Any, path: str, what: str) -> float:
    """`what` is a selector, with a text behind `:::` that what it selects must have."""
    selector, _, text = what.partition(":::")
    page.goto(path, wait_until="commit")
    return float(page.wait_for_function(_SHOWN, arg=[selector, text], polling="raf").json_value())


def main(url: str, visits: int, others: dict[str, str]) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        first = []
        for turn in range(visits):
            context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 800})
            context.set_default_timeout(DEADLINE_MS)
            page = context.new_page()
            first.append(shown_after_s(page, "/", OVERVIEW))
            if turn < visits - 1:
                context.close()
        later = {path: median(shown_after_s(page, path, what) for _ in range(visits)) for path, what in others.items()}
        browser.close()
    print(json.dumps({"first_s": first, "later_s": later}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), dict(each.split("=>", 1) for each in sys.argv[3:]))
