"""Kafka's error codes, as of Apache Kafka 4.3: number, a sentence for people, and whether trying again may help."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

RETRIABLE: Final = True


class ErrorCode(IntEnum):
    """A code of the protocol. `message` is for a response that has room for words; a more precise one is better."""

    _value_: int
    message: str
    retriable: bool

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "The server failed in a way it did not expect."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The offset is outside of what the partition holds."
    CORRUPT_MESSAGE = 2, "The record batch is damaged: its checksum, its size or its structure is wrong.", RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This server has no such topic or partition.", RETRIABLE
    INVALID_FETCH_SIZE = 4, "The number of bytes to fetch is not valid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", RETRIABLE
    NOT_LEADER_OR_FOLLOWER = 6, "This broker does not lead, or does not hold, the partition.", RETRIABLE
    REQUEST_TIMED_OUT = 7, "The request took longer than it was allowed to.", RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker can't be reached."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available on this broker.", RETRIABLE
    MESSAGE_TOO_LARGE = 10, "The record batch is larger than the topic allows."
    STALE_CONTROLLER_EPOCH = 11, "Another broker has become the controller."
    OFFSET_METADATA_TOO_LARGE = 12, "The text stored with the offset is too long."
    NETWORK_EXCEPTION = 13, "The connection ended before the response came.", RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still reading its state.", RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "There is no coordinator at the moment.", RETRIABLE
    NOT_COORDINATOR = 16, "Another broker coordinates this.", RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "The topic name is not valid, or the topic must not be used this way."
    RECORD_LIST_TOO_LARGE = 18, "The record batch is larger than a segment."
    NOT_ENOUGH_REPLICAS = 19, "Fewer replicas are in sync than the topic requires; nothing was written.", RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "Written, but to fewer replicas than the topic requires.", RETRIABLE
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1."
    ILLEGAL_GENERATION = 22, "The generation is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member has no protocol in common with the group."
    INVALID_GROUP_ID = 24, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside of what the broker allows."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offset with its text is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, "Not allowed for this topic."
    GROUP_AUTHORIZATION_FAILED = 30, "Not allowed for this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Not allowed for the cluster."
    INVALID_TIMESTAMP = 32, "A timestamp is outside of what the topic allows."
    UNSUPPORTED_SASL_MECHANISM = 33, "The server does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, "The server does not support this version of the request."
    TOPIC_ALREADY_EXISTS = 36, "There is a topic of this name already."
    INVALID_PARTITIONS = 37, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is below one, or above the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The assignment of replicas to brokers is not valid."
    INVALID_CONFIG = 40, "A setting is not valid."
    NOT_CONTROLLER = 41, "This broker is not the controller.", RETRIABLE
    INVALID_REQUEST = 42, "The request contradicts itself, or is not what the server expects."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The stored record format does not support this."
    POLICY_VIOLATION = 44, "The request is against a policy of the server."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer has skipped a sequence number."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer has used this sequence number before."
    INVALID_PRODUCER_EPOCH = 47, "A newer producer with the same id has taken over."
    INVALID_TXN_STATE = 48, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is longer than the server allows."
    CONCURRENT_TRANSACTIONS = 51, "An earlier operation on the same transaction is not finished.", RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "Another coordinator has taken over this producer's transactions."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Not allowed for this transactional id."
    SECURITY_DISABLED = 54, "Access control is turned off."
    OPERATION_NOT_ATTEMPTED = 55, "Not tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, "The disk failed.", RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log folder."
    SASL_AUTHENTICATION_FAILED = 58, "Authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "The partition remembers nothing of this producer."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being moved."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are turned off."
    DELEGATION_TOKEN_NOT_FOUND = 62, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "Neither owner nor renewer of this delegation token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation tokens can't be used over this kind of connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Not allowed for this delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The server does not know this type of principal."
    NON_EMPTY_GROUP = 68, "The group has members."
    GROUP_ID_NOT_FOUND = 69, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, "There is no such fetch session.", RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "The epoch is not the fetch session's next one.", RETRIABLE
    LISTENER_NOT_FOUND = 72, "The leader has no listener like the one this request came by.", RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "Topics must not be deleted here."
    FENCED_LEADER_EPOCH = 74, "The leader epoch is older than the broker's.", RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch is newer than the broker's.", RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client does not support the compression that the records have."
    STALE_BROKER_EPOCH = 77, "The broker epoch has changed."
    OFFSET_NOT_AVAILABLE = 78, "The new leader does not know the offset yet.", RETRIABLE
    MEMBER_ID_REQUIRED = 79, "Join again with the member id given here."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, "Another member has registered with the same group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No broker that could lead the partition is available.", RETRIABLE
    ELECTION_NOT_NEEDED = 84, "The partition has the right leader already.", RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group still subscribes to the topic."
    INVALID_RECORD = 87, "A record is not one that the topic takes."
    UNSTABLE_OFFSET_COMMIT = 88, "A transaction that commits offsets of this group is still open.", RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up for now.", RETRIABLE
    PRODUCER_FENCED = 90, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, "There is no such resource."
    DUPLICATE_RESOURCE = 92, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential is not one that the server accepts."
    INCONSISTENT_VOTER_SET = 94, "The sender or the recipient is not among the expected voters."
    INVALID_UPDATE_VERSION = 95, "The version of the update is not valid."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The principal of a forwarded request could not be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position is outside of the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This server has no topic of this id.", RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "Another broker has this id."
    BROKER_ID_NOT_REGISTERED = 102, "No broker is registered under this id."
    INCONSISTENT_TOPIC_ID = 103, "The topic id is not the one that the log has.", RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "The cluster id is not this cluster's."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes topic names and topic ids.", RETRIABLE
    INELIGIBLE_REPLICA = 107, "A replica must not be in the in-sync set."
    NEW_LEADER_ELECTED = 108, "The partition was changed, and has got a new leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset is in tiered storage now."
    FENCED_MEMBER_EPOCH = 110, "The member was fenced; it must give up its partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, "Another member still uses this instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, "The member epoch is old; try again after the next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request belongs to another type of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The server does not support this type of endpoint."
    UNKNOWN_CONTROLLER_ID = 116, "There is no controller of this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is not, or no longer, valid."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is larger than the server takes."
    INVALID_REGISTRATION = 119, "The controller does not accept the broker's registration."
    TRANSACTION_ABORTABLE = 120, "The transaction must be aborted; the producer may go on with the next."
    INVALID_RECORD_STATE = 121, "The record is not in a state in which it can be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, "There is no such share session.", RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "The epoch is not the share session's next one.", RETRIABLE
    FENCED_STATE_EPOCH = 124, "The state epoch of the share group is not the current one."
    INVALID_VOTER_KEY = 125, "The voter key is not the receiving replica's."
    DUPLICATE_VOTER = 126, "The controller is a voter already."
    VOTER_NOT_FOUND = 127, "The controller is not a voter."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression can't be understood."
    REBOOTSTRAP_REQUIRED = 129, "The client's metadata is too old; it must start from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The topology epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The topology epoch is old."
    SHARE_SESSION_LIMIT_REACHED = 133, "There are as many share sessions as there may be.", RETRIABLE
