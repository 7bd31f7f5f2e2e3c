"""Exchanges, queues and bindings: each method is one call of the virtual host, answered when what it changed is durable.

A queue name that is left out means the queue that the channel has declared last; a binding without a routing key then takes
that name as its key, as AMQP 0-9-1 has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.amqp.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from headrace.amqp.names import queue_name
from headrace.broker.audit import Actor, acting
from headrace.broker.queues.errors import access_refused
from headrace.broker.vhosts.names import REPLY_TO, stripped
from headrace.broker.vhosts.users import check_exchange_access, check_queue_access, check_topic_access

if TYPE_CHECKING:
    from headrace.amqp.channel import Channel, Handlers


# --- who may


def _check_exchange(channel: Channel, what: str, name: str) -> None:
    check_exchange_access(channel.connection.user_now(), what, name, channel.vhost.name)


def _check_queue(channel: Channel, what: str, name: str) -> None:
    check_queue_access(channel.connection.user_now(), what, name, channel.vhost.name)


def _check_source(channel: Channel, name: str, routing_key: str) -> None:
    name = stripped(name)
    _check_exchange(channel, "read", name)
    exchange = channel.vhost.exchanges.get(name)
    if exchange is not None and exchange.kind == "topic":
        check_topic_access(channel.connection.user_now(), "read", name, routing_key, channel.vhost.name)


# --- exchanges


def _exchange_declare(channel: Channel, method: ExchangeDeclare) -> None:
    changed = channel.vhost.declare_exchange(
        method.exchange,
        method.type,
        passive=method.passive,
        durable=method.durable,
        auto_delete=method.auto_delete,
        internal=method.internal,
        arguments=method.arguments,
        user=channel.connection.user_now(),
    )
    channel.answer(method, ExchangeDeclareOk(), nowait=method.nowait, durable=changed and method.durable)


def _exchange_delete(channel: Channel, method: ExchangeDelete) -> None:
    user = channel.connection.user_now()
    changed = channel.vhost.delete_exchange(method.exchange, if_unused=method.if_unused, user=user)
    channel.answer(method, ExchangeDeleteOk(), nowait=method.nowait, durable=changed)


def _exchange_bind(channel: Channel, method: ExchangeBind) -> None:
    destination, source = method.destination, method.source
    _check_exchange(channel, "write", destination)
    _check_source(channel, source, method.routing_key)
    changed = channel.vhost.bind_exchange(destination, source, method.routing_key, method.arguments)
    channel.answer(method, ExchangeBindOk(), nowait=method.nowait, durable=changed)


def _exchange_unbind(channel: Channel, method: ExchangeUnbind) -> None:
    destination, source = method.destination, method.source
    _check_exchange(channel, "write", destination)
    _check_source(channel, source, method.routing_key)
    changed = channel.vhost.unbind_exchange(destination, source, method.routing_key, method.arguments)
    channel.answer(method, ExchangeUnbindOk(), nowait=method.nowait, durable=changed)


# --- queues


def _queue_declare(channel: Channel, method: QueueDeclare) -> None:
    name = method.queue
    if name.startswith(REPLY_TO) and (name == REPLY_TO or name in channel.vhost.reply_names):
        _declared(channel, method, name, 0, 1, durable=False)  # there as long as its consumer is
        return
    queue, changed = channel.vhost.declare_queue(
        name,
        passive=method.passive,
        durable=method.durable,
        exclusive=method.exclusive,
        auto_delete=method.auto_delete,
        arguments=method.arguments,
        owner=channel.connection,
        user=channel.connection.user_now(),
    )
    _declared(channel, method, queue.name, queue.ready_count, queue.consumer_count, durable=changed and queue.durable)


def _declared(channel: Channel, method: QueueDeclare, name: str, messages: int, consumers: int, *, durable: bool) -> None:
    channel.last_queue = name
    channel.answer(method, QueueDeclareOk(name, messages, consumers), nowait=method.nowait, durable=durable)


def _queue_delete(channel: Channel, method: QueueDelete) -> None:
    name = queue_name(channel, method.queue)
    _check_queue(channel, "configure", name)
    count = channel.vhost.delete_queue(name, if_unused=method.if_unused, if_empty=method.if_empty, owner=channel.connection)
    channel.answer(method, QueueDeleteOk(count), nowait=method.nowait, durable=True)


def _queue_purge(channel: Channel, method: QueuePurge) -> None:
    name = queue_name(channel, method.queue)
    _check_queue(channel, "read", name)
    count = channel.vhost.purge_queue(name, channel.connection)
    channel.answer(method, QueuePurgeOk(count), nowait=method.nowait, durable=False)


def _queue_bind(channel: Channel, method: QueueBind) -> None:
    queue, key = _bound(channel, method)
    changed = channel.vhost.bind_queue(queue, method.exchange, key, method.arguments, channel.connection)
    channel.answer(method, QueueBindOk(), nowait=method.nowait, durable=changed)


def _queue_unbind(channel: Channel, method: QueueUnbind) -> None:
    queue, key = _bound(channel, method)
    changed = channel.vhost.unbind_queue(queue, method.exchange, key, method.arguments, channel.connection)
    channel.answer(method, QueueUnbindOk(), nowait=False, durable=changed)


def _bound(channel: Channel, method: QueueBind | QueueUnbind) -> tuple[str, str]:
    queue = queue_name(channel, method.queue)
    key = method.routing_key or ("" if method.queue else queue)
    if queue.startswith(REPLY_TO):
        raise access_refused("cannot bind or unbind to a volatile (direct reply-to) queue")
    _check_queue(channel, "write", queue)
    _check_source(channel, method.exchange, key)
    return queue, key


def _audited(handler: Callable[[Channel, Any], None]) -> Callable[[Channel, Any], None]:
    """Says on whose behalf it runs."""

    def handled(channel: Channel, method: Any) -> None:
        connection = channel.connection
        client = str(connection.client_properties.get("product", ""))
        actor = Actor(connection.user.name, "amqp", connection.name.partition(" -> ")[0], client)
        with acting(connection.broker.audit, actor):
            handler(channel, method)

    return handled


_HANDLERS: Handlers = {
    ExchangeDeclare: _exchange_declare,
    ExchangeDelete: _exchange_delete,
    ExchangeBind: _exchange_bind,
    ExchangeUnbind: _exchange_unbind,
    QueueDeclare: _queue_declare,
    QueueDelete: _queue_delete,
    QueuePurge: _queue_purge,
    QueueBind: _queue_bind,
    QueueUnbind: _queue_unbind,
}
HANDLERS: Handlers = {method: _audited(handler) for method, handler in _HANDLERS.items()}
