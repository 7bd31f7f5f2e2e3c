"""What is written to a topic, as it comes: for a page that is watched. Nothing of NiceGUI is here.

A topic may be faster than anybody reads. At most `PER_S` records are taken in a second; when there are more, the tail lets go
and begins again at the newest, and says so (`jumped`): the server must not work for what nobody sees. It keeps the last `KEPT`,
with the beginning of their values. A server that does not answer is asked again after `AGAIN_S`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import aclosing

from headrace.console.access import Access, ServerError, part
from headrace.console.browsing import Event, shortened

KEPT = 200
PER_S = 400
AGAIN_S = 2.0


class Tail:
    def __init__(self, access: Access, topic: str, partition: int | None = None) -> None:
        self._access = access
        self._path = f"/v1/topics/{part(topic)}/events"
        self._partition = partition
        self.events: deque[Event] = deque(maxlen=KEPT)  # the newest last
        self.arrived = 0
        self.jumped = False
        self.error = ""
        self.ended = False

    async def run(self) -> None:
        """Until it is cancelled, or the topic is deleted."""
        while not self.ended:
            began_s = time.monotonic()
            try:
                await self._take(began_s)
            except ServerError as error:
                self.error = str(error)
                self.ended = error.status in (400, 401, 403, 404)
            await asyncio.sleep(max(0.0, began_s + (AGAIN_S if self.error else 1.0) - time.monotonic()))

    async def _take(self, second_s: float) -> None:
        """Until there are too many in a second, or the stream ends."""
        params = {"from": "latest", "follow": "true", "format": "text", "partition": self._partition}
        count = 0
        async with self._access.lines(self._path, params) as lines, aclosing(lines) as events:
            self.error = ""
            async for event in events:
                if "notice" in event:
                    self.ended = self.ended or event["notice"] == "end"
                    continue
                self.arrived += 1
                self.events.append(shortened(event))
                if time.monotonic() - second_s >= 1.0:
                    second_s, count = time.monotonic(), 0
                count += 1
                if count >= PER_S:
                    self.jumped = True
                    return
