"""When what was given to libzmq has left this process: only then may the position of a route move, or a crash would lose what
still stood in libzmq's queues. PUSH has no acknowledgements, so it is told from outside:

    idle     every connection has finished its handshake and the kernel holds nothing unsent of any (SIOCOUTQ): then libzmq was
             not held up, and what it was given `TICKS` looks ago is gone
    by count a queue holds no more than the high-water mark: of a stream that never pauses, all but the last so many messages
             were written to connections, and all but what the kernel still holds of those are gone

It is looked at every `LOOK_S`, as long as somebody waits for it. Without any connection nothing is gone. A connection that ends
takes what was queued for it along: then all that was not gone for certain must be sent again. What is in the queues of whoever
pulls is theirs.
"""

from __future__ import annotations

import array
import fcntl
import termios
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.routes.destination import Gone
    from headrace.clock import Clock, Timer
    from headrace.zeromq.notices import Notices

LOOK_S = 0.02
TICKS = 2
SLACK = 1000  # messages that fit into the buffer from which libzmq writes to a connection, and more


class Handover:
    """Of one socket. `notices` is what is known of its connections."""

    def __init__(self, notices: Notices, high_water_mark: int, clock: Clock) -> None:
        self._notices = notices
        self._held = high_water_mark + SLACK
        self._clock = clock
        self._sent = 0  # messages
        self._left = 0  # of them, how many are gone for certain
        self._lost = 0  # connections, when all was gone
        self._bytes = 0  # of what was sent
        self._written = 0  # of those, how many libzmq has written to connections for certain
        self._sends: deque[tuple[int, int]] = deque()  # messages and bytes behind each of those that may still be queued
        self._waiting: deque[tuple[int, int, Gone]] = deque()  # the same
        self._looks: deque[int] = deque(maxlen=TICKS)  # how much was sent when it was quiet
        self._timer: Timer | None = None

    def sent(self, count: int, size: int) -> None:
        """So many messages of so many bytes were given to libzmq."""
        if not count:
            return
        if self._sent == self._left:
            self._notices.read()
            self._lost = self._notices.lost
        self._sent += count
        self._bytes += size
        self._sends.append((self._sent, self._bytes))

    def when_gone(self, gone: Gone) -> None:
        """Calls it when all that was sent so far has left, or when a part of it is lost."""
        if self._sent == self._left:
            gone(None)
            return
        self._waiting.append((self._sent, self._bytes, gone))
        if self._timer is None:
            self._looks.clear()
            self._timer = self._clock.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        notices = self._notices
        notices.read()
        if notices.lost > self._lost:
            self._give_up()
            return
        count = len(notices.connections)
        unsent = max(map(_unsent, notices.connections), default=0)
        if count and not unsent and not notices.handshaking:
            self._looks.append(self._sent)
            if len(self._looks) == TICKS:
                self._left = max(self._left, self._looks[0])
        else:
            self._looks.clear()
        while count and self._sends and self._sends[0][0] <= self._sent - count * self._held:
            self._written = self._sends.popleft()[1]
        acknowledged = self._written - count * unsent
        while self._waiting and (self._waiting[0][0] <= self._left or self._waiting[0][1] <= acknowledged):
            number, _, gone = self._waiting.popleft()
            self._left = max(self._left, number)
            gone(None)
        if self._waiting and self._timer is None:
            self._timer = self._clock.call_later(LOOK_S, self._look)

    def _give_up(self) -> None:
        """A connection is gone with what was queued for it."""
        self._left = self._sent
        waiting, self._waiting = self._waiting, deque()
        for _, _, gone in waiting:
            gone("one who pulled is gone, with what was queued for it")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()


def _unsent(descriptor: int) -> int:
    """Bytes that the kernel has not sent, or that were not acknowledged."""
    size = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.TIOCOUTQ, size)  # the same number as SIOCOUTQ
    except OSError:  # it was closed a moment ago: the next look knows better
        return 1 << 30
    return size[0]
