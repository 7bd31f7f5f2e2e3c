"""Socket → topic: what comes in by PULL or SUB is put into the topic, in slices of at most `SLICE` messages or `SLICE_BYTES`.

The socket is read on the event loop, through the descriptor that libzmq signals on. That tells of a change once, so the socket
is read until it is empty, slice by slice, and others have their turn in between. (A thread would have to take turns with the
loop for the interpreter at each message.)

While the log has no room, or can't write, nothing is received: then libzmq's queue fills up to the high-water mark, and a PUSH
on the other side waits. A PUB does not wait, it drops.

A SUB is an XSUB inside, and prefixes are matched here: libzmq would pass over messages that nobody asked for in a loop that
has no end as long as they come.

Promised: what was received is in the topic, or in the dead letters, or counted as dropped. Not promised: what libzmq or the
network held when the server ended, for ZeroMQ has no acknowledgements; and of what was put again after the disk failed, not
twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import zmq

from headrace.broker.routes.errors import RouteError
from headrace.log.errors import LogError
from headrace.zeromq.guard import Guard
from headrace.zeromq.opened import Opened
from headrace.zeromq.twin import receive
from headrace.zeromq.wire.dropped import Dropped
from headrace.zeromq.wire.frames import MAX_FRAMES, BadMessage, decode_message
from headrace.zeromq.wire.sockets import Endpoint

if TYPE_CHECKING:
    from headrace.broker.routes.ends.zeromq import ZeroMqSource
    from headrace.broker.routes.filling import Entry
    from headrace.broker.routes.ports import Inlet
    from headrace.clock import Clock

logger = logging.getLogger("headrace.zeromq")

SLICE = 500
SLICE_BYTES = 256 * 1024
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
STOP_WITHIN_S = 5.0
TOPIC_HEADER = "zmq.topic"


class Intake:
    """The run of a route whose source is a ZeroMQ socket."""

    def __init__(self, route: str, source: ZeroMqSource, endpoint: Endpoint, inlet: Inlet, clock: Clock) -> None:
        self.error: str | None = None
        self.received = 0
        self._route = route
        self.dropped = Dropped(f"route '{route}'", logger)
        self._envelope = source.envelope
        self._prefixes = tuple(prefix.encode() for prefix in source.prefixes) if source.socket == "sub" else ()
        if b"" in self._prefixes:
            self._prefixes = ()
        self._inlet = inlet
        self._endpoint = endpoint
        self._stopping = asyncio.Event()
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._opened = Opened(route, zmq.PULL if source.socket == "pull" else zmq.XSUB, endpoint)
        self._socket = self._opened.socket
        self._guard = Guard(
            route,
            self._opened,
            clock,
            whole_message=MAX_FRAMES * endpoint.max_message_bytes,
            queue=endpoint.high_water_mark * endpoint.max_message_bytes,
        )
        self._fd = int(self._socket.fd)
        if source.socket == "sub":
            for prefix in self._prefixes or (b"",):
                self._socket.send(b"\x01" + prefix)
        self._task = self._loop.create_task(self._work())

    # --- a run

    def grown(self) -> None:
        """Nothing depends on how many partitions there are."""

    def facts(self) -> dict[str, object]:
        return {
            **self._opened.facts(),
            "closed_connections": self._guard.closed.count,
            "received": self.received,
            "dropped": self.dropped.count,
        }

    async def stop(self) -> None:
        """Takes in what has come so far."""
        if self._closed:
            return
        self._stopping.set()
        if self._waiting is not None:
            _done(self._waiting)
        await asyncio.wait({self._task}, timeout=STOP_WITHIN_S)
        if self.error is None and self._task.done():
            try:
                for _ in range(2 + self._endpoint.high_water_mark // SLICE):
                    entries, drained = self._receive()
                    self._inlet.put_entries(entries)
                    if drained:
                        break
                    await asyncio.sleep(0)
            except (LogError, RouteError) as error:
                self.dropped.add(f"the route ends, and {error}", len(entries))
        self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._task.cancel()
        self._loop.remove_reader(self._fd)
        self._guard.close()
        self._opened.close(linger_ms=0)

    # --- the work

    async def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._inlet.room()
                entries, drained = self._receive()
                if entries:
                    await self._put(entries)
                self.error = None
            except (LogError, RouteError) as error:  # there is no room, and there won't be soon
                self.error = str(error) or type(error).__name__
                await self._pause(LONGEST_PAUSE_S / 10)
            except Exception as error:  # a mistake of ours must not end the route
                logger.exception("route '%s'", self._route)
                self.error = f"an error of the server's own: {type(error).__name__}; see its log"
                await self._pause(LONGEST_PAUSE_S / 10)
            else:
                if drained:
                    await self._readable()
                else:
                    await asyncio.sleep(0)

    async def _readable(self) -> None:
        if self._stopping.is_set():
            return
        waiting = self._waiting = self._loop.create_future()
        self._loop.add_reader(self._fd, _done, waiting)
        try:
            await waiting
        finally:
            self._waiting = None
            self._loop.remove_reader(self._fd)

    async def _put(self, entries: Sequence[Entry]) -> None:
        """Until the log takes them. Meanwhile nothing is received."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                self._inlet.put_entries(entries)
            except (LogError, RouteError) as error:
                why = str(error) or type(error).__name__
                if self._stopping.is_set():
                    self.dropped.add(f"the route ends, and {why}", len(entries))
                    return
                self.error = why
                await self._pause(pause_s)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
            else:
                return

    async def _pause(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
        except TimeoutError:
            pass

    # --- messages

    def _receive(self) -> tuple[list[Entry], bool]:
        """One slice, and whether that was all."""
        messages, drained, taken = receive(self._socket, SLICE, SLICE_BYTES, MAX_FRAMES)
        self._guard.taken(taken, drained)
        self.received += len(messages)
        entries: list[Entry] = []
        for message in messages:
            if self._prefixes and not (message if isinstance(message, bytes) else message[0]).startswith(self._prefixes):
                self.dropped.add("not one of the prefixes that were asked for")
            elif isinstance(message, bytes):
                entries.append((None, message, (), None))
            else:
                self._take_several(message, entries)
        return entries, drained

    def _take_several(self, frames: list[bytes], entries: list[Entry]) -> None:
        """A message of several frames."""
        try:
            topic, key, value, headers, timestamp_ms, _, _ = decode_message(frames)
        except BadMessage as error:
            self.dropped.add(str(error))
            return
        if topic and self._envelope == "header":
            headers += ((TOPIC_HEADER, topic),)
        elif topic and key is None and self._envelope == "key":
            key = topic
        entries.append((key, value, headers, timestamp_ms))


def _done(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
