"""Puts the console together: NiceGUI with its pages, behind the gate of `security`."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from nicegui import core, ui
from socketio.packet import Packet  # type: ignore[import-untyped]
from starlette.types import ASGIApp

from headrace.console.access import Server
from headrace.console.assets import Assets
from headrace.console.frame import Console, Page, no_page, register
from headrace.console.look import FAVICON
from headrace.console.security import Gate
from headrace.console.sessions import Sessions

PAGES = (
    "overview",
    "topics",
    "topic",
    "groups",
    "group",
    "queues",
    "queue",
    "exchanges",
    "exchange",
    "graph",
    "dead_letters",
    "streams",
    "stream",
    "routes",
    "route",
    "pipelines",
    "connections",
    "storage",
    "settings",
    "users",
    "health",
    "audit",
    "find",
)  # files of `pages`, as in the navigation
RECONNECT_S = 15.0  # a page whose connection broke is still there for so long


class PagePacket(Packet):  # type: ignore[misc]
    """What a page is sent. Only a file to download has bytes: to look for them in every row of every table took a tenth of the
    console's time."""

    @classmethod
    def data_is_binary(cls, data: Any) -> bool:
        is_update = isinstance(data, list) and data[:1] == ["update"]
        return not is_update and bool(super().data_is_binary(data))


def make_app(server: Server, *, names: Collection[str] = ()) -> ASGIApp:
    """The ASGI application."""
    inner = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    console = Console(server, Sessions(server), _pages(), {})
    register(console)
    ui.run_with(
        inner,
        root=no_page(console),
        title="Headrace",
        favicon=FAVICON,
        language="en-US",
        dark=None,
        storage_secret=secrets.token_urlsafe(32),
        reconnect_timeout=RECONNECT_S,
        show_welcome_message=False,
        gzip_middleware_factory=None,  # it listens on this machine: compressing takes longer than sending
    )
    core.sio.packet_class = PagePacket
    return Gate(Assets(inner), names)


def _pages() -> Sequence[Page]:
    return [page for name in PAGES for page in import_module(f"headrace.console.pages.{name}").PAGES]
