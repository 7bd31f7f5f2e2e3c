"""Requests that nobody waits for leave the server to others between their parts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.http.urgency import PAUSE_S, rest


@pytest.mark.parametrize(
    ("given", "pause_s"),
    [
        ([], 0.0),
        ([b"u=7"], PAUSE_S),
        ([b"u=7, i"], PAUSE_S),
        ([b"i,u=7"], PAUSE_S),
        ([b"u=3"], 0.0),
        ([b"u=77"], 0.0),
        ([b"nonsense"], 0.0),
    ],
)
def test_only_what_is_in_the_background_pauses(given: list[bytes], pause_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    scope: dict[str, Any] = {"headers": [(b"host", b"here"), *((b"priority", value) for value in given)]}

    async def parts() -> None:
        await rest(scope)
        await rest(scope)

    asyncio.run(parts())
    assert slept == [pause_s, pause_s]
