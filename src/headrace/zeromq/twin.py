"""Picks how messages are received and sent: the compiled `headrace._zeromq` where it was built and finds the libzmq that pyzmq
has loaded, pyzmq itself otherwise. HEADRACE_PURE=1 in the environment asks for the latter. The same tests run over both."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING

import zmq

from headrace.zeromq import pure

if TYPE_CHECKING:
    from headrace.zeromq.wire.sockets import Socket


def _compiled() -> ModuleType | None:
    if os.environ.get("HEADRACE_PURE"):
        return None
    try:
        from headrace import _zeromq

        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            loaded = {line.rstrip("\n").split(maxsplit=5)[-1] for line in maps if "libzmq" in line}
    except (ImportError, OSError):
        return None
    if len(loaded) != 1 or _zeromq.bind(loaded.pop()) != zmq.zmq_version_info():
        return None
    return _zeromq


_twin = _compiled()
COMPILED = _twin is not None


def receive(socket: Socket, most: int, most_bytes: int, most_frames: int) -> pure.Slice:
    """See `pure.receive`."""
    if _twin is None:
        return pure.receive(socket, most, most_bytes, most_frames)
    taken: pure.Slice = _twin.receive(socket.underlying, most, most_bytes, most_frames)
    return taken


def send(socket: Socket, messages: list[tuple[bytes, ...]], start: int) -> int:
    """See `pure.send`."""
    if _twin is None:
        return pure.send(socket, messages, start)
    return int(_twin.send(socket.underlying, messages, start))
