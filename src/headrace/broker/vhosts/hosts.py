"""The virtual hosts of the broker, with all that queues need around them.

At the start everything durable is read back from the definitions: virtual hosts, exchanges, policies, queues with what they
hold, bindings, users. A broker that has never had any starts with the virtual host `/` and the user `guest`. Rows whose virtual
host, exchange or queue is gone (a crash between two puts) are removed, and so are topics of queues that are not known.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.audit import About, audited
from headrace.broker.clients import node_name
from headrace.broker.queues.backlog import Budget
from headrace.broker.queues.definition import QueueDefinition
from headrace.broker.queues.delayed import DelayedMessages
from headrace.broker.queues.errors import AmqpRefusal, not_found, precondition_failed
from headrace.broker.queues.queue import Queue
from headrace.broker.queues.settings import QueueSettings
from headrace.broker.queues.state import QueueStates
from headrace.broker.queues.stream import Streams
from headrace.broker.queues.surroundings import TOPIC_PREFIX, Surroundings
from headrace.broker.queues.turns import Turns
from headrace.broker.vhosts.arguments import QUEUE_TYPES
from headrace.broker.vhosts.dead_lettering import DeadLetters
from headrace.broker.vhosts.definitions_table import (
    TABLE,
    Definitions,
    Key,
    Row,
    decode_arguments,
    stored_exchange,
    stored_policy,
    stored_queue,
)
from headrace.broker.vhosts.users import DEFAULT_USER, Permissions, User, Users, stored_user, user_row
from headrace.broker.vhosts.vhost import VirtualHost
from headrace.log.errors import RecoveryFailed

if TYPE_CHECKING:
    from headrace.broker.exchanges import Exchange
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.settings import Settings
    from headrace.broker.topics import Topics
    from headrace.clock import Clock
    from headrace.log.port import Log

logger = logging.getLogger("headrace.vhosts")

DEFAULT_VHOST = "/"
MAX_VHOSTS = 10_000
MAX_PARAMETERS = 10_000
MAX_CLUSTER_NAME = 255  # characters: it is in the first frame that every client gets
CLUSTER_NAME = "cluster_name"  # a global parameter
LIMITS = "vhost-limits"  # the component whose parameters limit a virtual host
_ORDER = ("user", "vhost", "exchange", "policy", "operator_policy", "queue", "binding", "parameter")


def _named(hosts: VirtualHosts, name: str, **_: object) -> About:
    return About(name)


def _user(hosts: VirtualHosts, user: User) -> About:
    return About(user.name, {"tags": list(user.tags), "vhosts": sorted(user.permissions)})


def _parameter(hosts: VirtualHosts, component: str, vhost: str | None, name: str, value: object = None) -> About:
    return About(name, {"component": component, "vhost": vhost})


class VirtualHosts:
    def __init__(
        self,
        log: Log,
        clock: Clock,
        settings: Settings,
        topics: Topics,
        *,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.log = log
        self.clock = clock
        self.turns = Turns(clock, log)
        self.states = QueueStates(log, clock, self.turns)
        self.definitions = Definitions(log)
        self.users = Users(random_bytes)
        self.parameters: dict[tuple[str, str | None, str], object] = {}  # component, vhost, name; kept for definitions
        self._random_bytes = random_bytes
        self._hosts: dict[str, VirtualHost] = {}
        self._delayed: dict[str, DelayedMessages] = {}
        self._streams = Streams(topics)
        self._tasks: set[asyncio.Future[object]] = set()
        self._around = Surroundings(
            log=log,
            clock=clock,
            turns=self.turns,
            states=self.states,
            budget=Budget(),
            spawn=self._spawn,
            durability=settings.get_str("durability"),
            dead_letter=DeadLetters(clock, self.get),
            unused=self._unused,
        )

    def get(self, name: str) -> VirtualHost | None:
        return self._hosts.get(name)

    @property
    def cluster_name(self) -> str:
        """What AMQP clients are told, and tools show and change: the name of the one node until somebody gives another."""
        return str(self.parameters.get(("", None, CLUSTER_NAME)) or node_name())[:MAX_CLUSTER_NAME]

    @property
    def names(self) -> Iterable[str]:
        return self._hosts.keys()

    def __iter__(self) -> Iterator[VirtualHost]:
        return iter(self._hosts.values())

    # --- start and end

    async def start(self) -> None:
        await self.states.start()
        await self.definitions.start()
        rows = self._stored_rows()
        self._streams.restoring = True
        for key, row in rows:
            try:
                restored = self._restore(key, row)
            except (ValueError, TypeError, KeyError, AssertionError, re.error) as error:
                raise RecoveryFailed(f"the table {TABLE} holds a row that can't be read, {key}: {error}") from error
            if not restored:
                logger.warning("removed what was left of a deletion: %s", " ".join(str(part) for part in key))
                self.definitions.set(key, None)
        self._streams.restoring = False
        if not rows:
            self._begin()
        self.definitions.write()
        self.states.forget_unknown()
        self._drop_unknown_topics()

    def _stored_rows(self) -> list[tuple[Key, Row]]:
        """What others hang on comes first."""
        try:
            return sorted(self.definitions.stored(), key=lambda row: _ORDER.index(str(row[0][0])))
        except (ValueError, TypeError, IndexError) as error:
            raise RecoveryFailed(f"the table {TABLE} holds a row that can't be read: {error}") from error

    def _begin(self) -> None:
        """What a broker has that never had anything."""
        self._set_up(VirtualHost(DEFAULT_VHOST, self.definitions, self._make_queue, self._random_bytes))
        everywhere = {DEFAULT_VHOST: Permissions()}
        password_hash = self.users.hashed(DEFAULT_USER)
        guest = User(DEFAULT_USER, password_hash, tags=("administrator",), permissions=everywhere)
        self.users.put(guest)
        self.definitions.set(["user", guest.name], user_row(guest))

    def _set_up(self, vhost: VirtualHost) -> None:
        self._hosts[vhost.name] = vhost
        delayed = DelayedMessages(vhost.name, self._around, lambda run: vhost.republish(run, run.exchange).durable)
        self._delayed[vhost.name] = delayed
        vhost.use_delayed(delayed)
        self.definitions.set(["vhost", vhost.name], _vhost_row(vhost))

    def _restore(self, key: Key, row: Row) -> bool:
        """False if what it belongs to is not there."""
        sort, *names = (str(part) for part in key)
        if sort == "user":
            self.users.put(stored_user(names[0], row))
        elif sort == "parameter":
            self._set_parameter(names[0], key[2], names[2], row["value"])
        elif sort == "vhost":
            self._set_up(self._stored_vhost(names[0], row))
        else:
            vhost = self._hosts.get(names[0])
            return vhost is not None and self._restore_in(vhost, sort, names[1:], row)
        return True

    def _restore_in(self, vhost: VirtualHost, sort: str, names: list[str], row: Row) -> bool:
        if sort == "exchange":
            vhost.restore_exchange(stored_exchange(names[0], row))
        elif sort == "queue":
            try:
                vhost.restore_queue(stored_queue(vhost.name, names[0], row))
            except AmqpRefusal as refusal:  # of a stream, whose topic is not ours alone
                logger.error("queue '%s' in vhost '%s' is not available: %s", names[0], vhost.name, refusal.text)
        elif sort == "binding":
            source_name, kind, destination_name, routing_key, arguments = names
            source = vhost.exchanges.get(source_name)
            ends: Mapping[str, AnyQueue | Exchange] = vhost.queues if kind == "queue" else vhost.exchanges
            destination = ends.get(destination_name)
            if source is None or destination is None:
                return False
            vhost.bindings.restore(source, destination, routing_key, decode_arguments(arguments))
        else:
            vhost.policies.put(stored_policy(sort, vhost.name, names[0], row))
            vhost.apply_policies()
        return True

    def _stored_vhost(self, name: str, row: Row) -> VirtualHost:
        tags, default_queue_type = row.get("tags"), row.get("default_queue_type")
        return VirtualHost(
            name,
            self.definitions,
            self._make_queue,
            self._random_bytes,
            description=str(row.get("description", "")),
            tags=[str(tag) for tag in tags] if isinstance(tags, list) else (),
            default_queue_type=str(default_queue_type) if default_queue_type else None,
            protected=bool(row.get("protected")),
        )

    def _drop_unknown_topics(self) -> None:
        """A crash between the creation of a queue's topic and its row leaves one."""
        known = {queue.topic for vhost in self for queue in vhost.queues.values()}
        known.update(delayed.topic for delayed in self._delayed.values())
        for name in [name for name in self.log.topics() if name.startswith(TOPIC_PREFIX) and name not in known]:
            self.log.drop_topic(name)

    def close(self) -> None:
        """The server stops."""
        self.turns.after_sync(lambda error: None)  # so that what came in this turn is in the log
        lanes = []
        for delayed in self._delayed.values():
            delayed.close()
            lanes += delayed.lane_keys()
        for vhost in self:
            for queue in vhost.queues.values():
                queue.close()
                lanes += queue.lane_keys()
        self.states.close(lanes)

    # --- queues

    def _make_queue(self, definition: QueueDefinition, settings: QueueSettings) -> AnyQueue:
        if definition.kind == "stream":
            return self._streams.open(definition, settings, self._around)
        return Queue(definition, settings, self._around)

    def _unused(self, queue: AnyQueue) -> None:
        vhost = self._hosts.get(queue.vhost)
        if vhost is not None:
            vhost.remove_unused(queue)

    def _spawn(self, work: Awaitable[object]) -> object:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- virtual hosts, users and parameters

    @audited("vhost.put", _named)
    def create(
        self, name: str, *, description: str = "", tags: Sequence[str] = (), default_queue_type: str | None = None
    ) -> bool:
        """Also changes what one has that is there already."""
        if default_queue_type is not None and default_queue_type not in QUEUE_TYPES:
            raise precondition_failed(f"unsupported queue type '{default_queue_type}'")
        there = self._hosts.get(name)
        if there is None:
            if len(self._hosts) >= MAX_VHOSTS:
                raise precondition_failed(f"cannot create vhost '{name}': vhost limit of {MAX_VHOSTS} is reached")
            row: Row = {"description": description, "tags": list(tags), "default_queue_type": default_queue_type}
            self._set_up(self._stored_vhost(name, row))
        else:
            there.description, there.tags, there.default_queue_type = description, tuple(tags), default_queue_type
            self.definitions.set(["vhost", name], _vhost_row(there))
        return self.definitions.write()

    @audited("vhost.protect", _named)
    def protect(self, name: str, protected: bool) -> bool:
        vhost = self._hosts[name]
        vhost.protected = protected
        self.definitions.set(["vhost", name], _vhost_row(vhost))
        return self.definitions.write()

    @audited("vhost.delete", _named)
    def delete(self, name: str) -> bool:
        """With everything in it. Its connections are for the front ends to close."""
        vhost = self._hosts.get(name)
        if vhost is None:
            raise not_found(f"no vhost '{name}'")
        self.definitions.set(["vhost", name], None)
        for key, _ in self.definitions.stored():
            owner = key[2] if key[0] == "parameter" else key[1]
            if key[0] not in ("vhost", "user") and owner == name:
                self.definitions.set(key, None)
        users = [user.without_vhost(name) for user in self.users if name in user.permissions or name in user.topic_permissions]
        for user in users:
            self.definitions.set(["user", user.name], user_row(user))
        self.definitions.write()
        for user in users:
            self.users.put(user)
        self.parameters = {key: value for key, value in self.parameters.items() if key[1] != name}
        del self._hosts[name]
        for queue in list(vhost.queues.values()):
            vhost.remove_queue(queue)
        delayed = self._delayed.pop(name)
        delayed.close()
        if delayed.lane_keys():
            self.states.forget(delayed.lane_keys())
            self.log.drop_topic(delayed.topic)
        return True

    @audited("user.put", _user)
    def put_user(self, user: User) -> bool:
        if self.users.get(user.name) is None and self.users.full:
            raise precondition_failed(f"cannot create user '{user.name}': user limit is reached")
        self.definitions.set(["user", user.name], user_row(user))
        changed = self.definitions.write()
        self.users.put(user)
        return changed

    @audited("user.delete", _named)
    def delete_user(self, name: str) -> bool:
        if self.users.get(name) is None:
            raise not_found(f"no user '{name}'")
        self.definitions.set(["user", name], None)
        changed = self.definitions.write()
        self.users.remove(name)
        return changed

    @audited("parameter.put", _parameter)
    def put_parameter(self, component: str, vhost: str | None, name: str, value: object) -> bool:
        """Kept for whoever asks; only the limits of virtual hosts have an effect. Without a vhost it is a global one."""
        if len(self.parameters) >= MAX_PARAMETERS:
            raise precondition_failed(f"cannot set parameter '{name}': parameter limit of {MAX_PARAMETERS} is reached")
        self.definitions.set(["parameter", component, vhost, name], {"value": value})
        changed = self.definitions.write()
        self._set_parameter(component, vhost, name, value)
        return changed

    @audited("parameter.delete", _parameter)
    def clear_parameter(self, component: str, vhost: str | None, name: str) -> bool:
        if (component, vhost, name) not in self.parameters:
            raise not_found(f"no parameter '{name}' of '{component}'")
        self.definitions.set(["parameter", component, vhost, name], None)
        changed = self.definitions.write()
        self._set_parameter(component, vhost, name, None)
        del self.parameters[component, vhost, name]
        return changed

    def _set_parameter(self, component: str, vhost: str | None, name: str, value: object) -> None:
        self.parameters[component, vhost, name] = value
        if component == LIMITS and vhost in self._hosts:
            self._hosts[vhost].set_limits(value)


def _vhost_row(vhost: VirtualHost) -> Row:
    return {
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type,
        "protected": vhost.protected,
    }
