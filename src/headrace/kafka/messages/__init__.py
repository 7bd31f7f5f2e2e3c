"""The messages of Kafka's protocol: one module of schemas for each API, named as Kafka names them.

`MESSAGES` lists the APIs that a broker of Apache Kafka 4.3 offers, in the versions it offers; what only controllers are
asked is left out. Names and versions are here, so that a module need not be imported before its first message arrives;
`request_class` and `response_class` do that.

Fields go by Kafka's names in snake case, and a field that is not set has Kafka's default; that of a text that may be null
is the empty text unless its declaration says None.

Beside the APIs: `consumer_protocol` (what members of a classic consumer group put into JoinGroup and SyncGroup),
`group_records`, `transaction_records` and `control_records` (what Kafka itself writes into logs; `logged` is how).

Imports `headrace.kafka.codec` only. The front end, the client and the tests all use it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from re import sub
from typing import NamedTuple

from headrace.kafka.codec.schema import Request, Response


class Api(NamedTuple):
    name: str
    versions: tuple[int, int]
    flexible: int | None = None  # the first version with compact lengths and tagged fields (KIP-482)

    @property
    def module(self) -> str:
        return sub(r"(?<!^)([A-Z])", r"_\1", self.name).lower()


MESSAGES: dict[int, Api] = {
    0: Api("Produce", (3, 13), 9),
    1: Api("Fetch", (4, 18), 12),
    2: Api("ListOffsets", (1, 11), 6),
    3: Api("Metadata", (0, 13), 9),
    8: Api("OffsetCommit", (2, 10), 8),
    9: Api("OffsetFetch", (1, 10), 6),
    10: Api("FindCoordinator", (0, 6), 3),
    11: Api("JoinGroup", (0, 9), 6),
    12: Api("Heartbeat", (0, 4), 4),
    13: Api("LeaveGroup", (0, 5), 4),
    14: Api("SyncGroup", (0, 5), 4),
    15: Api("DescribeGroups", (0, 6), 5),
    16: Api("ListGroups", (0, 5), 3),
    17: Api("SaslHandshake", (0, 1)),
    18: Api("ApiVersions", (0, 4), 3),
    19: Api("CreateTopics", (2, 7), 5),
    20: Api("DeleteTopics", (1, 6), 4),
    21: Api("DeleteRecords", (0, 2), 2),
    22: Api("InitProducerId", (0, 5), 2),
    23: Api("OffsetForLeaderEpoch", (2, 4), 4),
    24: Api("AddPartitionsToTxn", (0, 5), 3),
    25: Api("AddOffsetsToTxn", (0, 4), 3),
    26: Api("EndTxn", (0, 5), 3),
    27: Api("WriteTxnMarkers", (1, 2), 1),
    28: Api("TxnOffsetCommit", (0, 5), 3),
    29: Api("DescribeAcls", (1, 3), 2),
    30: Api("CreateAcls", (1, 3), 2),
    31: Api("DeleteAcls", (1, 3), 2),
    32: Api("DescribeConfigs", (1, 4), 4),
    33: Api("AlterConfigs", (0, 2), 2),
    34: Api("AlterReplicaLogDirs", (1, 2), 2),
    35: Api("DescribeLogDirs", (1, 5), 2),
    36: Api("SaslAuthenticate", (0, 2), 2),
    37: Api("CreatePartitions", (0, 3), 2),
    38: Api("CreateDelegationToken", (1, 3), 2),
    39: Api("RenewDelegationToken", (1, 2), 2),
    40: Api("ExpireDelegationToken", (1, 2), 2),
    41: Api("DescribeDelegationToken", (1, 3), 2),
    42: Api("DeleteGroups", (0, 2), 2),
    43: Api("ElectLeaders", (0, 2), 2),
    44: Api("IncrementalAlterConfigs", (0, 1), 1),
    45: Api("AlterPartitionReassignments", (0, 1), 0),
    46: Api("ListPartitionReassignments", (0, 0), 0),
    47: Api("OffsetDelete", (0, 0)),
    48: Api("DescribeClientQuotas", (0, 1), 1),
    49: Api("AlterClientQuotas", (0, 1), 1),
    50: Api("DescribeUserScramCredentials", (0, 0), 0),
    51: Api("AlterUserScramCredentials", (0, 0), 0),
    55: Api("DescribeQuorum", (0, 2), 0),
    57: Api("UpdateFeatures", (0, 2), 0),
    60: Api("DescribeCluster", (0, 2), 0),
    61: Api("DescribeProducers", (0, 0), 0),
    64: Api("UnregisterBroker", (0, 0), 0),
    65: Api("DescribeTransactions", (0, 0), 0),
    66: Api("ListTransactions", (0, 2), 0),
    68: Api("ConsumerGroupHeartbeat", (0, 1), 0),
    69: Api("ConsumerGroupDescribe", (0, 1), 0),
    71: Api("GetTelemetrySubscriptions", (0, 0), 0),
    72: Api("PushTelemetry", (0, 0), 0),
    74: Api("ListConfigResources", (0, 1), 0),
    75: Api("DescribeTopicPartitions", (0, 0), 0),
    76: Api("ShareGroupHeartbeat", (1, 1), 0),
    77: Api("ShareGroupDescribe", (1, 1), 0),
    78: Api("ShareFetch", (1, 2), 0),
    79: Api("ShareAcknowledge", (1, 2), 0),
    80: Api("AddRaftVoter", (0, 1), 0),
    81: Api("RemoveRaftVoter", (0, 0), 0),
    83: Api("InitializeShareGroupState", (0, 0), 0),
    84: Api("ReadShareGroupState", (0, 0), 0),
    85: Api("WriteShareGroupState", (0, 1), 0),
    86: Api("DeleteShareGroupState", (0, 0), 0),
    87: Api("ReadShareGroupStateSummary", (0, 1), 0),
    88: Api("StreamsGroupHeartbeat", (0, 0), 0),
    89: Api("StreamsGroupDescribe", (0, 0), 0),
    90: Api("DescribeShareGroupOffsets", (0, 1), 0),
    91: Api("AlterShareGroupOffsets", (0, 0), 0),
    92: Api("DeleteShareGroupOffsets", (0, 0), 0),
}


def name(key: int) -> str:
    """Kafka's name for an API; for one that is not among them, its number."""
    api = MESSAGES.get(key)
    return api.name if api else f"API {key}"


@cache
def request_class(key: int) -> type[Request]:
    """The class of an API's requests. Raises KeyError when there is none."""
    found: type[Request] = _class(key, "Request")
    return found


@cache
def response_class(key: int) -> type[Response]:
    """The class of an API's responses. Raises KeyError when there is none."""
    found: type[Response] = _class(key, "Response")
    return found


def _class(key: int, suffix: str) -> type:
    api = MESSAGES[key]
    found: type = getattr(import_module(f"{__name__}.{api.module}"), api.name + suffix)
    return found
