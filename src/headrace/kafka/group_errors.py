"""How Kafka's protocol says what the group coordinator could not do. The one table of it.

Storage trouble is NOT_COORDINATOR, as Kafka maps KAFKA_STORAGE_ERROR of an append to `__consumer_offsets`
(CoordinatorOperationExceptionHelper): every client then looks for the coordinator again and retries. A row that is too
large is UNKNOWN_SERVER_ERROR, as Kafka maps RECORD_TOO_LARGE there: retrying would not help.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.groups import errors
from headrace.broker.groups.errors import GroupError
from headrace.kafka.codec.errors import ErrorCode

_CODES: Mapping[type[GroupError], ErrorCode] = {
    errors.CoordinatorNotAvailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.FencedInstance: ErrorCode.FENCED_INSTANCE_ID,
    errors.FencedMemberEpoch: ErrorCode.FENCED_MEMBER_EPOCH,
    errors.GroupFull: ErrorCode.GROUP_MAX_SIZE_REACHED,
    errors.GroupNotEmpty: ErrorCode.NON_EMPTY_GROUP,
    errors.GroupNotFound: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.GroupTooLarge: ErrorCode.UNKNOWN_SERVER_ERROR,
    errors.IllegalGeneration: ErrorCode.ILLEGAL_GENERATION,
    errors.InconsistentProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    errors.InvalidGroupId: ErrorCode.INVALID_GROUP_ID,
    errors.InvalidRegex: ErrorCode.INVALID_REGULAR_EXPRESSION,
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.InvalidSessionTimeout: ErrorCode.INVALID_SESSION_TIMEOUT,
    errors.MemberIdRequired: ErrorCode.MEMBER_ID_REQUIRED,
    errors.OffsetMetadataTooLarge: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    errors.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.StaleMemberEpoch: ErrorCode.STALE_MEMBER_EPOCH,
    errors.StorageFailed: ErrorCode.NOT_COORDINATOR,
    errors.SubscribedToTopic: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    errors.UnknownMember: ErrorCode.UNKNOWN_MEMBER_ID,
    errors.UnreleasedInstance: ErrorCode.UNRELEASED_INSTANCE_ID,
    errors.UnstableOffset: ErrorCode.UNSTABLE_OFFSET_COMMIT,
    errors.UnsupportedAssignor: ErrorCode.UNSUPPORTED_ASSIGNOR,
    errors.UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
}


def code_of(error: GroupError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else _CODES[type(error)]
