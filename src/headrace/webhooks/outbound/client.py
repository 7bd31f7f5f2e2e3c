"""The client for URLs that somebody else chose: it resolves, checks, connects to what it checked, and reads no more than it
must.

    name → is it one that is never called? → an idle connection to it whose address is still allowed, or:
    resolve → check every address → connect to one of those → TLS for the name → send → head of the answer → some of its body

No address is connected to that was not checked in the same call; the name is not resolved a second time in between. Redirects
are answers like others: nobody follows them. Proxies of the environment, cookies and compression do not exist here.

All of that happens within `timeout_s`, the wait for a place included. Bounds: `MAX_CONNECTIONS` (see `slots`), `MAX_PER_HOST`,
those of `idle` and of `exchange`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.webhooks.outbound.errors import Refused, TimedOut, Unreachable
from headrace.webhooks.outbound.exchange import Exchange, Head, Headers, NoAnswer
from headrace.webhooks.outbound.idle import MAX_IDLE, IdleConnections
from headrace.webhooks.outbound.network import Network, SocketNetwork, Tls
from headrace.webhooks.outbound.policy import LOOPBACK, NOTHING, AllowList, Policy, check_never, is_localhost
from headrace.webhooks.outbound.resolver import Resolver, SystemResolver
from headrace.webhooks.outbound.slots import Slots
from headrace.webhooks.outbound.url import Address, Url

MAX_CONNECTIONS = 2048
MAX_PER_HOST = 64
MAX_RESPONSE_BYTES = 64 * 1024
BODY_WITHIN_S = 5.0
MAX_TRIED = 4  # addresses of one name
CONNECT_S = 3.0  # to an address, while there are others to try

Host = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """`body_start` is as much of the body as came within the bounds, as it was sent; `address` is who answered."""

    status: int
    headers: Headers
    body_start: bytes
    address: str


@dataclass(slots=True)
class _Progress:
    """What is being done, in words for whoever must be told that there was no more time for it."""

    doing: str = "waiting for other requests to the same host"


class Outbound:
    """`allow` is the operator's list. Belongs to the event loop that calls it first."""

    def __init__(
        self,
        *,
        resolver: Resolver | None = None,
        allow: Sequence[str] = (),
        ca_file: str | None = None,
        network: Network | None = None,
        max_connections: int = MAX_CONNECTIONS,
        max_per_host: int = MAX_PER_HOST,
        max_idle: int = MAX_IDLE,
    ) -> None:
        """Raises ValueError for an entry of `allow` that can't be read."""
        self.policy = Policy(AllowList.of(allow))
        self._resolve = resolver or SystemResolver()
        self._network: Network = network or SocketNetwork()
        self._ca_file = ca_file
        self._slots = Slots(max_connections, max_per_host)
        self._idle = IdleConnections(max_idle)
        self._trust: asyncio.Future[ssl.SSLContext] | None = None

    @property
    def idle(self) -> int:
        return len(self._idle)

    async def post(
        self,
        url: Url,
        headers: Headers,
        body: bytes,
        *,
        timeout_s: float,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        allow: AllowList = NOTHING,
    ) -> Answer:
        """`allow` is the route's own list. Raises Refused, Unreachable and TimedOut, and ValueError for headers that no request
        may have."""
        check_never(url)
        if url.address is not None:  # at once, also when the host has no place left
            self.policy.check(url, [url.address], allow)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        host = (url.scheme, url.host, url.port)
        all_headers = request_headers(url, headers, len(body))
        progress = _Progress()
        try:
            async with asyncio.timeout_at(deadline) as limit:
                await self._slots.take(host)
                try:
                    exchange, head = await self._until_head(url, host, all_headers, body, allow, progress)
                    limit.reschedule(None)  # the answer counts; its body has a limit of its own
                    kept = await self._body(exchange, host, max_response_bytes, min(deadline, loop.time() + BODY_WITHIN_S))
                finally:
                    self._slots.give_back(host)
        except TimeoutError:
            raise TimedOut(f"no answer within {timeout_s:g} s; the time was up while {progress.doing}") from None
        return Answer(head.status, head.headers, kept, str(exchange.address))

    def close(self) -> None:
        """Closes what is idle. Requests that are under way end by being cancelled."""
        self._idle.close()

    # --- inside

    async def _until_head(
        self, url: Url, host: Host, headers: Headers, body: bytes, allow: AllowList, progress: _Progress
    ) -> tuple[Exchange, Head]:
        used = self._idle.take(host)
        if used is not None:
            try:
                if url.address is None:  # others were checked already
                    self.policy.check(url, [used.address], allow)
            except Refused:
                used.close()
                raise
            try:
                return used, await self._send(used, url, headers, body, progress)
            except NoAnswer:  # it had ended, only we did not know yet; with an id in its headers a webhook may come twice
                pass
        exchange = await self._connect(url, allow, progress)
        return exchange, await self._send(exchange, url, headers, body, progress)

    async def _send(self, exchange: Exchange, url: Url, headers: Headers, body: bytes, progress: _Progress) -> Head:
        progress.doing = f"waiting for the answer of {exchange.address}"
        try:
            return await exchange.send(url.target, headers, body)
        except BaseException:
            exchange.close()
            raise

    async def _body(self, exchange: Exchange, host: Host, most: int, until: float) -> bytes:
        try:
            kept = await exchange.body(most, until)
        except BaseException:
            exchange.close()
            raise
        if exchange.renew():
            self._idle.put(host, exchange)
        else:
            exchange.close()
        return kept

    async def _connect(self, url: Url, allow: AllowList, progress: _Progress) -> Exchange:
        loop = asyncio.get_running_loop()
        if url.address is not None:
            found: Sequence[Address] = [url.address]
        elif is_localhost(url.host):
            found = LOOPBACK
        else:
            progress.doing = f"resolving {url.host}"
            found = await self._resolve(url.host)
        addresses = self.policy.check(url, found, allow)[:MAX_TRIED]
        tls = Tls(await self._context(), url.host) if url.is_tls else None
        failure: Unreachable | None = None
        for address in addresses:
            progress.doing = f"connecting to {address}"
            try:
                async with asyncio.timeout(CONNECT_S if address is not addresses[-1] else None):
                    stream = await self._network.connect(address, url.port, tls)
                return Exchange(stream, address, loop.time())
            except TimeoutError:
                failure = Unreachable(f"no connection to {address} port {url.port} within {CONNECT_S:g} s")
            except Unreachable as error:
                failure = error
        assert failure is not None
        raise failure

    async def _context(self) -> ssl.SSLContext:
        if self._trust is None:
            self._trust = asyncio.get_running_loop().run_in_executor(None, _make_context, self._ca_file)
        try:
            return await asyncio.shield(self._trust)
        except (OSError, ssl.SSLError) as error:
            self._trust = None
            raise Unreachable(f"the certificates of {self._ca_file or 'the system'} can't be read: {error}", "tls") from None


def _make_context(ca_file: str | None) -> ssl.SSLContext:
    """Reads files: on a thread."""
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


# --- headers

# What belongs to the connection, and to us. RFC 9110, section 7.6.1.
OURS = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-zA-Z]+")
_VALUE = re.compile(rb"[^\x00-\x20\x7f](?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?|")


def check_header(name: bytes, value: bytes) -> None:
    """Raises ValueError for one that nobody but us may set, or that is none."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:100]!r} is not the name of a header")
    if name.lower() in OURS:
        raise ValueError(f"the header {name.decode()} can't be set: it belongs to the connection")
    if not _VALUE.fullmatch(value):
        raise ValueError(f"the value of the header {name.decode()} holds control characters, or spaces around it")


def request_headers(url: Url, headers: Headers, body_bytes: int) -> list[tuple[bytes, bytes]]:
    for name, value in headers:
        check_header(name, value)
    return [(b"Host", url.authority.encode("ascii")), (b"Content-Length", b"%d" % body_bytes), *headers]
