"""Spans of what the server does itself (`docs/tracing.md`), from when one begins until somebody takes it to a collector.

There is no `Spans` unless the operator names a collector: `broker.spans` is None, and whoever would make a span looks at that
and goes on; nothing of this is loaded. With one, a span is made for what came within a trace that is sampled; what came within
one that is not has none, and what came without a trace begins one in a share of cases (`headrace.tracing.sample.ratio`), where
the caller may begin one.

A span that is never ended is forgotten: nobody holds it but who began it. Knows no sockets; `otlp` does.

Bounds: `MAX_WAITING` spans wait to be taken; further ones are counted and forgotten. `MAX_NAME` and `MAX_MESSAGE` characters of
what somebody else has written.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from random import Random
from typing import TYPE_CHECKING

from headrace.record.first_trace import first_context
from headrace.record.tracing import SAMPLED, Context

if TYPE_CHECKING:
    from headrace.broker.settings import Settings

ENDPOINT = "headrace.tracing.endpoint"
RATIO = "headrace.tracing.sample.ratio"
MAX_WAITING = 4096
MANY = 512
MAX_MESSAGE = 300
MAX_NAME = 255
SYSTEM = "headrace"  # where neither Kafka's nor RabbitMQ's protocol is spoken

Attribute = str | int | bool | float
Attributes = Mapping[str, Attribute]


class Kind(IntEnum):
    """The numbers are OTLP's."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class Span:
    __slots__ = ("attributes", "context", "end_ns", "error", "kind", "message", "name", "parent_id", "start_ns")

    def __init__(self, name: str, kind: Kind, context: Context, parent_id: str, start_ns: int, attributes: Attributes) -> None:
        self.name = name
        self.kind = kind
        self.context = context  # what others are told
        self.parent_id = parent_id  # empty: the trace begins here
        self.start_ns = start_ns
        self.end_ns = 0
        self.attributes: dict[str, Attribute] = dict(attributes)
        self.error: str | None = None
        self.message = ""


class Spans:
    def __init__(self, settings: Settings, random: Random | None = None, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._random = random or Random()
        self._waiting: deque[Span] = deque()
        self.now_ns = now_ns
        self.ratio = 0.0
        self.on_waiting: Callable[[int], None] = lambda count: None  # called with how many wait: the first, or many
        self.exported = 0
        self.dropped = {"full": 0, "unreachable": 0, "refused": 0}  # by why
        self.collector_up: bool | None = None  # None: nobody has asked yet

        def set_ratio() -> None:
            self.ratio = settings.get_float(RATIO)

        set_ratio()
        settings.subscribe(set_ratio)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    # --- those who work

    def begin(
        self,
        parent: Context | None,
        name: str,
        kind: Kind,
        attributes: Attributes,
        *,
        may_begin_trace: bool = False,
        start_ns: int | None = None,
    ) -> Span | None:
        """None if there is to be none."""
        random = self._random
        if parent is None:
            if not may_begin_trace or not self.ratio or random.random() >= self.ratio:
                return None
            context = Context(f"{random.getrandbits(128) or 1:032x}", self._span_id(), SAMPLED)
        elif parent.sampled:
            context = parent._replace(span_id=self._span_id())
        else:
            return None
        parent_id = "" if parent is None else parent.span_id
        return Span(name, kind, context, parent_id, self.now_ns() if start_ns is None else start_ns, attributes)

    def begin_publish(
        self,
        parent: Context | None,
        system: str,
        destination: str,
        attributes: Attributes | None = None,
        *,
        may_begin_trace: bool = False,
        start_ns: int | None = None,
    ) -> Span | None:
        """Of a request that brings messages."""
        if parent is None and not may_begin_trace:
            return None
        destination = destination[:MAX_NAME]
        told = {**messaging(system, "publish", "send", destination), **(attributes or {})}
        return self.begin(
            parent, f"publish {destination}", Kind.SERVER, told, may_begin_trace=may_begin_trace, start_ns=start_ns
        )

    def begin_batch(self, system: str, topic: str, index: int, batch: memoryview, records: int) -> Span | None:
        """Of a batch that is stored as it came. The trace of its first record stands for it: no other is looked at, and none
        if it is compressed."""
        context = first_context(batch)
        if context is None or not context.sampled:
            return None
        told: dict[str, Attribute] = {
            "messaging.destination.partition.id": str(index),
            "messaging.batch.message_count": records,
        }
        return self.begin_publish(context, system, topic, told)

    def end(self, span: Span, error: str | None = None, attributes: Attributes | None = None, *, message: str = "") -> None:
        """`error` is a short name of what went wrong, one of few; `message` is for people."""
        span.end_ns = max(span.start_ns, self.now_ns())
        if attributes is not None:
            span.attributes.update(attributes)
        if error is not None:
            span.error, span.message = error, message[:MAX_MESSAGE]
        if len(self._waiting) >= MAX_WAITING:
            self.dropped["full"] += 1
            return
        self._waiting.append(span)
        if len(self._waiting) in (1, MANY):
            self.on_waiting(len(self._waiting))

    @contextmanager
    def ending(self, span: Span) -> Iterator[None]:
        """Ends it with the block, and says so where that is left by an exception."""
        try:
            yield
        except BaseException as error:
            self.end(span, type(error).__name__)
            raise
        self.end(span)

    def _span_id(self) -> str:
        return f"{self._random.getrandbits(64) or 1:016x}"

    # --- who takes them away

    def take(self, most: int) -> list[Span]:
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]


def messaging(system: str, operation: str, kind: str, destination: str) -> dict[str, Attribute]:
    """What the semantic conventions of messaging ask for; `kind` is one of create, send, receive, process, settle."""
    return {
        "messaging.system": system,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": destination,
    }
