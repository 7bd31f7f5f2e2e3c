"""What can go wrong between a client and a Kafka server, and what to tell the person who asked.

A code from the server becomes `Refused`, with the code's Kafka name, the server's own message when it gave one, and one
sentence that says what to do next. Which codes are worth another try, after a look at fresh metadata, is `RETRIABLE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar

T = TypeVar("T")


class Code(IntEnum):
    """Kafka's error codes, as far as this client meets them."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    CONCURRENT_TRANSACTIONS = 51
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    STALE_MEMBER_EPOCH = 113


RETRIABLE = frozenset(
    {
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
        Code.REPLICA_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.NOT_CONTROLLER,
        Code.CONCURRENT_TRANSACTIONS,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.UNSTABLE_OFFSET_COMMIT,
        Code.THROTTLING_QUOTA_EXCEEDED,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
    }
)

_NEXT_STEP = {
    Code.UNKNOWN_SERVER_ERROR: "the server failed unexpectedly; its log says why",
    Code.OFFSET_OUT_OF_RANGE: "the offset is below the oldest record kept or beyond the end",
    Code.CORRUPT_MESSAGE: "the batch did not arrive as it was sent, or has no key although the topic is compacted",
    Code.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    Code.LEADER_NOT_AVAILABLE: "the partition has no leader at the moment; try again",
    Code.REQUEST_TIMED_OUT: "the server did not finish in time; try again or raise --timeout",
    Code.MESSAGE_TOO_LARGE: "a record is larger than the topic's max.message.bytes",
    Code.INVALID_TOPIC_EXCEPTION: "a topic name has 1 to 249 letters, digits, dots, dashes and underscores",
    Code.RECORD_LIST_TOO_LARGE: "the batch is larger than the topic's segment.bytes",
    Code.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "fewer replicas are in sync than min.insync.replicas asks for",
    Code.INCONSISTENT_GROUP_PROTOCOL: "the group's members use another kind of protocol or no assignor in common",
    Code.INVALID_GROUP_ID: "a group needs a name",
    Code.INVALID_SESSION_TIMEOUT: "the session timeout is outside the server's limits",
    Code.REBALANCE_IN_PROGRESS: "the group is rebalancing; try again",
    Code.TOPIC_AUTHORIZATION_FAILED: "this user may not do that to the topic",
    Code.GROUP_AUTHORIZATION_FAILED: "this user may not do that to the group",
    Code.CLUSTER_AUTHORIZATION_FAILED: "this user may not do that to the cluster",
    Code.INVALID_TIMESTAMP: "the timestamp is outside what message.timestamp.before.max.ms and after.max.ms allow",
    Code.UNSUPPORTED_VERSION: "the server does not support this request",
    Code.TOPIC_ALREADY_EXISTS: "the topic exists",
    Code.INVALID_PARTITIONS: "the number of partitions must be at least one and can only grow",
    Code.INVALID_REPLICATION_FACTOR: "the replication factor must be between one and the number of brokers",
    Code.INVALID_CONFIG: "a setting is unknown or its value is not allowed",
    Code.POLICY_VIOLATION: "a policy of the server forbids it",
    Code.KAFKA_STORAGE_ERROR: "the server can't write to its disk; look at its log",
    Code.NON_EMPTY_GROUP: "the group has active members; stop its consumers first",
    Code.GROUP_ID_NOT_FOUND: "there is no such group",
    Code.TOPIC_DELETION_DISABLED: "the server has delete.topic.enable=false",
    Code.GROUP_MAX_SIZE_REACHED: "the group has as many members as the server allows",
    Code.GROUP_SUBSCRIBED_TO_TOPIC: "the group's members are subscribed to the topic; stop them first",
    Code.UNKNOWN_MEMBER_ID: "the group has active members; stop its consumers first",
    Code.INVALID_RECORD: "the topic does not take such a record (a compacted topic needs keys)",
    Code.THROTTLING_QUOTA_EXCEEDED: "a quota is used up; try again later",
}


def code_name(code: int) -> str:
    try:
        return Code(code).name
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
        ours = _NEXT_STEP.get(Code(code))
    except ValueError:
        ours = None
    if words and not (ours and words.startswith(("This ", "The request ", "The server "))):
        return words
    return ours or words or "the server refused"


def check(what: str, code: int, message: str | None = None) -> None:
    """Raises Refused unless the code says that all went well."""
    if code != Code.NONE:
        raise Refused(what, code, message)


def only(results: Sequence[T]) -> T:
    """The answer to a question about one thing."""
    if len(results) != 1:
        raise ProtocolViolation("the server answered about something else than it was asked")
    return results[0]
