"""Contexts and sockets of ZeroMQ with the options that Headrace gives them.

Every socket has a bound on what it queues (`high_water_mark` messages to and from each peer) and on the length of a frame that
it takes (`max_message_bytes`; libzmq closes a connection that brings a longer one). Peers that do not finish their handshake
within `HANDSHAKE_MS`, or whose heartbeat stops for `HEARTBEAT_TIMEOUT_MS`, are disconnected; connecting is tried again after
`RECONNECT_MS` and then less and less often, `RECONNECT_MAX_MS` at most.

A context has a thread of its own for input and output, so one context for each channel or route keeps the peers of one from the
time of another. It does not survive a fork: a child makes its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
from dataclasses import dataclass
from typing import TypeAlias

import zmq

from headrace.zeromq.wire.gate import Gate
from headrace.zeromq.wire.keys import KeyPair

HANDSHAKE_MS = 5_000
HEARTBEAT_MS = 5_000
HEARTBEAT_TIMEOUT_MS = 20_000
RECONNECT_MS = 100
RECONNECT_MAX_MS = 5_000
MAX_SUBSCRIPTION_BYTES = 4096  # of a topic prefix that a subscriber asks a publisher for

_RECEIVING = (zmq.PULL, zmq.SUB, zmq.XSUB)
_IPV4 = re.compile(r"tcp://([0-9.]+|\*):")

Socket: TypeAlias = "zmq.Socket[bytes]"


@dataclass(frozen=True, slots=True)
class CurveServer:
    """This end is the server of CURVE: others must know its public key. `allowed` are the public keys that may come in, None
    for all."""

    keys: KeyPair
    allowed: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class CurveClient:
    """The other end is the server, and this is its public key. Without keys of its own a client takes new ones."""

    server_key: str
    keys: KeyPair | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a socket is, and how it is reached."""

    address: str
    bind: bool
    high_water_mark: int = 1000
    max_message_bytes: int = 1024 * 1024
    linger_ms: int = 1000
    curve: CurveServer | CurveClient | None = None


class Context:
    """A context of ZeroMQ, and the gate that its sockets share."""

    def __init__(self) -> None:
        self._context: zmq.Context[Socket] = zmq.Context()
        self._gate: Gate | None = None
        self._pid = os.getpid()
        self._domains = 0

    @property
    def refused_keys(self) -> int:
        return 0 if self._gate is None else self._gate.refused

    def socket(self, kind: int, endpoint: Endpoint, **options: int) -> Socket:
        """A socket with its options, neither bound nor connected. More options by their ZeroMQ name in small letters."""
        if os.getpid() != self._pid:
            raise RuntimeError("ZeroMQ does not survive a fork: connect in the child, not before it")
        made = self._context.socket(kind)
        try:
            made.linger = endpoint.linger_ms
            made.sndhwm = made.rcvhwm = endpoint.high_water_mark
            made.maxmsgsize = endpoint.max_message_bytes
            made.handshake_ivl = HANDSHAKE_MS
            made.heartbeat_ivl = HEARTBEAT_MS
            made.heartbeat_timeout = HEARTBEAT_TIMEOUT_MS
            made.reconnect_ivl = RECONNECT_MS
            made.reconnect_ivl_max = RECONNECT_MAX_MS
            made.ipv6 = not _IPV4.match(endpoint.address)  # else an IPv4 address is written as one of IPv6
            for name, value in options.items():
                setattr(made, name, value)
            self._secure(made, endpoint.curve, gated=endpoint.bind or kind in _RECEIVING)
        except BaseException:
            made.close(0)
            raise
        return made

    def _secure(self, made: Socket, curve: CurveServer | CurveClient | None, *, gated: bool) -> None:
        if isinstance(curve, CurveClient):
            keys = curve.keys or KeyPair.new()
            made.curve_serverkey = curve.server_key.encode()
            made.curve_publickey = keys.public.encode()
            made.curve_secretkey = keys.secret.encode()
            return
        if curve is None and not gated:  # the gate goes first when a context ends, and a handshake that waits for it never ends
            return
        if self._gate is None:
            self._gate = Gate(self._context)
        self._domains += 1
        domain = f"headrace-{self._domains}"
        made.zap_domain = domain.encode()
        made.zap_enforce_domain = 1
        if curve is None:
            self._gate.allow_all(domain)
        else:
            self._gate.allow(domain, curve.allowed)
            made.curve_server = 1
            made.curve_publickey = curve.keys.public.encode()
            made.curve_secretkey = curve.keys.secret.encode()

    def pair(self) -> Socket:
        """One end of a conversation within this process."""
        return self._context.socket(zmq.PAIR)

    def close(self) -> None:
        """Ends when every socket is closed and has sent what it holds, or lingered as long as it may."""
        if os.getpid() == self._pid:
            self._context.term()


def open_endpoint(socket: Socket, endpoint: Endpoint) -> None:
    """Binds or connects. Raises OSError."""
    try:
        if endpoint.bind:
            if endpoint.address.startswith("ipc://"):
                _check_ipc_path(endpoint.address.removeprefix("ipc://"))
            socket.bind(endpoint.address)
        else:
            socket.connect(endpoint.address)
    except zmq.ZMQError as error:
        raise OSError(error.errno, f"{endpoint.address}: {error.strerror}") from error


def _check_ipc_path(path: str) -> None:
    """libzmq removes what is in the way, whatever that is: only a socket may be."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(f"ipc://{path}: something that is no socket is there already")


def close_later(context: Context) -> None:
    """Ends a context whose sockets are closed, without anybody waiting for it."""
    threading.Thread(target=context.close, name="headrace-zmq-close", daemon=True).start()
