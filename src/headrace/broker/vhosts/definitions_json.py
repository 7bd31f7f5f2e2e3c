"""RabbitMQ's definitions files, written: everything that is declared, as one JSON object.

It has what a RabbitMQ's has: users with the hashes of their passwords, virtual hosts, permissions, policies, and of each
virtual host the queues, exchanges and bindings; not what the server has by itself (`amq.*`, the default exchange) and not
exclusive queues. Operator policies are parameters of the component `operator_policy`, as there. `definitions_import` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.broker.vhosts.names import RESERVED
from headrace.record.amqp.tables import Decimal

if TYPE_CHECKING:
    from headrace.broker.vhosts.hosts import VirtualHosts
    from headrace.broker.vhosts.policies import Policy
    from headrace.broker.vhosts.users import User
    from headrace.broker.vhosts.vhost import VirtualHost

Entry = dict[str, object]

OPERATOR_POLICY = "operator_policy"


def export_definitions(hosts: VirtualHosts, version: str) -> dict[str, object]:
    """Of all virtual hosts. `version` is the RabbitMQ whose format this is."""
    users = sorted(hosts.users, key=lambda user: user.name)
    return {
        **_about(version),
        "rabbitmq_definition_format": "cluster",
        "users": [user_entry(user) for user in users],
        "vhosts": [vhost_entry(host) for host in hosts],
        "permissions": [entry for user in users for entry in permission_entries(user)],
        "topic_permissions": [entry for user in users for entry in topic_permission_entries(user)],
        "parameters": [
            *({"vhost": where, **entry} for where, entry in _parameters(hosts) if where is not None),
            *(entry for host in hosts for entry in _operator_policies(host)),
        ],
        "global_parameters": [
            {"name": entry["name"], "value": entry["value"]} for where, entry in _parameters(hosts) if where is None
        ],
        "policies": [entry for host in hosts for entry in _policies(host)],
        "queues": [{"vhost": host.name, **entry} for host in hosts for entry in _queues(host)],
        "exchanges": [{"vhost": host.name, **entry} for host in hosts for entry in _exchanges(host)],
        "bindings": [{"vhost": host.name, **entry} for host in hosts for entry in _bindings(host)],
    }


def export_vhost(hosts: VirtualHosts, host: VirtualHost, version: str) -> dict[str, object]:
    """Of one virtual host: without users, and without the name of the host, so that it can be imported into another."""
    return {
        **_about(version),
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": host.name,
        **{name: value for name, value in vhost_entry(host).items() if name not in ("name", "tags")},
        "parameters": [
            *(entry for where, entry in _parameters(hosts) if where == host.name),
            *({name: value for name, value in entry.items() if name != "vhost"} for entry in _operator_policies(host)),
        ],
        "policies": [{name: value for name, value in entry.items() if name != "vhost"} for entry in _policies(host)],
        "queues": list(_queues(host)),
        "exchanges": list(_exchanges(host)),
        "bindings": list(_bindings(host)),
    }


def _about(version: str) -> dict[str, object]:
    return {"rabbit_version": version, "rabbitmq_version": version, "product_name": "Headrace", "product_version": __version__}


def user_entry(user: User) -> Entry:
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def permission_entries(user: User) -> Iterator[Entry]:
    for vhost, allowed in user.permissions.items():
        patterns = {"configure": allowed.configure, "write": allowed.write, "read": allowed.read}
        yield {"user": user.name, "vhost": vhost, **patterns}


def topic_permission_entries(user: User) -> Iterator[Entry]:
    for vhost, topics in user.topic_permissions.items():
        for topic in topics:
            patterns = {"exchange": topic.exchange, "write": topic.write, "read": topic.read}
            yield {"user": user.name, "vhost": vhost, **patterns}


def vhost_entry(host: VirtualHost) -> Entry:
    metadata: Entry = {
        "description": host.description,
        "tags": list(host.tags),
        "default_queue_type": host.default_queue_type or "classic",
    }
    shown: Entry = {**metadata, "protected_from_deletion": True} if host.protected else dict(metadata)
    return {"name": host.name, **metadata, "metadata": shown}


def policy_entry(policy: Policy) -> Entry:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


def _policies(host: VirtualHost) -> Iterator[Entry]:
    return (policy_entry(policy) for policy in host.policies.all() if not policy.operator)


def _operator_policies(host: VirtualHost) -> Iterator[Entry]:
    for policy in host.policies.all():
        if policy.operator:
            value = {name: part for name, part in policy_entry(policy).items() if name not in ("vhost", "name")}
            yield {"vhost": host.name, "component": OPERATOR_POLICY, "name": policy.name, "value": value}


def _parameters(hosts: VirtualHosts) -> Iterator[tuple[str | None, Entry]]:
    for (component, vhost, name), value in hosts.parameters.items():
        yield vhost, {"component": component, "name": name, "value": value}


def _queues(host: VirtualHost) -> Iterator[Entry]:
    for queue in host.queues.values():
        if queue.exclusive is None:
            yield {
                "name": queue.name,
                "durable": queue.durable,
                "auto_delete": queue.auto_delete,
                "type": queue.kind,
                "arguments": json_table(queue.arguments),
            }


def _exchanges(host: VirtualHost) -> Iterator[Entry]:
    for exchange in host.exchanges.values():
        if not exchange.name.startswith(RESERVED):
            yield {
                "name": exchange.name,
                "type": exchange.kind,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": json_table(exchange.arguments),
            }


def _bindings(host: VirtualHost) -> Iterator[Entry]:
    for binding in host.router.bindings():
        if getattr(binding.destination, "exclusive", None) is None:
            yield {
                "source": binding.source.name,
                "destination": binding.destination.name,
                "destination_type": binding.destination_kind,
                "routing_key": binding.routing_key,
                "arguments": json_table(binding.arguments),
            }


def json_table(table: Mapping[str, object]) -> dict[str, object]:
    return {name: json_value(value) for name, value in table.items()}


def json_value(value: object) -> object:
    """A value of a field table. The widths of numbers are lost, and so are bytes that are no text."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Decimal):
        return value.value / 10**value.scale
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return json_table(value)
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return str(value)
