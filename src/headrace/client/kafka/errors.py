"""What can go wrong between a client and a Kafka server, and what to tell the person who asked.

A code from the server becomes `Refused`, with the code's Kafka name, the server's own message when it gave one, and one
sentence that says what to do next. Which codes are worth another try, after a look at fresh metadata, is `RETRIABLE`: fewer
than the protocol calls retriable, for to a person a topic that does not exist is a typing error, not a matter of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from headrace.kafka.codec.errors import ErrorCode

T = TypeVar("T")


RETRIABLE = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)

_NEXT_STEP = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the server failed unexpectedly; its log says why",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is below the oldest record kept or beyond the end",
    ErrorCode.CORRUPT_MESSAGE: "the batch did not arrive as it was sent, or has no key although the topic is compacted",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader at the moment; try again",
    ErrorCode.REQUEST_TIMED_OUT: "the server did not finish in time; try again or raise --timeout",
    ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than the topic's max.message.bytes",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic name has 1 to 249 letters, digits, dots, dashes and underscores",
    ErrorCode.RECORD_LIST_TOO_LARGE: "the batch is larger than the topic's segment.bytes",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group's members use another kind of protocol or no assignor in common",
    ErrorCode.INVALID_GROUP_ID: "a group needs a name",
    ErrorCode.INVALID_SESSION_TIMEOUT: "the session timeout is outside the server's limits",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing; try again",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this user may not do that to the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this user may not do that to the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this user may not do that to the cluster",
    ErrorCode.INVALID_TIMESTAMP: "the timestamp is outside what message.timestamp.before.max.ms and after.max.ms allow",
    ErrorCode.UNSUPPORTED_VERSION: "the server does not support this request",
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic exists",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions must be at least one and can only grow",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the replication factor must be between one and the number of brokers",
    ErrorCode.INVALID_CONFIG: "a setting is unknown or its value is not allowed",
    ErrorCode.POLICY_VIOLATION: "a policy of the server forbids it",
    ErrorCode.KAFKA_STORAGE_ERROR: "the server can't write to its disk; look at its log",
    ErrorCode.NON_EMPTY_GROUP: "the group has active members; stop its consumers first",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.TOPIC_DELETION_DISABLED: "the server has delete.topic.enable=false",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as the server allows",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group's members are subscribed to the topic; stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has active members; stop its consumers first",
    ErrorCode.INVALID_RECORD: "the topic does not take such a record (a compacted topic needs keys)",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "a quota is used up; try again later",
}


def code_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"ERROR_{code}"


class ClientError(Exception):
    """The root of what this client raises. Its text is one sentence for people."""


class Unreachable(ClientError):
    """No broker could be connected to."""


class Disconnected(ClientError):
    """The connection broke while a request was under way; whether it was done is unknown."""


class TimedOut(ClientError):
    """No answer, or no success, before the deadline."""


class ProtocolViolation(ClientError):
    """The peer sent something that is not the Kafka protocol."""


class Unsupported(ClientError):
    """The server speaks no version of this request that we do."""


class UnknownName(ClientError):
    """A topic, partition or group that does not exist; the text may suggest another name."""


class Refused(ClientError):
    """The server answered with an error code."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        self.what = what
        self.code = code
        self.name = code_name(code)
        self.message = message
        self.retriable = code in RETRIABLE
        super().__init__(f"{what}: {_reason(code, message)} ({self.name})")


def _reason(code: int, message: str | None) -> str:
    """The server's own words where they say more than the name of the error, ours otherwise."""
    words = (message or "").strip().rstrip(".")
    try:
        known = ErrorCode(code)
    except ValueError:
        return words or "the server refused"
    ours = _NEXT_STEP.get(known)
    if words and not (ours and words.startswith(("This ", "The request ", "The server "))):
        return words
    plain = known.message.rstrip(".")
    return ours or plain[:1].lower() + plain[1:]


def check(what: str, code: int, message: str | None = None) -> None:
    """Raises Refused unless the code says that all went well."""
    if code != ErrorCode.NONE:
        raise Refused(what, code, message)


def only(results: Sequence[T]) -> T:
    """The answer to a question about one thing."""
    if len(results) != 1:
        raise ProtocolViolation("the server answered about something else than it was asked")
    return results[0]
