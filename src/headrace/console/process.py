"""The console's process: `python -m headrace.console.process --server URL`, on a socket of its own or on one that was given.

`headrace serve` binds the socket and hands it over (`--fd`), so that the address is known before this process has even been
started. It ends with SIGTERM, and when whoever started it is gone (`--with-parent`).
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
from pathlib import Path

from headrace.console.giving_way import give_way
from headrace.event_loop import make_runner

# What python-socketio and python-engineio take in wherever it is installed, for uses that the console does not make of them.
# With clients of Kafka and RabbitMQ beside it, as whoever tests with Headrace has, that is 17 MB and a quarter of a second.
LEFT_OUT = ("aio_pika", "kafka", "kombu", "redis", "requests", "valkey", "websocket")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headrace console")
    parser.add_argument("--server", required=True)
    parser.add_argument("--fd", type=int)
    parser.add_argument("--listen", default="127.0.0.1:8090")
    parser.add_argument("--host-name", action="append", default=[])
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--with-parent", type=int, metavar="PID")
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="of the server on this machine: its disk goes first")
    given = parser.parse_args(argv)
    if given.with_parent is not None:
        give_way(given.beside)
    for name in LEFT_OUT:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # to import it fails as if it were not there
    if given.fd is not None:
        listening = socket.socket(fileno=given.fd)
    else:
        listening = socket.create_server(_address(given.listen))
    with tempfile.TemporaryDirectory(prefix="headrace-console-") as folder:
        os.environ["NICEGUI_STORAGE_PATH"] = str(Path(folder) / "storage")  # nothing of it outlives the process
        with make_runner() as runner:
            runner.run(_serve(listening, given))
    return 0


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)


async def _serve(listening: socket.socket, given: argparse.Namespace) -> None:
    import uvicorn

    from headrace.console.access import Server
    from headrace.console.app import make_app
    from headrace.console.resting_server import RestingServer

    shown = Server(given.server, read_only=given.read_only)
    app = make_app(shown, names=given.host_name)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws_max_size=1 << 20,
        ws_per_message_deflate=False,  # it would keep 300 KB for each window, and what a page is sent is short
        timeout_graceful_shutdown=1,
    )
    await RestingServer(config, given.with_parent).serve(sockets=[listening])
    await shown.close()


if __name__ == "__main__":
    sys.exit(main())
