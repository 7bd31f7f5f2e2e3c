"""What publishers are told when the disk takes nothing: in this process, where it can be made to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.http.v1.in_process import server_here

from headrace.http.app import Door
from headrace.log.errors import DiskFull, ReadOnly

App = Callable[..., Awaitable[None]]
JSON, NDJSON = b"application/json", b"application/x-ndjson"


class Request:
    """One request to the application itself; its body comes in these pieces, between which something may happen."""

    def __init__(self, app: App, kind: bytes, *pieces: bytes | Callable[[], None], key: bytes = b"") -> None:
        self._app = app
        self._pieces = list(pieces)
        length = sum(len(piece) for piece in pieces if isinstance(piece, bytes))
        headers = [(b"host", b"localhost"), (b"content-type", kind), (b"content-length", b"%d" % length)]
        if key:
            headers.append((b"idempotency-key", key))
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/topics/orders/events",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "root_path": "",
        }
        self._sent: list[dict[str, Any]] = []

    async def answer(self) -> tuple[int, dict[str, Any]]:
        await self._app(self._scope, self._receive, self._send)
        return self._sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in self._sent[1:]))

    async def _receive(self) -> dict[str, Any]:
        while self._pieces and not isinstance(self._pieces[0], bytes):
            self._pieces.pop(0)()  # type: ignore[operator]
        body = self._pieces.pop(0) if self._pieces else b""
        return {"type": "http.request", "body": body, "more_body": bool(self._pieces)}

    async def _send(self, message: dict[str, Any]) -> None:
        self._sent.append(message)


def run(folder: Path, test: Callable[[App, Any], Awaitable[None]]) -> None:
    async def main() -> None:
        async with server_here(folder) as (_, broker):
            await test(Door(broker).application, broker.log)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("refusal", "status", "code"),
    [(DiskFull("no room"), 507, "disk_full"), (ReadOnly("a sync failed"), 503, "storage_error")],
)
def test_a_log_that_takes_nothing_is_told_and_nothing_is_stored(
    tmp_path: Path, refusal: Exception, status: int, code: str
) -> None:
    async def test(app: App, log: Any) -> None:
        assert (await Request(app, JSON, b'{"value": 1}').answer())[0] == 200
        log.refusal = refusal
        for kind, body, key in (
            (JSON, b'{"value": 2}', b""),
            (JSON, b'[{"value": 2}, {"value": 3}]', b""),
            (JSON, b'{"value": 2}', b"key"),
            (NDJSON, b'{"value": 2}\n', b""),
            (b"text/plain", b"2", b""),
        ):
            found = await Request(app, kind, body, key=key).answer()
            assert (found[0], found[1]["code"]) == (status, code)
        log.refusal = None
        assert (await Request(app, JSON, b'{"value": 4}', key=b"key").answer())[1]["offset"] == 1

    run(tmp_path, test)


def test_a_stream_that_meets_a_full_disk_tells_what_is_stored(tmp_path: Path) -> None:
    async def test(app: App, log: Any) -> None:
        def fill() -> None:
            log.refusal = DiskFull("no room")

        status, found = await Request(app, NDJSON, b'{"value": 1}\n{"value": 2}\n', fill, b'{"value": 3}\n').answer()
        assert (status, found["code"]) == (507, "disk_full")
        stored = {"count": 2, "partitions": [{"partition": 0, "count": 2, "first_offset": 0, "last_offset": 1}]}
        assert found["stored"] == stored
        assert "unknown" not in found
        log.refusal = None

    run(tmp_path, test)


def test_what_is_not_durable_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(app: App, log: Any) -> None:
        assert (await Request(app, JSON, b'{"value": 1}').answer())[0] == 200

        async def synced() -> None:
            raise ReadOnly("a sync failed")

        monkeypatch.setattr(log, "synced", synced)
        for kind, body, key in ((JSON, b'{"value": 2}', b""), (JSON, b"[" + b'{"value": 2},' * 2 + b'{"value": 3}]', b"k")):
            found = await Request(app, kind, body, key=key).answer()
            assert (found[0], found[1]["code"]) == (503, "storage_error")
        status, found = await Request(app, NDJSON, b'{"value": 2}\n').answer()
        assert (status, found["unknown"]) == (503, True)
        monkeypatch.undo()

    run(tmp_path, test)
