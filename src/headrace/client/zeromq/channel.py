"""What `connect` returns: an address, its options, and the sockets made of them.

Who binds and who connects: a publisher, a puller and a replier bind, the others connect; `bind=` turns that round, for all of a
channel or for one socket. One address has one that binds and any number that connect, in whatever order they start.

Closing a channel closes its sockets and waits until what they hold is sent, `linger_s` at most; what is left then is lost, and
the log says so. A channel that nobody closed is closed when it is forgotten or when the program ends.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from headrace.client.zeromq.publishing import Publisher, Subscriber
from headrace.client.zeromq.pushing import Puller, Pusher
from headrace.client.zeromq.requesting import Replier, Requester
from headrace.client.zeromq.sockets import ChannelSocket
from headrace.zeromq.wire.keys import KeyPair, public_key
from headrace.zeromq.wire.sockets import Context, CurveClient, CurveServer, Endpoint, Socket

logger = logging.getLogger("headrace.client.zeromq")

Keys = KeyPair | str | os.PathLike[str]

HIGH_WATER_MARK = 1000
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
LINGER_S = 5.0


def connect(url: str, **options: Any) -> Channel:
    """A channel for `zmq+tcp://HOST:PORT` or `zmq+ipc:///PATH`; the options are those of Channel. Nothing is opened yet."""
    scheme, colon, rest = url.partition("://")
    if scheme not in ("zmq+tcp", "zmq+ipc") or not colon or not rest:
        raise ValueError(f"{url[:100]!r} is not like zmq+tcp://127.0.0.1:5556 or zmq+ipc:///run/prices")
    if scheme == "zmq+tcp":
        host, colon, port = rest.rpartition(":")
        if not host or not colon or not (port == "*" or (port.isascii() and port.isdigit() and int(port) <= 65535)):
            raise ValueError(f"{url[:100]!r} has no host and port, as in zmq+tcp://127.0.0.1:5556")
    return Channel(f"{scheme.removeprefix('zmq+')}://{rest}", **options)


@dataclass(frozen=True, slots=True)
class _Options:
    bind: bool | None
    endpoint: Endpoint


class Channel:
    """Options, for all its sockets or, given to one of the methods, for that one:

    bind                whether it binds or connects, whatever is usual for it
    high_water_mark     messages that are queued for each peer, and from each, before a sender waits or drops
    max_message_bytes   of a frame that is taken from a peer; one who sends a longer one is disconnected
    linger_s            how long closing waits for what is queued to be sent
    keys                of CURVE: a KeyPair, or the path of a file NAME.key_secret
    server_key          of CURVE: the public key of the other end, or a file that holds it. With it this end is CURVE's client;
                        with `keys` alone it is the server
    allowed_keys        of CURVE's server: the public keys that may come in, or files that hold them; all unless given
    """

    def __init__(
        self,
        address: str,
        *,
        bind: bool | None = None,
        high_water_mark: int = HIGH_WATER_MARK,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        linger_s: float = LINGER_S,
        keys: Keys | None = None,
        server_key: str | os.PathLike[str] | None = None,
        allowed_keys: Iterable[str | os.PathLike[str]] | None = None,
    ) -> None:
        if high_water_mark < 1 or max_message_bytes < 1 or linger_s < 0:
            raise ValueError("high_water_mark and max_message_bytes are 1 or more, linger_s is not negative")
        curve = _curve(keys, server_key, allowed_keys)
        self.address = f"zmq+{address}"
        self.context = Context()
        self._options = _Options(
            bind, Endpoint(address, False, high_water_mark, max_message_bytes, round(linger_s * 1000), curve)
        )
        self.open_sockets: set[Socket] = set()  # of ZeroMQ: a context does not end before all of them are closed
        self._sockets: weakref.WeakSet[ChannelSocket] = weakref.WeakSet()
        self._close = weakref.finalize(
            self, _close, self.context, self._sockets, self.open_sockets, linger_s, self.address, os.getpid()
        )

    # --- sockets

    def publisher(self, *, content: str = "event", **options: Any) -> Publisher:
        """`content` is what is sent of an event: `event` all of it; for programs that speak plain ZeroMQ `value`, which is
        [topic, value], or `bare`, which is [value]."""
        return Publisher(self, self._endpoint(True, options), content)

    def subscriber(self, *topics: str, **options: Any) -> Subscriber:
        """Of all topics that begin with one of these; of all, if there are none."""
        return Subscriber(self, self._endpoint(False, options), topics)

    def pusher(self, *, content: str = "event", **options: Any) -> Pusher:
        return Pusher(self, self._endpoint(False, options), content)

    def puller(self, **options: Any) -> Puller:
        return Puller(self, self._endpoint(True, options))

    def requester(self, *, content: str = "event", **options: Any) -> Requester:
        return Requester(self, self._endpoint(False, options), content)

    def replier(self, **options: Any) -> Replier:
        return Replier(self, self._endpoint(True, options))

    def adopt(self, socket: ChannelSocket) -> None:
        """It will be closed with the channel."""
        self._sockets.add(socket)

    def _endpoint(self, usually_binds: bool, options: dict[str, Any]) -> Endpoint:
        unknown = options.keys() - {"bind", "high_water_mark", "max_message_bytes"}
        if unknown:
            raise TypeError(f"{sorted(unknown)[0]} is no option of a socket: bind, high_water_mark, max_message_bytes")
        bind = options.pop("bind", None)
        if bind is None:
            bind = usually_binds if self._options.bind is None else self._options.bind
        return replace(self._options.endpoint, bind=bool(bind), **options)

    # --- the end

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _close(
    context: Context,
    sockets: weakref.WeakSet[ChannelSocket],
    open_sockets: set[Socket],
    linger_s: float,
    address: str,
    owner: int,
) -> None:
    if os.getpid() != owner:  # a child that forked off has the object, not the threads
        return
    for socket in list(sockets):
        socket.close()
    for left in list(open_sockets):  # whose owners are gone
        left.close()
    began = time.monotonic()
    context.close()
    if linger_s and time.monotonic() - began >= linger_s:
        logger.warning("%s: closed after %g s, and nobody had taken all that was sent: the rest is lost", address, linger_s)


def _curve(
    keys: Keys | None,
    server_key: str | os.PathLike[str] | None,
    allowed_keys: Iterable[str | os.PathLike[str]] | None,
) -> CurveServer | CurveClient | None:
    pair = keys if keys is None or isinstance(keys, KeyPair) else KeyPair.read(keys)
    if server_key is not None:
        if allowed_keys is not None:
            raise ValueError("allowed_keys is for the server of CURVE, and server_key says that this end is not")
        return CurveClient(public_key(server_key), pair)
    if pair is None:
        if allowed_keys is not None:
            raise ValueError("allowed_keys needs keys: this end is the server of CURVE then")
        return None
    return CurveServer(pair, None if allowed_keys is None else frozenset(map(public_key, allowed_keys)))
