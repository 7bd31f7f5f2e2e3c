"""An HTTP server that does nothing but answer, on the very stack that Headrace serves HTTP with: Granian with the listener's
own settings, in an event loop of uvloop. What it does is what publishing over HTTP is measured against.

    python -m bench.http_empty [--read]     prints its address and runs until it is told to end; with --read it takes the body
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import uvloop

from headrace.http import listener
from headrace.sockets import bound_socket

ANSWER = b'{"partition":0,"offset":1000000,"timestamp":1767225600000}'
HEADERS = [(b"content-type", b"application/json")]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Without a look at the request, not even at its body."""
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


async def answer_read(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await answer(scope, receive, send)


async def main() -> None:
    listening = bound_socket("127.0.0.1", 0)
    listening.listen(listener.BACKLOG)
    listening.setblocking(False)
    server = listener._granian(answer_read if "--read" in sys.argv else answer, listening)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    print(f"127.0.0.1:{listening.getsockname()[1]}", flush=True)
    sys.setswitchinterval(0.0005)  # as the server has it
    await server.serve()


if __name__ == "__main__":
    uvloop.run(main())
