"""A server with its console, and a browser in front of it: for the tests of pages."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace.testing import HeadraceServer

CHROMIUM = Path("/usr/bin/chromium")
WIDTH, HEIGHT = 1280, 900


@contextmanager
def with_console(*arguments: str, **settings: object) -> Iterator[HeadraceServer]:
    """Its address is `listeners["console"]`."""
    words = ("--console", "127.0.0.1:0", *arguments)
    with HeadraceServer(arguments=words, settings=settings, environment={"HEADRACE_CONSOLE": "on"}) as server:
        yield server


@contextmanager
def attached(server: HeadraceServer, *arguments: str) -> Iterator[Any]:
    """A console that was not started by the server, as `headrace console` does: it stays when the server goes. For `a_page`."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.set_inheritable(True)
    address = "http://{}:{}".format(*listening.getsockname())
    words = ["--server", server.http, "--fd", str(listening.fileno()), *arguments]
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.console.process", *words], pass_fds=[listening.fileno()], stderr=subprocess.DEVNULL
    )
    try:
        yield SimpleNamespace(listeners={"console": address})
    finally:
        process.terminate()
        process.wait(20)
        listening.close()


@contextmanager
def a_browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextmanager
def a_page(browser: Any, server: HeadraceServer, width: int = WIDTH) -> Iterator[Any]:
    """Nothing of what the browser complains about may be left at the end, nor any request to elsewhere. Pages of one width
    share a context, and so what the browser has cached."""
    console = server.listeners["console"]
    for context in browser.contexts:
        if getattr(context, "headrace", None) == (console, width):
            break
    else:
        context = browser.new_context(base_url=console, viewport={"width": width, "height": HEIGHT})
        context.headrace = (console, width)
    page = context.new_page()
    page.set_default_timeout(30_000)
    problems: list[str] = []
    elsewhere: list[str] = []
    ours = (console, console.replace("http", "ws", 1), "data:", "blob:")
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: (problems.append(f"a script ran: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: None if request.url.startswith(ours) else elsewhere.append(request.url))
    heard: deque[str] = deque(maxlen=20)
    page.on("console", lambda message: heard.append(message.text))
    go = page.goto

    def goto(path: str, *, connected: bool = True) -> Any:
        """To where somebody can act: what they do before the page is connected waits, and not in order."""
        answer = go(path)
        if connected:
            page.wait_for_function("window.did_handshake !== false")
        return answer

    page.goto = goto
    try:
        yield page
    except Exception as error:
        error.add_note(f"The page was {page.url}, said {list(heard)}, and showed:\n{page.inner_text('body')[:4000]}")
        raise
    page.close(run_before_unload=True)  # without waiting for it: now and then the browser never says that it is done
    assert problems == []
    assert elsewhere == []


def wait_for_address(page: Any, part: str) -> None:
    """The address follows what the page shows: the browser is told of both, one after the other."""
    page.wait_for_url(lambda url: part in url)
