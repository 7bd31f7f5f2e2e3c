"""Scripts and styles are handed out as they are, once for each browser; nothing outside their folders is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

nicegui = pytest.importorskip("nicegui", reason="NiceGUI is not installed")

from nicegui import ui  # noqa: E402
from nicegui.dependencies import esm_modules, js_components  # noqa: E402
from starlette.types import Message, Receive, Scope, Send  # noqa: E402

from headrace.console.assets import Assets, file_of  # noqa: E402

PREFIX = f"/_nicegui/{nicegui.__version__}/"
HOME = Path(nicegui.__file__).resolve().parent


async def passed_on(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "passed on"})


def answered(path: str, method: str = "GET") -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError

    asyncio.run(Assets(passed_on)({"type": "http", "method": method, "path": path, "headers": []}, receive, send))
    return sent


def test_a_script_is_sent_as_it_is_and_asked_for_only_once() -> None:
    start, body = answered(PREFIX + "static/vue.esm-browser.prod.js")
    content = (HOME / "static" / "vue.esm-browser.prod.js").read_bytes()
    assert dict(start["headers"]) == {
        b"content-type": b"text/javascript; charset=utf-8",
        b"content-length": str(len(content)).encode(),
        b"cache-control": b"public, max-age=31536000, immutable",
    }
    assert body["body"] == content


def test_components_and_modules_are_found_where_pages_name_them() -> None:
    assert ui.echart is not None  # it is imported when it is first used
    echart = next(key for key, component in js_components.items() if component.name == "echart")
    module = next(key for key, found in esm_modules.items() if found.name == "nicegui-echart")
    assert file_of(f"components/{echart}") == HOME / "elements" / "echart" / "echart.js"
    assert file_of(f"esm/{module}/index.js") == HOME / "elements" / "echart" / "dist" / "index.js"


@pytest.mark.parametrize(
    "asked",
    [
        "static/../nicegui.py",
        "static/../../../../../../../../etc/passwd",
        "static/",
        "static/fonts",
        "static//etc/passwd",
        "esm/unknown/index.js",
        "components/../nicegui.py",
        "resources/x/y",
        "",
    ],
)
def test_nothing_else_is(asked: str) -> None:
    assert file_of(asked) is None
    assert answered(PREFIX + asked) == [{"type": "passed on"}]


def test_pages_and_changes_are_passed_on() -> None:
    assert answered("/topics") == [{"type": "passed on"}]
    assert answered(PREFIX + "static/nicegui.js", "POST") == [{"type": "passed on"}]
    assert answered(PREFIX + "static/favicon.ico") == [{"type": "passed on"}], "of no kind that is known here"
