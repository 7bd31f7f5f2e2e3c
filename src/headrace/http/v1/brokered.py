"""Queues, exchanges and bindings administered: /v1/vhosts/{vhost}/… and /v1/queues, /v1/exchanges, /v1/bindings for all.

They are those of RabbitMQ's management API, done by the same functions and with rows of the same form (`http.management`);
permissions are those of the virtual host. What differs is what /v1 has in common: who may come without a login, problem+json,
403 for what is not allowed (RabbitMQ says 401), and lists that always come page by page; and what is declared is durable unless
it says otherwise.

Bound: `PAGE_SIZE` rows in a list unless the query says how many, 500 at most.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.dataclass import dataclass
from headrace.http.management import bindings, exchanges, messages, queues
from headrace.http.management.call import Answer, Call
from headrace.http.management.errors import ApiError
from headrace.http.management.listing import PAGE_SIZE
from headrace.http.management.rates import Rates
from headrace.http.problems import Problem
from headrace.http.v1.operations import Ask, Handler, Operation, Parameter, Reply

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.http.management.call import Handler as ManagementHandler


class Queue(Struct):
    """What a queue shall be. Arguments are RabbitMQ's."""

    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, Any] = {}


class Exchange(Struct):
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = {}


class Binding(Struct):
    routing_key: str = ""
    arguments: dict[str, Any] = {}


class Get(Struct):
    count: int
    ackmode: str
    encoding: str
    truncate: int | None = None


class Move(Struct):
    """To a queue (`destination`), or through an exchange."""

    destination: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    vhost: str | None = None
    count: int | None = None


class Retry(Struct):
    count: int | None = None


class Message(Struct):
    properties: dict[str, Any]
    routing_key: str
    payload: str
    payload_encoding: str


@dataclass(frozen=True, slots=True)
class _Same:
    """An operation of the management API under another path."""

    path: str  # here, behind /v1
    method: str
    summary: str
    change: bool = False
    body: Any = None
    answer: Any = dict[str, Any]
    status: int = 200
    listed: bool = False
    query: tuple[Parameter, ...] = ()

    @property
    def there(self) -> str:
        """Its path behind /api, where the virtual host comes second."""
        first, *rest = self.path.removeprefix("/vhosts/{vhost}").split("/")[1:]
        return "/".join([first, *(["{vhost}"] if self.path.startswith("/vhosts/") else []), *rest])


_PAGES = (
    Parameter("page", "Which page of the list; the first is 1.", int),
    Parameter("page_size", f"How many rows it has: {PAGE_SIZE} if it is not said, 500 at most.", int),
    Parameter("name", "Only names that contain this."),
    Parameter("use_regex", "Whether `name` is a regular expression.", bool),
    Parameter("sort", "By which member of a row."),
    Parameter("sort_reverse", "The other way round.", bool),
    Parameter("columns", "Only these members of each row, with commas between them."),
)
_PEEK = (
    Parameter("count", "How many messages.", int),
    Parameter("skip", "Behind how many.", int),
    Parameter("encoding", "auto or base64."),
    Parameter("truncate", "So many bytes of each body.", int),
)
_ROWS = list[dict[str, Any]]
_Q, _E, _B = "/vhosts/{vhost}/queues", "/vhosts/{vhost}/exchanges", "/vhosts/{vhost}/bindings"
_BETWEEN = _B + "/e/{source}/{kind}/{name}"
_TABLE = (
    _Same("/queues", "GET", "Lists queues of all virtual hosts", listed=True),
    _Same(_Q, "GET", "Lists queues", listed=True),
    _Same(_Q + "/{name}", "GET", "Describes a queue"),
    _Same(_Q + "/{name}", "PUT", "Declares a queue", True, Queue, None, 201),
    _Same(_Q + "/{name}", "DELETE", "Deletes a queue", True, None, None, 204,
          query=(Parameter("if-unused", "Only one without consumers.", bool),
                 Parameter("if-empty", "Only an empty one.", bool))),
    _Same(_Q + "/{name}/contents", "DELETE", "Purges a queue", True, None, None, 204),
    _Same(_Q + "/{name}/get", "POST", "Gets messages from a queue", True, Get, _ROWS),
    _Same(_Q + "/{name}/peek", "GET", "Looks at messages", False, None, _ROWS,
          query=_PEEK),
    _Same(_Q + "/{name}/move", "POST", "Moves messages elsewhere", True, Move),
    _Same(_Q + "/{name}/retry-dead", "POST", "Sends dead letters back", True, Retry),
    _Same(_Q + "/{name}/bindings", "GET", "Lists the bindings of a queue", listed=True),
    _Same("/exchanges", "GET", "Lists exchanges of all virtual hosts", listed=True),
    _Same(_E, "GET", "Lists exchanges", listed=True),
    _Same(_E + "/{name}", "GET", "Describes an exchange"),
    _Same(_E + "/{name}", "PUT", "Declares an exchange", True, Exchange, None, 201),
    _Same(_E + "/{name}", "DELETE", "Deletes an exchange", True, None, None, 204,
          query=(Parameter("if-unused", "Only one that nothing is bound to.", bool),)),
    _Same(_E + "/{name}/publish", "POST", "Publishes a message", True, Message),
    _Same(_E + "/{name}/bindings/source", "GET",
          "Lists what is bound to an exchange", listed=True),
    _Same(_E + "/{name}/bindings/destination", "GET",
          "Lists what an exchange is bound to", listed=True),
    _Same("/bindings", "GET", "Lists bindings of all virtual hosts", listed=True),
    _Same(_B, "GET", "Lists bindings", listed=True),
    _Same(_BETWEEN, "GET",
          "Lists bindings between two ends; kind is q for a queue, e for an exchange", listed=True),
    _Same(_BETWEEN, "POST", "Binds", True, Binding, None, 201),
    _Same(_BETWEEN + "/{key}", "GET", "Describes a binding"),
    _Same(_BETWEEN + "/{key}", "DELETE", "Unbinds",
          True, None, None, 204),
)  # fmt: skip


def operations(broker: Broker) -> tuple[Operation, ...]:
    resources = {each.path: each for module in (queues, exchanges, messages, bindings) for each in module.RESOURCES}
    rates = Rates(broker.clock)
    return tuple(
        Operation(
            same.method,
            "/v1" + same.path,
            same.summary,
            _handler(resources[same.there].methods[same.method], rates, listed=same.listed),
            same.body,
            same.answer,
            same.status,
            _PAGES if same.listed else same.query,
            () if same.path.count("/") == 1 else (404, 409) if same.change else (404,),
            change=False,  # the virtual host's permissions decide, as in RabbitMQ
        )
        for same in _TABLE
    )


def _handler(handler: ManagementHandler, rates: Rates, *, listed: bool) -> Handler:
    async def handled(ask: Ask) -> Reply:
        query: Mapping[str, str] = {"page": "1", **ask.query} if listed else ask.query
        try:
            call = Call(ask.broker, rates, ask.user, ask.parts, query, ask.headers, ask.raw_body, durable_unless_said=True)
            answer = await handler(call)
        except ApiError as error:
            raise _problem(error) from None
        if not isinstance(answer, Answer):
            answer = Answer(200, answer)
        body = None if answer.body is None else json.dumps(answer.body, default=str).encode()
        return Reply(answer.status, body, answer.headers)

    return handled


def _problem(error: ApiError) -> Problem:
    reason = error.body["reason"]
    text = reason if isinstance(reason, str) else json.dumps(reason, default=str)
    code = str(error.body["error"])
    if code == "Object Not Found":
        code, text = "not_found", "there is no such thing"
    if code == "not_authorised":
        return Problem(403, "forbidden", text)
    return Problem(error.status, code, text)


PATHS = ("/v1/queues", "/v1/exchanges", "/v1/bindings", "/v1/vhosts/{rest:path}")
