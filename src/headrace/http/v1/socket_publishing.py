"""Publishing through a WebSocket: the events of a message, all of them or none, go the way that those of a request go.

Bound: what a message may hold; `STEP` events are decoded at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UnsetType

from headrace.http.problems import Problem
from headrace.http.v1.events import BadEvent, Incoming, decode_event, decode_split

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.http.v1.appending import Appending
    from headrace.http.v1.socket_messages import Publish

STEP = 500
MAX_EVENTS = 10_000


async def publish(broker: Broker, appending: Appending, topic_name: str, asked: Publish) -> list[dict[str, int]]:
    """Where each event is; they are durable after `log.after_sync`. Raises Problem and LogError."""
    if isinstance(asked.event, UnsetType) == isinstance(asked.events, UnsetType):
        raise Problem(400, "invalid_message", "a publish has an event or a list of events")
    events: list[Incoming] = []
    try:
        if not isinstance(asked.event, UnsetType):
            events.append(decode_event(bytes(asked.event)))
        elif not isinstance(asked.events, UnsetType):
            if not 0 < len(asked.events) <= MAX_EVENTS:
                raise Problem(400, "invalid_message", f"a publish has between one and {MAX_EVENTS} events")
            for _ in range(0, len(asked.events), STEP):
                decode_split(asked.events, events, STEP)
                await asyncio.sleep(0)
    except BadEvent as error:
        raise Problem(400, error.code, str(error)) from None
    topic = await appending.topic(topic_name)
    while broker.log.backlogged:
        await broker.log.synced()
    stored, _ = await appending.store(topic, events)
    return [{"partition": each.partition, "offset": each.offset, "timestamp": each.timestamp_ms} for each in stored]
