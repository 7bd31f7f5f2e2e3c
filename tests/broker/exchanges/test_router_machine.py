"""Any sequence of changes and messages: the router answers as one that is built anew and remembers nothing."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.broker.exchanges.conftest import NamedQueue

from headrace.broker.exchanges import Exchange, Router

NAMES = ["a", "b", "c", "d", "e"]
KINDS = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash"]
KEYS = ["", "k", "k.l", "k.*", "#", "*.l"]
HEADERS: list[dict[str, object]] = [{}, {"h": 1}, {"h": 2, "i": "x"}]
QUEUES = [NamedQueue(f"q{number}") for number in range(4)]

names = st.sampled_from(NAMES)
keys = st.sampled_from(KEYS)
arguments = st.sampled_from(HEADERS)
destinations = st.sampled_from([*NAMES, *QUEUES])


def nobody(name: str) -> None:
    return None


class RouterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.exchanges: dict[str, Exchange] = {}
        self.bindings: list[tuple[Exchange, Exchange | NamedQueue, str, dict[str, object]]] = []
        self.router: Router[NamedQueue] = Router(nobody)

    def there(self, destination: str | NamedQueue) -> Exchange | NamedQueue | None:
        return self.exchanges.get(destination) if isinstance(destination, str) else destination

    @rule(name=names, kind=st.sampled_from(KINDS), alternate=st.none() | names)
    def declare(self, name: str, kind: str, alternate: str | None) -> None:
        if name not in self.exchanges:
            given = {"alternate-exchange": alternate} if alternate else {}
            self.exchanges[name] = Exchange(name, kind, arguments=given)
            self.router.add(self.exchanges[name])

    @rule(name=names)
    def delete(self, name: str) -> None:
        exchange = self.exchanges.pop(name, None)
        if exchange is not None:
            gone = [binding for binding in self.bindings if exchange in binding[:2]]
            self.bindings = [binding for binding in self.bindings if exchange not in binding[:2]]
            assert len(self.router.remove(exchange)) == len(gone)

    @rule(name=names, alternate=st.none() | names)
    def apply_policy(self, name: str, alternate: str | None) -> None:
        if name in self.exchanges:
            self.router.set_alternate(self.exchanges[name], alternate)

    @rule(source=names, destination=destinations, key=keys, given=arguments)
    def bind(self, source: str, destination: str | NamedQueue, key: str, given: dict[str, object]) -> None:
        exchange, target = self.exchanges.get(source), self.there(destination)
        if exchange is not None and target is not None:
            key = str(1 + len(key)) if exchange.kind == "x-consistent-hash" else key
            binding = (exchange, target, key, given)
            assert self.router.bind(*binding) == (binding not in self.bindings)
            if binding not in self.bindings:
                self.bindings.append(binding)

    @rule(number=st.integers(0, 30))
    def unbind(self, number: int) -> None:
        if self.bindings:
            assert self.router.unbind(*self.bindings.pop(number % len(self.bindings)))

    @rule(queue=st.sampled_from(QUEUES))
    def forget(self, queue: NamedQueue) -> None:
        gone = [binding for binding in self.bindings if binding[1] is queue]
        self.bindings = [binding for binding in self.bindings if binding[1] is not queue]
        assert len(self.router.forget(queue)) == len(gone)

    @rule(name=names, sent=st.lists(st.tuples(keys, arguments), min_size=1, max_size=8))
    def publish(self, name: str, sent: list[tuple[str, dict[str, object]]]) -> None:
        fresh: Router[NamedQueue] = Router(nobody)
        for exchange in self.exchanges.values():
            fresh.add(exchange)
        for binding in self.bindings:
            fresh.bind(*binding)
        for key, headers in sent:
            found = self.router.route(name, key, lambda headers=headers: headers)  # type: ignore[misc]
            expected = fresh.route(name, key, lambda headers=headers: headers)  # type: ignore[misc]
            assert len(set(found)) == len(found)
            assert set(found) == set(expected)

    @invariant()
    def counts_are_right(self) -> None:
        routes = self.router._routes.values()
        kept = [
            found for each in routes for found in (*each.by_key.values(), *([each.always] if each.always is not None else []))
        ]
        assert self.router._remembered == len(kept)
        assert self.router._remembered_destinations == sum(map(len, kept))
        assert len(list(self.router.bindings())) == len(self.bindings)


RouterMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRouterMachine = RouterMachine.TestCase
