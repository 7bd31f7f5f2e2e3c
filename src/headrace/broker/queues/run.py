"""A run: messages that came one after another for the same exchange and routing key and need the same treatment.

It holds the records of a record batch v2, as the frame scanner wrote them; nobody looks into it on the way from the socket to
the log. All its messages agree in delivery mode, and in all properties if any of headers, priority, expiration, reply-to or
user-id is among them: so what the first message says goes for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from headrace.record.amqp import twin
from headrace.record.amqp.message import Message, encode_run, read_messages
from headrace.record.amqp.properties import (
    EXPIRATION,
    HEADERS,
    PRIORITY,
    Properties,
    decode_properties,
    is_persistent,
    property_flags,
)

_NO_HEADERS: Mapping[str, object] = {}
_SPECIAL = PRIORITY | EXPIRATION


@lru_cache(maxsize=1024)
def _nature(raw_properties: bytes) -> tuple[bool, bool]:
    """Whether they are plain (nothing in them matters to a queue: no priority, no expiration), and whether they say
    persistent."""
    return not property_flags(raw_properties) & _SPECIAL, is_persistent(raw_properties)


class Run:
    __slots__ = (
        "_batch",
        "_properties",
        "_shared",
        "body_bytes",
        "count",
        "exchange",
        "persistent",
        "plain",
        "raw_properties",
        "records",
        "routing_key",
    )

    def __init__(
        self, exchange: str, routing_key: str, records: bytes, count: int, body_bytes: int, raw_properties: bytes
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.records = records
        self.count = count
        self.body_bytes = body_bytes
        self.raw_properties = raw_properties
        self._properties: Properties | None = None
        self._batch: bytearray | None = None
        self._shared: bytes | None = None
        self.plain, self.persistent = _nature(raw_properties)

    @classmethod
    def of(cls, messages: list[Message]) -> Run:
        """For those who make messages one by one; they must agree in what a run's messages agree in."""
        first = messages[0]
        body_bytes = sum(len(message.body) for message in messages)
        return cls(first.exchange, first.routing_key, encode_run(messages), len(messages), body_bytes, first.properties)

    @classmethod
    def merged(cls, runs: list[Run]) -> Run:
        """One run of several plain ones. Exchange and routing key are those of the first; each record has
        its own."""
        first = runs[0]
        count = sum(run.count for run in runs)
        records = twin.merge_records([run.records for run in runs], [run.count for run in runs])
        return cls(first.exchange, first.routing_key, records, count, sum(run.body_bytes for run in runs), first.raw_properties)

    @property
    def properties(self) -> Properties:
        """Of the first message."""
        if self._properties is None:
            self._properties = decode_properties(self.raw_properties)
        return self._properties

    @property
    def headers(self) -> Mapping[str, object]:
        if not property_flags(self.raw_properties) & HEADERS:
            return _NO_HEADERS
        return self.properties.headers or _NO_HEADERS

    def batch(self, timestamp_ms: int) -> bytearray:
        """A whole batch, new for each queue: the log writes its offset into it."""
        if self._batch is None:
            self._batch = twin.run_batch(self.records, self.count, timestamp_ms)
            return self._batch
        return self._batch.copy()

    def shared_batch(self, timestamp_ms: int) -> bytes:
        """One for all queues in memory, which write nothing into it: a message for a thousand of them is there once."""
        if self._shared is None:
            self._shared = bytes(self.batch(timestamp_ms))
        return self._shared

    def messages(self) -> list[Message]:
        return read_messages(self.records, 0, self.count)
