"""From a request to an answer: finds the resource that a path names, asks who is there, and says what went wrong.

Paths are taken apart before they are decoded, since `%2F` is the name of a virtual host. Everybody logs in with every request
(Basic); a user needs one of RabbitMQ's tags to be let in: management, policymaker, monitoring or administrator.

Bound: a body has at most `MAX_BODY_BYTES`. Answers with long lists are written down `LARGE` rows at a time: a thread would not
help, since nobody else runs while JSON is written.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from headrace.broker.audit import Actor, act
from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.vhosts.users import User
from headrace.http.authentication import UnreadableCredentials, peer_of, user_of
from headrace.http.management.call import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER, Answer, Call, Resource
from headrace.http.management.errors import ApiError, bad_request, from_refusal, missing, not_authorised
from headrace.http.management.rates import Rates
from headrace.http.timing import PATTERN
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker import Broker

logger = logging.getLogger("headrace.http")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 20_000_000  # RabbitMQ's limit
LARGE = 50
CHALLENGE = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}

_PREFIX = "/api"
_SUFFICIENT = {
    MANAGEMENT: {MANAGEMENT, POLICYMAKER, MONITORING, ADMINISTRATOR},
    POLICYMAKER: {POLICYMAKER, ADMINISTRATOR},
    MONITORING: {MONITORING, ADMINISTRATOR},
    ADMINISTRATOR: {ADMINISTRATOR},
}
_REFUSED = {
    MANAGEMENT: "Not management user",
    POLICYMAKER: "User not authorised to access object",
    MONITORING: "Not monitor user",
    ADMINISTRATOR: "Not administrator user",
}
_NOBODY = User("")


class ManagementApi:
    def __init__(self, broker: Broker, resources: Iterable[Resource]) -> None:
        self._broker = broker
        self._rates = Rates(broker.clock)
        self._resources: dict[tuple[str, int], list[tuple[tuple[str, ...], Resource]]] = {}
        for resource in resources:
            segments = tuple(resource.path.split("/"))
            self._resources.setdefault((segments[0], len(segments)), []).append((segments, resource))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except ApiError as error:
            answer = Answer(error.status, error.body, CHALLENGE if error.body["error"] == "not_authorized" else {})
        except AmqpRefusal as refusal:
            refused = from_refusal(refusal)
            answer = Answer(refused.status, refused.body)
        except LogError as error_of_log:
            answer = Answer(503, {"error": "unavailable", "reason": str(error_of_log)})
        except Exception:
            logger.exception("an error of ours in answer to %s %s", scope["method"], scope["path"])
            answer = Answer(500, {"error": "internal_error", "reason": "see the server's log"})
        await _send(answer, send, head=scope["method"] == "HEAD")

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        resource, parts = self._find(_raw_path(scope))
        scope[PATTERN] = f"{_PREFIX}/{resource.path}"
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        method = scope["method"]
        allowed = ", ".join(["HEAD", "GET"] * ("GET" in resource.methods) + [m for m in resource.methods if m != "GET"])
        if method == "OPTIONS":
            return Answer(200, None, {"allow": f"{allowed}, OPTIONS"})
        user = _NOBODY if resource.public else self._authenticate(headers, scope.get("client"))
        method = "GET" if method == "HEAD" else method
        handler = resource.methods.get(method)
        if handler is None:
            return Answer(405, None, {"allow": f"{allowed}, OPTIONS"})
        if not resource.public and not _SUFFICIENT[resource.needs(method)].intersection(user.tags):
            raise not_authorised(_REFUSED[resource.needs(method)])
        if not resource.public:
            act(self._broker.audit, Actor(user.name, "http", peer_of(scope), headers.get("user-agent", "")))
        raw_body = await _read_body(receive, headers) if method in ("PUT", "POST", "DELETE") else b""
        try:
            query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        except ValueError:
            raise bad_request("the query can't be read") from None
        rates = self._rates.with_samples() if any(name.endswith("_age") for name in query) else self._rates
        result = await handler(Call(self._broker, rates, user, parts, query, headers, raw_body))
        return result if isinstance(result, Answer) else Answer(200, result)

    def _find(self, path: str) -> tuple[Resource, Mapping[str, str]]:
        segments = path.removeprefix(_PREFIX).strip("/").split("/") if path.startswith(_PREFIX) else [""]
        for pattern, resource in self._resources.get((segments[0], len(segments)), ()):
            parts: dict[str, str] = {}
            for wanted, given in zip(pattern, segments, strict=True):
                if wanted.startswith("{"):
                    parts[wanted[1:-1]] = unquote(given, errors="surrogateescape")
                elif wanted != given:
                    break
            else:
                return resource, parts
        raise missing()

    def _authenticate(self, headers: Mapping[str, str], client: Any) -> User:
        try:
            user = user_of(self._broker.vhosts.users, headers.get("authorization", ""), client)
        except UnreadableCredentials:
            raise bad_request("the credentials can't be read") from None
        if user is None:
            raise ApiError(401, "not_authorized", "Login failed")
        return user


def _raw_path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


async def _read_body(receive: Receive, headers: Mapping[str, str]) -> bytes:
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body"):
            return bytes(body)


def _too_large() -> ApiError:
    return bad_request("Exceeded HTTP request body size limit")


async def _send(answer: Answer, send: Send, *, head: bool) -> None:
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in answer.headers.items()]
    content = b""
    if answer.body is not None:
        content = await _encoded(answer.body)
        headers.append((b"content-type", b"application/json"))
    headers += [(b"cache-control", b"no-cache"), (b"vary", b"accept, accept-encoding, origin")]
    if answer.status != 204:
        headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else content})


async def _encoded(body: object) -> bytes:
    if isinstance(body, list) and len(body) > LARGE:
        pieces = []
        for first in range(0, len(body), LARGE):
            pieces.append(_json(body[first : first + LARGE])[1:-1])
            await asyncio.sleep(0)
        return b"[" + b",".join(pieces) + b"]"
    if isinstance(body, dict) and any(isinstance(value, list) for value in body.values()):
        members = [_json(name) + b":" + await _encoded(value) for name, value in body.items()]
        return b"{" + b",".join(members) + b"}"
    return _json(body)


def _json(body: object) -> bytes:
    """Pure ASCII: names need not be UTF-8, and what is not becomes an escape."""
    return json.dumps(body, separators=(",", ":"), default=str).encode()
