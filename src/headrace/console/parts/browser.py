"""What a browser keeps for whoever sits there: its localStorage, under names that begin with `headrace.`.

What it hands out is checked by whoever asked, like anything else that comes from outside. Bound: `MOST_CHARACTERS` under one
name, since a browser may send 1 MB to the console at once; and browsers have their own, some 5 MB for all of them.
"""

from __future__ import annotations

import json
from typing import Any

from nicegui import Client

MOST_CHARACTERS = 900_000
ANSWERED_S = 10.0  # by the browser


async def kept(client: Client, name: str) -> Any:
    """The JSON under this name; None if there is nothing, or something else, or the browser does not answer."""
    small = f"text => text !== null && JSON.stringify(text).length > {MOST_CHARACTERS} ? null : text"
    text = await _asked(client, f"({small})(localStorage.getItem({_name(name)}))")
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


async def keep(client: Client, name: str, value: Any) -> bool:
    """Whether it is kept. None forgets what was."""
    text = json.dumps(json.dumps(value))
    if len(text) > MOST_CHARACTERS:
        return False
    put = f"localStorage.removeItem({_name(name)})" if value is None else f"localStorage.setItem({_name(name)}, {text})"
    return await _asked(client, f"(() => {{ try {{ {put}; return true }} catch (full) {{ return false }} }})()") is True


async def _asked(client: Client, code: str) -> Any:
    try:
        return await client.run_javascript(code, timeout=ANSWERED_S)
    except TimeoutError:
        return None


def _name(name: str) -> str:
    return json.dumps(f"headrace.{name}")
