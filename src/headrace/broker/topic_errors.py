"""What topic administration can answer beyond the log's own errors. Each protocol maps them in its one table."""

from __future__ import annotations

from headrace.log.errors import LogError


class InvalidReplicationFactor(LogError):
    """More copies than there are nodes, or less than one."""


class InvalidReplicaAssignment(LogError):
    """Nodes that don't exist, or partitions that are not numbered from 0 without gaps."""


class InvalidRequest(LogError):
    """The request contradicts itself."""


class PolicyViolation(LogError):
    """A limit of this server; the text says which."""


class ThrottlingQuotaExceeded(LogError):
    """The client has changed too much lately (KIP-599); it may try again after its pause."""


class TopicDeletionDisabled(LogError):
    """delete.topic.enable is false."""


class UnknownTopicId(LogError):
    """No topic has this id."""
