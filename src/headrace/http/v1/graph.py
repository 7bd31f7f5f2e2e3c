"""GET /v1/vhosts/{vhost}/graph: how exchanges, queues and topics hang together, as nodes and edges to be drawn.

Nodes are exchanges, queues, topics and what is outside (a webhook, a feed); edges are bindings, alternate exchanges, dead
letters, streams (a stream queue and its topic) and routes. All bindings between the same two are one edge, with how many there
are and the first few keys.

It begins with the exchanges and queues whose names begin with `prefix`, in the order of their names, and adds what they lead to
or come from. Exchanges that the server made are left out unless something is bound to them.

Bounds: `MOST_NODES` nodes (`limit`: fewer), `MOST_EDGES` edges and `MOST_LOOKED` bindings looked at; `complete` is False then.
Names are looked at `STEP` at a time, bindings `SOME`, between which others have their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from headrace.broker.exchanges import Exchange
from headrace.broker.routes.ends.exchange import ExchangeTarget
from headrace.broker.routes.ends.topic import TopicSource, TopicTarget
from headrace.http.v1.operations import Ask, Operation, Parameter, Reply
from headrace.http.v1.trial import seen_vhost

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.exchanges import Binding
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.routes.route import Route
    from headrace.broker.vhosts.vhost import VirtualHost

LIMIT = 150
MOST_NODES = 500
MOST_EDGES = 2000
MOST_LOOKED = 20_000
MOST_KEYS = 5
STEP = 2000
SOME = 200  # bindings
_RESERVED = "amq."


class GraphNode(Struct):
    id: str
    kind: Annotated[str, Meta(description="exchange, queue, topic or outside.")]
    name: str
    type: Annotated[str, Meta(description="Of the exchange or the queue.")] = ""
    messages: Annotated[int | None, Meta(description="In the queue.")] = None
    missing: Annotated[bool, Meta(description="It is named somewhere, and not there.")] = False


class GraphEdge(Struct):
    source: str
    target: str
    kind: Annotated[str, Meta(description="binding, alternate, dead-letter, stream or route.")]
    label: Annotated[str, Meta(description="Routing keys, or the route.")] = ""
    count: Annotated[int, Meta(description="So many bindings.")] = 1


class GraphShown(Struct):
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    complete: Annotated[bool, Meta(description="False: there is more than is shown.")]


class _Graph:
    """Being made."""

    def __init__(self, broker: Broker, vhost: VirtualHost, limit: int) -> None:
        self._broker = broker
        self._vhost = vhost
        self._limit = limit
        self._seen: set[Binding[Any]] = set()
        self._keys: dict[tuple[str, str], list[str]] = {}
        self.nodes: dict[str, GraphNode] = {}
        self.edges: dict[tuple[str, str, str, str], GraphEdge] = {}
        self.complete = True

    # --- nodes; None: there is no room for it

    def _add(self, node: GraphNode) -> str | None:
        if node.id not in self.nodes:
            if len(self.nodes) >= self._limit:
                self.complete = False
                return None
            self.nodes[node.id] = node
        return node.id

    def exchange(self, name: str) -> str | None:
        found = self._vhost.exchanges.get(name)
        kind = "" if found is None else found.kind
        return self._add(GraphNode(f"exchange:{name}", "exchange", name, kind, missing=found is None))

    def queue(self, name: str) -> str | None:
        found = self._vhost.queues.get(name)
        if found is None:
            return self._add(GraphNode(f"queue:{name}", "queue", name, missing=True))
        return self._add(GraphNode(f"queue:{name}", "queue", name, found.kind, found.message_count))

    def topic(self, name: str) -> str | None:
        return self._add(GraphNode(f"topic:{name}", "topic", name, missing=self._broker.topics.get(name) is None))

    def _outside(self, label: str) -> str | None:
        return self._add(GraphNode(f"outside:{label}", "outside", label))

    # --- edges

    def _link(self, source: str | None, target: str | None, kind: str, label: str = "") -> None:
        if source is None or target is None:
            return
        if len(self.edges) >= MOST_EDGES:
            self.complete = False
            return
        self.edges.setdefault((source, target, kind, label), GraphEdge(source, target, kind, label))

    async def bindings(self, bindings: Iterable[Binding[Any]]) -> None:
        for number, binding in enumerate(list(islice(bindings, MOST_LOOKED + 1))):  # they may change meanwhile
            if number % SOME == SOME - 1:
                await asyncio.sleep(0)
            if binding in self._seen:
                continue
            if len(self._seen) >= MOST_LOOKED:
                self.complete = False
                return
            self._seen.add(binding)
            self._bound(binding)

    def _bound(self, binding: Binding[Any]) -> None:
        destination = binding.destination
        source = self.exchange(binding.source.name)
        target = self.exchange(destination.name) if isinstance(destination, Exchange) else self.queue(destination.name)
        if source is None or target is None:
            return
        known = self.edges.get((source, target, "binding", ""))
        keys = self._keys.setdefault((source, target), [])
        if known is None:
            self._link(source, target, "binding")
            known = self.edges.get((source, target, "binding", ""))
            if known is None:
                return
            known.count = 0
        known.count += 1
        if len(keys) < MOST_KEYS:
            keys.append(binding.routing_key)
            known.label = ", ".join(key for key in keys if key)

    async def about_exchange(self, name: str) -> None:
        exchange = self._vhost.exchanges.get(name)
        if exchange is None:
            return
        if exchange.alternate is not None:
            self._link(f"exchange:{name}", self.exchange(exchange.alternate), "alternate")
        await self.bindings(self._vhost.router.bindings_from(exchange))
        await self.bindings(self._vhost.router.bindings_to(exchange))

    async def about_queue(self, name: str) -> None:
        queue = self._vhost.queues.get(name)
        if queue is None:
            return
        await self.bindings(self._vhost.router.bindings_to(queue))
        self._dead_letters(queue)
        if queue.kind == "stream":
            self._link(f"queue:{name}", self.topic(queue.topic), "stream")

    def _dead_letters(self, queue: AnyQueue) -> None:
        exchange, key = queue.settings.dead_letter_exchange, queue.settings.dead_letter_routing_key
        if exchange:
            self._link(f"queue:{queue.name}", self.exchange(exchange), "dead-letter", key or "")
        elif exchange is not None and key is not None:
            self._link(f"queue:{queue.name}", self.queue(key), "dead-letter")

    def route(self, route: Route) -> None:
        """If one of its ends is here."""
        definition = route.definition
        source, target = definition.source, definition.target
        ends = [
            f"topic:{end.topic}" if isinstance(end, TopicSource | TopicTarget) else self._in_exchange(end)
            for end in (source, target)
        ]
        if not any(end in self.nodes for end in ends):
            return
        nodes = [
            self.topic(end.topic)
            if isinstance(end, TopicSource | TopicTarget)
            else self._node_of(end)
            if isinstance(end, ExchangeTarget) and end.vhost == self._vhost.name
            else self._outside(end.label)
            for end in (source, target)
        ]
        self._link(nodes[0], nodes[1], "route", definition.name)

    def _in_exchange(self, end: object) -> str:
        if not isinstance(end, ExchangeTarget) or end.vhost != self._vhost.name:
            return ""
        return f"exchange:{end.exchange}" if end.exchange else f"queue:{end.routing_key}"

    def _node_of(self, end: ExchangeTarget) -> str | None:
        if end.exchange:
            return self.exchange(end.exchange)
        return self.queue(end.routing_key) if end.routing_key is not None else self.exchange("amq.default")


async def _get(ask: Ask) -> Reply:
    vhost = seen_vhost(ask)
    limit = ask.number("limit", LIMIT, MOST_NODES)
    prefix = ask.query.get("prefix", "")
    graph = _Graph(ask.broker, vhost, limit)
    used = [
        name
        for name, exchange in vhost.exchanges.items()
        if name.startswith(prefix) and (not name.startswith(_RESERVED) or vhost.router.in_use(exchange))
    ]
    for name in (exchanges := await _first(used, "", limit)):
        graph.exchange(name)
    for name in (queues := await _first(vhost.queues, prefix, limit)):
        graph.queue(name)
    for name in exchanges:
        await graph.about_exchange(name)
    for name in queues:
        await graph.about_queue(name)
    for node in tuple(graph.nodes.values()):  # what those lead to is drawn with its own dead letters
        if node.kind == "queue" and node.name not in queues:
            await graph.about_queue(node.name)
    for _ in range(2):  # the second time those that read what a first one fills
        for route in ask.broker.routes:
            graph.route(route)
    return Reply(200, GraphShown(list(graph.nodes.values()), list(graph.edges.values()), graph.complete))


async def _first(names: Collection[str], prefix: str, limit: int) -> list[str]:
    everything = list(names)
    first: list[str] = []
    for start in range(0, len(everything), STEP):
        found = [name for name in everything[start : start + STEP] if name.startswith(prefix)]
        first = sorted(first + found)[: limit + 1]
        await asyncio.sleep(0)
    return first


OPERATIONS = (
    Operation(
        "GET",
        "/v1/vhosts/{vhost}/graph",
        "Tells how exchanges, queues and topics hang together",
        _get,
        answer=GraphShown,
        query=(
            Parameter("prefix", "Begin with exchanges and queues whose names begin with this."),
            Parameter("limit", f"At most so many nodes: {LIMIT} if it is not said, up to {MOST_NODES}.", int),
        ),
        problems=(404,),
    ),
)
