"""Share sessions (KIP-932): a member says once which partitions it fetches, and then only what changes.

A session is known by group and member. It begins with epoch 0, each request after that carries the next number, and -1 ends
it; ending it releases what the member still holds, and so does the loss of the connection on which it began. There are at most
`group.share.max.share.sessions` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from uuid import UUID

from headrace.broker.groups.errors import GroupError
from headrace.dataclass import dataclass

FIRST_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 2**31 - 1
MAX_PARTITIONS = 500_000  # in all sessions together; at the bound a session gets no more, with SHARE_SESSION_LIMIT_REACHED

TopicPartition = tuple[UUID, int]
Ended = Callable[[], None]
OnClose = list[Callable[[], None]]  # of a connection: called when it is lost


class ShareSessionNotFound(GroupError):
    pass


class InvalidShareSessionEpoch(GroupError):
    pass


class ShareSessionLimitReached(GroupError):
    pass


@dataclass(slots=True)
class ShareSession:
    group_id: str
    member_id: str
    partitions: dict[TopicPartition, None]  # in the order in which they are looked at next
    next_epoch: int = 1
    connection: OnClose = field(default_factory=list)
    lost: Callable[[], None] | None = None
    open: bool = True

    def update(self, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        for place in added:
            self.partitions.setdefault(place)
        for place in forgotten:
            self.partitions.pop(place, None)

    def rotate(self) -> None:
        """The first partition goes last, so that one with many records doesn't starve the others."""
        if len(self.partitions) > 1:
            first = next(iter(self.partitions))
            del self.partitions[first]
            self.partitions[first] = None


class ShareSessions:
    def __init__(self, limit: Callable[[], int], lost: Callable[[str, str], None]) -> None:
        self._limit = limit
        self._lost = lost  # group and member, of a session that ends with its connection
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def _check_room(self, more: int) -> None:
        held = sum(len(session.partitions) for session in self._sessions.values())
        if held + more > MAX_PARTITIONS:
            raise ShareSessionLimitReached

    def begin(
        self, group_id: str, member_id: str, partitions: Iterable[TopicPartition], connection: OnClose | None
    ) -> ShareSession:
        self.end(group_id, member_id)
        if len(self._sessions) >= self._limit():
            raise ShareSessionLimitReached
        session = ShareSession(group_id, member_id, dict.fromkeys(partitions))
        self._check_room(len(session.partitions))
        self._sessions[group_id, member_id] = session
        if connection is not None:
            session.connection = connection
            session.lost = lambda: self._connection_lost(session)
            connection.append(session.lost)
        return session

    def has(self, group_id: str, member_id: str) -> bool:
        return (group_id, member_id) in self._sessions

    def get(self, group_id: str, member_id: str) -> ShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ShareSessionNotFound
        return session

    def resume(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        added: Sequence[TopicPartition] = (),
        forgotten: Iterable[TopicPartition] = (),
    ) -> ShareSession:
        """For the next request of a session."""
        session = self.get(group_id, member_id)
        if epoch != session.next_epoch:
            raise InvalidShareSessionEpoch
        if added:
            self._check_room(len(added))
        session.update(added, forgotten)
        session.next_epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        return session

    def end(self, group_id: str, member_id: str) -> bool:
        """Whether there was one."""
        session = self._sessions.pop((group_id, member_id), None)
        if session is None:
            return False
        session.open = False
        if session.lost is not None and session.lost in session.connection:
            session.connection.remove(session.lost)
        return True

    def end_all(self, group_id: str) -> None:
        """The group is gone."""
        for group, member in [key for key in self._sessions if key[0] == group_id]:
            self.end(group, member)

    def _connection_lost(self, session: ShareSession) -> None:
        if session.open:
            session.lost = None  # it is being called
            self.end(session.group_id, session.member_id)
            self._lost(session.group_id, session.member_id)
