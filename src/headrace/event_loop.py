"""The event loop that processes of Headrace run in: uvloop, and Python's own where that is not to be had."""

from __future__ import annotations

import asyncio


def make_runner() -> asyncio.Runner:
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
