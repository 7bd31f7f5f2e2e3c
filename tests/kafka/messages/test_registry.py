"""The registry of messages, against what Apache Kafka 4.3.1 says of itself."""

import subprocess
import sys

import pytest

from headrace.kafka.codec.schema import decode, encode
from headrace.kafka.messages import MESSAGES, name, request_class, response_class

# key, name, first and last version, first flexible version: every API on a broker's listener, stable versions only
FACTS = """
0 Produce 3 13 9
1 Fetch 4 18 12
2 ListOffsets 1 11 6
3 Metadata 0 13 9
8 OffsetCommit 2 10 8
9 OffsetFetch 1 10 6
10 FindCoordinator 0 6 3
11 JoinGroup 0 9 6
12 Heartbeat 0 4 4
13 LeaveGroup 0 5 4
14 SyncGroup 0 5 4
15 DescribeGroups 0 6 5
16 ListGroups 0 5 3
17 SaslHandshake 0 1 -
18 ApiVersions 0 4 3
19 CreateTopics 2 7 5
20 DeleteTopics 1 6 4
21 DeleteRecords 0 2 2
22 InitProducerId 0 5 2
23 OffsetForLeaderEpoch 2 4 4
24 AddPartitionsToTxn 0 5 3
25 AddOffsetsToTxn 0 4 3
26 EndTxn 0 5 3
27 WriteTxnMarkers 1 2 1
28 TxnOffsetCommit 0 5 3
29 DescribeAcls 1 3 2
30 CreateAcls 1 3 2
31 DeleteAcls 1 3 2
32 DescribeConfigs 1 4 4
33 AlterConfigs 0 2 2
34 AlterReplicaLogDirs 1 2 2
35 DescribeLogDirs 1 5 2
36 SaslAuthenticate 0 2 2
37 CreatePartitions 0 3 2
38 CreateDelegationToken 1 3 2
39 RenewDelegationToken 1 2 2
40 ExpireDelegationToken 1 2 2
41 DescribeDelegationToken 1 3 2
42 DeleteGroups 0 2 2
43 ElectLeaders 0 2 2
44 IncrementalAlterConfigs 0 1 1
45 AlterPartitionReassignments 0 1 0
46 ListPartitionReassignments 0 0 0
47 OffsetDelete 0 0 -
48 DescribeClientQuotas 0 1 1
49 AlterClientQuotas 0 1 1
50 DescribeUserScramCredentials 0 0 0
51 AlterUserScramCredentials 0 0 0
55 DescribeQuorum 0 2 0
57 UpdateFeatures 0 2 0
60 DescribeCluster 0 2 0
61 DescribeProducers 0 0 0
64 UnregisterBroker 0 0 0
65 DescribeTransactions 0 0 0
66 ListTransactions 0 2 0
68 ConsumerGroupHeartbeat 0 1 0
69 ConsumerGroupDescribe 0 1 0
71 GetTelemetrySubscriptions 0 0 0
72 PushTelemetry 0 0 0
74 ListConfigResources 0 1 0
75 DescribeTopicPartitions 0 0 0
76 ShareGroupHeartbeat 1 1 0
77 ShareGroupDescribe 1 1 0
78 ShareFetch 1 2 0
79 ShareAcknowledge 1 2 0
80 AddRaftVoter 0 1 0
81 RemoveRaftVoter 0 0 0
83 InitializeShareGroupState 0 0 0
84 ReadShareGroupState 0 0 0
85 WriteShareGroupState 0 1 0
86 DeleteShareGroupState 0 0 0
87 ReadShareGroupStateSummary 0 1 0
88 StreamsGroupHeartbeat 0 0 0
89 StreamsGroupDescribe 0 0 0
90 DescribeShareGroupOffsets 0 1 0
91 AlterShareGroupOffsets 0 0 0
92 DeleteShareGroupOffsets 0 0 0
"""

ROWS = [line.split() for line in FACTS.split("\n") if line]


def test_keys_names_and_versions_are_kafka_s() -> None:
    ours = [
        [str(key), api.name, *map(str, api.versions), "-" if api.flexible is None else str(api.flexible)]
        for key, api in MESSAGES.items()
    ]
    assert ours == ROWS


@pytest.mark.parametrize("key", MESSAGES, ids=name)
def test_the_classes_agree_with_the_registry(key: int) -> None:
    api = MESSAGES[key]
    for cls, suffix in ((request_class(key), "Request"), (response_class(key), "Response")):
        assert cls.__name__ == api.name + suffix
        assert (cls.api_key, cls.versions, cls.flexible) == (key, api.versions, api.flexible)


@pytest.mark.parametrize("key", MESSAGES, ids=name)
def test_a_message_can_be_made_without_naming_a_field(key: int) -> None:
    first, last = MESSAGES[key].versions
    for cls in (request_class(key), response_class(key)):
        for version in range(first, last + 1):
            wire = encode(cls(), version)
            assert encode(decode(cls, version, wire), version) == wire


def test_an_api_that_is_not_there() -> None:
    assert name(4) == "API 4"
    assert name(3) == "Metadata"
    with pytest.raises(KeyError):
        request_class(4)


def test_no_message_is_imported_before_it_is_asked_for() -> None:
    script = (
        "import sys, headrace.kafka.messages as m; m.request_class(18); "
        "print(sorted(n for n in sys.modules if n.startswith('headrace.kafka.messages.')))"
    )
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "['headrace.kafka.messages.api_versions']"
