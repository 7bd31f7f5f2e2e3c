"""How Kafka's protocol says what share groups could not do. The one table of it; what belongs to groups of every kind, or to
the log, is in their tables.

State that can't be made durable is COORDINATOR_NOT_AVAILABLE, as Kafka answers when the brokers that keep it can't be reached.
"""

from __future__ import annotations

from headrace.broker.groups.errors import GroupError, StorageFailed
from headrace.broker.groups.share import sessions
from headrace.broker.groups.share.runs import InvalidRecordState, PastAcquired
from headrace.kafka import errors, group_errors
from headrace.kafka.codec.errors import ErrorCode
from headrace.log.errors import LogError

_CODES: dict[type[Exception], ErrorCode] = {
    InvalidRecordState: ErrorCode.INVALID_RECORD_STATE,
    PastAcquired: ErrorCode.INVALID_REQUEST,
    sessions.ShareSessionNotFound: ErrorCode.SHARE_SESSION_NOT_FOUND,
    sessions.InvalidShareSessionEpoch: ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    sessions.ShareSessionLimitReached: ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    StorageFailed: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
}


def code_of(error: Exception | None) -> ErrorCode:
    if error is None:
        return ErrorCode.NONE
    found = _CODES.get(type(error))
    if found is not None:
        return found
    if isinstance(error, LogError):
        return errors.code_of(error)
    if isinstance(error, GroupError):
        return group_errors.code_of(error)
    return ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, OSError) else ErrorCode.UNKNOWN_SERVER_ERROR


def text_of(error: Exception | None) -> str | None:
    """For a response that has room for words."""
    return None if error is None else str(error) or code_of(error).message
