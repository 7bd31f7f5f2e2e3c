"""Answers with long lists are written down in pieces, and come out as if they were not."""

from __future__ import annotations

import asyncio
import json

import pytest

from headrace.http.management.api import LARGE, _encoded


@pytest.mark.parametrize("count", [0, 1, LARGE, LARGE + 1, 3 * LARGE, 3 * LARGE + 7])
def test_pieces_make_the_same_text(count: int) -> None:
    rows = [{"name": f"q\udcff{number}", "n": [number, None, True]} for number in range(count)]
    for body in (rows, {"queues": rows, "bindings": rows[:3], "version": "4"}, {"items": []}, {}, "4.1.0"):
        assert json.loads(asyncio.run(_encoded(body))) == body
