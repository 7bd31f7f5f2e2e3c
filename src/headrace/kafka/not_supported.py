"""What Apache Kafka 4.3 advertises on a broker's listener and this server deliberately doesn't; the documentation prints
this table."""

from __future__ import annotations

from collections.abc import Mapping

_TRANSACTIONS = "Transactions are not there yet; idempotent producers are."
_TOKENS = "Delegation tokens are for clusters that share Kerberos credentials."
_QUOTAS = "Quotas are not there yet."
_SCRAM = "SASL is not there yet."
_CONSUMER_GROUPS = "The group protocol of KIP-848 is not there yet; the classic one is."
_SHARE_GROUPS = "Share groups are not there yet."
_STREAMS_GROUPS = "Kafka Streams uses classic groups, which are there."
_QUORUM = "One node is a quorum of one, which can't change."
_TELEMETRY = "Client telemetry needs a receiver plugin, which Kafka doesn't have either by default."

NOT_SUPPORTED: Mapping[int, str] = {
    17: _SCRAM,  # SaslHandshake
    24: _TRANSACTIONS,  # AddPartitionsToTxn
    25: _TRANSACTIONS,  # AddOffsetsToTxn
    26: _TRANSACTIONS,  # EndTxn
    27: _TRANSACTIONS,  # WriteTxnMarkers
    28: _TRANSACTIONS,  # TxnOffsetCommit
    36: _SCRAM,  # SaslAuthenticate
    38: _TOKENS,  # CreateDelegationToken
    39: _TOKENS,  # RenewDelegationToken
    40: _TOKENS,  # ExpireDelegationToken
    41: _TOKENS,  # DescribeDelegationToken
    48: _QUOTAS,  # DescribeClientQuotas
    49: _QUOTAS,  # AlterClientQuotas
    50: _SCRAM,  # DescribeUserScramCredentials
    51: _SCRAM,  # AlterUserScramCredentials
    64: _QUORUM,  # UnregisterBroker
    65: _TRANSACTIONS,  # DescribeTransactions
    66: _TRANSACTIONS,  # ListTransactions
    68: _CONSUMER_GROUPS,  # ConsumerGroupHeartbeat
    69: _CONSUMER_GROUPS,  # ConsumerGroupDescribe
    71: _TELEMETRY,  # GetTelemetrySubscriptions
    72: _TELEMETRY,  # PushTelemetry
    76: _SHARE_GROUPS,  # ShareGroupHeartbeat
    77: _SHARE_GROUPS,  # ShareGroupDescribe
    78: _SHARE_GROUPS,  # ShareFetch
    79: _SHARE_GROUPS,  # ShareAcknowledge
    80: _QUORUM,  # AddRaftVoter
    81: _QUORUM,  # RemoveRaftVoter
    83: _SHARE_GROUPS,  # InitializeShareGroupState
    84: _SHARE_GROUPS,  # ReadShareGroupState
    85: _SHARE_GROUPS,  # WriteShareGroupState
    86: _SHARE_GROUPS,  # DeleteShareGroupState
    87: _SHARE_GROUPS,  # ReadShareGroupStateSummary
    88: _STREAMS_GROUPS,  # StreamsGroupHeartbeat
    89: _STREAMS_GROUPS,  # StreamsGroupDescribe
    90: _SHARE_GROUPS,  # DescribeShareGroupOffsets
    91: _SHARE_GROUPS,  # AlterShareGroupOffsets
    92: _SHARE_GROUPS,  # DeleteShareGroupOffsets
}
