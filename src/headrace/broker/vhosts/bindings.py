"""The bindings of a virtual host: in the router, and as rows if both ends are durable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.broker.exchanges import Binding, Exchange, Router
from headrace.broker.queues.errors import AmqpRefusal, precondition_failed

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.vhosts.definitions_table import Definitions
    from headrace.broker.vhosts.publishing import ReplyQueue

MAX_BINDINGS = 2_000_000


class Bindings:
    def __init__(self, vhost: str, router: Router[AnyQueue | ReplyQueue], definitions: Definitions) -> None:
        self._vhost = vhost
        self._router = router
        self._definitions = definitions
        self.count = 0

    def bind(self, source: Exchange, destination: AnyQueue | Exchange, key: str, arguments: Mapping[str, object]) -> bool:
        if self.count >= MAX_BINDINGS:
            raise precondition_failed(f"binding limit in vhost '{self._vhost}' ({MAX_BINDINGS}) is reached")
        if not self.restore(source, destination, key, arguments):
            return False
        self._definitions.set_binding(self._vhost, Binding(source, destination, key, arguments))
        try:
            return self._definitions.write()
        except AmqpRefusal:
            self._router.unbind(source, destination, key, arguments)
            self.count -= 1
            raise

    def restore(self, source: Exchange, destination: AnyQueue | Exchange, key: str, arguments: Mapping[str, object]) -> bool:
        """One that is written down already, or need not be. Whether it is new."""
        if not self._router.bind(source, destination, key, arguments):
            return False
        self.count += 1
        return True

    def has(self, source: Exchange, destination: AnyQueue | Exchange, key: str, arguments: Mapping[str, object]) -> bool:
        return any(
            binding.source is source and binding.routing_key == key and binding.arguments == arguments
            for binding in self._router.bindings_to(destination)
        )

    def unbind(self, source: Exchange, destination: AnyQueue | Exchange, key: str, arguments: Mapping[str, object]) -> bool:
        """Whether it was bound."""
        if not self._router.unbind(source, destination, key, arguments):
            return False
        self._definitions.set_binding(self._vhost, Binding(source, destination, key, arguments), there=False)
        try:
            self._definitions.write()
        except AmqpRefusal:
            self._router.bind(source, destination, key, arguments)
            raise
        self.count -= 1
        return True

    def unset_queue(self, queue: AnyQueue) -> None:
        """Gathers the rows that go with a queue."""
        for binding in self._router.bindings_to(queue):
            self._definitions.set_binding(self._vhost, binding, there=False)

    def unset_exchange(self, exchange: Exchange) -> None:
        for binding in (*self._router.bindings_from(exchange), *self._router.bindings_to(exchange)):
            self._definitions.set_binding(self._vhost, binding, there=False)

    def forget_queue(self, queue: AnyQueue) -> None:
        self.count -= len(self._router.forget(queue))

    def forget_exchange(self, exchange: Exchange) -> None:
        self.count -= len(self._router.remove(exchange))
