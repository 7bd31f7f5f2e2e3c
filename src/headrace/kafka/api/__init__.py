"""What the server does for each Kafka API: one module each, named as Kafka names the API.

A module opens with the versions it answers, what it does and what each version added. It has one function:

    handle(call, request) -> answer, or an awaitable of it

The answer is a response message, or bytes: a body that is encoded already, in the version of the call. Produce and Fetch
are the exceptions: they read their request from the connection's buffer and write their answer there themselves.

`SUPPORTED` is what ApiVersions advertises and what a connection accepts; a module is imported when its API is first
called, so that a server starts quickly. What is deliberately missing is listed in `headrace.kafka.not_supported`.

Imports `kafka.messages`, `kafka.codec`, `kafka.call` and the broker; imported by the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from headrace.kafka.call import Call
from headrace.kafka.codec.schema import Response
from headrace.kafka.messages import MESSAGES

Answer: TypeAlias = Response | bytes
Handler: TypeAlias = Callable[[Call, Any], Answer | Awaitable[Answer]]

HANDLED = (
    0,  # Produce
    1,  # Fetch
    2,  # ListOffsets
    3,  # Metadata
    8,  # OffsetCommit
    9,  # OffsetFetch
    10,  # FindCoordinator
    11,  # JoinGroup
    12,  # Heartbeat
    13,  # LeaveGroup
    14,  # SyncGroup
    15,  # DescribeGroups
    16,  # ListGroups
    18,  # ApiVersions
    19,  # CreateTopics
    20,  # DeleteTopics
    21,  # DeleteRecords
    22,  # InitProducerId
    23,  # OffsetForLeaderEpoch
    24,  # AddPartitionsToTxn
    25,  # AddOffsetsToTxn
    26,  # EndTxn
    27,  # WriteTxnMarkers
    28,  # TxnOffsetCommit
    29,  # DescribeAcls
    30,  # CreateAcls
    31,  # DeleteAcls
    32,  # DescribeConfigs
    33,  # AlterConfigs
    34,  # AlterReplicaLogDirs
    35,  # DescribeLogDirs
    37,  # CreatePartitions
    42,  # DeleteGroups
    43,  # ElectLeaders
    44,  # IncrementalAlterConfigs
    45,  # AlterPartitionReassignments
    46,  # ListPartitionReassignments
    47,  # OffsetDelete
    48,  # DescribeClientQuotas
    49,  # AlterClientQuotas
    55,  # DescribeQuorum
    57,  # UpdateFeatures
    60,  # DescribeCluster
    61,  # DescribeProducers
    65,  # DescribeTransactions
    66,  # ListTransactions
    68,  # ConsumerGroupHeartbeat
    69,  # ConsumerGroupDescribe
    71,  # GetTelemetrySubscriptions
    72,  # PushTelemetry
    74,  # ListConfigResources
    75,  # DescribeTopicPartitions
    76,  # ShareGroupHeartbeat
    77,  # ShareGroupDescribe
    78,  # ShareFetch
    79,  # ShareAcknowledge
    90,  # DescribeShareGroupOffsets
    91,  # AlterShareGroupOffsets
    92,  # DeleteShareGroupOffsets
)

SUPPORTED: dict[int, tuple[int, int]] = {key: MESSAGES[key].versions for key in HANDLED}
"""API key -> first and last version."""


@cache
def handler(key: int) -> Handler:
    """The function that answers an API; KeyError for one that is not supported."""
    if key not in SUPPORTED:
        raise KeyError(key)
    found: Handler = import_module(f"{__name__}.{MESSAGES[key].module}").handle
    return found


def unsupported_api_versions() -> Response:
    """The answer, in version 0, to ApiVersions in a version that is not supported (KIP-511)."""
    from headrace.kafka.api.api_versions import unsupported_version

    return unsupported_version()
