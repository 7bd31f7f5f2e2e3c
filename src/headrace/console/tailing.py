"""What is written to a topic, as it comes: for a page that is watched. Nothing of NiceGUI is here.

The server is asked for what is new, and answers when there is something, or after `WAIT_S`; then it is left alone for the rest
of the second, since a page is not drawn more often. A topic may be faster than anybody reads: at most `PER_S` records are taken
in a second; when there are more, the tail goes on with the newest `PER_S` after `FLOOD_S`, and says so (`jumped`): the server
must not work for what nobody sees, but what came last is seen. It keeps the last `KEPT`, with the beginning of their values, or
what `reading` makes of them. A server that does not answer is asked again after `AGAIN_S`. Each time it waits for its `turn`
first: a page that nobody sees takes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from headrace.console.access import Access, Params, ServerError, part
from headrace.console.browsing import Event, shortened
from headrace.console.formats.reading import Reading

KEPT = 200
PER_S = 100
WAIT_S = 10.0
AGAIN_S = 2.0
FLOOD_S = 2.0


async def _at_once() -> None:
    pass


class Tail:
    def __init__(
        self,
        access: Access,
        topic: str,
        partition: int | None = None,
        reading: Reading | None = None,
        turn: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._access = access
        self._turn = turn
        self._reading = reading or Reading()
        self._path = f"/v1/topics/{part(topic)}/events"
        self._partition = partition
        self._position: str | None = None  # None: where it ends, or what came last
        self._next: dict[int, int] = {}  # by partition: what lies before was shown, or is older than the tail
        self.events: deque[Event] = deque(maxlen=KEPT)  # the newest last
        self.arrived = 0
        self.jumped = False
        self.error = ""
        self.ended = False

    async def run(self) -> None:
        """Until it is cancelled, or the topic is deleted."""
        while not self.ended:
            await self._turn()
            began_s = time.monotonic()
            try:
                await self._take()
            except ServerError as error:
                self.error = str(error)
                self.ended = error.status in (400, 401, 403, 404)
            rest_s = AGAIN_S if self.error else FLOOD_S if self._position is None else 1.0
            await asyncio.sleep(max(0.0, began_s + rest_s - time.monotonic()))

    async def _take(self) -> None:
        """What has come since, or as much of it as fits into a second."""
        limit = max(PER_S, len(self._next))
        place: Params = {"position": self._position}
        if self._position is None:
            place = {"from": f"-{limit // len(self._next)}" if self._next else "latest"}
        params: Params = {**place, "partition": self._partition, "limit": limit, "wait_s": WAIT_S, "format": "text"}
        said = await self._access.waited(self._path, params, WAIT_S)
        seen = self._next if self._position is None else {}
        self.error = ""
        self.ended = any(notice["notice"] == "end" for notice in said["notices"])
        for event in said["events"]:
            if event["offset"] < seen.get(event["partition"], 0):
                continue  # of a partition in which there was less to jump over
            if self._reading.label:
                event["lines"] = await asyncio.to_thread(self._reading.lines, event)
            self.arrived += 1
            self.events.append(shortened(event))
        behind = len(said["events"]) >= limit and any(each["next"] < each["end"] for each in said["partitions"])
        self.jumped = self.jumped or behind
        self._position = None if behind else said["next"]
        self._next = {each["partition"]: each["next"] for each in said["partitions"]}
