"""RabbitMQ's definitions files, read.

Every entry is checked before anything is changed; a mistake is refused with the entry it is in. Then what is missing is added:
what is there stays, except that users, permissions, policies and parameters are replaced. So to import a file twice is to
import it once. A queue or exchange that is there with other properties is a mistake, as it would be for a client that declares
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headrace.broker.audit import About, audited
from headrace.broker.exchanges import Exchange
from headrace.broker.exchanges.kinds import check_binding
from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.vhosts.arguments import QUEUE_TYPES, check_queue_arguments, check_queue_properties
from headrace.broker.vhosts.declaring import check_exchange_kind, check_new_exchange, check_same_exchange, check_same_queue
from headrace.broker.vhosts.definitions_json import OPERATOR_POLICY
from headrace.broker.vhosts.names import PREDECLARED, RESERVED, queue_text, stripped
from headrace.broker.vhosts.policy_checks import InvalidPolicy, check_pattern, checked_policy
from headrace.broker.vhosts.users import HASHES, MD5, SHA256, Permissions, TopicPermissions, User, checked_user_limits
from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.vhosts.hosts import VirtualHosts
    from headrace.broker.vhosts.vhost import VirtualHost

MAX_NAME_BYTES = 255
MAX_DEPTH = 32

_ORDER = (
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "queues",
    "exchanges",
    "bindings",
)


class InvalidDefinitions(ValueError):
    """The text names the entry and says what is wrong with it."""


class _Wrong(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Queue:
    durable: bool
    auto_delete: bool
    arguments: Mapping[str, object]


@dataclass(slots=True)
class _Plan:
    """What the entries that were read so far will make of the broker, and how."""

    users: dict[str, User] = field(default_factory=dict)
    vhosts: dict[str, str | None] = field(default_factory=dict)  # with the type of queues of which the file says none
    queues: dict[tuple[str, str], _Queue] = field(default_factory=dict)
    exchanges: dict[tuple[str, str], Exchange] = field(default_factory=dict)
    steps: list[Callable[[], object]] = field(default_factory=list)


def _imported(hosts: VirtualHosts, document: object, vhost: str | None = None) -> About:
    sections = document if isinstance(document, Mapping) else {}
    counts = {name: len(part) for name in _ORDER if isinstance(part := sections.get(name), list)}
    return About("all virtual hosts" if vhost is None else vhost, {"counts": counts})


@audited("definitions.import", _imported)
def import_definitions(hosts: VirtualHosts, document: object, vhost: str | None = None) -> None:
    """All of it or nothing, unless the disk fails or a limit of the server is reached half way. Raises `InvalidDefinitions`.

    With `vhost` everything goes into that virtual host, and what belongs to none is left out."""
    if not isinstance(document, Mapping):
        raise InvalidDefinitions("definitions must be a JSON object")
    reader = _Reader(hosts, vhost, _hash_of(document))
    for section in _ORDER:
        if vhost is not None and section in ("users", "vhosts", "permissions", "topic_permissions", "global_parameters"):
            continue
        entries = document.get(section, [])
        if not isinstance(entries, list):
            raise InvalidDefinitions(f"{section} must be a list")
        for number, entry in enumerate(entries):
            try:
                if not isinstance(entry, Mapping):
                    raise _Wrong("must be an object")
                reader.read(section, entry)
            except (_Wrong, InvalidPolicy) as error:
                raise InvalidDefinitions(f"{_entry_text(section, number, entry)}: {error}") from None
            except AmqpRefusal as refusal:
                raise InvalidDefinitions(f"{_entry_text(section, number, entry)}: {refusal.text}") from None
    for step in reader.plan.steps:
        step()
    for user in reader.plan.users.values():
        hosts.put_user(user)


def _entry_text(section: str, number: int, entry: object) -> str:
    if not isinstance(entry, Mapping):
        return f"{section}[{number}]"
    name = entry.get("name", entry.get("user", entry.get("source")))
    return f"{section}[{number}] ({name!r})" if isinstance(name, str) else f"{section}[{number}]"


def _hash_of(document: Mapping[str, object]) -> str:
    """What passwords are hashed with if nothing else is said: before RabbitMQ 3.6 that was MD5."""
    version = str(document.get("rabbit_version", "")).split(".")
    return MD5 if version[0] == "3" and len(version) > 1 and version[1] in tuple("012345") else SHA256


class _Reader:
    def __init__(self, hosts: VirtualHosts, vhost: str | None, hashing_algorithm: str) -> None:
        self._hosts = hosts
        self._vhost = vhost
        self._hashing_algorithm = hashing_algorithm
        self.plan = _Plan(vhosts={host.name: host.default_queue_type for host in hosts})
        self._sections: Mapping[str, Callable[[Mapping[str, object]], None]] = {
            "users": self._user,
            "vhosts": self._host,
            "permissions": self._permissions,
            "topic_permissions": self._topic_permissions,
            "parameters": self._parameter,
            "global_parameters": self._global_parameter,
            "policies": self._policy,
            "queues": self._queue,
            "exchanges": self._exchange,
            "bindings": self._binding,
        }

    def read(self, section: str, entry: Mapping[str, object]) -> None:
        self._sections[section](entry)

    # --- users

    def _user(self, entry: Mapping[str, object]) -> None:
        name = _name(entry, "name")
        known = self._hosts.users.get(name) or User(name)
        algorithm = entry.get("hashing_algorithm") or self._hashing_algorithm
        if algorithm not in HASHES:
            raise _Wrong(f"unknown hashing_algorithm {algorithm!r}")
        if isinstance(entry.get("password"), str):
            password_hash, algorithm = self._hosts.users.hashed(str(entry["password"])), SHA256
        else:
            password_hash = _text(entry, "password_hash", "")
        self.plan.users[name] = replace(
            known,
            password_hash=password_hash,
            hashing_algorithm=str(algorithm),
            tags=_tags(entry.get("tags", ())),
            limits=_user_limits(entry),
        )

    def _known_user(self, entry: Mapping[str, object]) -> User:
        name = _name(entry, "user")
        user = self.plan.users.get(name) or self._hosts.users.get(name)
        if user is None:
            raise _Wrong(f"there is no user {name!r}")
        return user

    def _permissions(self, entry: Mapping[str, object]) -> None:
        user, vhost = self._known_user(entry), self._in_vhost(entry)
        allowed = Permissions(*(check_pattern(what, entry.get(what)) for what in ("configure", "write", "read")))
        self.plan.users[user.name] = replace(user, permissions={**user.permissions, vhost: allowed})

    def _topic_permissions(self, entry: Mapping[str, object]) -> None:
        user, vhost = self._known_user(entry), self._in_vhost(entry)
        exchange = _text(entry, "exchange")
        allowed = TopicPermissions(exchange, *(check_pattern(what, entry.get(what)) for what in ("write", "read")))
        others = [each for each in user.topic_permissions.get(vhost, ()) if each.exchange != exchange]
        topics = {**user.topic_permissions, vhost: (*others, allowed)}
        self.plan.users[user.name] = replace(user, topic_permissions=topics)

    # --- virtual hosts and what is set for them

    def _host(self, entry: Mapping[str, object]) -> None:
        name = _name(entry, "name")
        metadata = entry.get("metadata")
        said = {**(metadata if isinstance(metadata, Mapping) else {}), **entry}
        kind = said.get("default_queue_type")
        kind = None if kind in (None, "", "undefined") else kind
        if kind is not None and kind not in QUEUE_TYPES:
            raise _Wrong(f"unsupported default_queue_type {kind!r}")
        description, tags = _text(said, "description", ""), _tags(said.get("tags", ()))
        default = str(kind) if kind is not None else None
        self.plan.vhosts[name] = default
        self.plan.steps.append(lambda: self._hosts.create(name, description=description, tags=tags, default_queue_type=default))

    def _in_vhost(self, entry: Mapping[str, object]) -> str:
        vhost = self._vhost if self._vhost is not None else _text(entry, "vhost")
        if vhost not in self.plan.vhosts:
            raise _Wrong(f"there is no vhost {vhost!r}")
        return vhost

    def _there(self, vhost: str) -> VirtualHost:
        """When the steps are done it is."""
        found = self._hosts.get(vhost)
        assert found is not None
        return found

    def _policy(self, entry: Mapping[str, object], *, operator: bool = False) -> None:
        vhost, name = self._in_vhost(entry), _name(entry, "name")
        apply_to = entry.get("apply-to", entry.get("apply_to", "all"))
        policy = checked_policy(
            name,
            vhost,
            entry.get("pattern"),
            entry.get("definition"),
            entry.get("priority", 0),
            apply_to,
            operator=operator,
        )
        self.plan.steps.append(lambda: self._there(vhost).set_policy(policy))

    def _parameter(self, entry: Mapping[str, object]) -> None:
        component, name, value = _text(entry, "component"), _name(entry, "name"), entry.get("value")
        if component == OPERATOR_POLICY and isinstance(value, Mapping):
            self._policy({**value, "vhost": entry.get("vhost"), "name": name}, operator=True)
            return
        vhost = self._in_vhost(entry)
        self.plan.steps.append(lambda: self._hosts.put_parameter(component, vhost, name, value))

    def _global_parameter(self, entry: Mapping[str, object]) -> None:
        name = _name(entry, "name")
        self.plan.steps.append(lambda: self._hosts.put_parameter("", None, name, entry.get("value")))

    # --- queues, exchanges, bindings

    def _queue(self, entry: Mapping[str, object]) -> None:
        vhost, name = self._in_vhost(entry), stripped(_name(entry, "name"))
        if name.startswith(RESERVED):
            return  # the server named it, for somebody who is gone
        arguments = _arguments(entry)
        durable, auto_delete = _flag(entry, "durable", True), _flag(entry, "auto_delete", False)
        kind = entry.get("type", self.plan.vhosts[vhost] if durable and not auto_delete else None)
        if kind not in (None, "classic") and "x-queue-type" not in arguments:
            arguments["x-queue-type"] = kind
        resource = queue_text(name, vhost)
        host = self._hosts.get(vhost)
        there = host.queues.get(name) if host is not None else None
        if there is not None:
            check_same_queue(there, durable=durable, auto_delete=auto_delete, arguments=arguments, owner=None)
        else:
            found = check_queue_arguments(arguments, resource)
            check_queue_properties(found, resource, durable=durable, exclusive=False, auto_delete=auto_delete)
        queue = _Queue(durable, auto_delete, arguments)
        if self.plan.queues.setdefault((vhost, name), queue) != queue:
            raise _Wrong("comes twice, with different properties")
        self.plan.steps.append(
            lambda: self._there(vhost).declare_queue(
                name, durable=durable, auto_delete=auto_delete, arguments=arguments, as_defined=True
            )
        )

    def _exchange(self, entry: Mapping[str, object]) -> None:
        vhost, name = self._in_vhost(entry), stripped(_text(entry, "name"))
        kind = _text(entry, "type")
        declared = Exchange(
            name,
            kind,
            _flag(entry, "durable", True),
            _flag(entry, "auto_delete", False),
            _flag(entry, "internal", False),
            _arguments(entry),
        )
        if not name or name in PREDECLARED:
            return  # every virtual host has these
        check_exchange_kind(kind)
        host = self._hosts.get(vhost)
        there = host.exchanges.get(name) if host is not None else None
        there = there or self.plan.exchanges.get((vhost, name))
        if there is not None:
            check_same_exchange(there, vhost, declared)
        else:
            check_new_exchange(name, vhost, kind, declared.arguments)
        self.plan.exchanges[vhost, name] = there or declared
        self.plan.steps.append(
            lambda: self._there(vhost).declare_exchange(
                name,
                kind,
                durable=declared.durable,
                auto_delete=declared.auto_delete,
                internal=declared.internal,
                arguments=declared.arguments,
            )
        )

    def _binding(self, entry: Mapping[str, object]) -> None:
        vhost, source, destination = self._in_vhost(entry), _text(entry, "source"), _text(entry, "destination")
        kind, key, arguments = entry.get("destination_type", "queue"), _text(entry, "routing_key", ""), _arguments(entry)
        if not source:
            return  # of the default exchange: every queue has it
        if kind not in ("queue", "exchange"):
            raise _Wrong(f"unknown destination_type {kind!r}")
        check_binding(self._known_exchange(vhost, source), key, arguments)
        if kind == "exchange":
            self._known_exchange(vhost, destination)
            self.plan.steps.append(lambda: self._there(vhost).bind_exchange(destination, source, key, arguments))
            return
        host = self._hosts.get(vhost)
        if (vhost, destination) not in self.plan.queues and (host is None or destination not in host.queues):
            if destination.startswith(RESERVED):
                return  # see `_queue`
            raise _Wrong(f"there is no queue {destination!r} in vhost {vhost!r}")
        self.plan.steps.append(lambda: self._there(vhost).bind_queue(destination, source, key, arguments))

    def _known_exchange(self, vhost: str, name: str) -> Exchange:
        found = self.plan.exchanges.get((vhost, name))
        host = self._hosts.get(vhost)
        if found is None and host is not None:
            found = host.exchanges.get(name)
        elif found is None and name in PREDECLARED:
            found = Exchange(name, PREDECLARED[name])  # the virtual host will have it
        if found is None:
            raise _Wrong(f"there is no exchange {name!r} in vhost {vhost!r}")
        return found


def _text(entry: Mapping[str, object], key: str, default: str | None = None) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise _Wrong(f"{key} must be a string" if key in entry else f"{key} is missing")
    if len(value.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES and key != "description":
        raise _Wrong(f"{key} is longer than {MAX_NAME_BYTES} bytes")
    return value


def _name(entry: Mapping[str, object], key: str) -> str:
    name = _text(entry, key)
    if not name:
        raise _Wrong(f"{key} is empty")
    return name


def _flag(entry: Mapping[str, object], key: str, default: bool) -> bool:
    value = entry.get(key, default)
    if not isinstance(value, bool):
        raise _Wrong(f"{key} must be true or false")
    return value


def _tags(value: object) -> tuple[str, ...]:
    """A list, or as older versions wrote them: a text with commas."""
    tags = value.split(",") if isinstance(value, str) else value
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise _Wrong("tags must be strings")
    return tuple(tag.strip() for tag in tags if tag.strip())


def _user_limits(entry: Mapping[str, object]) -> dict[str, int]:
    limits = entry.get("limits") or {}  # an empty object is written as [] by some versions
    if not isinstance(limits, Mapping):
        raise _Wrong("limits must be an object")
    try:
        return checked_user_limits(limits)
    except ValueError as error:
        raise _Wrong(str(error)) from None


def _arguments(entry: Mapping[str, object]) -> dict[str, object]:
    arguments = entry.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise _Wrong("arguments must be an object")
    return {_argument_name(name): _argument(value, 1) for name, value in arguments.items()}


def _argument_name(name: str) -> str:
    if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        raise _Wrong(f"an argument's name is longer than {MAX_NAME_BYTES} bytes")
    return name


def _argument(value: object, depth: int) -> object:
    """What a field table can hold."""
    if depth > MAX_DEPTH:
        raise _Wrong(f"arguments are nested more than {MAX_DEPTH} deep")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise _Wrong(f"{value} does not fit 64 bits")
    if isinstance(value, float) and value - value != 0:
        raise _Wrong(f"{value} is not a number")
    if isinstance(value, Mapping):
        return {_argument_name(name): _argument(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_argument(each, depth + 1) for each in value]
    return value
