"""Requests that look at things are worked on in parts, and others have their turn in between.

A client may say that nobody waits for its answer (RFC 9218, `Priority: u=7`: what happens in the background), as the console
does when it looks again at what it shows. Between the parts of such a request the server is left to others for `PAUSE_S`, so
that none of them finds more than one part before it. The next part of any other request comes right behind what came meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

PAUSE_S = 0.001
_PAUSE = "headrace.pause"
_BACKGROUND = b"u=7"


async def rest(scope: MutableMapping[str, Any]) -> None:
    """Between two parts."""
    pause_s = scope.get(_PAUSE)
    if pause_s is None:
        pause_s = scope[_PAUSE] = PAUSE_S if _in_background(scope) else 0.0
    await asyncio.sleep(pause_s)


def _in_background(scope: MutableMapping[str, Any]) -> bool:
    given = [value for name, value in scope["headers"] if name == b"priority"]
    return any(part.strip() == _BACKGROUND for value in given for part in value.split(b","))
