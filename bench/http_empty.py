"""An HTTP server that does nothing but answer, on the very stack that Headrace serves HTTP with: `headrace.web` in an event
loop of uvloop. What it does is what publishing over HTTP is measured against.

    python -m bench.http_empty [--collect | --starlette]

prints its address and runs until it is told to end. By itself it answers without a look at the request; with --collect it takes
the body first; with --starlette an empty endpoint of Starlette answers, which is what a program on this stack begins with.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.sockets import bound_socket
from headrace.web.asgi import AsgiHandler
from headrace.web.exchange import Exchange, Handler
from headrace.web.server import WebServer

ANSWER = b'{"partition":0,"offset":1000000,"timestamp":1767225600000}'
HEADERS = [(b"content-type", b"application/json")]
MOST_BYTES = 65536


def answer(exchange: Exchange) -> None:
    exchange.respond(200, HEADERS, ANSWER)


def answer_collected(exchange: Exchange) -> None:
    exchange.collect(MOST_BYTES, lambda body: exchange.respond(200, HEADERS, ANSWER), exchange.cut)


def starlette() -> Handler:
    async def empty(request: Request) -> Response:
        return Response(ANSWER, media_type="application/json")

    return AsgiHandler(Starlette(routes=[Route("/{path:path}", empty, methods=["POST"])]))


async def main() -> None:
    handler = starlette() if "--starlette" in sys.argv else answer_collected if "--collect" in sys.argv else answer
    listening = bound_socket("127.0.0.1", 0)
    server = WebServer(handler)
    await server.start(listening)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    print(f"127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await ended.wait()
    await server.stop(0)


if __name__ == "__main__":
    uvloop.run(main())
