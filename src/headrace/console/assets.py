"""The scripts, styles and fonts of the pages, handed out without a detour.

A page needs about thirty of them the first time. NiceGUI would pass each through its whole stack: sessions, routing, a thread
for every piece of a file. Here a file is read and sent, as it is; their addresses hold NiceGUI's version, so a browser asks for
each once (`_FOR_EVER`). What is no file goes on to NiceGUI.

Bound: a file has at most `MOST_BYTES`.
"""

from __future__ import annotations

from pathlib import Path

import nicegui
from nicegui.dependencies import esm_modules, js_components, libraries
from starlette.types import ASGIApp, Receive, Scope, Send

MOST_BYTES = 4 * 1024 * 1024
_HOME = Path(nicegui.__file__).resolve().parent
_PREFIX = f"/_nicegui/{nicegui.__version__}/"
_FOR_EVER = b"public, max-age=31536000, immutable"
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".mjs": b"text/javascript; charset=utf-8",
    ".woff2": b"font/woff2",
}


class Assets:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"].startswith(_PREFIX):
            path = file_of(scope["path"].removeprefix(_PREFIX))
            kind = None if path is None else _TYPES.get(path.suffix)
            if path is not None and kind is not None:
                content = path.read_bytes()
                length = str(len(content)).encode()
                headers = [(b"content-type", kind), (b"content-length", length), (b"cache-control", _FOR_EVER)]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": content})
                return
        await self._app(scope, receive, send)


def file_of(asked: str) -> Path | None:
    """The file behind an address; None for what is no file of NiceGUI's."""
    room, _, rest = asked.partition("/")
    base, inside = _HOME / "static", rest
    if room == "components" and rest in js_components:
        base, inside = js_components[rest].path, ""
    elif room == "libraries" and rest in libraries:
        base, inside = libraries[rest].path, ""
    elif room == "esm":
        key, _, inside = rest.partition("/")
        if key not in esm_modules:
            return None
        base = esm_modules[key].path
    elif room != "static":
        return None
    path = (base / inside).resolve() if inside else base.resolve()
    if not path.is_relative_to(base.resolve()) or not path.is_file() or path.stat().st_size > MOST_BYTES:
        return None
    return path
