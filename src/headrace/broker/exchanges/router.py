"""The exchanges and bindings of one virtual host, and the way of a message through them.

`route` follows a message: each exchange it reaches is asked for what matches, queues are collected, each once, further
exchanges are visited, each once; an exchange where nothing matches hands on to its alternate exchange. The answer is
remembered for the exchange and the key, as far as nothing else of the message had a part in it.

What is remembered is forgotten exactly when it may be wrong. A change at an exchange drops what is remembered there (only
for one key if the change concerns only that) and what is remembered at the exchanges whose messages came through here:
each exchange on the way notes for whom it was visited. Dropping costs no more than remembering did, so bindings may
change as often as messages are routed. At most `MAX_REMEMBERED` answers with `MAX_REMEMBERED_DESTINATIONS` queues in all
are remembered; at the bound all of them are dropped.

The default exchange is not here: its bindings are the names of the queues, which the owner looks up. As in RabbitMQ it
can be published to, but as an alternate exchange it leads nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Generic, cast

from headrace.broker.exchanges.binding import Binding, D, arguments_key
from headrace.broker.exchanges.exchange import NO_ARGUMENTS, Exchange
from headrace.broker.exchanges.kinds import check_binding, matcher_for
from headrace.broker.exchanges.matcher import Headers, Matcher, MessageProperties, Node, Sees
from headrace.record.amqp.properties import Properties

MAX_REMEMBERED = 65_536
MAX_REMEMBERED_DESTINATIONS = 1_048_576

_NO_PROPERTIES = Properties()
_Identity = tuple[Node, str, bytes]  # destination, routing key, arguments: what makes a binding of an exchange unique


def _no_headers() -> Mapping[str, object]:
    return NO_ARGUMENTS


def _no_properties() -> Properties:
    return _NO_PROPERTIES


class _Routes(Generic[D]):
    """An exchange with its bindings."""

    __slots__ = (
        "always",
        "bindings",
        "by_key",
        "depends_on",
        "exchange",
        "matcher",
        "onward",
        "per_message",
        "shape",
    )

    def __init__(self, exchange: Exchange, matcher: Matcher) -> None:
        self.exchange = exchange
        self.matcher = matcher
        self.bindings: dict[_Identity, Binding[D]] = {}
        self.onward = 0  # bindings to exchanges
        self.by_key: dict[str, tuple[D, ...]] = {}
        self.always: tuple[D, ...] | None = None  # the answer, if it is the same for every message
        self.depends_on: set[str] = set()  # the exchanges that had a part in what is remembered here
        self.per_message = False
        self.shape = -1  # of the router, when `per_message` was found out


class Router(Generic[D]):
    """`queue_named` answers for the default exchange; `random` chooses for `x-random`."""

    def __init__(self, queue_named: Callable[[str], D | None], random: Random | None = None) -> None:
        self._queue_named = queue_named
        self._random = random or Random()
        self._routes: dict[str, _Routes[D]] = {}
        self._to: dict[Node, dict[Binding[D], None]] = {}
        self._visited_for: dict[str, set[str]] = {}  # exchange, there or not -> those whose answers depend on it
        self._remembered = 0
        self._remembered_destinations = 0
        self._shape = 0  # counts changes of how exchanges hang together
        self._maybe_unused: dict[Exchange, None] = {}

    # Exchanges

    def add(self, exchange: Exchange) -> None:
        """`check_exchange` has found no fault with it, and there is none of this name."""
        self._routes[exchange.name] = _Routes(exchange, matcher_for(exchange, self._random))
        self._shape += 1
        self._changed(exchange.name)

    def remove(self, exchange: Exchange) -> list[Binding[D]]:
        """Takes the exchange away with all bindings from it and to it, and returns these."""
        routes = self._routes[exchange.name]
        removed = [*routes.bindings.values(), *(b for b in self._to.get(exchange, ()) if b.source is not exchange)]
        for binding in removed:
            self._take_away(binding)
        self._drop(routes)
        del self._routes[exchange.name]
        self._maybe_unused.pop(exchange, None)
        self._shape += 1
        self._changed(exchange.name)
        return removed

    def set_alternate(self, exchange: Exchange, alternate: str | None) -> None:
        """What a policy says; an argument of the exchange itself stays in force."""
        if "alternate-exchange" not in exchange.arguments and exchange.alternate != alternate:
            exchange.alternate = alternate
            self._shape += 1
            self._changed(exchange.name)

    def in_use(self, exchange: Exchange) -> bool:
        """Whether anything is bound to it: what `if-unused` asks."""
        return bool(self._routes[exchange.name].bindings)

    def take_unused(self) -> list[Exchange]:
        """Auto-delete exchanges that have lost their last binding since the last call, for the owner to delete.

        Deleting them may leave others unused: call again until there are none.
        """
        unused = [exchange for exchange in self._maybe_unused if not self.in_use(exchange)]
        self._maybe_unused.clear()
        return unused

    # Bindings

    def bind(
        self, source: Exchange, destination: Exchange | D, routing_key: str, arguments: Mapping[str, object] = NO_ARGUMENTS
    ) -> bool:
        """Whether that is a new binding. Raises `AmqpRefusal` for a key or arguments that the exchange can't take."""
        check_binding(source, routing_key, arguments)
        routes = self._routes[source.name]
        identity = (destination, routing_key, arguments_key(arguments))
        if identity in routes.bindings:
            return False
        binding = Binding(source, destination, routing_key, arguments or NO_ARGUMENTS)
        routes.bindings[identity] = binding
        self._to.setdefault(destination, {})[binding] = None
        routes.matcher.add(destination, routing_key, binding.arguments)
        if isinstance(destination, Exchange):
            routes.onward += 1
            self._shape += 1
        self._binding_changed(routes, routing_key)
        return True

    def unbind(
        self, source: Exchange, destination: Exchange | D, routing_key: str, arguments: Mapping[str, object] = NO_ARGUMENTS
    ) -> bool:
        """Whether there was such a binding."""
        binding = self.binding(source, destination, routing_key, arguments)
        if binding is None:
            return False
        self._take_away(binding)
        return True

    def forget(self, destination: D) -> list[Binding[D]]:
        """Takes away every binding to this queue and returns them."""
        removed = list(self._to.get(destination, ()))
        for binding in removed:
            self._take_away(binding)
        return removed

    def binding(
        self, source: Exchange, destination: Exchange | D, routing_key: str, arguments: Mapping[str, object] = NO_ARGUMENTS
    ) -> Binding[D] | None:
        return self._routes[source.name].bindings.get((destination, routing_key, arguments_key(arguments)))

    def bindings(self) -> Iterator[Binding[D]]:
        """All of them, without those of the default exchange."""
        for routes in self._routes.values():
            yield from routes.bindings.values()

    def bindings_from(self, source: Exchange) -> Collection[Binding[D]]:
        return self._routes[source.name].bindings.values()

    def bindings_to(self, destination: Exchange | D) -> Collection[Binding[D]]:
        return self._to.get(destination, {}).keys()

    def _take_away(self, binding: Binding[D]) -> None:
        source, destination = binding.source, binding.destination
        routes = self._routes[source.name]
        del routes.bindings[destination, binding.routing_key, arguments_key(binding.arguments)]
        incoming = self._to[destination]
        del incoming[binding]
        if not incoming:
            del self._to[destination]
        routes.matcher.remove(destination, binding.routing_key, binding.arguments)
        if isinstance(destination, Exchange):
            routes.onward -= 1
            self._shape += 1
        if source.auto_delete and not routes.bindings:
            self._maybe_unused[source] = None
        self._binding_changed(routes, binding.routing_key)

    # Routing

    def route(
        self, exchange: str, key: str, headers: Headers = _no_headers, properties: MessageProperties = _no_properties
    ) -> tuple[D, ...]:
        """The queues, each once. `headers` and `properties` are only called if they have a part in it.

        An exchange that is not there routes nowhere: whether that is an error is for the owner to say.
        """
        routes = self._routes.get(exchange)
        if routes is None:
            return self._by_default((key,)) if not exchange else ()
        if routes.always is not None:
            return routes.always
        found = routes.by_key.get(key)
        return found if found is not None else self._find(routes, (key,), headers, properties)

    def route_all(
        self,
        exchange: str,
        keys: Sequence[str],
        headers: Headers = _no_headers,
        properties: MessageProperties = _no_properties,
    ) -> tuple[D, ...]:
        """As `route`, for a message with several keys (CC and BCC); its own key is the first."""
        if len(keys) == 1:
            return self.route(exchange, keys[0], headers, properties)
        routes = self._routes.get(exchange)
        if routes is None:
            return self._by_default(keys) if not exchange else ()
        return self._find(routes, keys, headers, properties)

    def sees_each_message(self, exchange: str) -> bool:
        """Whether messages with the same key and headers may go different ways, so that each has to be routed alone."""
        routes = self._routes.get(exchange)
        if routes is None:
            return False
        if routes.shape != self._shape:
            reached, waiting = {exchange}, [routes]
            routes.per_message = False
            while waiting:
                current = waiting.pop()
                if current.matcher.sees is Sees.MESSAGE:
                    routes.per_message = True
                    break
                onward = self._onward(current)
                waiting += [self._routes[name] for name in onward if name not in reached and name in self._routes]
                reached.update(onward)
            routes.shape = self._shape
        return routes.per_message

    def _onward(self, routes: _Routes[D]) -> list[str]:
        names = [routes.exchange.alternate] if routes.exchange.alternate is not None else []
        if routes.onward:
            destinations = (binding.destination for binding in routes.bindings.values())
            names += [destination.name for destination in destinations if isinstance(destination, Exchange)]
        return names

    def _find(self, start: _Routes[D], keys: Sequence[str], headers: Headers, properties: MessageProperties) -> tuple[D, ...]:
        if len(keys) == 1 and not start.onward and start.exchange.alternate is None:  # most exchanges: no way further
            matched = start.matcher.match(keys[0], headers, properties)
            found = tuple(cast(Collection[D], matched))
            if start.matcher.sees <= Sees.KEY:
                self._remember(start, None if start.matcher.sees is Sees.NOTHING else keys[0], found, ())
            return found
        queues: dict[D, None] = {}
        visited = {start.exchange.name}
        sees = Sees.NOTHING
        waiting = [start]
        while waiting:
            routes = waiting.pop()
            matcher = routes.matcher
            sees = max(sees, matcher.sees)
            matched = _matched(matcher, keys, headers, properties)
            onward: list[str] = []
            if routes.onward:
                for node in matched:
                    if isinstance(node, Exchange):
                        onward.append(node.name)
                    else:
                        queues[cast(D, node)] = None
            else:
                queues.update(dict.fromkeys(cast(Iterable[D], matched)))
            if not matched and routes.exchange.alternate is not None:
                onward.append(routes.exchange.alternate)
            for name in onward:
                if name in visited:
                    continue
                visited.add(name)
                if name in self._routes:
                    waiting.append(self._routes[name])
        found = tuple(queues)
        if sees <= Sees.KEY and len(keys) == 1:
            self._remember(start, None if sees is Sees.NOTHING else keys[0], found, visited)
        return found

    def matched(
        self, exchange: Exchange, keys: Sequence[str], headers: Headers, properties: MessageProperties
    ) -> Collection[Node]:
        """What a message reaches from this exchange in one step: for whoever follows it by hand."""
        return _matched(self._routes[exchange.name].matcher, keys, headers, properties)

    def _by_default(self, keys: Sequence[str]) -> tuple[D, ...]:
        if len(keys) == 1:
            queue = self._queue_named(keys[0])
            return (queue,) if queue is not None else ()
        named = (self._queue_named(key) for key in keys)
        return tuple(dict.fromkeys(queue for queue in named if queue is not None))

    # Remembering

    def _remember(self, routes: _Routes[D], key: str | None, found: tuple[D, ...], visited: Collection[str]) -> None:
        if self._remembered >= MAX_REMEMBERED or self._remembered_destinations + len(found) > MAX_REMEMBERED_DESTINATIONS:
            for each in self._routes.values():
                self._drop(each)
        self._remembered += 1
        self._remembered_destinations += len(found)
        if key is None:
            routes.always = found
        else:
            routes.by_key[key] = found
        if len(visited) > 1:
            for name in visited:
                if name != routes.exchange.name:
                    self._visited_for.setdefault(name, set()).add(routes.exchange.name)
                    routes.depends_on.add(name)

    def _binding_changed(self, routes: _Routes[D], routing_key: str) -> None:
        if routes.matcher.only_key(routing_key):
            found = routes.by_key.pop(routing_key, None)
            if found is not None:
                self._remembered -= 1
                self._remembered_destinations -= len(found)
        else:
            self._drop(routes)
        if self._visited_for:
            self._drop_dependent(routes.exchange.name)

    def _changed(self, exchange: str) -> None:
        routes = self._routes.get(exchange)
        if routes is not None:
            self._drop(routes)
        self._drop_dependent(exchange)

    def _drop_dependent(self, exchange: str) -> None:
        for name in list(self._visited_for.get(exchange, ())):
            self._drop(self._routes[name])

    def _drop(self, routes: _Routes[D]) -> None:
        if routes.always is not None:
            self._remembered -= 1
            self._remembered_destinations -= len(routes.always)
            routes.always = None
        if routes.by_key:
            self._remembered -= len(routes.by_key)
            self._remembered_destinations -= sum(map(len, routes.by_key.values()))
            routes.by_key = {}
        for name in routes.depends_on:
            dependent = self._visited_for[name]
            dependent.discard(routes.exchange.name)
            if not dependent:
                del self._visited_for[name]
        routes.depends_on.clear()


def _matched(matcher: Matcher, keys: Sequence[str], headers: Headers, properties: MessageProperties) -> Collection[Node]:
    matched = matcher.match(keys[0], headers, properties)
    if len(keys) == 1 or not matcher.every_key:
        return matched
    every = dict.fromkeys(matched)
    for key in keys[1:]:
        every.update(dict.fromkeys(matcher.match(key, headers, properties)))
    return every
