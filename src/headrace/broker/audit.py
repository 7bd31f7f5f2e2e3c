"""Who changed what: the audit trail, which is a topic (`headrace.audit`) that anybody may read who may read topics.

What changes something says so with `@audited`, once, whatever the protocol; who asks for it is said by the front end, with
`acting`, for as long as it works on a request (a context variable: tasks that are begun meanwhile belong to it). What the
server does by itself is nobody's, and not in the trail. Of changes that are parts of another (the topic of a stream) only the
outer one is. What changed nothing is not, nor is what is not kept: transient and exclusive queues.

An entry is a record with JSON (`docs/audit.md`). Nobody waits for it: entries of one turn of the event loop become one batch,
which is as durable as the topic. Only the server writes to the topic (it is sealed), so an entry can't be forged; who may
delete topics can delete it, which the next one says.

Bounds: `MAX_WAITING` entries while the log takes none; then, and beyond `REFUSED_PER_S` refusals in a second, they are counted
and the next entry says how many were left out. `RETENTION_BYTES` and `RETENTION_MS` of the topic, until somebody changes that.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

from headrace.dataclass import dataclass
from headrace.log.errors import BatchTooLarge, LogError
from headrace.record import Event, encode_batch

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.broker.topics import Topics
    from headrace.clock import Clock
    from headrace.log.port import Partition

logger = logging.getLogger("headrace.audit")

TOPIC = "headrace.audit"
ENABLE = "headrace.audit.enable"
RETENTION_MS = 90 * 86_400_000
RETENTION_BYTES = 256 * 1024 * 1024
TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": str(RETENTION_MS),
    "retention.bytes": str(RETENTION_BYTES),
    "segment.bytes": str(RETENTION_BYTES // 8),
}
MAX_WAITING = 1000
REFUSED_PER_S = 50
MAX_SUBJECT = 300
MAX_REASON = 500
MAX_BYTES = 8 * 1024  # of an entry; details that would make it longer are left out
AT_ONCE = 100
_SEALED = f"only the server writes to {TOPIC}"

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Actor:
    user: str
    protocol: str
    peer: str
    client: str = ""


class About(NamedTuple):
    """What an entry is about. Nothing secret may be in it."""

    subject: str
    details: Mapping[str, object] = {}


class Acting(NamedTuple):
    audit: Audit
    actor: Actor

    def note(self, action: str, about: About, error: Exception | None) -> None:
        self.audit.add(self.actor, action, about, error)


_ACTING: ContextVar[Acting | None] = ContextVar("acting", default=None)


def now_acting() -> Acting | None:
    """On whose behalf this runs; None: the server's own."""
    return _ACTING.get()


@contextmanager
def acting(audit: Audit, actor: Actor) -> Iterator[None]:
    token = _ACTING.set(Acting(audit, actor))
    try:
        yield
    finally:
        _ACTING.reset(token)


def act(audit: Audit, actor: Actor) -> None:
    """The same up to the end of the task that calls it."""
    _ACTING.set(Acting(audit, actor))


def note(action: str, subject: str, error: Exception | None = None, **details: object) -> None:
    """For what `audited` is too coarse for."""
    found = _ACTING.get()
    if found is not None and found.audit.enabled:
        found.note(action, About(subject, details), error)


def audited(
    action: str, about: Callable[..., About | None], changed: Callable[[Any], bool] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`about` takes what the function takes; None: not worth an entry. `changed` looks at what it returned."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        def begin(*args: P.args, **kwargs: P.kwargs) -> tuple[Acting, About] | None:
            found = _ACTING.get()
            told = about(*args, **kwargs) if found is not None and found.audit.enabled else None
            return None if found is None or told is None else (found, told)

        if iscoroutinefunction(function):

            @wraps(function)
            async def later(*args: P.args, **kwargs: P.kwargs) -> Any:
                begun = begin(*args, **kwargs)
                if begun is None:
                    return await function(*args, **kwargs)
                with _noted(action, *begun, changed) as done:
                    done.append(await function(*args, **kwargs))
                return done[0]

            return cast(Callable[P, R], later)

        @wraps(function)
        def at_once(*args: P.args, **kwargs: P.kwargs) -> R:
            begun = begin(*args, **kwargs)
            if begun is None:
                return function(*args, **kwargs)
            done: list[R]
            with _noted(action, *begun, changed) as done:
                done.append(function(*args, **kwargs))
            return done[0]

        return at_once

    return decorate


@contextmanager
def _noted(action: str, found: Acting, about: About, changed: Callable[[Any], bool] | None) -> Iterator[list[Any]]:
    done: list[Any] = []
    token = _ACTING.set(None)  # its parts are not noted
    try:
        yield done
    except Exception as error:
        found.note(action, about, error)
        raise
    finally:
        _ACTING.reset(token)
    if changed is None or changed(done[0]):
        found.note(action, about, None)


class Audit:
    def __init__(self, clock: Clock, settings: Settings, topics: Topics) -> None:
        self._clock = clock
        self._settings = settings
        self._topics = topics
        self._waiting: list[Event] = []
        self._due = False
        self._refused = (0, 0)  # a second, and how many refusals it had
        self.left_out = 0

    def start(self) -> None:
        """The topic is sealed again after each start."""
        self._seal()

    @property
    def enabled(self) -> bool:
        return self._settings.get_bool(ENABLE)

    def add(self, actor: Actor, action: str, about: About, error: Exception | None) -> None:
        now_ms = self._clock.now_ms()
        if len(self._waiting) >= MAX_WAITING or (error is not None and self._too_many_refused(now_ms)):
            self.left_out += 1
            return
        entry: dict[str, object] = {
            "time_ms": now_ms,
            "user": actor.user,
            "protocol": actor.protocol,
            "peer": actor.peer,
            "client": actor.client[:MAX_SUBJECT],
            "action": action,
            "subject": about.subject[:MAX_SUBJECT],
            "result": "ok" if error is None else "refused",
        }
        if error is not None:
            entry["reason"] = (str(error) or getattr(error, "text", "") or type(error).__name__)[:MAX_REASON]
        if about.details:
            entry["details"] = about.details
        if self.left_out:
            entry["left_out"], self.left_out = self.left_out, 0
        value = _json(entry)
        if len(value) > MAX_BYTES:
            value = _json({name: part for name, part in entry.items() if name != "details"})
        self._waiting.append(Event(about.subject[:MAX_SUBJECT].encode("utf-8", "replace"), value, timestamp_ms=now_ms))
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self.flush, context=Context())

    def _too_many_refused(self, now_ms: int) -> bool:
        second, count = self._refused
        self._refused = (now_ms // 1000, count + 1 if second == now_ms // 1000 else 1)
        return self._refused[1] > REFUSED_PER_S

    def flush(self) -> None:
        """Writes what waits, `AT_ONCE` entries in a batch. What can't be written now is tried again with the next entry."""
        self._due = False
        try:
            while self._waiting:
                entries = self._waiting[:AT_ONCE]
                try:
                    self._write(entries)
                except BatchTooLarge:  # somebody has set max.message.bytes
                    self.left_out += len(entries)
                del self._waiting[:AT_ONCE]
        except LogError as error:
            logger.warning("the audit trail can't be written: %s", error)

    def _write(self, entries: list[Event]) -> None:
        partition = self._partition()
        partition.unseal()
        try:
            partition.append(encode_batch(entries, now_ms=self._clock.now_ms()))
        finally:
            partition.seal(_SEALED)

    def _partition(self) -> Partition:
        from headrace.broker.topics import NewTopic  # which is audited itself

        topic = self._topics.get(TOPIC)
        if topic is None:
            topic = self._topics.define(NewTopic(TOPIC, partitions=1, config=TOPIC_CONFIG))
            self._seal()
        return topic.partitions[0]

    def _seal(self) -> None:
        topic = self._topics.get(TOPIC)
        for partition in topic.partitions if topic is not None else ():
            partition.seal(_SEALED)


def _json(entry: Mapping[str, object]) -> bytes:
    return json.dumps(entry, ensure_ascii=False, default=_plain).encode("utf-8", "replace")


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)
