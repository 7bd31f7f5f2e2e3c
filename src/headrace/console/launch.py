"""Starts the console beside a server: the socket is bound here, so its address is known at once; the process follows.

Nothing of NiceGUI is imported here. A console that ends by itself is started again, `STARTS` times at most; the server does not
depend on it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import socket
import sys
from pathlib import Path

logger = logging.getLogger("headrace.console")

DEFAULT = ("127.0.0.1", 8090)
STARTS = 4
PAUSE_S = 1.0
END_WITHIN_S = 3.0
BACKLOG = 64


def installed() -> bool:
    return importlib.util.find_spec("nicegui") is not None


class ConsoleProcess:
    """Bound when it is made. Raises OSError; without a port the default one, or a free one if that is taken."""

    def __init__(self, listen: tuple[str, int] | None, data: Path, *, read_only: bool = False) -> None:
        self._data = data
        self._read_only = read_only
        try:
            self._socket = _bound(*(listen or DEFAULT))
        except OSError:
            if listen is not None:
                raise
            self._socket = _bound(DEFAULT[0], 0)
            logger.warning("port %d is taken: the console listens on port %d", DEFAULT[1], self._socket.getsockname()[1])
        host, port = self._socket.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None

    def start(self, server_url: str) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(server_url))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), END_WITHIN_S)
            except TimeoutError:
                process.kill()
                await process.wait()
        self._socket.close()

    async def _run(self, server_url: str) -> None:
        number = self._socket.fileno()
        words = ["-m", "headrace.console.process", "--server", server_url, "--fd", str(number)]
        words += ["--with-parent", str(os.getpid()), "--beside", str(self._data)]
        if self._read_only:
            words.append("--read-only")
        for _ in range(STARTS):
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *words,
                pass_fds=(number,),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sys.stderr,
                env=_environment(),
            )
            code = await self._process.wait()
            logger.warning("the console ended with %d", code)
            await asyncio.sleep(PAUSE_S)
        logger.error("the console is not started again; the server goes on without it")


def _environment() -> dict[str, str]:
    return {**os.environ, "HEADRACE_CONSOLE": "off"}


def _bound(host: str, port: int) -> socket.socket:
    bound = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG)
    bound.set_inheritable(True)
    return bound
