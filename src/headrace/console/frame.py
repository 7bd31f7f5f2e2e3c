"""What is around every page: a bar with search, dark mode and who is logged in, the navigation, and what is shown when the
server refuses or does not answer.

A page is a `Page`: a path, a title and a function that builds it from a `View`. It is built when somebody opens it; what it
polls (`View.every`, `polling`) ends when the page is closed. Whatever it raises is shown in its place, never as a blank page.
While what is polled is refused, gone, or nobody answers, a line above the page says so; it goes away by itself. Whoever is not
let in any more comes to the login, and from there back.

How it looks is in `look`, the keys are in `keys`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from nicegui import app, background_tasks, events, ui
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headrace.console import keys, look
from headrace.console.access import NOBODY, Access, Server, ServerError, part
from headrace.console.parts.asking import complain
from headrace.console.parts.states import show_error
from headrace.console.polling import Polls
from headrace.console.sessions import Sessions

logger = logging.getLogger("headrace.console")

Build = Callable[["View"], Awaitable[None]]
Show = Callable[[Request], Awaitable[Response | None]]


@dataclass(frozen=True, slots=True)
class Page:
    path: str  # "/topics/{topic}"
    title: str
    build: Build
    icon: str = ""  # of the navigation; without one it is not in there
    group: str = ""  # of the navigation
    home: str = ""  # the page of the navigation that it belongs to, if its address does not say so


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
        self.titled = False
        self._client = ui.context.client
        self.polls = Polls(lambda: self._client.has_socket_connection)
        self._trouble: Trouble | None = None

    @property
    def read_only(self) -> bool:
        return self.access.read_only

    def every(self, seconds: float, refresh: Callable[[], Awaitable[None]]) -> ui.timer:
        """Calls `refresh` now and then every so many seconds (at least 1), one at a time, while the page is open and seen. A
        server that refuses or does not answer is told about above the page, until it answers again."""

        async def tick() -> None:
            error: ServerError | None = None
            try:
                await refresh()
            except ServerError as raised:
                error = raised
            if error is not None and error.status == 401:
                self.go(login_path(self.parts, self.query))
            elif self._trouble is not None:
                self._trouble.tell(timer, error)

        timer = self.polls.every(seconds, tick)
        return timer

    async def answers(self) -> bool:
        """Whether the server is there."""
        try:
            await self.access.raw("/healthz")
        except ServerError as error:
            return error.status != 0
        return True

    @property
    def back(self) -> str:
        """The list that this page stands behind, or ""."""
        home = self.page.home or "/" + self.page.path.split("/")[1]
        return home if home != self.page.path else ""

    async def change(self, work: Awaitable[Any], done: str = "") -> bool:
        """Does something that changes the server, and tells what came of it. Whether it was done."""
        complain("")
        try:
            await work
        except ServerError as error:
            complain(str(error))
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
        with self._client:  # whoever asked may be a dialog that is gone by now
            ui.navigate.to(path)

    def remember(self, **query: object) -> None:
        """Puts what is shown into the address, so that it can be shared. None or "" takes a name out."""
        before = dict(self.query)
        for name, value in query.items():
            if value is None or value == "":
                self.query.pop(name, None)
            else:
                self.query[name] = str(value)
        if self.query == before:
            return
        text = "&".join(f"{quote(name)}={quote(value, safe='')}" for name, value in self.query.items())
        self._client.run_javascript(f"history.replaceState(null, '', location.pathname + {('?' + text if text else '')!r})")

    def title(self, text: str, *, back: str = "") -> None:
        """The heading of the page, with a way back; below it, if need be, what the trouble is."""
        self.titled = True
        with ui.row().classes("items-center gap-2 w-full flex-nowrap"):
            if back:
                ui.button(icon="arrow_back", on_click=lambda: self.go(back)).props("flat round dense").tooltip("Back").props(
                    'aria-label="Back"'
                )
            ui.label(text).classes("text-2xl font-medium break-all").props('role="heading" aria-level="1"')
        ui.page_title(f"{text} · Headrace")
        self._trouble = Trouble()


class Trouble:
    """A line above a page, while something that it polls is not to be had."""

    def __init__(self) -> None:
        self._errors: dict[ui.timer, ServerError] = {}
        with ui.row().classes("w-full items-center gap-3 headrace-banner flex-nowrap").props('role="status"') as self._line:
            self._icon = ui.icon("cloud_off").classes("text-xl")
            with ui.column().classes("gap-0 min-w-0"):
                self._title = ui.label("").classes("font-medium")
                self._detail = ui.label("").classes("text-sm break-all")
        self._line.visible = False

    def tell(self, timer: ui.timer, error: ServerError | None) -> None:
        """What came of polling. What is polled no more, as its tab was left, has no say."""
        self._errors = {other: each for other, each in self._errors.items() if other is not timer and not other.is_deleted}
        if error is not None:
            self._errors[timer] = error
        worst = min(self._errors.values(), key=lambda each: each.status, default=None)
        self._line.visible = worst is not None
        if worst is None:
            return
        icon, title = {
            0: ("cloud_off", "The server does not answer. This page goes on by itself when it is back."),
            403: ("lock", "You may not see this any more"),
            404: ("search_off", "It is not there any more"),
        }.get(worst.status, ("error_outline", "The server has refused this"))
        self._icon.props(f"name={icon}")
        self._title.text, self._detail.text = title, str(worst)


def login_path(parts: Sequence[str], query: Mapping[str, str]) -> str:
    """The login that leads back to where somebody was."""
    path = "/" + "/".join(quote(each, safe="") for each in parts)
    asked = "&".join(f"{quote(name)}={quote(value, safe='')}" for name, value in query.items())
    return f"/login?to={quote(path + ('?' + asked if asked else ''), safe='')}"


def register(console: Console) -> None:
    """Makes all pages known to NiceGUI."""
    for page in console.pages:
        ui.page(page.path, title=f"{page.title} · Headrace", response_timeout=30)(_shown(console, page))
    ui.page("/login", title="Log in · Headrace")(_login_page(console))


def no_page(console: Console) -> Show:
    """What is shown at an address that leads nowhere: with the navigation, as every page."""

    async def build(view: View) -> None:
        view.title("There is no such page")
        ui.label(f"Nothing is at /{'/'.join(view.parts)}.").classes("break-all")
        ui.label("The navigation leads to all pages, and the search finds what has a name.").classes("headrace-soft")
        ui.link("To the overview", "/")

    return _shown(console, Page("", "There is no such page", build))


def _shown(console: Console, page: Page) -> Show:
    async def show(request: Request) -> Response | None:
        browser = str(app.storage.browser["id"])
        access = await console.sessions.access(browser)
        view = View(console, access or console.server.access(NOBODY), request, page)
        if access is None:
            return RedirectResponse(login_path(view.parts, view.query))
        ui.on_exception(_failed)
        with _frame(console, view, browser):
            try:
                await page.build(view)
                await view.polls.first()
            except ServerError as error:
                if error.status == 401:
                    console.sessions.log_out(browser)
                    return RedirectResponse(login_path(view.parts, view.query))
                _show_error(view, error)
            except Exception as error:
                logger.exception("the page %s failed", page.path)
                _show_error(view, error)
        return None

    return show


def _failed(error: Exception) -> None:
    """What somebody clicked has failed, and nothing else has said so."""
    complain(str(error) if isinstance(error, ServerError) else f"The console failed: {type(error).__name__}, see its log")


def _show_error(view: View, error: Exception) -> None:
    if not view.titled:
        view.title(view.parts[-1] if view.back else view.page.title, back=view.back)
    show_error(error, name=view.parts[-1] if view.back else "", back=view.back, there=view.answers)


def _frame(console: Console, view: View, browser: str) -> ui.column:
    dark = _look(console, browser)
    with ui.header().classes("items-center gap-2 px-3 py-1 flex-nowrap").props("elevated"):
        menu = ui.button(icon="menu").props('flat round dense color=white aria-label="Navigation"')
        with ui.link(target="/").classes("text-white text-lg font-medium no-underline flex items-center gap-1"):
            ui.icon("waves").classes("max-sm:hidden")
            ui.label("Headrace")
        if view.read_only:
            ui.badge("read-only", color="deep-orange-10")
        ui.space()
        search = (
            ui.input(placeholder="Find … ( / )")
            .props('dense dark standout rounded clearable aria-label="Find a topic, queue, group, stream or route"')
            .props('input-class="headrace-search" enterkeyhint=search')
            .classes("w-36 sm:w-80 shrink")
        )
        search.on("keydown.enter", lambda: view.go(f"/find?q={quote(search.value or '', safe='')}"))
        ui.button(icon="keyboard").props('flat round dense color=white aria-label="Keys"').classes("max-sm:hidden").tooltip(
            "Keys ( ? )"
        ).on("click", js_handler="() => headrace.help()")
        ui.button(icon="contrast").props('flat round dense color=white aria-label="Dark or light"').tooltip("Dark or light").on(
            "click", lambda event: _set_dark(console, browser, dark, event.args is not True), js_handler=_IS_DARK
        )
        user = view.access.credentials.user
        if console.sessions.logged_in(browser):
            with ui.button(user, icon="person").props("flat dense no-caps color=white"), ui.menu():
                ui.menu_item("Log out", lambda: _log_out(console, browser))
    drawer = ui.left_drawer(value=False, bordered=True).props("show-if-above width=210 breakpoint=900").classes("p-2 gap-0")
    with drawer:
        menu.on_click(drawer.toggle)
        _navigation(console, view.page)
    view.polls.watch()
    content = ui.column().classes("w-full max-w-screen-2xl mx-auto gap-4 p-2 sm:p-4")
    ui.skip_link("To the content", target=content)
    return content


def _look(console: Console, browser: str) -> ui.dark_mode:
    chosen = (console.dark or {}).get(browser)
    ui.add_head_html(look.css(chosen) + keys.SCRIPT)
    return ui.dark_mode(chosen)


def _navigation(console: Console, shown: Page) -> None:
    with ui.element("nav").classes("w-full").props('aria-label="Pages"'):
        group = ""
        for page in console.pages:
            if not page.icon:
                continue
            if page.group != group:
                group = page.group
                ui.label(group).classes("text-xs headrace-soft mt-3 ml-2 mb-1")
            here = page.path in (shown.path, shown.home) or (page.path != "/" and shown.path.startswith(page.path + "/"))
            link = ui.link(target=page.path).classes("headrace-nav w-full no-underline flex items-center gap-3 px-2 py-1")
            if here:
                link.props('aria-current="page"')
            with link:
                ui.icon(page.icon).classes("text-lg")
                ui.label(page.title)


_IS_DARK = "() => emit(document.body.classList.contains('body--dark'))"  # the system may have decided


def _set_dark(console: Console, browser: str, dark: ui.dark_mode, wanted: bool) -> None:
    dark.value = wanted
    if console.dark is not None:
        if len(console.dark) >= 1000:
            console.dark.clear()
        console.dark[browser] = wanted


def _log_out(console: Console, browser: str) -> None:
    console.sessions.log_out(browser)
    ui.navigate.to("/login")


# What is typed before the page is connected may arrive after what is pressed, so the one comes with the other.
_TYPED = "() => emit(...['username', 'current-password'].map(each => document.querySelector(`[autocomplete=${each}]`).value))"


def _login_page(console: Console) -> Callable[[Request], Awaitable[None]]:
    async def login(request: Request) -> None:
        browser = str(app.storage.browser["id"])
        to = request.query_params.get("to", "/")
        to = to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
        _look(console, browser)

        async def try_it(event: events.GenericEventArguments) -> None:
            problem.text = ""
            name, secret = map(str, event.args)
            try:
                await console.sessions.log_in(browser, name, secret)
            except ServerError as error:
                problem.text = "Wrong name or password" if error.status in (401, 403) else str(error)
                return
            ui.navigate.to(to)

        with ui.card().classes("absolute-center w-80 max-w-full gap-3"):
            ui.label("Log in to Headrace").classes("text-xl").props('role="heading" aria-level="1"')
            ui.label(console.server.url).classes("text-xs headrace-soft break-all")
            user = ui.input("User").classes("w-full").props("autofocus autocomplete=username")
            password = ui.input("Password", password=True).classes("w-full").props("autocomplete=current-password")
            for field in (user, password):
                field.on("keydown.enter", try_it, js_handler=_TYPED)
            problem = ui.label("").classes("text-negative break-words").props('role="alert"')
            ui.button("Log in").on("click", try_it, js_handler=_TYPED).classes("w-full")

    return login


def later(work: Awaitable[Any]) -> None:
    """Work that the page does not wait for."""
    background_tasks.create(work)


def link_to(kind: str, name: str) -> str:
    """The page of something."""
    return f"/{kind}/{part(name)}"
