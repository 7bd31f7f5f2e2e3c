"""Where the server listens, what clients see of its end, and what is left after it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path

from tests.amqp.wire import PERSISTENT, Wire

from headrace.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from headrace.testing import HeadraceServer
from headrace.testing.plugin import HeadraceFactory


def ready(server: HeadraceServer) -> Wire:
    wire = Wire(server.amqp)
    wire.log_in()
    wire.open()
    return wire


def test_clients_are_told_that_the_server_stops_and_lose_nothing(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory()
    wire = ready(server)
    wire.call(1, QueueDeclare("kept", durable=True), QueueDeclareOk)
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    wire.publish(1, "kept", b"out", properties=PERSISTENT)
    wire.method()  # the confirm
    wire.call(1, BasicConsume("kept", "c"), BasicConsumeOk)
    wire.expect(BasicDeliver)
    wire.content()
    server.stop()
    assert wire.closed() == (320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", 0, 0)
    assert wire.ended()
    wire = ready(server.start())
    got = wire.call(1, BasicGet("kept"), BasicGetOk)
    assert got.redelivered
    assert wire.content()[1] == b"out"
    wire.close()


def test_the_ready_line_names_a_port_and_the_plugin_an_address(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory()
    assert server.amqp.startswith("amqp://guest:guest@127.0.0.1:")
    assert server.ready_line["amqp"] == server.amqp


def serve(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headrace", "serve", "--json", "--data", str(folder), "--kafka", "127.0.0.1:0"]
    command += ["--http", "127.0.0.1:0", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_without_an_address_a_free_port_is_taken_when_the_usual_one_is_not(tmp_path: Path) -> None:
    with socket.socket() as usual:
        usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of before may still be ending there
        with contextlib.suppress(OSError):  # somebody else has it: as good
            usual.bind(("127.0.0.1", 5672))
            usual.listen()
        with serve(tmp_path) as server:
            assert server.stdout is not None
            assert server.stderr is not None
            url = json.loads(server.stdout.readline())["amqp"]
            assert not url.endswith(":5672/")
            wire = Wire(url)
            wire.log_in()
            wire.close()
            server.terminate()
            assert b"port 5672 is taken: AMQP listens on 127.0.0.1:" in server.stderr.read()


def test_an_address_that_was_asked_for_and_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with serve(tmp_path, "--amqp", f"127.0.0.1:{port}") as server:
            assert server.wait(30) == 2
            assert server.stderr is not None
            assert f"127.0.0.1:{port}: " in server.stderr.read().decode()
