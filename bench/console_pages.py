"""Somebody with the console open on many pages at once, without a browser: `python -m bench.console_pages FOLDER URL PATH …`.

Each page is fetched as a browser would, and then its WebSocket is kept open, read and acknowledged (NiceGUI's messages over
Socket.IO 5, Engine.IO 4), so that the console polls the server for it and sends what has changed. Nothing is drawn: drawing
happens on the machine of whoever looks, and so would the reading: here it gives way to the server, whose data is in the folder,
as the console does. When all pages are open it prints a JSON object, and keeps them open until its standard input ends; then
it prints another one with what came.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from headrace.console.giving_way import give_way
from headrace.event_loop import make_runner

ACKNOWLEDGED_S = 3.0  # as NiceGUI's own script does
READY_S = 30.0
MOST_BYTES = 16 * 1024 * 1024
_CLIENT = re.compile(r"'client_id': '([0-9a-f-]{36})'")
_NUMBER = re.compile(r'"_id":(\d+)\}\]$')


@dataclass(slots=True)
class Came:
    messages: int = 0
    received_bytes: int = 0
    broken: int = 0  # connections


def fetched(url: str) -> str:
    """The client that the console has made for this page."""
    with urllib.request.urlopen(url, timeout=READY_S) as answer:
        found = _CLIENT.search(answer.read().decode())
    if found is None:
        raise SystemExit(f"{url} is no page of the console")
    return found.group(1)


class OpenPage:
    def __init__(self, url: str, path: str, came: Came) -> None:
        self._url = url
        self._path = path
        self._came = came
        self._next = 0  # the number of the next message
        self._client = ""
        self._document, self._tab = uuid4(), uuid4()
        self.connected = asyncio.Event()

    async def run(self) -> None:
        """For ever. A connection that breaks is made again, as a browser does."""
        while True:
            if not self._client:
                self._client, self._next = await asyncio.to_thread(fetched, self._url + self._path), 0
            await self._connect()
            self._came.broken += 1

    async def _connect(self) -> None:
        query = urlencode(
            {
                "client_id": self._client,
                "next_message_id": self._next,
                "implicit_handshake": "true",
                "document_id": self._document,
                "tab_id": self._tab,
                "EIO": 4,
                "transport": "websocket",
            }
        )
        where = f"ws://{urlsplit(self._url).netloc}/_nicegui_ws/socket.io/?{query}"
        ours: Any = self._url
        async with connect(where, origin=ours, max_size=MOST_BYTES, ping_interval=None) as link:
            acknowledging = asyncio.create_task(self._acknowledge(link))
            try:
                async for message in link:
                    await self._take(link, str(message))
            except ConnectionClosed:
                pass
            finally:
                acknowledging.cancel()

    async def _take(self, link: ClientConnection, message: str) -> None:
        self._came.received_bytes += len(message)
        if message.startswith("0"):  # the transport is open
            await link.send("40")
        elif message.startswith("40"):
            self.connected.set()
        elif message.startswith("44"):  # the console has forgotten the page
            self._client = ""
            await link.close()
        elif message == "2":  # a ping
            await link.send("3")
        elif message.startswith("42"):
            self._came.messages += 1
            number = _NUMBER.search(message)
            if number is not None:
                self._next = int(number.group(1)) + 1
            if message.startswith('42["run_javascript"'):
                await self._answer(link, message)

    async def _answer(self, link: ClientConnection, message: str) -> None:
        """A script that somebody waits for has found nothing."""
        asked = json.loads(message[2:])[1].get("request_id")
        if asked:
            said = {"request_id": asked, "client_id": self._client, "result": None}
            await link.send("42" + json.dumps(["javascript_response", said]))

    async def _acknowledge(self, link: ClientConnection) -> None:
        while True:
            await asyncio.sleep(ACKNOWLEDGED_S)
            said = {"client_id": self._client, "next_message_id": self._next}
            await link.send("42" + json.dumps(["ack", said]))


async def keep_open(url: str, paths: list[str]) -> None:
    came = Came()
    pages = [OpenPage(url, path, came) for path in paths]
    tasks = [asyncio.create_task(page.run()) for page in pages]
    everything = asyncio.gather(*(page.connected.wait() for page in pages))
    waiting: list[asyncio.Future[Any]] = [everything, *tasks]
    await asyncio.wait(waiting, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
    if not everything.done():
        for task in tasks:
            if task.done():
                task.result()
        raise SystemExit("not all pages could be opened")
    print(json.dumps({"pages": len(pages)}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    failed = sum(task.done() for task in tasks)
    print(json.dumps({**asdict(came), "failed": failed}), flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    give_way(Path(sys.argv[1]))
    with make_runner() as runner:
        runner.run(keep_open(sys.argv[2], sys.argv[3:]))
