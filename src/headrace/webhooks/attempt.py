"""One attempt, as a record of the topic `<route>.attempts`: JSON, so that everything which reads topics can read it.

    {"webhook_id": "msg_…", "topic": "orders", "partition": 0, "offset": 17, "attempt": 2,
     "at": "2026-03-01T09:30:00.000Z", "duration_ms": 31, "result": "failed", "status": 503, "error": "HTTP 503",
     "address": "192.0.2.7", "response": "try later", "signatures": 1, "next_at": "2026-03-01T09:35:02.104Z"}

`result` is `delivered`, `failed` (it is tried again at `next_at`), `given-up` (it is not), or `gone` (retention had taken the
event). An attempt without an answer has an `error` and its `kind`, and no `status`. `response` is the beginning of the answer's
body. No secret is in it, and no signature. The record's headers are the trace that the request had, if it had one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.record import Event
from headrace.record.request import iso

MAX_RESPONSE = 1024  # bytes of an answer that are kept

DELIVERED, FAILED, GIVEN_UP, GONE = "delivered", "failed", "given-up", "gone"
RESULTS = (DELIVERED, FAILED, GIVEN_UP, GONE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request. Without a status nobody answered, and `error` says why."""

    status: int | None = None
    error: str | None = None
    kind: str | None = None
    address: str | None = None
    response: bytes = b""
    retry_after: bytes | None = None

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def reason(self) -> str:
        if self.status is None:
            return self.error or "no answer"
        return f"HTTP {self.status}"


@dataclass(frozen=True, slots=True)
class Attempt:
    webhook_id: str
    topic: str
    partition: int
    offset: int
    attempt: int
    at_ms: int
    duration_ms: int
    result: str
    outcome: Outcome
    signatures: int
    next_ms: int | None = None
    trace: tuple[tuple[bytes, bytes], ...] = ()  # that the request had

    def json(self) -> dict[str, object]:
        outcome = self.outcome
        return {
            "webhook_id": self.webhook_id,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "attempt": self.attempt,
            "at": iso(self.at_ms),
            "duration_ms": self.duration_ms,
            "result": self.result,
            "status": outcome.status,
            "error": None if outcome.is_success else outcome.reason,
            "kind": outcome.kind,
            "address": outcome.address,
            "response": outcome.response[:MAX_RESPONSE].decode("utf-8", "replace"),
            "signatures": self.signatures,
            "next_at": None if self.next_ms is None else iso(self.next_ms),
        }

    def event(self, now_ms: int) -> Event:
        headers = tuple((name.decode(), value) for name, value in self.trace)
        return Event(self.webhook_id.encode(), json.dumps(self.json()).encode(), headers, now_ms)


def read_attempt(value: bytes | None) -> Mapping[str, object] | None:
    """None for what is no attempt: the topic takes what anybody writes."""
    try:
        told = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or told.get("result") not in RESULTS:
        return None
    if not isinstance(told.get("partition"), int) or not isinstance(told.get("offset"), int):
        return None
    return told
