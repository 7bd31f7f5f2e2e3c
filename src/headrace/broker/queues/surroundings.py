"""What queues need of the broker, and where durable ones are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.queues.backlog import Budget, Spawn
from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.queues.queue import Queue
    from headrace.broker.queues.state import QueueStates
    from headrace.broker.queues.turns import Turns
    from headrace.clock import Clock
    from headrace.log.port import Log
    from headrace.record.amqp.message import Message

TOPIC_PREFIX = "__headrace_queue_"
QUEUE_TOPIC = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": str(16 * 1024 * 1024),
    "max.message.bytes": str(256 * 1024 * 1024),
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    log: Log
    clock: Clock
    turns: Turns
    states: QueueStates
    budget: Budget
    spawn: Spawn
    durability: str
    dead_letter: Callable[[Queue, list[Message], str], bool]  # True: something durable took them
    unused: Callable[[Queue], None]  # auto-delete or expiry: it is to be deleted
