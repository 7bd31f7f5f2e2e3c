"""The parameters of every operation and what they may be: the tables that `validation` checks by.

The constraints are those of the service's model (2013-12-02). The order of the members matters only for texts with several
errors in them. A partition key is not required here: streams that distribute their records by themselves need none. Patterns
are written as AWS prints them; they always match the whole text.
"""

from __future__ import annotations

from functools import cached_property
from re import Pattern
from re import compile as pattern_of

from headrace.dataclass import dataclass
from headrace.kinesis.operations import NOT_SERVED


@dataclass(frozen=True)
class Text:
    least: int | None = None
    most: int | None = None
    pattern: str | None = None
    among: tuple[str, ...] = ()
    matched: str | None = None  # what is matched in place of the pattern, where that would take long on a hostile text

    @cached_property
    def matcher(self) -> Pattern[str] | None:
        pattern = self.matched or self.pattern
        return pattern_of(pattern) if pattern else None


@dataclass(frozen=True)
class Whole:
    """An integer; what is behind the point is cut off, as AWS does."""

    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Flag:
    pass


@dataclass(frozen=True)
class Blob:
    most: int | None = None


@dataclass(frozen=True)
class Time:
    pass


@dataclass(frozen=True)
class Several:
    """A list. What is `secret` is not repeated in messages, for it may hold what somebody put."""

    member: Kind
    least: int | None = None
    most: int | None = None
    secret: bool = False


@dataclass(frozen=True)
class Pairs:
    key: Text
    value: Text
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Group:
    """A structure. Members in `required` must be there; what it does not know is left out."""

    members: dict[str, Kind]
    required: frozenset[str] = frozenset()


Kind = Text | Whole | Flag | Blob | Time | Several | Pairs | Group


def _group(*required: str, **members: Kind) -> Group:
    return Group(members, frozenset(required))


NAME = Text(1, 128, "[a-zA-Z0-9_.-]+")
STREAM_ARN = Text(1, 2048, r"arn:aws.*:kinesis:.*:\d{12}:stream/\S+", matched=r"arn:aws[^:]*:kinesis:[^:]*:\d{12}:stream/\S+")
CONSUMER_ARN = Text(1, 2048)  # the model has a pattern; what does not match it is answered as a consumer that is not found
RESOURCE_ARN = Text(
    1,
    2048,
    r"arn:aws.*:kinesis:.*:\d{12}:.*(stream|channel)/\S+",
    matched=r"arn:aws[^:]*:kinesis:[^:]*:\d{12}:[^/]*(stream|channel)/\S+",
)
STREAM_ID = Text(1, 24, "[a-z0-9]{20}-[a-z0-9]{3}")
HASH_KEY = Text(pattern=r"0|([1-9]\d{0,38})")
SEQUENCE_NUMBER = Text(pattern=r"0|([1-9]\d{0,128})")
NEXT_TOKEN = Text(1, 1_048_576)
TAG_KEY = Text(1, 128)
TAGS = Pairs(TAG_KEY, Text(0, 256), 1, 200)
TAG_KEYS = Several(TAG_KEY, 1, 50)
PARTITION_KEY = Text(1, 256)
DATA = Blob(10_485_760)
PAGE = Whole(1, 10_000)
POSITIVE = Whole(1, 2_147_483_647)
NATURAL = Whole(0)
ENCRYPTION = Text(among=("NONE", "KMS"))
KEY_ID = Text(1, 2048)
MODE = _group("StreamMode", StreamMode=Text(among=("PROVISIONED", "ON_DEMAND")))
RECORD_KIB = Whole(1024, 10_240)
DISTRIBUTION = Text(among=("AUTO", "USER_PARTITION_KEY"))
METRICS = Several(
    Text(
        among=(
            "IncomingBytes",
            "IncomingRecords",
            "OutgoingBytes",
            "OutgoingRecords",
            "WriteProvisionedThroughputExceeded",
            "ReadProvisionedThroughputExceeded",
            "IteratorAgeMilliseconds",
            "ALL",
        )
    ),
    1,
    7,
)
ITERATOR_TYPE = Text(among=("AFTER_SEQUENCE_NUMBER", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER", "TRIM_HORIZON"))
SHARD_FILTER = _group(
    "Type",
    Type=Text(among=("AFTER_SHARD_ID", "AT_TRIM_HORIZON", "FROM_TRIM_HORIZON", "AT_LATEST", "AT_TIMESTAMP", "FROM_TIMESTAMP")),
    ShardId=NAME,
    Timestamp=Time(),
)
POSITION = _group("Type", Type=ITERATOR_TYPE, SequenceNumber=SEQUENCE_NUMBER, Timestamp=Time())
ENTRY = _group("Data", Data=DATA, ExplicitHashKey=HASH_KEY, PartitionKey=PARTITION_KEY)
COMMITMENT = _group("Status", Status=Text(among=("ENABLED", "DISABLED")))

_STREAM: dict[str, Kind] = {"StreamName": NAME, "StreamARN": STREAM_ARN, "StreamId": STREAM_ID}
_BY_ARN: dict[str, Kind] = {"StreamARN": STREAM_ARN, "StreamId": STREAM_ID}
_RESOURCE: dict[str, Kind] = {"ResourceARN": RESOURCE_ARN, "StreamId": STREAM_ID}
_CONSUMER: dict[str, Kind] = {**_BY_ARN, "ConsumerName": NAME, "ConsumerARN": CONSUMER_ARN}
_NOTHING = Group({})

PARAMETERS: dict[str, Group] = {
    "AddTagsToStream": _group("Tags", Tags=TAGS, **_STREAM),
    "CreateStream": _group(
        "StreamName",
        ShardCount=POSITIVE,
        StreamName=NAME,
        StreamModeDetails=MODE,
        Tags=TAGS,
        WarmThroughputMiBps=NATURAL,
        MaxRecordSizeInKiB=RECORD_KIB,
        RecordDistributionStrategy=DISTRIBUTION,
    ),
    "DecreaseStreamRetentionPeriod": _group("RetentionPeriodHours", RetentionPeriodHours=Whole(), **_STREAM),
    "DeleteResourcePolicy": _group("ResourceARN", **_RESOURCE),
    "DeleteStream": _group(EnforceConsumerDeletion=Flag(), **_STREAM),
    "DeregisterStreamConsumer": _group(**_CONSUMER),
    "DescribeAccountSettings": _NOTHING,
    "DescribeLimits": _NOTHING,
    "DescribeStream": _group(Limit=PAGE, ExclusiveStartShardId=NAME, **_STREAM),
    "DescribeStreamConsumer": _group(**_CONSUMER),
    "DescribeStreamSummary": _group(**_STREAM),
    "DisableEnhancedMonitoring": _group("ShardLevelMetrics", ShardLevelMetrics=METRICS, **_STREAM),
    "EnableEnhancedMonitoring": _group("ShardLevelMetrics", ShardLevelMetrics=METRICS, **_STREAM),
    "GetRecords": _group("ShardIterator", Limit=PAGE, ShardIterator=Text(1, 512), **_BY_ARN, DryRun=Flag()),
    "GetResourcePolicy": _group("ResourceARN", **_RESOURCE),
    "GetShardIterator": _group(
        "ShardId",
        "ShardIteratorType",
        ShardId=NAME,
        ShardIteratorType=Text(),  # which there are, GetShardIterator says itself
        StartingSequenceNumber=SEQUENCE_NUMBER,
        Timestamp=Time(),
        **_STREAM,
        DryRun=Flag(),
    ),
    "IncreaseStreamRetentionPeriod": _group("RetentionPeriodHours", RetentionPeriodHours=Whole(), **_STREAM),
    "ListShards": _group(
        ExclusiveStartShardId=NAME,
        MaxResults=PAGE,
        NextToken=NEXT_TOKEN,
        StreamCreationTimestamp=Time(),
        ShardFilter=SHARD_FILTER,
        **_STREAM,
    ),
    "ListStreamConsumers": _group(
        "StreamARN", MaxResults=PAGE, NextToken=NEXT_TOKEN, StreamCreationTimestamp=Time(), **_BY_ARN
    ),
    "ListStreams": _group(Limit=PAGE, ExclusiveStartStreamName=NAME, NextToken=NEXT_TOKEN),
    "ListTagsForResource": _group("ResourceARN", **_RESOURCE),
    "ListTagsForStream": _group(Limit=Whole(1, 50), ExclusiveStartTagKey=TAG_KEY, **_STREAM),
    "MergeShards": _group("ShardToMerge", "AdjacentShardToMerge", AdjacentShardToMerge=NAME, ShardToMerge=NAME, **_STREAM),
    "PutRecord": _group(
        "Data",
        SequenceNumberForOrdering=SEQUENCE_NUMBER,
        PartitionKey=PARTITION_KEY,
        ExplicitHashKey=HASH_KEY,
        Data=DATA,
        **_STREAM,
        DryRun=Flag(),
    ),
    "PutRecords": _group(
        "Records",
        Records=Several(ENTRY, 1, 500, secret=True),
        **_STREAM,
        DryRun=Flag(),
    ),
    "PutResourcePolicy": _group("ResourceARN", "Policy", **_RESOURCE, Policy=Text()),
    "RegisterStreamConsumer": _group("StreamARN", "ConsumerName", **_BY_ARN, ConsumerName=NAME, Tags=TAGS),
    "RemoveTagsFromStream": _group("TagKeys", TagKeys=TAG_KEYS, **_STREAM),
    "SplitShard": _group("NewStartingHashKey", "ShardToSplit", NewStartingHashKey=HASH_KEY, **_STREAM, ShardToSplit=NAME),
    "StartStreamEncryption": _group("EncryptionType", "KeyId", EncryptionType=ENCRYPTION, KeyId=KEY_ID, **_STREAM),
    "StopStreamEncryption": _group("EncryptionType", "KeyId", EncryptionType=ENCRYPTION, KeyId=KEY_ID, **_STREAM),
    "SubscribeToShard": _group(
        "ConsumerARN",
        "ShardId",
        "StartingPosition",
        ConsumerARN=CONSUMER_ARN,
        StreamId=STREAM_ID,
        ShardId=NAME,
        StartingPosition=POSITION,
        DryRun=Flag(),
    ),
    "TagResource": _group("Tags", "ResourceARN", Tags=TAGS, **_RESOURCE),
    "UntagResource": _group("TagKeys", "ResourceARN", TagKeys=TAG_KEYS, **_RESOURCE),
    "UpdateAccountSettings": _group("MinimumThroughputBillingCommitment", MinimumThroughputBillingCommitment=COMMITMENT),
    "UpdateMaxRecordSize": _group("MaxRecordSizeInKiB", **_BY_ARN, MaxRecordSizeInKiB=RECORD_KIB),
    "UpdateShardCount": _group(
        "TargetShardCount",
        "ScalingType",
        TargetShardCount=POSITIVE,
        ScalingType=Text(among=("UNIFORM_SCALING",)),
        **_STREAM,
    ),
    "UpdateStreamMode": _group(
        "StreamARN", "StreamModeDetails", **_BY_ARN, StreamModeDetails=MODE, WarmThroughputMiBps=NATURAL
    ),
    "UpdateStreamRecordDistributionStrategy": _group(
        "StreamARN", "RecordDistributionStrategy", **_BY_ARN, RecordDistributionStrategy=DISTRIBUTION
    ),
    "UpdateStreamWarmThroughput": _group("WarmThroughputMiBps", **_STREAM, WarmThroughputMiBps=NATURAL),
    **dict.fromkeys(NOT_SERVED, _NOTHING),
}
