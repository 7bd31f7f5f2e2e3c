"""Users: who there is and what each may do in which virtual host. Made, changed and deleted here, by administrators.

The server answers with hashes of passwords; they stay in this process, and none is ever part of a page.
"""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import ServerError, part
from headrace.console.frame import Page, View
from headrace.console.parts.asking import a_dialog, answers, ask_name
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.tables import Table

LIMIT = 50
TAGS = ("administrator", "monitoring", "policymaker", "management")
_NEEDED = "administrator"
_COLUMNS = (
    Column("name", "User"),
    Column("tags", "Tags"),
    Column("login", "Logs in"),
)
_ALLOWED = (
    {"name": "vhost", "label": "Virtual host", "field": "vhost", "align": "left"},
    {"name": "configure", "label": "Configure", "field": "configure", "align": "left"},
    {"name": "write", "label": "Write", "field": "write", "align": "left"},
    {"name": "read", "label": "Read", "field": "read", "align": "left"},
)
_ABOUT_TAGS = "administrator may do everything here; who has no tags may not use the console."
_PATTERNS = "Each is a regular expression of names: .* is everything, nothing at all is nothing."


async def users(view: View) -> None:
    view.title("Users")
    await _check_allowed(view)

    async def fetch(text: str, after: str | None) -> tuple[list[Row], str | None]:
        params = {"page": after or 1, "page_size": LIMIT, "name": text or None}
        said = await view.access.get("/api/users", params)
        return [_row(one) for one in said["items"]], str(said["page"] + 1) if said["page"] < said["page_count"] else None

    listing = Listing(view, _COLUMNS, fetch, filter_label="Name contains", empty="No users")
    if not view.read_only:
        with listing.bar:
            ui.button("New user", icon="person_add", on_click=lambda: _ask_new(view))


async def _check_allowed(view: View) -> None:
    """Raises ServerError: who may not is told so, and not sent to the login."""
    if _NEEDED not in (await view.access.get("/api/whoami"))["tags"]:
        raise ServerError(403, "only a user with the tag administrator sees users")


def _row(user: dict[str, Any]) -> Row:
    return {
        "id": user["name"],
        "name": user["name"],
        "tags": ", ".join(user["tags"]),
        "login": "with a password" if user["password_hash"] else "can't log in",
        "link": f"/users/{part(user['name'])}",
    }


def _ask_new(view: View) -> None:
    async def make() -> None:
        wanted = {"password": password.value or "", "tags": ",".join(tags.value)}
        if await view.change(view.access.put(f"/api/users/{part(name.value)}", wanted), f"{name.value} is there"):
            view.go(f"/users/{part(name.value)}")

    with a_dialog("New user", "It may do nothing until it is given permissions.") as dialog:
        name = ui.input("Name").classes("w-full").props("autofocus autocomplete=off")
        password = _password_field()
        tags = _tags_field([])
        answers(dialog, "Create", make, needs=(name, password))


def _password_field() -> ui.input:
    return ui.input("Password", password=True).classes("w-full").props("autocomplete=new-password")


def _tags_field(chosen: list[str]) -> ui.select:
    offered = list(dict.fromkeys([*TAGS, *chosen]))
    return ui.select(offered, value=chosen, label="Tags", multiple=True).classes("w-full").props("use-chips")


async def user(view: View) -> None:
    name = view.parts[-1]
    view.title(name, back="/users")
    await _check_allowed(view)
    shown = _User(view, name)
    await shown.load()


class _User:
    def __init__(self, view: View, name: str) -> None:
        self._view = view
        self._name = name
        self._path = f"/api/users/{part(name)}"
        self._found: dict[str, Any] = {}
        with ui.row().classes("w-full items-center gap-2"):
            self._about = ui.label("").classes("headrace-soft")
            ui.space()
            if not view.read_only:
                ui.button("Password", icon="password", on_click=self._ask_password).props("flat no-caps")
                ui.button("Tags", icon="sell", on_click=self._ask_tags).props("flat no-caps")
                ui.button("Permissions", icon="rule", on_click=self._ask_permissions).props("flat no-caps")
                ui.button("Delete", icon="delete", color="negative", on_click=self._ask_delete).props("flat no-caps")
        ui.label("Permissions").classes("text-lg font-medium").props('role="heading" aria-level="2"')
        self._allowed = Table(_ALLOWED, key="vhost", label="Permissions")
        self._none = ui.label("None: it may connect to no virtual host, and write and read nothing.").classes("headrace-soft")

    async def load(self) -> None:
        """Raises ServerError."""
        access = self._view.access
        self._found = await access.get(self._path)
        allowed = await access.get(f"{self._path}/permissions")
        tags = ", ".join(self._found["tags"]) or "no tags"
        self._about.text = f"{tags} · {'has a password' if self._found['password_hash'] else 'can not log in'}"
        self._allowed.show([_shown(each) for each in allowed])
        self._allowed.visible, self._none.visible = bool(allowed), not allowed

    async def _put(self, said: str, **changed: object) -> bool:
        """What is not changed stays: the server wants all of it."""
        kept = {name: self._found[name] for name in ("password_hash", "hashing_algorithm")}
        wanted = {"tags": ",".join(self._found["tags"]), **({} if "password" in changed else kept), **changed}
        if not await self._view.change(self._view.access.put(self._path, wanted), said):
            return False
        await self._view.change(self.load())
        return True

    def _ask_password(self) -> None:
        async def change() -> None:
            if await self._put("The password is changed", password=password.value):
                dialog.close()

        with a_dialog(f"Password of {self._name}", "Who is connected stays connected.") as dialog:
            password = _password_field().props("autofocus")
            answers(dialog, "Change", change, needs=(password,))

    def _ask_tags(self) -> None:
        async def change() -> None:
            if await self._put("The tags are changed", tags=",".join(tags.value)):
                dialog.close()

        with a_dialog(f"Tags of {self._name}", _ABOUT_TAGS) as dialog:
            tags = _tags_field(list(self._found["tags"]))
            answers(dialog, "Change", change)

    def _ask_permissions(self) -> None:
        def path() -> str:
            return f"/api/permissions/{part(vhost.value or '/')}/{part(self._name)}"

        async def give() -> None:
            wanted = {"configure": configure.value or "", "write": write.value or "", "read": read.value or ""}
            if await self._view.change(self._view.access.put(path(), wanted), "The permissions are changed"):
                dialog.close()
                await self._view.change(self.load())

        async def take() -> None:
            if await self._view.change(self._view.access.delete(path()), "The permissions are taken back"):
                dialog.close()
                await self._view.change(self.load())

        with a_dialog(f"Permissions of {self._name}", _PATTERNS) as dialog:
            vhost = ui.input("Virtual host", value="/").classes("w-full").props("autofocus autocomplete=off")
            configure = ui.input("Configure", value=".*").classes("w-full").props("autocomplete=off")
            write = ui.input("Write", value=".*").classes("w-full").props("autocomplete=off")
            read = ui.input("Read", value=".*").classes("w-full").props("autocomplete=off")
            ui.button("Take back in this virtual host", icon="undo", on_click=take).props("flat no-caps")
            answers(dialog, "Give", give)

    def _ask_delete(self) -> None:
        async def delete() -> None:
            if await self._view.change(self._view.access.delete(self._path), f"{self._name} is deleted"):
                self._view.go("/users")

        ask_name("Delete this user?", self._name, delete, consequence="Its connections are closed.")


def _shown(allowed: dict[str, Any]) -> Row:
    row = {name: allowed[name] or "(nothing)" for name in ("configure", "write", "read")}
    return {"vhost": allowed["vhost"], **row}


PAGES = [
    Page("/users", "Users", users, icon="group", group="Server"),
    Page("/users/{user:path}", "User", user),
]
