"""Who may come in: the handler of ZAP (ZeroMQ RFC 27) of one context.

libzmq asks it during each handshake, with the domain of the socket and, under CURVE, the public key that the other end has
proved to own. Without CURVE everybody may come in; it is asked all the same, by those who bind or receive, since libzmq then
turns away whoever speaks no ZMTP 3: to be kind to programs from before 2013 it would take any bytes at all for messages.

It runs on a thread of its own, which sleeps until it is asked and ends with the context; so a flood of handshakes costs nobody
else. A socket insists on it (`ZAP_ENFORCE_DOMAIN`): without a handler it lets nobody in.
"""

from __future__ import annotations

import threading

import zmq
from zmq.utils import z85

ADDRESS = "inproc://zeromq.zap.01"

_REQUEST_FRAMES = {b"NULL": 6, b"CURVE": 7}  # version, request id, domain, address, identity, mechanism, the key


class Gate:
    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.refused = 0
        self._allowed: dict[tuple[bytes, bytes], frozenset[bytes] | None] = {}  # by domain and mechanism
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(ADDRESS)  # before any socket binds that wants to be asked for
        self._thread = threading.Thread(target=self._answer, name="headrace-zmq-gate", daemon=True)
        self._thread.start()

    def allow_all(self, domain: str) -> None:
        """Without CURVE."""
        self._allowed[domain.encode(), b"NULL"] = None

    def allow(self, domain: str, keys: frozenset[str] | None) -> None:
        """The public keys that may come in to sockets of that domain; None: all who know the server's."""
        self._allowed[domain.encode(), b"CURVE"] = None if keys is None else frozenset(map(z85.decode, keys))

    def _answer(self) -> None:
        socket = self._socket
        try:
            while True:
                request = socket.recv_multipart()
                socket.send_multipart(self._judged(request))
        except zmq.ZMQError:  # the context ends
            pass
        finally:
            socket.close()

    def _judged(self, request: list[bytes]) -> list[bytes]:
        version, number, domain, _, _, mechanism = [*request, b"", b"", b"", b"", b"", b""][:6]
        if len(request) == _REQUEST_FRAMES.get(mechanism) and (domain, mechanism) in self._allowed:
            keys = self._allowed[domain, mechanism]
            if keys is None or request[6] in keys:
                return [version, number, b"200", b"OK", b"", b""]
        self.refused += 1
        return [version, number, b"400", b"this key is not allowed", b"", b""]
