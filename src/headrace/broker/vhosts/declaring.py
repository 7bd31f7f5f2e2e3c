"""What may be declared, and under which name: the checks that come before anything is created. The texts are RabbitMQ's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.broker.exchanges import Exchange, check_exchange
from headrace.broker.exchanges.kinds import ALL_KINDS
from headrace.broker.queues.errors import AmqpRefusal, access_refused, precondition_failed, resource_locked
from headrace.broker.vhosts import equivalence
from headrace.broker.vhosts.arguments import KNOWN, check_exchange_name, queue_kind
from headrace.broker.vhosts.names import RESERVED, exchange_text, queue_text

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue

ALTERNATE = "alternate-exchange"


def check_not_default(exchange: str) -> None:
    if not exchange:
        raise access_refused("operation not permitted on the default exchange")


def check_exchange_kind(kind: str) -> None:
    if kind not in ALL_KINDS:
        raise precondition_failed(f"unknown exchange type '{kind}'")


def check_new_exchange(name: str, vhost: str, kind: str, arguments: Mapping[str, object]) -> None:
    if name.startswith(RESERVED):
        raise access_refused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
    if ALTERNATE in arguments:
        check_exchange_name(arguments, ALTERNATE, exchange_text(name, vhost))
    check_exchange(kind, arguments)


def check_same_exchange(there: Exchange, vhost: str, declared: Exchange) -> None:
    resource = exchange_text(there.name, vhost)
    equivalence.check_field("type", resource, there.kind, declared.kind)
    equivalence.check_field("durable", resource, there.durable, declared.durable)
    equivalence.check_field("auto_delete", resource, there.auto_delete, declared.auto_delete)
    equivalence.check_field("internal", resource, there.internal, declared.internal)
    equivalence.check_arguments((ALTERNATE,), resource, there.arguments, declared.arguments)


def check_queue_name(name: str, vhost: str, arguments: Mapping[str, object]) -> None:
    """No name asks for one, which only classic queues may."""
    if name.startswith(RESERVED):
        raise access_refused(f"queue name '{name}' contains reserved prefix 'amq.*'")
    if not name:
        kind = queue_kind(arguments, queue_text("", vhost))
        if kind != "classic":
            raise precondition_failed(f"Cannot declare a server-named queue for type rabbit_{kind}_queue")


def with_default_type(kind: str | None, arguments: Mapping[str, object], *, durable_and_shared: bool) -> Mapping[str, object]:
    """The arguments of a queue where queues are of this type if nothing else is said. One that can't be is a classic one."""
    if kind in (None, "classic") or "x-queue-type" in arguments:
        return arguments
    return {**arguments, "x-queue-type": kind if durable_and_shared else "classic"}


def check_same_queue(
    there: AnyQueue, *, durable: bool, auto_delete: bool, arguments: Mapping[str, object], owner: object
) -> None:
    """`owner` is the connection that wants it for itself, or None."""
    if there.exclusive is not owner:
        raise locked(there.name, there.vhost)
    resource = queue_text(there.name, there.vhost)
    equivalence.check_field("durable", resource, there.durable, durable)
    equivalence.check_field("auto_delete", resource, there.auto_delete, auto_delete)
    equivalence.check_arguments(KNOWN[there.kind], resource, there.arguments, arguments)


def locked(queue: str, vhost: str) -> AmqpRefusal:
    return resource_locked(
        f"cannot obtain exclusive access to locked {queue_text(queue, vhost)}. It could be originally declared on another "
        "connection or the exclusive property value does not match that of the original declaration."
    )
