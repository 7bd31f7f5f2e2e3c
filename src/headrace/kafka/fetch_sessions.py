"""Incremental fetch sessions (KIP-227): a reader names its partitions once, and later sends and gets only what changed.

A session is a remembered request. Bound: `max.incremental.fetch.session.cache.slots` sessions; when all are taken the one
that was unused longest goes, if that was two minutes or more, and else the newcomer simply gets no session.

Ids are drawn at random: a reader that goes on with its session after a restart of the server must not meet another's.
"""

from __future__ import annotations

from random import Random

from headrace.clock import Clock
from headrace.kafka.codec.errors import ErrorCode

FINAL_EPOCH = -1
FIRST_EPOCH = 0
_LAST_EPOCH = 0x7FFF_FFFF
_LAST_ID = 0x7FFF_FFFF
_EVICT_AFTER_S = 120.0

TopicKey = str | bytes  # a name, or from version 13 on the 16 bytes of a topic id


class Wanted:
    """One partition that a reader wants."""

    __slots__ = ("index", "leader_epoch", "max_bytes", "offset", "sent_start", "sent_watermark", "topic")

    def __init__(self, topic: TopicKey, index: int, leader_epoch: int, offset: int, max_bytes: int) -> None:
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch
        self.offset = offset
        self.max_bytes = max_bytes
        self.sent_watermark = -1  # what the reader was told last, so that a change is told again
        self.sent_start = -1


class Session:
    __slots__ = ("by_id", "epoch", "session_id", "used_at", "wanted")

    def __init__(self, session_id: int, by_id: bool) -> None:
        self.session_id = session_id
        self.by_id = by_id  # whether topics go by their ids
        self.epoch = 1
        self.used_at = 0.0
        self.wanted: dict[tuple[TopicKey, int], Wanted] = {}

    def rotate(self, served: list[Wanted]) -> None:
        """Partitions that got bytes go to the end of the line, so that all get their turn when max.bytes is short."""
        for want in served:
            key = (want.topic, want.index)
            if self.wanted.pop(key, None) is not None:
                self.wanted[key] = want


class FetchSessions:
    def __init__(self, slots: int, clock: Clock, random: Random) -> None:
        self._slots = slots
        self._clock = clock
        self._random = random
        self._sessions: dict[int, Session] = {}  # in order of last use

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, by_id: bool, wanted: list[Wanted]) -> Session | None:
        now = self._clock.monotonic()
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.used_at < _EVICT_AFTER_S:
                return None
            del self._sessions[oldest.session_id]
        session = Session(self._free_id(), by_id)
        session.used_at = now
        for want in wanted:
            session.wanted[want.topic, want.index] = want
        self._sessions[session.session_id] = session
        return session

    def _free_id(self) -> int:
        while (drawn := self._random.randint(1, _LAST_ID)) in self._sessions:
            pass
        return drawn

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def resume(
        self, session_id: int, epoch: int, by_id: bool, wanted: list[Wanted], forgotten: list[tuple[TopicKey, list[int]]]
    ) -> Session | ErrorCode:
        """The session, with this request's changes applied."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if epoch != session.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if by_id != session.by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = epoch % _LAST_EPOCH + 1
        session.used_at = self._clock.monotonic()
        self._sessions[session_id] = self._sessions.pop(session_id)
        for topic, indexes in forgotten:
            for index in indexes:
                session.wanted.pop((topic, index), None)
        for want in wanted:
            known = session.wanted.get((want.topic, want.index))
            if known is None:
                session.wanted[want.topic, want.index] = want
            else:
                known.offset, known.max_bytes, known.leader_epoch = want.offset, want.max_bytes, want.leader_epoch
        return session
