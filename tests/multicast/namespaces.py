"""Network namespaces that a test makes for itself, and what connects them. They have no names and go with their threads.

A namespace is a thread that has left the network of the process (`unshare`): whatever is called in it makes its sockets there,
and so do the threads and processes that it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import select
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_CLONE_NEWNET = 0x4000_0000


class NotPermitted(Exception):
    """This machine lets us make no namespaces, or not connect them; the text says why."""


class Namespace:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self.thread_id = 0
        began: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, args=(began,), daemon=True)
        self._thread.start()
        began.result(10)
        self.ip("link set lo up")

    def call(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """What the function returns, or raises, in here."""
        done: Future[T] = Future()
        self._calls.put((done, lambda: function(*arguments, **options)))
        return done.result(120)

    def ip(self, words: str) -> None:
        self.call(_run, ["ip", *words.split()])

    def close(self) -> None:
        self._calls.put(None)
        self._thread.join(10)

    def _work(self, began: Future[None]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_NEWNET):
            began.set_exception(NotPermitted(f"unshare: {os.strerror(ctypes.get_errno())}"))
            return
        self.thread_id = threading.get_native_id()
        began.set_result(None)
        while (call := self._calls.get()) is not None:
            done, function = call
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)


def connect(one: Namespace, name: str, address: str, other: Namespace, other_name: str, other_address: str) -> None:
    """A cable between them, with an interface of that name and address at each end."""
    one.ip(f"link add {name} type veth peer name {other_name} netns {other.thread_id}")
    for end, interface, own in ((one, name, address), (other, other_name, other_address)):
        end.ip(f"addr add {own} dev {interface}")
        end.ip(f"link set {interface} up")


def forwards_packets(namespace: Namespace) -> None:
    namespace.call(_write, "/proc/sys/net/ipv4/ip_forward", "1")


class Tunnel:
    """Whoever connects to a port of loopback in the one namespace is connected to the same port of loopback in the other, over
    the cables between them."""

    def __init__(self, near: Namespace, far: Namespace, far_address: str, port: int) -> None:
        self._listeners = [
            far.call(_listen, far_address, port, lambda: socket.create_connection(("127.0.0.1", port), 5)),
            near.call(_listen, "127.0.0.1", port, lambda: socket.create_connection((far_address, port), 5)),
        ]

    def close(self) -> None:
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()


def _listen(address: str, port: int, dial: Callable[[], socket.socket]) -> socket.socket:
    listener = socket.create_server((address, port))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=_relay, args=(listener.accept()[0], dial), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener


def _relay(here: socket.socket, dial: Callable[[], socket.socket]) -> None:
    with here, contextlib.suppress(OSError), dial() as there:
        peers = {here: there, there: here}
        while True:
            for ready in select.select([here, there], [], [])[0]:
                data = ready.recv(65_536)
                if not data:
                    return
                peers[ready].sendall(data)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPermitted(f"{' '.join(command)}: {done.stderr.strip()}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
