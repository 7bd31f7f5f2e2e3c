"""Which answer each error of the broker becomes under /v1: the one table."""

from __future__ import annotations

from headrace.broker import topic_errors
from headrace.broker.groups import errors as group_errors
from headrace.broker.groups.errors import GroupError
from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.routes import errors as route_errors
from headrace.broker.routes.errors import RouteError
from headrace.http.problems import Problem
from headrace.log import errors as log_errors
from headrace.log.errors import LogError

_SOON = {"retry-after": "1"}

_ANSWERS: dict[type[Exception], tuple[int, str]] = {
    log_errors.UnknownTopic: (404, "unknown_topic"),
    log_errors.TopicExists: (409, "topic_exists"),
    log_errors.InvalidName: (400, "invalid_name"),
    log_errors.InvalidConfig: (400, "invalid_config"),
    log_errors.InvalidPartitions: (400, "invalid_partitions"),
    log_errors.InvalidBatch: (422, "invalid_record"),
    log_errors.CorruptBatch: (422, "invalid_record"),
    log_errors.BatchTooLarge: (413, "record_too_large"),
    log_errors.PartitionSealed: (409, "partition_sealed"),
    log_errors.InvalidTimestamp: (422, "invalid_timestamp"),
    log_errors.OffsetOutOfRange: (416, "offset_out_of_range"),
    log_errors.DiskFull: (507, "disk_full"),
    log_errors.StorageError: (503, "storage_error"),
    topic_errors.InvalidReplicationFactor: (400, "invalid_replication_factor"),
    topic_errors.InvalidReplicaAssignment: (400, "invalid_replica_assignment"),
    topic_errors.InvalidRequest: (400, "invalid_request"),
    topic_errors.PolicyViolation: (409, "policy_violation"),
    topic_errors.ThrottlingQuotaExceeded: (429, "quota_exceeded"),
    topic_errors.TopicDeletionDisabled: (409, "topic_deletion_disabled"),
    topic_errors.UnknownTopicId: (404, "unknown_topic"),
    group_errors.InvalidGroupId: (400, "invalid_group"),
    group_errors.GroupNotFound: (404, "unknown_group"),
    group_errors.UnknownMember: (409, "group_in_use"),
    group_errors.GroupNotEmpty: (409, "group_in_use"),
    group_errors.SubscribedToTopic: (409, "group_in_use"),
    group_errors.InconsistentProtocol: (409, "another_kind_of_group"),
    group_errors.IllegalGeneration: (409, "group_in_use"),
    group_errors.RebalanceInProgress: (409, "group_in_use"),
    group_errors.FencedMemberEpoch: (409, "group_in_use"),
    group_errors.StaleMemberEpoch: (409, "group_in_use"),
    group_errors.StorageFailed: (503, "storage_error"),
    group_errors.CoordinatorNotAvailable: (503, "unavailable"),
    route_errors.InvalidRoute: (400, "invalid"),
    route_errors.UnknownRoute: (404, "unknown_route"),
    route_errors.RouteConflict: (409, "conflict"),
    route_errors.TooManyRoutes: (409, "too_many_routes"),
    route_errors.RouteNotStored: (503, "unavailable"),
}
_AMQP = {
    403: (403, "forbidden"),
    404: (404, "not_found"),
    405: (409, "locked"),
    406: (409, "precondition_failed"),
    506: (409, "limit_reached"),
    530: (403, "not_allowed"),
    540: (501, "not_implemented"),
    541: (500, "internal_error"),
}


def problem_of(error: Exception) -> Problem | None:
    """None for an error that is a mistake of ours."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, AmqpRefusal):
        status, code = _AMQP.get(error.code, (400, "invalid_request"))
        return Problem(status, code, error.text)
    for kind in type(error).__mro__:
        found = _ANSWERS.get(kind)
        if found is not None:
            status, code = found
            text = str(error) or (type(error).__doc__ or "").strip()
            return Problem(status, code, text, _SOON if status in (429, 503) else None)
    if isinstance(error, GroupError | LogError | RouteError):
        return Problem(409, "conflict", str(error) or type(error).__name__)
    return None
