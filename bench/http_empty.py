"""An HTTP server that does nothing but answer, on the very stack that Headrace serves HTTP with: Granian with the listener's
own settings, in an event loop of uvloop. What it does is what publishing over HTTP is measured against.

    python -m bench.http_empty [--read | --starlette]

prints its address and runs until it is told to end. With --read it takes the body first; with --starlette an empty endpoint of
Starlette answers, which is what a program on this stack begins with.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

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


def starlette() -> Any:
    async def empty(request: Request) -> Response:
        return Response(ANSWER, media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", empty, methods=["POST"])])


async def main() -> None:
    app = starlette() if "--starlette" in sys.argv else answer_read if "--read" in sys.argv else answer
    listening = bound_socket("127.0.0.1", 0)
    listening.listen(listener.BACKLOG)
    listening.setblocking(False)
    server = listener._granian(app, listening)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    print(f"127.0.0.1:{listening.getsockname()[1]}", flush=True)
    sys.setswitchinterval(0.0005)  # as the server has it
    await server.serve()


if __name__ == "__main__":
    uvloop.run(main())
