"""What Apache Kafka 4.3 advertises on a broker's listener and this server deliberately doesn't; the documentation prints
this table."""

from __future__ import annotations

from collections.abc import Mapping

_TOKENS = "Delegation tokens are for clusters that share Kerberos credentials."
_SCRAM = "SASL is not there yet."
_SHARE_STATE = "Kafka brokers keep the state of share groups with it; here it never leaves the server."
_STREAMS_GROUPS = "Kafka Streams uses classic groups, which are there."
_QUORUM = "One node is a quorum of one, which can't change."

NOT_SUPPORTED: Mapping[int, str] = {
    17: _SCRAM,  # SaslHandshake
    36: _SCRAM,  # SaslAuthenticate
    38: _TOKENS,  # CreateDelegationToken
    39: _TOKENS,  # RenewDelegationToken
    40: _TOKENS,  # ExpireDelegationToken
    41: _TOKENS,  # DescribeDelegationToken
    50: _SCRAM,  # DescribeUserScramCredentials
    51: _SCRAM,  # AlterUserScramCredentials
    64: _QUORUM,  # UnregisterBroker
    80: _QUORUM,  # AddRaftVoter
    81: _QUORUM,  # RemoveRaftVoter
    83: _SHARE_STATE,  # InitializeShareGroupState
    84: _SHARE_STATE,  # ReadShareGroupState
    85: _SHARE_STATE,  # WriteShareGroupState
    86: _SHARE_STATE,  # DeleteShareGroupState
    87: _SHARE_STATE,  # ReadShareGroupStateSummary
    88: _STREAMS_GROUPS,  # StreamsGroupHeartbeat
    89: _STREAMS_GROUPS,  # StreamsGroupDescribe
}
