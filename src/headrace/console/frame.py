"""What is around every page: a bar with search, dark mode and who is logged in, the navigation, and what is shown when the
server refuses or does not answer.

A page is a `Page`: a path, a title and a function that builds it from a `View`. It is built when somebody opens it; what it
polls (`View.every`) ends when the page is closed. Whatever it raises is shown in its place, never as a blank page.

Keys: `/` or Ctrl-K goes to the search, `g` and then the first letter of a page goes there.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from nicegui import app, background_tasks, ui
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headrace.console.access import Access, Server, ServerError, part
from headrace.console.parts.states import show_error
from headrace.console.sessions import Sessions

logger = logging.getLogger("headrace.console")

Build = Callable[["View"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Page:
    path: str  # "/topics/{topic}"
    title: str
    build: Build
    icon: str = ""  # of the navigation; without one it is not in there
    group: str = ""  # of the navigation


@dataclass(slots=True)
class Console:
    """What all pages share."""

    server: Server
    sessions: Sessions
    pages: Sequence[Page] = ()
    dark: dict[str, bool] | None = None  # by browser; the others follow their system


class View:
    """One page in one browser."""

    def __init__(self, console: Console, access: Access, request: Request, page: Page) -> None:
        self.console = console
        self.access = access
        self.page = page
        self.params = {name: str(value) for name, value in request.path_params.items()}
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        self.parts = tuple(
            unquote(each) for each in raw.partition(b"?")[0].decode("latin-1").split("/")[1:]
        )  # may have slashes
        self.query = dict(request.query_params)
        self._client = ui.context.client

    @property
    def read_only(self) -> bool:
        return self.access.read_only

    def every(self, seconds: float, refresh: Callable[[], Awaitable[None]]) -> ui.timer:
        """Calls `refresh` now and then every so many seconds (at least 1), one at a time, while the page is open. A server that
        refuses or does not answer is told about once, until it answers again."""
        told = False

        async def tick() -> None:
            nonlocal told
            try:
                await refresh()
                told = False
            except ServerError as error:
                if not told:
                    told = True
                    ui.notify(str(error), type="negative", position="bottom-left")

        return ui.timer(max(1.0, seconds), tick, immediate=True)

    async def change(self, work: Awaitable[Any], done: str = "") -> bool:
        """Does something that changes the server, and tells what came of it. Whether it was done."""
        try:
            await work
        except ServerError as error:
            ui.notify(str(error), type="negative", multi_line=True, close_button="OK", timeout=0)
            return False
        if done:
            ui.notify(done, type="positive")
        return True

    def two_names(self) -> tuple[str, str]:
        """Those behind the first word of the address: a virtual host and something in it. Raises ServerError."""
        if len(self.parts) != 3 or not all(self.parts):
            raise ServerError(404, "there is no such page: its address names a virtual host and something in it")
        return self.parts[1], self.parts[2]

    def go(self, path: str) -> None:
        ui.navigate.to(path)

    def remember(self, **query: object) -> None:
        """Puts what is shown into the address, so that it can be shared. None or "" takes a name out."""
        for name, value in query.items():
            if value is None or value == "":
                self.query.pop(name, None)
            else:
                self.query[name] = str(value)
        text = "&".join(f"{quote(name)}={quote(value, safe='')}" for name, value in self.query.items())
        self._client.run_javascript(f"history.replaceState(null, '', location.pathname + {('?' + text if text else '')!r})")

    def title(self, text: str, *, back: str = "") -> None:
        """The heading of the page, with a way back."""
        with ui.row().classes("items-center gap-2 w-full"):
            if back:
                ui.button(icon="arrow_back", on_click=lambda: self.go(back)).props("flat round dense").tooltip("Back").props(
                    'aria-label="Back"'
                )
            ui.label(text).classes("text-2xl font-medium break-all").props('role="heading" aria-level="1"')
        ui.page_title(f"{text} · Headrace")


def register(console: Console) -> None:
    """Makes all pages known to NiceGUI."""
    for page in console.pages:
        _register(console, page)
    ui.page("/login", title="Log in · Headrace")(_login_page(console))


def _register(console: Console, page: Page) -> None:
    async def show(request: Request) -> Response | None:
        browser = str(app.storage.browser["id"])
        access = await console.sessions.access(browser)
        if access is None:
            return RedirectResponse(f"/login?to={quote(request.url.path, safe='')}")
        view = View(console, access, request, page)
        with _frame(console, view, browser):
            try:
                await page.build(view)
            except ServerError as error:
                show_error(error)
            except Exception as error:
                logger.exception("the page %s failed", page.path)
                show_error(error)
        return None

    ui.page(page.path, title=f"{page.title} · Headrace", response_timeout=30)(show)


def _frame(console: Console, view: View, browser: str) -> ui.column:
    dark = ui.dark_mode((console.dark or {}).get(browser))
    ui.colors(primary="#0b6e99", accent="#d9730d")
    with ui.header().classes("items-center gap-2 px-3 py-1").props("elevated"):
        menu = ui.button(icon="menu").props('flat round dense color=white aria-label="Navigation"')
        ui.link("Headrace", "/").classes("text-white text-lg font-medium no-underline")
        if view.read_only:
            ui.badge("read-only", color="orange")
        ui.space()
        search = (
            ui.input(placeholder="Find a topic, queue, group, stream …")
            .props('dense dark standout rounded clearable aria-label="Find" input-class="headrace-search"')
            .classes("w-40 sm:w-80")
        )
        search.on("keydown.enter", lambda: view.go(f"/find?q={quote(search.value or '', safe='')}"))
        ui.button(icon="dark_mode", on_click=lambda: _toggle(console, browser, dark)).props(
            'flat round dense color=white aria-label="Dark or light"'
        )
        user = view.access.credentials.user
        if console.sessions.logged_in(browser):
            with ui.button(user, icon="person").props("flat dense no-caps color=white"), ui.menu():
                ui.menu_item("Log out", lambda: _log_out(console, browser))
    drawer = ui.left_drawer(value=False, bordered=True).props("show-if-above width=210 breakpoint=900").classes("p-2 gap-0")
    with drawer:
        menu.on_click(drawer.toggle)
        group = ""
        for page in console.pages:
            if not page.icon:
                continue
            if page.group != group:
                group = page.group
                ui.label(group).classes("text-xs opacity-60 mt-3 ml-2")
            here = view.page.path == page.path or (page.path != "/" and view.page.path.startswith(page.path + "/"))
            with (
                ui.link(target=page.path).classes("w-full no-underline text-inherit"),
                ui.row().classes(
                    "items-center gap-3 px-2 py-1 rounded w-full "
                    + ("bg-primary text-white" if here else "hover:bg-gray-500/20")
                ),
            ):
                ui.icon(page.icon).classes("text-lg")
                ui.label(page.title)
    ui.add_head_html(_KEYS)
    return ui.column().classes("w-full max-w-screen-2xl mx-auto gap-4 p-2 sm:p-4")


def _toggle(console: Console, browser: str, dark: ui.dark_mode) -> None:
    dark.value = not dark.value
    if console.dark is not None:
        if len(console.dark) >= 1000:
            console.dark.clear()
        console.dark[browser] = bool(dark.value)


def _log_out(console: Console, browser: str) -> None:
    console.sessions.log_out(browser)
    ui.navigate.to("/login")


def _login_page(console: Console) -> Callable[[Request], Awaitable[None]]:
    async def login(request: Request) -> None:
        browser = str(app.storage.browser["id"])
        to = request.query_params.get("to", "/")
        to = to if to.startswith("/") and not to.startswith("//") else "/"
        ui.dark_mode((console.dark or {}).get(browser))

        async def try_it() -> None:
            try:
                await console.sessions.log_in(browser, user.value or "", password.value or "")
            except ServerError as error:
                ui.notify("Wrong name or password" if error.status in (401, 403) else str(error), type="negative")
                return
            ui.navigate.to(to)

        with ui.card().classes("absolute-center w-80 gap-3"):
            ui.label("Log in to Headrace").classes("text-xl").props('role="heading" aria-level="1"')
            ui.label(console.server.url).classes("text-xs opacity-60 break-all")
            user = ui.input("User").classes("w-full").props("autofocus")
            password = ui.input("Password", password=True).classes("w-full").on("keydown.enter", try_it)
            ui.button("Log in", on_click=try_it).classes("w-full")

    return login


def later(work: Awaitable[Any]) -> None:
    """Work that the page does not wait for."""
    background_tasks.create(work)


def link_to(kind: str, name: str) -> str:
    """The page of something."""
    return f"/{kind}/{part(name)}"


_KEYS = """
<script>
if (!window.headraceKeys) {
  window.headraceKeys = true;
  let before = "";
  const pages = {
    o: "/", t: "/topics", g: "/groups", q: "/queues", r: "/routes", s: "/streams", p: "/pipelines", c: "/connections"
  };
  document.addEventListener("keydown", event => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
    if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
      event.preventDefault();
      document.querySelector(".headrace-search")?.focus();
    } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      if (before === "g" && pages[event.key]) location.assign(pages[event.key]);
      before = event.key;
    }
  });
}
</script>
"""
