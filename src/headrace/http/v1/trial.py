"""POST /v1/vhosts/{vhost}/exchanges/{exchange}/trial: where would this message go? Nothing is published.

The message is given as for `…/publish`; its payload has no part in it and may be left out. The way itself is followed in
`broker.vhosts.trial`, with its bounds. A queue that is a stream is a topic, and routes read topics: both are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.routes.ends.topic import TopicSource
from headrace.broker.vhosts.definitions_json import json_table
from headrace.broker.vhosts.trial import trial
from headrace.broker.vhosts.users import check_exchange_access, check_topic_access
from headrace.http.management.bodies import Body
from headrace.http.management.call import DEFAULT_EXCHANGE
from headrace.http.management.errors import ApiError
from headrace.http.management.messages import raw_properties
from headrace.http.problems import Problem
from headrace.http.v1.access import monitors
from headrace.http.v1.operations import Ask, Operation, Reply
from headrace.record.amqp.message import Message

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.exchanges import Binding
    from headrace.broker.vhosts.trial import Trial
    from headrace.broker.vhosts.vhost import VirtualHost


class TrialMessage(Struct):
    routing_key: str = ""
    properties: Annotated[dict[str, Any], Meta(description="As for publish; `headers` among them.")] = {}


class MatchedBinding(Struct):
    source: str
    destination: str
    destination_type: Annotated[str, Meta(description="queue or exchange.")]
    routing_key: str
    arguments: dict[str, Any]
    properties_key: str


class TrialStep(Struct):
    exchange: Annotated[str, Meta(description="The default exchange is amq.default.")]
    type: str
    how: Annotated[str, Meta(description="How the message comes here: published, bound or alternate.")]
    source: Annotated[str | None, Meta(description="The exchange that it comes from.")]
    matched: Annotated[int, Meta(description="So many queues and exchanges.")]
    bindings: list[MatchedBinding]


class ReachedQueue(Struct):
    name: str
    type: str
    durable: bool
    topic: Annotated[str | None, Meta(description="Of a stream.")]
    routes: Annotated[list[str], Meta(description="That read this topic.")]


class TrialShown(Struct):
    routed: Annotated[bool, Meta(description="Whether any queue gets it.")]
    refused: Annotated[str | None, Meta(description="Why it would be refused; the rest is told as if it were not.")]
    delay_ms: Annotated[int, Meta(description="So long it waits in a delayed exchange first.")]
    by_chance: Annotated[bool, Meta(description="The next one may go another way.")]
    steps: list[TrialStep]
    queues: list[ReachedQueue]
    missing: Annotated[list[str], Meta(description="Alternate exchanges that are not there.")]
    complete: Annotated[bool, Meta(description="False: there is more than is shown.")]


def seen_vhost(ask: Ask) -> VirtualHost:
    """The virtual host of the path. Raises Problem."""
    vhost = ask.broker.vhosts.get(ask["vhost"])
    if vhost is None:
        raise Problem(404, "not_found", f"there is no virtual host '{ask['vhost'][:250]}'")
    if not monitors(ask.user) and vhost.name not in ask.user.permissions:
        raise Problem(403, "forbidden", f"access to vhost '{vhost.name}' refused for user '{ask.user.name}'")
    return vhost


async def _try(ask: Ask) -> Reply:
    vhost, body = seen_vhost(ask), ask.body(TrialMessage)
    name = "" if ask["exchange"] == DEFAULT_EXCHANGE else ask["exchange"]
    if name and name not in vhost.exchanges:
        raise Problem(404, "not_found", f"there is no exchange '{name[:250]}' in vhost '{vhost.name}'")
    try:
        raw = raw_properties(Body({"properties": body.properties}))
    except ApiError as error:
        raise Problem(400, "invalid_body", str(error.body["reason"])) from None
    found = trial(vhost, Message(name, body.routing_key, raw, b""), ask.user)
    if found.refused is None:
        try:
            check_exchange_access(ask.user, "write", name, vhost.name)
            if name and vhost.exchanges[name].kind == "topic":
                check_topic_access(ask.user, "write", name, body.routing_key, vhost.name)
        except AmqpRefusal as refusal:
            found.refused = refusal.text
    return Reply(200, _shown(ask.broker, found))


def _shown(broker: Broker, found: Trial) -> TrialShown:
    readers: dict[str, list[str]] = {}
    for route in broker.routes:
        if isinstance(route.definition.source, TopicSource):
            readers.setdefault(route.definition.topic, []).append(route.definition.name)
    queues = []
    for queue in found.queues:
        topic = queue.topic if queue.kind == "stream" else None
        queues.append(ReachedQueue(queue.name, queue.kind, queue.durable, topic, readers.get(topic, []) if topic else []))
    steps = [
        TrialStep(
            DEFAULT_EXCHANGE if step.exchange is None else step.exchange.name,
            "direct" if step.exchange is None else step.exchange.kind,
            step.how,
            step.source,
            step.matched,
            [binding_shown(binding) for binding in step.bindings],
        )
        for step in found.steps
    ]
    routed = bool(queues) and found.refused is None
    return TrialShown(
        routed, found.refused, found.delay_ms, found.by_chance, steps, queues, found.missing, found.complete
    )  # fmt: skip


def binding_shown(binding: Binding[Any]) -> MatchedBinding:
    return MatchedBinding(
        binding.source.name,
        binding.destination.name,
        binding.destination_kind,
        binding.routing_key,
        json_table(binding.arguments),
        binding.properties_key,
    )


OPERATIONS = (
    Operation(
        "POST",
        "/v1/vhosts/{vhost}/exchanges/{exchange}/trial",
        "Tells where a message would go",
        _try,
        TrialMessage,
        TrialShown,
        problems=(404,),
        description="Nothing is published. The default exchange is `amq.default`.",
    ),
)
