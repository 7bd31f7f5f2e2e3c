"""What can be done below /v1, and how it is described: one table of operations serves requests and the OpenAPI document.

An operation is a method and a path, a function, what its body and its answer look like (msgspec structs, from which their
schemas are made), and who may do it. `Resources` finds the operation of a request. Paths are taken apart before they are
decoded, since `%2F` may be the name of a virtual host or stand in that of a group.

Who may: everybody logs in. To look one needs one of RabbitMQ's tags (management, policymaker, monitoring, administrator), to
change something policymaker or administrator; further permissions are a matter of the operation.

Bound: a body has at most `MAX_BODY_BYTES`, and must be there after `BODY_WITHIN_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.routing import BaseRoute, Route

from headrace.dataclass import dataclass
from headrace.http.authentication import scope_user
from headrace.http.problems import Problem
from headrace.http.timing import PATTERN
from headrace.http.urgency import rest

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from headrace.broker import Broker
    from headrace.broker.vhosts.users import User

T = TypeVar("T")

MAX_BODY_BYTES = 1024 * 1024
BODY_WITHIN_S = 30.0
MAX_PARAMETERS = 100

MAY_CHANGE = frozenset({"policymaker", "administrator"})
MAY_LOOK = frozenset({"management", "monitoring"}) | MAY_CHANGE


@dataclass(frozen=True, slots=True)
class Parameter:
    """Of a query."""

    name: str
    description: str
    kind: type = str


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, as an operation sees it."""

    broker: Broker
    user: User
    parts: Mapping[str, str]
    query: Mapping[str, str]
    raw_body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, part: str) -> str:
        return self.parts[part]

    def body(self, kind: type[T]) -> T:
        """Raises Problem."""
        try:
            return msgspec.json.decode(self.raw_body or b"{}", type=kind)
        except msgspec.ValidationError as error:
            raise Problem(400, "invalid_body", str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Problem(400, "not_json", "the body is not JSON") from None

    def number(self, name: str, default: int, most: int) -> int:
        """Of the query. Raises Problem."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= most):
            raise Problem(400, "invalid_parameter", f"{name} must be a number from 1 to {most}")
        return int(text)

    def flag(self, name: str) -> bool:
        """Of the query. Raises Problem."""
        text = self.query.get(name, "false")
        if text not in ("true", "false"):
            raise Problem(400, "invalid_parameter", f"{name} must be true or false")
        return text == "true"


@dataclass(frozen=True, slots=True)
class Reply:
    """`body` becomes JSON; None is no content."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


NO_CONTENT = Reply(204)

Handler = Callable[[Ask], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    summary: str
    handler: Handler
    body: Any = None  # a type
    answer: Any = None  # a type; None: no content
    status: int = 200
    query: tuple[Parameter, ...] = ()
    problems: tuple[int, ...] = ()  # beside 400, 401 and 403
    description: str = ""
    change: bool = False
    any_query: bool = False  # what it knows is not listed here
    media_type: str = "application/json"  # of its answer

    @property
    def group(self) -> str:
        """What it is about: the last word of its path that is no name, of those that name things."""
        words = [word for word in self.path.split("/")[2:] if not word.startswith("{")]
        return words[1] if words[0] == "vhosts" and len(words) > 1 else words[0]


class Resources:
    """An ASGI application of operations."""

    def __init__(self, broker: Broker, operations: Iterable[Operation]) -> None:
        self._broker = broker
        self.operations = tuple(operations)
        self._paths: dict[tuple[str, ...], dict[str, Operation]] = {}
        for operation in self.operations:
            self._paths.setdefault(tuple(operation.path.split("/")[1:]), {})[operation.method] = operation

    def routes(self, *patterns: str) -> list[BaseRoute]:
        return [Route(pattern, self) for pattern in patterns]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await rest(scope)
        methods, parts = self._find(scope)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        operation = methods.get(method)
        scope[PATTERN] = next(iter(methods.values())).path
        if operation is None:
            allowed = ", ".join(sorted([*methods, *(["HEAD"] if "GET" in methods else [])]))
            text = f"{scope['method']} is not possible here; there are: {allowed}"
            raise Problem(405, "method_not_allowed", text, {"allow": allowed})
        user = scope_user(self._broker, scope)
        needed = MAY_CHANGE if operation.change else MAY_LOOK
        if not needed.intersection(user.tags):
            raise Problem(403, "forbidden", f"user '{user.name}' needs one of these tags: {', '.join(sorted(needed))}")
        query = _query(scope, operation)
        body = await _body(scope, receive) if method != "GET" else b""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        await rest(scope)
        reply = await operation.handler(Ask(self._broker, user, parts, query, body, headers))
        await rest(scope)
        await _send(reply, send, head=scope["method"] == "HEAD")

    def _find(self, scope: Scope) -> tuple[dict[str, Operation], dict[str, str]]:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        segments = raw.partition(b"?")[0].decode("latin-1").split("/")[1:]
        best: tuple[int, dict[str, Operation], dict[str, str]] | None = None
        for pattern, methods in self._paths.items():
            if len(pattern) != len(segments):
                continue
            parts: dict[str, str] = {}
            for wanted, given in zip(pattern, segments, strict=True):
                if wanted.startswith("{"):
                    if not given:
                        break
                    parts[wanted[1:-1]] = unquote(given, errors="surrogateescape")
                elif wanted != given:
                    break
            else:
                if best is None or len(parts) < best[0]:  # a word goes before a name
                    best = len(parts), methods, parts
        if best is None:
            raise Problem(404, "not_found", "there is no such resource; /v1/openapi.json lists those that are")
        return best[1], best[2]


def _query(scope: Scope, operation: Operation) -> dict[str, str]:
    try:
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise Problem(400, "invalid_parameter", "the query can't be read") from None
    known = [parameter.name for parameter in operation.query]
    for name, _ in pairs:
        if name not in known and not operation.any_query:
            listed = ", ".join(known) or "none"
            raise Problem(400, "unknown_parameter", f"there is no parameter {name[:100]!r} here; there are: {listed}")
    return dict(pairs)


async def _body(scope: Scope, receive: Receive) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Problem(400, "incomplete_body", "the body ended before it was complete")
                body += message.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    text = f"a body has at most {MAX_BODY_BYTES} bytes here"
                    raise Problem(413, "body_too_large", text, {"connection": "close"})
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise Problem(408, "timeout", "the body did not arrive in time", {"connection": "close"}) from None


async def _send(reply: Reply, send: Send, *, head: bool) -> None:
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in reply.headers.items()]
    headers.append((b"cache-control", b"no-store"))
    content = b""
    if reply.body is not None:
        content = reply.body if isinstance(reply.body, bytes) else msgspec.json.encode(reply.body)
        if b"content-type" not in dict(headers):
            headers.append((b"content-type", b"application/json"))
    if reply.status != 204:
        headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else content})
