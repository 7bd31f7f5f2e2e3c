"""The way of a run from an exchange into queues: what a message may say about its own way, and what comes of it.

`publish` is for what clients send and refuses as RabbitMQ does, in its order: no such exchange, an internal one, a reply-to
without a consumer, an expiration or CC and BCC that make no sense, another user's name. `republish` is for what the broker
itself moves (dead letters, delayed messages): it never refuses, and where nothing takes a message it says so.

Most runs have none of the properties that matter here, and go from the exchange's name and the routing key to the queues by
two look-ups.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.broker.exchanges.exchange import DELAYED
from headrace.broker.exchanges.values import type_name
from headrace.broker.queues.delayed import delay_of
from headrace.broker.queues.errors import access_refused, not_found, precondition_failed
from headrace.broker.queues.queue import Outcome
from headrace.broker.queues.run import Run
from headrace.broker.vhosts.arguments import MAX_EXPIRY_MS
from headrace.broker.vhosts.names import REPLY_TO, exchange_text
from headrace.log.errors import LogError
from headrace.record.amqp.message import Message
from headrace.record.amqp.properties import encode_properties, with_headers

if TYPE_CHECKING:
    from headrace.broker.exchanges import Exchange, Router
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.vhosts.users import User

logger = logging.getLogger("headrace.vhosts")

IMPERSONATOR = "impersonator"  # the tag of users who may publish in another one's name

_HIGH_FLAGS = 0x23  # headers, reply-to, expiration: what matters here, in the first byte of the flags
_LOW_FLAGS = 0x10  # user-id, in the second
_NUMBER = re.compile(r"[+-]?[0-9]+")


class Published(NamedTuple):
    """What became of a run. `refused` are the places of those of its messages that a queue refused; `unrouted` is the run
    that found no queue, as its queues would have seen it, where that is not as it came: without BCC."""

    routed: bool
    rejected: bool
    durable: bool  # something durable took it: the confirm waits for the sync
    refused: Collection[int] = ()
    unrouted: Run | None = None


class ReplyConsumer(Protocol):
    """A channel that consumes from `amq.rabbitmq.reply-to`."""

    def deliver_reply(self, message: Message) -> None: ...


class Delayed(Protocol):
    """Where messages of delayed exchanges wait."""

    def schedule(self, run: Run, delay_ms: int) -> None: ...


class ReplyQueue:
    """Looks like a queue; what comes goes straight to the consumer."""

    durable = False
    kind = "classic"
    one_by_one = False

    def __init__(self, name: str, consumer: ReplyConsumer) -> None:
        self.name = name
        self._consumer = consumer

    def publish(self, run: Run) -> Outcome:
        for message in run.messages():
            self._consumer.deliver_reply(message)
        return Outcome.ACCEPTED


Skip = Callable[[str], bool]

_ACCEPTED = Outcome.ACCEPTED
_UNROUTED = Published(False, False, False)
_TAKEN = Published(True, False, False)
_TAKEN_DURABLY = Published(True, False, True)


class Publishing:
    """Of one virtual host; `queues` is its dictionary of queues."""

    def __init__(self, vhost: str, queues: dict[str, AnyQueue], exchanges: dict[str, Exchange]) -> None:
        self._vhost = vhost
        self._queues = queues
        self._exchanges = exchanges
        self.router: Router[AnyQueue | ReplyQueue]
        self.reply_names: dict[str, ReplyConsumer] = {}
        self.delayed: Delayed | None = None
        self.unroutable = 0  # messages for no queue

    def queue_named(self, name: str) -> AnyQueue | ReplyQueue | None:
        """What the default exchange has under this key."""
        queue = self._queues.get(name)
        if queue is None and name in self.reply_names:
            return ReplyQueue(name, self.reply_names[name])
        return queue

    def publish(self, run: Run, user: User | None = None, reply_name: str | None = None) -> Published:
        """`reply_name` is what the channel's own consumer of direct reply-to is called, if it has one."""
        raw = run.raw_properties
        name = run.exchange
        if raw[0] & _HIGH_FLAGS or raw[1] & _LOW_FLAGS:
            return self._publish_special(run, user, reply_name)
        if not name:
            queue = self._queues.get(run.routing_key) or self.queue_named(run.routing_key)
            return self._put(run, (queue,)) if queue is not None else self._unrouted(run)
        exchange = self._exchanges.get(name)
        if exchange is None or exchange.internal:
            raise self._refusal(name)
        if run.count > 1 and self.router.sees_each_message(name):
            return self._route_each(run, (run.routing_key,), name, None)
        queues = self.router.route(name, run.routing_key, properties=lambda: run.properties)  # it has no headers
        return self._put(run, queues) if queues else self._unrouted(run)

    def _unrouted(self, run: Run) -> Published:
        self.unroutable += run.count
        return _UNROUTED

    def _refusal(self, name: str) -> Exception:
        if name not in self._exchanges:
            return not_found(f"no {exchange_text(name, self._vhost)}")
        return access_refused(f"cannot publish to internal {exchange_text(name, self._vhost)}")

    def check(self, run: Run, user: User, reply_name: str | None) -> None:
        """Refuses what `publish` would, for whoever publishes it later."""
        exchange = self._exchanges.get(run.exchange)
        if run.exchange and (exchange is None or exchange.internal):
            raise self._refusal(run.exchange)
        self._addressed(run, user, reply_name)

    def _publish_special(self, run: Run, user: User | None, reply_name: str | None) -> Published:
        exchange = self._exchanges.get(run.exchange)
        if run.exchange and (exchange is None or exchange.internal):
            raise self._refusal(run.exchange)
        addressed, keys = self._addressed(run, user, reply_name)
        if exchange is not None and exchange.kind == DELAYED and self.delayed is not None:
            delay_ms = delay_of(addressed.raw_properties)
            if delay_ms:
                self.delayed.schedule(addressed, delay_ms)
                return _TAKEN_DURABLY if addressed.persistent else _TAKEN
        published = self._route(addressed, keys)
        return published if published.routed or addressed is run else published._replace(unrouted=addressed)

    def _addressed(self, run: Run, user: User | None, reply_name: str | None) -> tuple[Run, tuple[str, ...]]:
        """The run as queues are to see it, and the keys to route it by, once what it says of itself has been checked."""
        properties = run.properties
        if properties.reply_to == REPLY_TO:
            if reply_name is None:
                raise precondition_failed("fast reply consumer does not exist")
            run = _with_properties(run, encode_properties(replace(properties, reply_to=reply_name)))
        if properties.expiration is not None:
            check_expiration(properties.expiration)
        keys: tuple[str, ...] = (run.routing_key,)
        headers = run.headers
        if headers:
            keys = (run.routing_key, *more_keys(headers, "CC"), *more_keys(headers, "BCC"))
            if "BCC" in headers:
                kept = {name: value for name, value in headers.items() if name != "BCC"}
                run = _with_properties(run, with_headers(run.raw_properties, kept))
        claimed = properties.user_id
        if claimed is not None and user is not None and claimed != user.name and IMPERSONATOR not in user.tags:
            raise precondition_failed(f"user_id property set to '{claimed}' but authenticated user was '{user.name}'")
        return run, keys

    def republish(self, run: Run, exchange: str, routing_keys: Sequence[str] = (), *, skip: Skip | None = None) -> Published:
        """Routes what the broker itself has, through `exchange`, whatever exchange the messages themselves name.

        `routing_keys` are those to route by, in place of the run's own; `skip` says of a queue's name that it must not get it.
        """
        keys = tuple(routing_keys) or (run.routing_key,)
        if exchange and exchange not in self._exchanges:
            return _UNROUTED
        return self._route(run, keys, exchange, skip)

    def _route(self, run: Run, keys: Sequence[str], exchange: str | None = None, skip: Skip | None = None) -> Published:
        name = run.exchange if exchange is None else exchange
        router = self.router
        if run.count > 1 and router.sees_each_message(name):
            return self._route_each(run, keys, name, skip)
        if len(keys) == 1:
            queues = router.route(name, keys[0], lambda: run.headers, lambda: run.properties)
        else:
            queues = router.route_all(name, keys, lambda: run.headers, lambda: run.properties)
        if skip is not None:
            queues = tuple(queue for queue in queues if not skip(queue.name))
        return self._put(run, queues) if queues else self._unrouted(run)

    def _route_each(self, run: Run, keys: Sequence[str], exchange: str, skip: Skip | None) -> Published:
        """Each message of the run may go its own way. The run counts as routed only if all of them were."""
        routed, durable = True, False
        refused: list[int] = []
        for place, message in enumerate(run.messages()):
            one = self._route(Run.of([message]), keys, exchange, skip)
            routed = routed and one.routed
            durable = durable or one.durable
            if one.rejected:
                refused.append(place)
        return Published(routed, bool(refused), durable, refused)

    def _put(self, run: Run, queues: Sequence[AnyQueue | ReplyQueue]) -> Published:
        durable = False
        refused: Collection[int] = ()
        for queue in queues:
            if run.count > 1 and queue.one_by_one:
                places = [place for place, message in enumerate(run.messages()) if not _takes(queue, Run.of([message]))]
                refused = {*refused, *places} if places else refused
                taken = len(places) < run.count
            else:
                try:
                    taken = queue.publish(run) is _ACCEPTED
                except LogError as error:
                    taken = _failed(queue, error)
                if not taken:
                    refused = range(run.count)
            if taken and queue.durable and (run.persistent or queue.kind != "classic"):
                durable = True
        if refused:
            return Published(True, True, durable, refused)
        return _TAKEN_DURABLY if durable else _TAKEN


def _takes(queue: AnyQueue | ReplyQueue, run: Run) -> bool:
    try:
        return queue.publish(run) is _ACCEPTED
    except LogError as error:
        return _failed(queue, error)


def _failed(queue: AnyQueue | ReplyQueue, error: LogError) -> bool:
    """The publisher must not believe that it is safe; other queues may well have it."""
    logger.warning("queue '%s' could not take a message: %s", queue.name, error)
    return False


def _with_properties(run: Run, properties: bytes) -> Run:
    return Run.of([message._replace(properties=properties) for message in run.messages()])


def more_keys(headers: Mapping[str, object], name: str) -> list[str]:
    """The routing keys in the header CC or BCC."""
    if name not in headers:
        return []
    value = headers[name]
    if not isinstance(value, list):
        raise precondition_failed(f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name(value)}}}')
    return [key for key in value if isinstance(key, str)]


def check_expiration(text: str) -> None:
    match = _NUMBER.match(text)
    if match is None:
        wrong = "no_integer"
    elif match.end() < len(text):
        wrong = f'{{leftover_string,"{text[match.end() :]}"}}'
    else:
        value = int(text) if len(text) < 64 else MAX_EXPIRY_MS + 1
        if 0 <= value <= MAX_EXPIRY_MS:
            return
        wrong = f"{{value_{'negative' if value < 0 else 'too_large'},{value}}}"
    raise precondition_failed(f"invalid expiration '{text}': {wrong}")
