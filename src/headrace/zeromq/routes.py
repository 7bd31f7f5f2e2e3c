"""What the composition root calls: a destination or an intake for a route, opened. Raises OSError for an address that is taken:
the route tries again later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.routes.ends.zeromq import Curve, ZeroMqSource, ZeroMqTarget
from headrace.broker.traffic import Traffic
from headrace.zeromq.intake import Intake
from headrace.zeromq.sending import Sending
from headrace.zeromq.wire.keys import KeyPair
from headrace.zeromq.wire.sockets import MAX_SUBSCRIPTION_BYTES, CurveClient, CurveServer, Endpoint

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.ports import Inlet, Surroundings

LINGER_MS = 2000


def make_destination(definition: RouteDefinition, surroundings: Surroundings) -> Sending:
    target = definition.target
    assert isinstance(target, ZeroMqTarget)
    endpoint = Endpoint(
        target.address,
        target.bind,
        target.high_water_mark,
        MAX_SUBSCRIPTION_BYTES,  # all that a peer may send here
        LINGER_MS,
        _curve(target.curve),
    )
    traffic = surroundings.traffic.setdefault(target.kind, Traffic())
    return Sending(definition.name, definition.topic, target, endpoint, surroundings.clock, traffic)


def make_intake(definition: RouteDefinition, inlet: Inlet, surroundings: Surroundings) -> Intake:
    source = definition.source
    assert isinstance(source, ZeroMqSource)
    endpoint = Endpoint(
        source.address, source.bind, source.high_water_mark, source.max_message_bytes, LINGER_MS, _curve(source.curve)
    )
    return Intake(definition.name, source, endpoint, inlet, surroundings.clock)


def _curve(curve: Curve | None) -> CurveServer | CurveClient | None:
    if curve is None:
        return None
    keys = None
    if curve.public_key is not None and curve.secret_key is not None:
        keys = KeyPair(curve.public_key, curve.secret_key)
    if curve.server_key is not None:
        return CurveClient(curve.server_key, keys)
    assert keys is not None, "a server of CURVE has keys"
    return CurveServer(keys, frozenset(curve.allowed) or None)
