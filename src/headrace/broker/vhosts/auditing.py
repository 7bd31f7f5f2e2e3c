"""What the audit trail says about changes in a virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.audit import About
from headrace.broker.vhosts.names import stripped

if TYPE_CHECKING:
    from headrace.broker.vhosts.policies import Policy
    from headrace.broker.vhosts.vhost import VirtualHost


def in_vhost(vhost: VirtualHost, named: str | Policy, *_: object, passive: bool = False, **__: object) -> About | None:
    return None if passive else About(named if isinstance(named, str) else named.name, {"vhost": vhost.name})


def lasting_queue(vhost: VirtualHost, name: str, *_: object, **__: object) -> About | None:
    """Queues that are not written down come and go with their connections."""
    queue = vhost.queues.get(stripped(name))
    return About(queue.name, {"vhost": vhost.name}) if queue is not None and queue.definition.durable else None


def bound(vhost: VirtualHost, destination: str, source: str, routing_key: str, *_: object, **__: object) -> About:
    return About(destination, {"vhost": vhost.name, "source": source, "routing_key": routing_key})
