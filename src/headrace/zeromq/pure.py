"""Many messages in one call, through pyzmq. `headrace._zeromq` is the same, compiled; `twin` picks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from headrace.zeromq.wire.sockets import Socket

_LAST = int(zmq.NOBLOCK)
_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)


Slice = tuple[list[bytes | list[bytes]], bool, dict[int, int]]


def receive(socket: Socket, most: int, most_bytes: int, most_frames: int) -> Slice:
    """So many messages, or a few less if they are long; whether those were all; and how many bytes came over which connection,
    by its descriptor. A message of one frame is that, one of several a list, of which no more than one frame beyond
    `most_frames` is kept."""
    messages: list[bytes | list[bytes]] = []
    taken: dict[int, int] = {}
    size = 0
    try:
        while len(messages) < most and size < most_bytes:
            frame = socket.recv(_LAST, False)
            size += _count(frame, taken)
            if not frame.more:
                messages.append(frame.bytes)
                continue
            frames = [frame.bytes]
            while frame.more:
                frame = socket.recv(_LAST, False)  # a message comes whole or not at all
                size += _count(frame, taken)
                if len(frames) <= most_frames:
                    frames.append(frame.bytes)
            messages.append(frames)
    except zmq.Again:
        return messages, True, taken
    return messages, False, taken


def _count(frame: zmq.Frame, taken: dict[int, int]) -> int:
    descriptor = frame.get(zmq.SRCFD)
    assert isinstance(descriptor, int)
    length = len(frame)
    taken[descriptor] = taken.get(descriptor, 0) + length + (2 if length < 256 else 9)
    return length


def send(socket: Socket, messages: list[tuple[bytes, ...]], start: int) -> int:
    """Those from `start` on, as long as the socket takes them. Returns the number of the first that it did not take."""
    send_frame = socket.send
    number = start
    try:
        for number in range(start, len(messages)):
            *before, last = messages[number]
            for frame in before:
                send_frame(frame, _MORE)
            send_frame(last, _LAST)
    except zmq.Again:  # only ever at the first frame
        return number
    return len(messages)
