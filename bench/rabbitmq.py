"""A real RabbitMQ, from Debian's `rabbitmq-server` package, as one process on loopback.

    with start_rabbitmq(folder) as server:
        ... server.amqp_port, server.pid, server.cpu_seconds(), server.rss_bytes() ...

It runs as its service would run it, without any setting of ours but the addresses: default allocator and scheduler flags, no
plugins, guest/guest. The start script is told that a supervisor watches it, so that it becomes the Erlang machine itself and
`pid` is all of the server. Erlang's port mapper (epmd), which a node cannot start without, is a process of our own on a port
of our own, so nothing of an installed RabbitMQ is touched and nothing is left behind. `$RABBITMQ_HOME` names an unpacked
RabbitMQ to use in place of the package.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench.peers import PeerError, Server, free_port

PACKAGE = Path("/usr/lib/rabbitmq/lib")
HOST = "127.0.0.1"
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME = b"\x01"
MISSING = "RabbitMQ is needed for the AMQP cases: apt install rabbitmq-server, or set RABBITMQ_HOME to an unpacked one"


@dataclass(slots=True)
class RabbitServer(Server):
    """A RabbitMQ and the port mapper that belongs to it."""

    mapper: subprocess.Popen[bytes]

    def stop(self, deadline_s: float = 120) -> None:
        try:
            Server.stop(self, deadline_s)
        finally:
            self.mapper.terminate()
            self.mapper.wait()


def rabbitmq_home() -> Path:
    """The newest installed RabbitMQ; a PeerError says how to get one."""
    if named := os.environ.get("RABBITMQ_HOME"):
        home = Path(named)
        if not (home / "sbin" / "rabbitmq-server").exists():
            raise PeerError(f"RABBITMQ_HOME={named} has no sbin/rabbitmq-server")
        return home
    found = sorted(PACKAGE.glob("rabbitmq_server-*/sbin/rabbitmq-server"), key=lambda path: _version_in(path.parts[-3]))
    if not found:
        raise PeerError(MISSING)
    return found[-1].parents[1]


def version() -> str:
    """Such as '3.10.8', or 'none'."""
    try:
        return ".".join(map(str, _version_in(rabbitmq_home().name))) or "unknown"
    except PeerError:
        return "none"


def _version_in(name: str) -> tuple[int, ...]:
    found = re.search(r"(\d+(?:\.\d+)+)", name)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def start_rabbitmq(folder: Path, *, port: int = 0, wait: bool = True, deadline_s: float = 120) -> RabbitServer:
    """Starts RabbitMQ on `folder` (kept between starts). It is ready when it answers a protocol header."""
    home, mapper_program = rabbitmq_home(), shutil.which("epmd")
    if mapper_program is None:
        raise PeerError("Erlang's epmd is not on the path: RabbitMQ cannot start without it")
    folder.mkdir(parents=True, exist_ok=True)
    port, mapper_port, output = port or free_port(), free_port(), folder / "output.log"
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.default = {HOST}:{port}\n")
    (folder / "enabled_plugins").write_text("[].\n")
    environment = _environment(folder, mapper_port)
    with output.open("ab") as log:
        mapper = subprocess.Popen(
            [mapper_program, "-address", HOST, "-port", str(mapper_port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait_for_mapper(mapper, mapper_port)
            spawned_at = time.perf_counter()
            process = subprocess.Popen(
                [str(home / "sbin" / "rabbitmq-server")],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            mapper.terminate()
            mapper.wait()
            raise
    server = RabbitServer("RabbitMQ", HOST, port, process, folder, output, spawned_at, amqp_port=port, mapper=mapper)
    if wait:
        try:
            wait_for_amqp(server, deadline_s)
        except BaseException:
            server.stop()
            raise
    return server


def _environment(folder: Path, mapper_port: int) -> dict[str, str]:
    """Everything of this node in `folder`, and nothing of an installed node's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
    return kept | {
        "HOME": str(folder),  # the cookie
        "RUNNING_UNDER_SYSTEMD": "true",  # the start script becomes the Erlang machine
        "RABBITMQ_CONF_ENV_FILE": str(folder / "no-env.conf"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "ERL_EPMD_PORT": str(mapper_port),
        "ERL_EPMD_ADDRESS": HOST,
    }


def _wait_for_mapper(mapper: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and mapper.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        time.sleep(0.01)
    raise PeerError("epmd did not start")


def wait_for_amqp(server: Server, deadline_s: float) -> None:
    """Until the server answers an AMQP protocol header with a method (connection.start)."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if server.process.poll() is not None:
            said = server.output.read_text(errors="replace").strip()[-300:]
            raise PeerError(f"{server.name} ended with {server.process.returncode}: {said}")
        if speaks_amqp(server.host, server.amqp_port):
            return
        time.sleep(0.02)
    raise PeerError(f"{server.name} was not ready after {deadline_s:.0f} s: see {server.output}")


def speaks_amqp(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), 5) as link:
        link.sendall(PROTOCOL_HEADER)
        return link.recv(1) == METHOD_FRAME
    return False
