"""Queues that are nothing but a name, and a router over them."""

from __future__ import annotations

from random import Random

import pytest

from headrace.broker.exchanges import Exchange, Router


class NamedQueue:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Host:
    """Declares queues and exchanges by name, so that a test reads as what a client does."""

    def __init__(self) -> None:
        self.queues: dict[str, NamedQueue] = {}
        self.exchanges: dict[str, Exchange] = {}
        self.router: Router[NamedQueue] = Router(self.queues.get, Random(1))

    def queue(self, name: str) -> NamedQueue:
        return self.queues.setdefault(name, NamedQueue(name))

    def exchange(self, name: str, kind: str = "direct", *, auto_delete: bool = False, **arguments: object) -> Exchange:
        exchange = Exchange(
            name, kind, auto_delete=auto_delete, arguments={key.replace("_", "-"): arguments[key] for key in arguments}
        )
        self.exchanges[name] = exchange
        self.router.add(exchange)
        return exchange

    def bind(self, source: str, destination: str, key: str = "", **arguments: object) -> bool:
        target = self.exchanges.get(destination) or self.queue(destination)
        return self.router.bind(self.exchanges[source], target, key, arguments)

    def unbind(self, source: str, destination: str, key: str = "", **arguments: object) -> bool:
        target = self.exchanges.get(destination) or self.queue(destination)
        return self.router.unbind(self.exchanges[source], target, key, arguments)

    def route(self, exchange: str, key: str = "", **headers: object) -> list[str]:
        return sorted(queue.name for queue in self.router.route(exchange, key, lambda: headers))


@pytest.fixture
def host() -> Host:
    return Host()
