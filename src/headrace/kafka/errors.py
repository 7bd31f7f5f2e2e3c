"""Kafka's answer to each thing that topics and the log can refuse: one table.

What a group coordinator can refuse has a table of its own, `headrace.kafka.group_errors`.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker import telemetry, topic_errors
from headrace.kafka.codec.errors import ErrorCode
from headrace.log import errors

CODES: Mapping[type[errors.LogError], ErrorCode] = {
    errors.LogError: ErrorCode.UNKNOWN_SERVER_ERROR,
    errors.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.InvalidName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidConfig: ErrorCode.INVALID_CONFIG,
    errors.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.InvalidBatch: ErrorCode.INVALID_RECORD,
    errors.RecordsRefused: ErrorCode.INVALID_RECORD,
    errors.KeyNeeded: ErrorCode.INVALID_RECORD,
    errors.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.PartitionSealed: ErrorCode.POLICY_VIOLATION,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.DuplicateSequence: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    errors.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    errors.CoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    # retriable, so that producers hold on until there is room again or the server was restarted
    errors.StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.ReadOnly: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.DiskFull: ErrorCode.KAFKA_STORAGE_ERROR,
    # somebody else owns the partition now: the client asks for metadata again
    errors.Fenced: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    # raised before the server listens
    errors.RecoveryFailed: ErrorCode.UNKNOWN_SERVER_ERROR,
    errors.FolderInUse: ErrorCode.UNKNOWN_SERVER_ERROR,
    telemetry.UnknownSubscriptionId: ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    telemetry.TelemetryTooLarge: ErrorCode.TELEMETRY_TOO_LARGE,
    telemetry.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    topic_errors.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    topic_errors.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    topic_errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    topic_errors.PolicyViolation: ErrorCode.POLICY_VIOLATION,
    topic_errors.ThrottlingQuotaExceeded: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    topic_errors.TopicDeletionDisabled: ErrorCode.TOPIC_DELETION_DISABLED,
    topic_errors.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
}


def code_of(error: errors.LogError) -> ErrorCode:
    for kind in type(error).__mro__:
        code = CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR


def text_of(error: errors.LogError) -> str:
    """For a response that has room for words."""
    return str(error) or code_of(error).message
