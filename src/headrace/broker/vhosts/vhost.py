"""A virtual host: exchanges, queues and bindings under one name, with RabbitMQ's checks and refusals.

All calls are plain and synchronous. What is durable is put into the table before it shows here, and becomes durable with
`Log.after_sync`; the calls return True when there is something to wait for. What is not durable is never written, nor are
exclusive queues.

Bounded: `MAX_QUEUES` and `MAX_EXCHANGES` of each virtual host, and the bindings; one more is refused.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from headrace.broker.audit import audited
from headrace.broker.exchanges import Exchange, Router
from headrace.broker.queues.definition import QueueDefinition
from headrace.broker.queues.errors import (
    AmqpRefusal,
    access_refused,
    not_found,
    not_implemented,
    precondition_failed,
)
from headrace.broker.queues.settings import QueueSettings
from headrace.broker.vhosts.arguments import check_queue_arguments, check_queue_properties
from headrace.broker.vhosts.auditing import bound, in_vhost, lasting_queue
from headrace.broker.vhosts.bindings import Bindings
from headrace.broker.vhosts.counted import Counted
from headrace.broker.vhosts.declaring import (
    check_exchange_kind,
    check_new_exchange,
    check_not_default,
    check_queue_name,
    check_same_exchange,
    check_same_queue,
    locked,
    with_default_type,
)
from headrace.broker.vhosts.effective import queue_settings
from headrace.broker.vhosts.names import PREDECLARED, REPLY_TO, RESERVED, SERVER_NAMED, exchange_text, queue_text, stripped
from headrace.broker.vhosts.policies import Policies, Policy
from headrace.broker.vhosts.publishing import Published, Publishing, ReplyConsumer, Skip
from headrace.broker.vhosts.users import (
    check_alternate_access,
    check_dead_letter_access,
    check_exchange_access,
    check_queue_access,
)

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.queues.run import Run
    from headrace.broker.vhosts.definitions_table import Definitions
    from headrace.broker.vhosts.publishing import Delayed, ReplyQueue
    from headrace.broker.vhosts.users import User

logger = logging.getLogger("headrace.vhosts")

MAX_QUEUES = 200_000
MAX_EXCHANGES = 200_000
MAX_POLICIES = 1024  # with operator policies

NO_ARGUMENTS: Mapping[str, object] = {}
MakeQueue = Callable[[QueueDefinition, QueueSettings], "AnyQueue"]


class VirtualHost:
    def __init__(
        self,
        name: str,
        definitions: Definitions,
        make_queue: MakeQueue,
        random_bytes: Callable[[int], bytes],
        *,
        description: str = "",
        tags: Sequence[str] = (),
        default_queue_type: str | None = None,
        protected: bool = False,
    ) -> None:
        self.name = name
        self.description = description
        self.tags = tuple(tags)
        self.default_queue_type = default_queue_type
        self.protected = protected  # who deletes it by mistake is told so, first
        self.tracing = False  # what RabbitMQ's tools ask to be set; nothing is traced
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, AnyQueue] = {}
        self.policies = Policies()
        self.max_queues = MAX_QUEUES
        self.max_connections: int | None = None  # for the front ends to keep
        self.counted = Counted()
        self._definitions = definitions
        self._make_queue = make_queue
        self._random_bytes = random_bytes
        self._owned: dict[object, dict[AnyQueue, None]] = {}  # exclusive queues, by the connection that owns them
        self._publishing = Publishing(name, self.queues, self.exchanges)
        self.router: Router[AnyQueue | ReplyQueue] = Router(self._publishing.queue_named)
        self._publishing.router = self.router
        self.publish = self._publishing.publish  # for each run: no call in between
        self.check_publish = self._publishing.check
        self.bindings = Bindings(name, self.router, definitions)
        for exchange, kind in PREDECLARED.items():
            self.restore_exchange(Exchange(exchange, kind, internal=exchange == "amq.rabbitmq.trace"))

    # --- publishing

    def republish(self, run: Run, exchange: str, routing_keys: Sequence[str] = (), *, skip: Skip | None = None) -> Published:
        """For what the broker itself moves; never refuses. See `Publishing.republish`."""
        return self._publishing.republish(run, exchange, routing_keys, skip=skip)

    @property
    def unroutable(self) -> int:
        """How many messages were for no queue."""
        return self._publishing.unroutable

    @property
    def reply_names(self) -> dict[str, ReplyConsumer]:
        """Consumers of direct reply-to, by the names that requests carry as their reply-to."""
        return self._publishing.reply_names

    def use_delayed(self, delayed: Delayed) -> None:
        """Where messages of delayed exchanges are to wait."""
        self._publishing.delayed = delayed

    # --- exchanges

    @audited("exchange.declare", in_vhost, bool)
    def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] = NO_ARGUMENTS,
        user: User | None = None,
    ) -> bool:
        """`user` is who must have the rights to it; None is the server itself."""
        name = stripped(name)
        if not passive:
            check_exchange_kind(kind)
        check_not_default(name)
        if passive:
            self._exchange(name)
            return False
        if user is not None:
            check_exchange_access(user, "configure", name, self.name)
        exchange = Exchange(name, kind, durable, auto_delete, internal, dict(arguments))
        there = self.exchanges.get(name)
        if there is not None:
            check_same_exchange(there, self.name, exchange)
            return False
        check_new_exchange(name, self.name, kind, arguments)
        if user is not None:
            check_alternate_access(user, name, arguments, self.name)
        if len(self.exchanges) >= MAX_EXCHANGES:
            raise _limit_reached("exchange", name, self.name, MAX_EXCHANGES)
        self._definitions.set_exchange(self.name, exchange)
        changed = self._definitions.write()
        self.restore_exchange(exchange)
        return changed

    def restore_exchange(self, exchange: Exchange) -> None:
        """One that was checked, and is written down already if it is durable."""
        self.exchanges[exchange.name] = exchange
        self.router.add(exchange)
        self._configure_exchange(exchange)

    @audited("exchange.delete", in_vhost, bool)
    def delete_exchange(self, name: str, *, if_unused: bool = False, user: User | None = None) -> bool:
        """One that is not there is deleted already."""
        name = stripped(name)
        check_not_default(name)
        if name.startswith(RESERVED):
            raise access_refused(f"deletion of system {exchange_text(name, self.name)} not allowed")
        if user is not None:
            check_exchange_access(user, "configure", name, self.name)
        exchange = self.exchanges.get(name)
        if exchange is None:
            return False
        if if_unused and self.router.in_use(exchange):
            raise precondition_failed(f"{exchange_text(name, self.name)} in use")
        return self._delete_exchanges([exchange])

    def _delete_exchanges(self, exchanges: list[Exchange]) -> bool:
        """With those that are unused without them."""
        changed = False
        while exchanges:
            for exchange in exchanges:
                if self.exchanges.get(exchange.name) is exchange:
                    self._definitions.set_exchange(self.name, exchange, there=False)
                    self.bindings.unset_exchange(exchange)
                    changed = self._definitions.write() or changed
                    del self.exchanges[exchange.name]
                    self.bindings.forget_exchange(exchange)
            exchanges = self.router.take_unused()
        return changed

    def _exchange(self, name: str) -> Exchange:
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise not_found(f"no {exchange_text(name, self.name)}")
        return exchange

    # --- queues

    def queue(self, name: str, owner: object = None) -> AnyQueue:
        """`owner` is the connection that asks: exclusive queues are for theirs alone."""
        queue = self.queues.get(name)
        if queue is None:
            raise not_found(f"no {queue_text(name, self.name)}")
        if queue.exclusive is not None and queue.exclusive is not owner:
            raise locked(name, self.name)
        return queue

    @audited("queue.declare", in_vhost, itemgetter(1))
    def declare_queue(
        self,
        name: str,
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, object] = NO_ARGUMENTS,
        owner: object = None,
        as_defined: bool = False,
        user: User | None = None,
    ) -> tuple[AnyQueue, bool]:
        """Without a name it gets one, and `user` must have the rights to that one; None is the server itself.
        `owner` is the connection; an exclusive queue belongs to it, and is never durable.
        `as_defined` is for definitions: they have names that clients can't give, and say of what type a queue is."""
        name = stripped(name)
        if passive or name.startswith(REPLY_TO):
            queue = self.queue(name, owner)
            queue.touch()
            return queue, False
        lasting = durable and not exclusive
        wanted_by = owner if exclusive else None
        if not as_defined:
            shared = lasting and not auto_delete
            arguments = with_default_type(self.default_queue_type, arguments, durable_and_shared=shared)
            check_queue_name(name, self.name, arguments)
        name = name or SERVER_NAMED + urlsafe_b64encode(self._random_bytes(16)).rstrip(b"=").decode()
        if user is not None:
            check_queue_access(user, "configure", name, self.name)
        there = self.queues.get(name)
        if there is not None:
            check_same_queue(there, durable=lasting, auto_delete=auto_delete, arguments=arguments, owner=wanted_by)
            there.touch()
            return there, False
        resource = queue_text(name, self.name)
        if user is not None:
            check_dead_letter_access(user, name, arguments, self.name)
        kind = check_queue_arguments(arguments, resource)
        check_queue_properties(kind, resource, durable=durable, exclusive=exclusive, auto_delete=auto_delete)
        if len(self.queues) >= self.max_queues:
            raise _limit_reached("queue", name, self.name, self.max_queues)
        queue_id = self._random_bytes(16)
        definition = QueueDefinition(name, self.name, queue_id, lasting, exclusive, auto_delete, dict(arguments), kind)
        queue = self.restore_queue(definition, wanted_by)
        try:
            self._definitions.set_queue(definition)
            return queue, self._definitions.write()
        except AmqpRefusal:
            self._drop_queue(queue)
            raise

    def restore_queue(self, definition: QueueDefinition, owner: object = None) -> AnyQueue:
        """One that was checked, and is written down already if it is durable."""
        policy = self.policies.definition(definition.name, definition.kind)
        queue = self._make_queue(definition, queue_settings(definition.kind, definition.arguments, policy))
        self.queues[definition.name] = queue
        if owner is not None:
            queue.exclusive = owner
            self._owned.setdefault(owner, {})[queue] = None
        return queue

    @audited("queue.delete", lasting_queue)
    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False, owner: object = None) -> int:
        """How many messages were ready. One that is not there is deleted already."""
        name = stripped(name)
        if name not in self.queues:
            return 0
        queue = self.queue(name, owner)
        queue.pump()
        resource = queue_text(name, self.name)
        if queue.kind == "quorum" and (if_unused or if_empty):
            flag = "if-unused" if if_unused else "if-empty"
            raise not_implemented(
                f"cannot delete {resource}. queue.delete operations with {flag} flag set are not supported by quorum queues"
            )
        stream = queue.kind == "stream"  # RabbitMQ's streams look at neither flag
        if if_unused and queue.consumer_count and not stream:
            raise precondition_failed(f"{resource} in use")
        if if_empty and queue.ready_count and not stream:
            raise precondition_failed(f"{resource} not empty")
        return self.remove_queue(queue)

    def remove_queue(self, queue: AnyQueue) -> int:
        """Whoever asks for it: also a queue that nobody uses any more."""
        if self.queues.get(queue.name) is not queue:
            return 0
        self._definitions.set_queue(queue.definition, there=False)
        self.bindings.unset_queue(queue)
        self._definitions.write()
        count = self._drop_queue(queue)
        self._delete_exchanges(self.router.take_unused())
        return count

    def _drop_queue(self, queue: AnyQueue) -> int:
        del self.queues[queue.name]
        if queue.exclusive is not None:
            owned = self._owned.get(queue.exclusive, {})
            owned.pop(queue, None)
            if not owned:
                self._owned.pop(queue.exclusive, None)
        self.bindings.forget_queue(queue)
        self.counted.add(queue)
        return queue.delete()

    @audited("queue.purge", lasting_queue)
    def purge_queue(self, name: str, owner: object = None) -> int:
        queue = self.queue(stripped(name), owner)
        if queue.kind == "stream":
            raise not_implemented(f"queue.purge not supported by stream queues {queue_text(queue.name, self.name)}")
        return queue.purge()

    def owner_gone(self, owner: object) -> None:
        """A connection has ended: its exclusive queues go with it."""
        for queue in self._owned.pop(owner, {}):
            self.remove_unused(queue)

    def remove_unused(self, queue: AnyQueue) -> None:
        """As `remove_queue`, when there is nobody to be told that it can't be done: then it stays."""
        try:
            self.remove_queue(queue)
        except AmqpRefusal as refusal:
            logger.warning("%s was not deleted: %s", queue_text(queue.name, self.name), refusal.text)

    # --- bindings

    @audited("binding.create", bound, bool)
    def bind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Mapping[str, object], owner: object = None
    ) -> bool:
        check_not_default(stripped(exchange))
        source = self._exchange(stripped(exchange))
        return self.bindings.bind(source, self.queue(stripped(queue), owner), routing_key, dict(arguments))

    @audited("binding.create", bound, bool)
    def bind_exchange(self, destination: str, source: str, routing_key: str, arguments: Mapping[str, object]) -> bool:
        check_not_default(stripped(destination))
        check_not_default(stripped(source))
        found = self._exchange(stripped(source))
        return self.bindings.bind(found, self._exchange(stripped(destination)), routing_key, dict(arguments))

    @audited("binding.delete", bound, bool)
    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Mapping[str, object], owner: object = None
    ) -> bool:
        """What is not bound, or not there, is unbound already."""
        check_not_default(stripped(exchange))
        source, destination = self.exchanges.get(stripped(exchange)), self.queues.get(stripped(queue))
        if source is None or destination is None:
            return False
        if destination.exclusive not in (None, owner) and self.bindings.has(source, destination, routing_key, arguments):
            raise locked(destination.name, self.name)
        return self._unbind(source, destination, routing_key, arguments)

    @audited("binding.delete", bound, bool)
    def unbind_exchange(self, destination: str, source: str, routing_key: str, arguments: Mapping[str, object]) -> bool:
        check_not_default(stripped(destination))
        check_not_default(stripped(source))
        found, bound = self.exchanges.get(stripped(source)), self.exchanges.get(stripped(destination))
        return found is not None and bound is not None and self._unbind(found, bound, routing_key, arguments)

    def _unbind(
        self, source: Exchange, destination: AnyQueue | Exchange, routing_key: str, arguments: Mapping[str, object]
    ) -> bool:
        if not self.bindings.unbind(source, destination, routing_key, arguments):
            return False
        self._delete_exchanges(self.router.take_unused())
        return True

    # --- limits and policies

    def set_limits(self, limits: object) -> None:
        """As RabbitMQ's `vhost-limits` say it: `max-queues` and `max-connections`; a negative number is none."""
        said = limits if isinstance(limits, Mapping) else {}
        queues, connections = said.get("max-queues"), said.get("max-connections")
        self.max_queues = min(queues, MAX_QUEUES) if isinstance(queues, int) and queues >= 0 else MAX_QUEUES
        self.max_connections = connections if isinstance(connections, int) and connections >= 0 else None

    @audited("policy.put", in_vhost)
    def set_policy(self, policy: Policy) -> bool:
        """In force at once, for what is there too. It must have been checked."""
        if self.policies.get(policy.name, operator=policy.operator) is None and len(self.policies) >= MAX_POLICIES:
            raise _limit_reached("policy", policy.name, self.name, MAX_POLICIES)
        self._definitions.set_policy(policy)
        changed = self._definitions.write()
        self.policies.put(policy)
        self.apply_policies()
        return changed

    @audited("policy.delete", in_vhost)
    def clear_policy(self, policy: Policy) -> bool:
        self._definitions.set_policy(policy, there=False)
        changed = self._definitions.write()
        self.policies.remove(policy)
        self.apply_policies()
        return changed

    def apply_policies(self) -> None:
        for exchange in self.exchanges.values():
            self._configure_exchange(exchange)
        for queue in self.queues.values():
            policy = self.policies.definition(queue.name, queue.kind)
            settings = queue_settings(queue.kind, queue.arguments, policy)
            if settings != queue.settings:
                queue.configure(settings)

    def _configure_exchange(self, exchange: Exchange) -> None:
        alternate = self.policies.definition(exchange.name, "exchange").get("alternate-exchange")
        self.router.set_alternate(exchange, alternate if isinstance(alternate, str) else None)


def _limit_reached(what: str, name: str, vhost: str, limit: int) -> AmqpRefusal:
    return precondition_failed(f"cannot declare {what} '{name}': {what} limit in vhost '{vhost}' ({limit}) is reached")
