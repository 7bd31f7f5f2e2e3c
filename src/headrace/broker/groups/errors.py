"""What a group coordinator can answer instead of doing what was asked.

The names are the domain's; each front end maps them to its own codes in one table (Kafka's is
`headrace.kafka.group_errors`).
"""

from __future__ import annotations


class GroupError(Exception):
    """The root of everything below; never raised itself.

    `member_id` is the id a JoinGroup answer carries beside the error: Kafka gives the asked one back, an empty one, or,
    with `MemberIdRequired`, the new one. None stands for the asked one.
    """

    def __init__(self, text: str = "", *, member_id: str | None = None) -> None:
        super().__init__(text)
        self.member_id = member_id


class InvalidGroupId(GroupError):
    """An empty group id where a group must have a name."""


class InvalidRequest(GroupError):
    """A request that contradicts itself."""


class InvalidSessionTimeout(GroupError):
    """Outside group.min.session.timeout.ms .. group.max.session.timeout.ms."""


class MemberIdRequired(GroupError):
    """Join again with the id in `member_id` (KIP-394)."""


class UnknownMember(GroupError):
    """The group, or this member of it, does not exist (any more)."""


class FencedInstance(GroupError):
    """Another process has taken this group.instance.id over (KIP-345)."""


class IllegalGeneration(GroupError):
    """The member speaks of another generation than the group's."""


class RebalanceInProgress(GroupError):
    """The member should join again."""


class InconsistentProtocol(GroupError):
    """No assignor in common with the group, or another kind of group altogether."""


class GroupFull(GroupError):
    """group.max.size is reached."""


class CoordinatorNotAvailable(GroupError):
    """The group is being removed, or there is no room for one more; asking again later may help."""


class GroupNotFound(GroupError):
    pass


class GroupNotEmpty(GroupError):
    """The group has members, so it can't be deleted."""


class SubscribedToTopic(GroupError):
    """The group reads this topic now, so its offset can't be deleted."""


class OffsetMetadataTooLarge(GroupError):
    """Longer than offset.metadata.max.bytes."""


class UnstableOffset(GroupError):
    """A transaction that would move this offset has not ended yet."""


class GroupTooLarge(GroupError):
    """The members' metadata and assignments don't fit in one record."""


class StorageFailed(GroupError):
    """The change could not be made durable, so it was not acknowledged."""


class FencedMemberEpoch(GroupError):
    """The member speaks of an epoch that it can't be in: it must give up everything and join again (KIP-848)."""


class StaleMemberEpoch(GroupError):
    """An older, or not yet reached, member epoch; the next heartbeat will tell the current one."""


class UnreleasedInstance(GroupError):
    """Another member still uses this group.instance.id, and has not left for a while."""


class UnsupportedAssignor(GroupError):
    """Not one of group.consumer.assignors."""


class InvalidRegex(GroupError):
    """A subscription that is not a regular expression of RE2, or one that is too much work."""


class UnsupportedVersion(GroupError):
    """The request is older than what it is used for."""
