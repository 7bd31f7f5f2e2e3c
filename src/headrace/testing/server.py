"""A Headrace server in a process of its own, for tests: started, crashed, restarted and stopped on demand.

The server is the real one, reached only from outside: `python -m headrace serve … --json`, whose first line of standard
output is a JSON object that names every listener. Its standard error is the log.

Three things are less obvious than they look:

- *Ports.* A restarted server must get its old ports back, or clients can't reconnect. A port that the system picks
  (port 0) comes from the range it also uses for outgoing connections, so while the server is down any connection on the
  machine may take it, even a client's own attempt to reconnect (TCP lets a socket connect to itself). So the ports are
  picked here, below that range.
- *Orphans.* A server must not outlive the tests. It is ended by `stop`, by garbage collection, at interpreter exit and,
  on Linux, by the kernel when the process that started it is killed. It runs in a session of its own, so Ctrl-C reaches
  the tests first and they stop it.
- *Forks.* A child that forked off the tests inherits the object, not the duty: only the process that started a server
  ends it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

LISTENERS = ("kafka", "amqp", "kinesis", "http")
"""The listeners that a server is asked for; it may report more of them."""

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
POLL_S = 0.005

PORTS_FROM = 10_000
PORT_ATTEMPTS = 200
START_ATTEMPTS = 5  # a picked port may be gone when the server binds it

# PR_SET_PDEATHSIG concerns the process that sets it, so the server's own interpreter does, before it becomes Headrace.
# The kernel watches the *thread* that started the child: see `_command`.
_TIED_TO_PARENT = """
import ctypes, os, runpy, signal, sys
parent = int(sys.argv.pop(1))
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != parent:
    os._exit(1)
runpy.run_module("headrace", run_name="__main__", alter_sys=True)
"""


class ServerFailed(AssertionError):
    """The server did not come up, ended by itself, or did not end cleanly. The message carries the end of its log."""


def wait_until(condition: Callable[[], T | None], *, timeout_s: float = 10.0, what: str = "the condition") -> T:
    """Calls `condition` until it returns something true, and returns that; raises AssertionError after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s for {what}")
        time.sleep(POLL_S)


class HeadraceServer:
    """One server and its data folder.

        with HeadraceServer(settings={"num.partitions": 4}) as server:
            producer = Producer({"bootstrap.servers": server.kafka})
            server.crash()      # kill -9
            server.restart()    # same folder, same ports: clients reconnect

    Without `data` the server has a temporary folder that goes with it. `settings` are the server's own, under the names
    that Kafka gives them (`--set name=value`). `arguments` are added to the command line as they are.
    """

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        durability: str | None = None,
        settings: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-"))
        self.data = Path(data) if data is not None else self._folder / "data"
        self.durability = durability
        self.settings = dict(settings or {})
        self.arguments = tuple(arguments)
        self.environment = dict(environment or {})
        self.listeners: dict[str, str] = {}
        """Every address of the ready line by its name: `{"kafka": "127.0.0.1:19092", …}`."""
        self.ready_line: dict[str, Any] = {}
        self._command_prefix = command
        self._ready_timeout_s = ready_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._addresses: dict[str, str] = {}
        self._log = self._folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._reaper = weakref.finalize(self, _reap, None, os.getpid(), self._folder)

    # What a test asks

    @property
    def kafka(self) -> str:
        """`host:port`, ready to be a client's `bootstrap.servers`."""
        return self.address("kafka")

    @property
    def amqp(self) -> str:
        """`amqp://guest:guest@host:port/`, ready for a client of RabbitMQ."""
        return self.address("amqp")

    @property
    def kinesis(self) -> str:
        """`http://host:port`, ready to be the `endpoint_url` of an AWS SDK."""
        return self.address("kinesis")

    @property
    def http(self) -> str:
        """`http://host:port`, where /metrics, /health and /ready are."""
        return self.address("http")

    def address(self, listener: str) -> str:
        """The address of one listener, as the server reported it."""
        try:
            return self.listeners[listener]
        except KeyError:
            known = ", ".join(self.listeners) or "none: the server is not started"
            raise KeyError(f"no listener {listener!r}; there are: {known}") from None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed("the server is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log_text(self) -> str:
        """Everything that every run of this server wrote to standard error."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def memory_bytes(self, *, peak: bool = False) -> int:
        """Resident memory now, or the most there ever was since the last start. Linux only."""
        field = "VmHWM:" if peak else "VmRSS:"
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
        raise ServerFailed(f"process {self.pid} has no {field}")

    # What a test does

    def start(self) -> HeadraceServer:
        """Starts the server and returns when it is ready. Raises ServerFailed with its log if it does not come up."""
        if self.running:
            raise ServerFailed(f"the server is already running as process {self.pid}")
        fixed = dict(self._addresses)
        for attempt in range(START_ATTEMPTS):
            addresses = fixed or {name: f"127.0.0.1:{free_port()}" for name in LISTENERS}
            try:
                self._launch(addresses)
            except ServerFailed as failure:
                if fixed or attempt == START_ATTEMPTS - 1 or not _address_in_use(str(failure)):
                    raise
            else:
                break
        return self

    def crash(self) -> None:
        """Kills the server with SIGKILL, as a power switch would end the process, and waits until it is gone."""
        self._must_run("crash")
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Asks the server to end (SIGTERM). Raises ServerFailed unless it exits with 0 in good time, or if it had ended
        by itself. Nothing to do when it was crashed or stopped before."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(self._stop_timeout_s)
            except subprocess.TimeoutExpired:
                self._end(signal.SIGKILL)
                raise ServerFailed(self._explain(f"did not end within {self._stop_timeout_s:g} s of SIGTERM")) from None
            what = "ended after SIGTERM"
        else:
            what = "ended by itself"
        self._process = None
        if process.returncode != 0 or what == "ended by itself":
            raise ServerFailed(self._explain(f"{what} with {_exit_text(process.returncode)}"))

    def restart(self, durability: str | None = None, **settings: object) -> HeadraceServer:
        """Starts it again on the same folder and the same ports, after `crash` or `stop`; a running server is stopped
        first. Settings given here replace or join the earlier ones; an underscore in a keyword stands for a dot."""
        self.stop()
        if durability is not None:
            self.durability = durability
        self.settings |= setting_names(settings)
        return self.start()

    def close(self) -> None:
        """Stops the server if it runs and removes its temporary folder."""
        try:
            self.stop()
        finally:
            self._reaper()

    def __enter__(self) -> HeadraceServer:
        return self if self.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"process {self.pid}" if self.running else "not running"
        return f"<HeadraceServer {state} {self.listeners} {self.data}>"

    # How it is done

    def _command(self, addresses: Mapping[str, str]) -> list[str]:
        if self._command_prefix is not None:
            command = [*self._command_prefix]
        elif sys.platform == "linux" and threading.current_thread() is threading.main_thread():
            # Only the main thread lives as long as the process: tied to another, the server would die with that thread.
            command = [sys.executable, "-c", _TIED_TO_PARENT, str(os.getpid())]
        else:
            command = [sys.executable, "-m", "headrace"]
        command += ["serve", "--data", str(self.data), "--json", "--no-console"]
        for name, address in addresses.items():
            command += [f"--{name}", address]
        if self.durability is not None:
            command += ["--durability", self.durability]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={_setting_text(value)}"]
        return [*command, *self.arguments]

    def _launch(self, addresses: Mapping[str, str]) -> None:
        output = self._folder / "stdout"
        with output.open("wb") as stdout, self._log.open("ab") as stderr:
            self._process = subprocess.Popen(
                self._command(addresses),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
                start_new_session=True,
            )
        self._reaper.detach()
        self._reaper = weakref.finalize(self, _reap, self._process, os.getpid(), self._folder)
        try:
            line = wait_until(lambda: self._first_line(output), timeout_s=self._ready_timeout_s, what="the server's ready line")
            self._read_ready(line)
        except BaseException as problem:
            self._end(signal.SIGKILL)
            if isinstance(problem, ServerFailed) or not isinstance(problem, AssertionError):
                raise
            raise ServerFailed(self._explain(f"was not ready after {self._ready_timeout_s:g} s")) from None

    def _first_line(self, output: Path) -> str | None:
        text = output.read_text(errors="replace")
        if "\n" in text:
            return text.split("\n", 1)[0]
        process = self._process
        if process is not None and process.poll() is not None:
            raise ServerFailed(self._explain(f"ended with {_exit_text(process.returncode)} before it was ready"))
        return None

    def _read_ready(self, line: str) -> None:
        try:
            ready = json.loads(line)
        except ValueError:
            ready = None
        if not isinstance(ready, dict) or ready.get("ready") is not True:
            raise ServerFailed(self._explain(f"printed this in place of its ready line: {line!r}"))
        self.ready_line = ready
        self.listeners = {name: value for name, value in ready.items() if isinstance(value, str)}
        self._addresses = {name: _host_port(self.listeners[name]) for name in LISTENERS if name in self.listeners}

    def _must_run(self, verb: str) -> None:
        process = self._process
        if process is None:
            raise ServerFailed(f"can't {verb} a server that is not running")
        if process.poll() is not None:
            self._process = None
            raise ServerFailed(self._explain(f"ended by itself with {_exit_text(process.returncode)}"))

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            _signal_group(process, number)
            process.wait()

    def _explain(self, what: str) -> str:
        tail = self.log_text()[-4000:].rstrip()
        return f"the Headrace server {what}\n--- its log ---\n{tail or '(empty)'}"


def setting_names(settings: Mapping[str, object]) -> dict[str, object]:
    """Keyword arguments as settings: `num_partitions=4` is `num.partitions`. No server setting has an underscore."""
    return {name.replace("_", "."): value for name, value in settings.items()}


def _setting_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def free_port() -> int:
    """A port that is free now and that the system will not give to an outgoing connection."""
    below = _first_ephemeral_port()
    for _ in range(PORT_ATTEMPTS):
        port = random.SystemRandom().randrange(PORTS_FROM, below)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    return 0  # the server picks; a restart may then find its port taken


def _first_ephemeral_port() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768
    return first if first > PORTS_FROM + 1_000 else 49_152


def _host_port(address: str) -> str:
    """`host:port` of a listener, whether it was reported so or as a URL."""
    return urlsplit(address).netloc.rpartition("@")[2] if "://" in address else address


def _address_in_use(text: str) -> bool:
    return "address already in use" in text.lower()


def _exit_text(code: int) -> str:
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # The process is not reaped yet, so neither its id nor its group's can belong to anything else.
    if process.poll() is None:
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            process.send_signal(number)


def _reap(process: subprocess.Popen[bytes] | None, owner: int, folder: Path) -> None:
    if os.getpid() != owner:
        return
    if process is not None:
        _signal_group(process, signal.SIGKILL)
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
