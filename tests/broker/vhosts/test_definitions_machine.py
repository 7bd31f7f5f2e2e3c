"""Whatever was declared, bound and deleted: after a crash exactly the durable part of it is there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.vhosts.conftest import Site

from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.vhosts.vhost import VirtualHost

NAMES = st.sampled_from(["a", "b", "c"])
FLAGS = st.booleans()
KEYS = st.sampled_from(["", "k"])
ARGUMENTS = st.sampled_from([{}, {"x": 1}])

Step = Callable[[VirtualHost], object]


def _exchange(name: str, durable: bool, auto_delete: bool) -> Step:
    return lambda vhost: vhost.declare_exchange(name, "fanout", durable=durable, auto_delete=auto_delete)


def _queue(name: str, durable: bool, exclusive: bool) -> Step:
    return lambda vhost: vhost.declare_queue(name, durable=durable, exclusive=exclusive, owner=1)


def _bind(queue: str, exchange: str, key: str, arguments: dict[str, object]) -> Step:
    return lambda vhost: vhost.bind_queue(queue, exchange, key, arguments, 1)


def _unbind(queue: str, exchange: str, key: str, arguments: dict[str, object]) -> Step:
    return lambda vhost: vhost.unbind_queue(queue, exchange, key, arguments, 1)


def _bind_exchange(destination: str, source: str, key: str) -> Step:
    return lambda vhost: vhost.bind_exchange(destination, source, key, {})


STEPS = st.one_of(
    st.builds(_exchange, NAMES, FLAGS, FLAGS),
    st.builds(_queue, NAMES, FLAGS, FLAGS),
    st.builds(_bind, NAMES, NAMES, KEYS, ARGUMENTS),
    st.builds(_bind, NAMES, NAMES, KEYS, ARGUMENTS),
    st.builds(_unbind, NAMES, NAMES, KEYS, ARGUMENTS),
    st.builds(_bind_exchange, NAMES, NAMES, KEYS),
    NAMES.map(lambda name: lambda vhost: vhost.delete_queue(name, owner=1)),
    NAMES.map(lambda name: lambda vhost: vhost.delete_exchange(name)),
    st.just(lambda vhost: vhost.owner_gone(1)),
)


def picture(vhost: VirtualHost, *, durable: bool = False) -> set[object]:
    """Everything there is, or what of it is durable."""
    things: set[object] = {
        ("exchange", exchange.name, exchange.auto_delete)
        for exchange in vhost.exchanges.values()
        if exchange.durable or not durable
    }
    things |= {
        ("queue", queue.name, queue.topic if durable else None)
        for queue in vhost.queues.values()
        if queue.durable or not durable
    }
    things |= {
        (binding.source.name, binding.destination_kind, binding.destination.name, binding.routing_key, str(binding.arguments))
        for binding in vhost.router.bindings()
        if (binding.source.durable and binding.destination.durable) or not durable
    }
    return things


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_the_durable_part_survives(steps: list[Step]) -> None:
    site = Site()
    try:
        for step in steps:
            with suppress(AmqpRefusal):
                site.do(lambda step=step: step(site.vhost))
        vhost = site.vhost
        assert vhost.bindings.count == len(list(vhost.router.bindings()))
        before = picture(vhost, durable=True)
        site.crash()
        assert picture(site.vhost, durable=True) == before
        assert len(picture(site.vhost)) == len(before)
        rows = len(list(site.hosts.definitions.stored())) - 2  # the virtual host and the user
        assert rows == len(before) - 6  # nobody writes down what every virtual host has
    finally:
        site.rig.end()
