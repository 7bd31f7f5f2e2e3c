"""/api/health/checks and /api/aliveness-test: for load balancers and whoever watches. 200 is well, 503 is not and says why."""

from __future__ import annotations

from collections.abc import Awaitable

from headrace.broker.clients import node_name
from headrace.broker.queues.run import Run
from headrace.http.management.call import Answer, Call, Resource
from headrace.http.management.errors import bad_request
from headrace.http.management.nodes import disk_alarm, memory_alarm
from headrace.record.amqp.message import Message
from headrace.record.amqp.properties import NO_PROPERTIES

ALIVENESS_QUEUE = "aliveness-test"
_UNITS = ("days", "weeks", "months", "years")
_OK = {"status": "ok"}
_PROTOCOLS = {**dict.fromkeys(("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1"), "amqp"), "management": "http"}
_LEADERS = "health/checks/quorum-queues-without-elected-leaders"


def _failed(reason: str, **more: object) -> Answer:
    return Answer(503, {"status": "failed", "reason": reason, **more})


async def _alarms(call: Call) -> object:
    found = [
        {"node": node_name(), "resource": resource}
        for resource, there in (("disk", disk_alarm(call.broker)), ("memory", memory_alarm(call.broker)))
        if there
    ]
    if found:
        return _failed("There are alarms in effect in the cluster", alarms=found)
    return _ready(call)


def _ready(call: Call) -> object:
    """A log that takes no writes for another reason than a full disk is worse than an alarm."""
    refusal = call.broker.log.refusal
    return _failed(str(refusal)) if refusal is not None else _OK


async def _critical(call: Call) -> object:
    return {**_OK, "reason": "single node cluster"}


async def _virtual_hosts(call: Call) -> object:
    return _OK


async def _in_service(call: Call) -> object:
    return _ready(call)


async def _port(call: Call) -> object:
    if not call["port"].isdecimal() or len(call["port"]) > 9:
        raise bad_request("Invalid port")
    port = int(call["port"])
    ports = [listening for _, listening in call.broker.clients.listeners.values()]
    if port in ports:
        return {**_OK, "port": port}
    return _failed("No active listener", missing=port, ports=ports)


async def _protocol(call: Call) -> object:
    """Under any of the names that RabbitMQ knows it by; or several, with commas, which newer versions take."""
    wanted = [_PROTOCOLS.get(name.lower(), name) for name in call["protocol"].split(",")]
    protocols = list(call.broker.clients.listeners)
    missing = [protocol for protocol in wanted if protocol not in protocols]
    if missing:
        return _failed("No active listener", missing=missing if len(wanted) > 1 else missing[0], protocols=protocols)
    return {**_OK, "protocols": protocols} if len(wanted) > 1 else {**_OK, "protocol": wanted[0]}


async def _connections(call: Call) -> object:
    """Of all protocols, which share one limit."""
    limit = call.broker.settings.get_int("max.connections")
    current = sum(traffic.connections for traffic in call.broker.traffic.values())
    if current < limit:
        return {**_OK, "limit": limit, "connections": current}
    return _failed("node connection limit is reached", limit=limit, connections=current)


async def _leaders(call: Call) -> object:
    """Of quorum queues: the one node there is leads all of them."""
    call.vhosts()
    return _OK


async def _certificates(call: Call) -> object:
    """There are none that could expire."""
    if not call["within"].isdecimal():
        raise bad_request("Invalid expiration value.")
    if call["unit"] not in _UNITS:
        raise bad_request(f"Time unit not recognised. Supported units: {', '.join(_UNITS)}.")
    return _OK


async def _aliveness(call: Call) -> object:
    """Declares a queue, puts a message in and gets it out again. The queue stays, as it does there."""
    vhost = call.vhost_to_use()
    queue, _ = vhost.declare_queue(ALIVENESS_QUEUE)
    vhost.publish(Run.of([Message("", ALIVENESS_QUEUE, NO_PROPERTIES, b"test_message")]))
    chunk = queue.get(True)
    if isinstance(chunk, Awaitable):
        chunk = await chunk
    return _OK if chunk is not None else _failed("the message did not come back")


RESOURCES = [
    Resource("health/checks/alarms", {"GET": _alarms}),
    Resource("health/checks/local-alarms", {"GET": _alarms}),
    Resource("health/checks/node-is-quorum-critical", {"GET": _critical}),
    Resource("health/checks/node-is-mirror-sync-critical", {"GET": _critical}),
    Resource("health/checks/virtual-hosts", {"GET": _virtual_hosts}),
    Resource("health/checks/is-in-service", {"GET": _in_service}),
    Resource("health/checks/ready-to-serve-clients", {"GET": _in_service}),
    Resource("health/checks/below-node-connection-limit", {"GET": _connections}),
    Resource("health/checks/metadata-store/initialized", {"GET": _virtual_hosts}),
    Resource("health/checks/metadata-store/initialized/with-data", {"GET": _virtual_hosts}),
    Resource(f"{_LEADERS}/all-vhosts", {"GET": _leaders}),
    Resource(f"{_LEADERS}/all-vhosts/pattern/{{pattern}}", {"GET": _leaders}),
    Resource(f"{_LEADERS}/vhost/{{vhost}}", {"GET": _leaders}),
    Resource(f"{_LEADERS}/vhost/{{vhost}}/pattern/{{pattern}}", {"GET": _leaders}),
    Resource("health/checks/port-listener/{port}", {"GET": _port}),
    Resource("health/checks/protocol-listener/{protocol}", {"GET": _protocol}),
    Resource("health/checks/certificate-expiration/{within}/{unit}", {"GET": _certificates}),
    Resource("healthchecks/node", {"GET": _in_service}),
    Resource("healthchecks/node/{node}", {"GET": _in_service}),
    Resource("aliveness-test/{vhost}", {"GET": _aliveness}),
]
