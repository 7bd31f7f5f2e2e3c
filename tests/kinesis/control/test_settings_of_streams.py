"""Tags, retention, encryption, monitoring, mode and capacity of a stream, and what holds for an account, with boto3."""

from __future__ import annotations

import pytest


@pytest.fixture
def arn(client):
    client.create_stream(StreamName="orders", ShardCount=1)
    return client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"]


def summary_of(client):
    return client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]


# --- tags


def test_tags_are_added_listed_in_order_and_removed(client, arn):
    tags = {"b": "2", "a": "1", "Z": "3", "": "4"} | {"ÿ": "5"}
    tags.pop("")
    client.add_tags_to_stream(StreamName="orders", Tags=tags)
    client.tag_resource(ResourceARN=arn, Tags={"a": "new", "c": ""})
    listed = [(tag["Key"], tag["Value"]) for tag in client.list_tags_for_stream(StreamARN=arn)["Tags"]]
    assert listed == [("Z", "3"), ("a", "new"), ("b", "2"), ("c", ""), ("ÿ", "5")]
    page = client.list_tags_for_stream(StreamName="orders", ExclusiveStartTagKey="Z", Limit=2)
    assert ([tag["Key"] for tag in page["Tags"]], page["HasMoreTags"]) == (["a", "b"], True)
    client.remove_tags_from_stream(StreamName="orders", TagKeys=["a", "never-there"])
    client.untag_resource(ResourceARN=arn, TagKeys=["Z"])
    assert [tag["Key"] for tag in client.list_tags_for_resource(ResourceARN=arn)["Tags"]] == ["b", "c", "ÿ"]


@pytest.mark.parametrize("tags", [{"a;b": "1"}, {"a": "b;c"}, {"a\tb": "1"}, {"a": "x\ny"}, {"a,b": "1"}])
def test_tags_of_other_characters_are_refused(tags, client, arn, refused):
    wrong = (
        "InvalidArgumentException",
        "Some tags contain invalid characters. Valid characters: Unicode letters, digits, white space, _ . / = + - % @.",
    )
    assert refused(client.add_tags_to_stream, StreamName="orders", Tags=tags) == wrong
    assert refused(client.tag_resource, ResourceARN=arn, Tags=tags) == wrong
    assert client.list_tags_for_stream(StreamName="orders")["Tags"] == []


@pytest.mark.parametrize("tags", [{"a%b": "1"}, {"a": "100%"}])
def test_a_percent_sign_is_refused_in_its_own_words(tags, client, arn, account, refused):
    assert refused(client.add_tags_to_stream, StreamName="orders", Tags=tags) == (
        "InvalidArgumentException",
        f"Failed to add tags to stream orders under account {account} because some tags contained illegal characters. "
        f"The allowed characters are Unicode letters, white-spaces, '_',',','/','=','+','-','@'.",
    )


def test_a_stream_has_no_more_than_fifty_tags(client, arn, account, refused):
    client.add_tags_to_stream(StreamName="orders", Tags={f"k{number}": "v" for number in range(50)})
    assert refused(client.add_tags_to_stream, StreamName="orders", Tags={"one-more": "v"}) == (
        "InvalidArgumentException",
        f"Failed to add tags to stream orders under account {account} because a given stream cannot have more than 50 tags "
        f"associated with it.",
    )
    assert refused(client.tag_resource, ResourceARN=arn, Tags={"one-more": "v"})[0] == "LimitExceededException"
    client.add_tags_to_stream(StreamName="orders", Tags={"k1": "changed"})


# --- retention


def test_retention_grows_and_shrinks_within_its_bounds(client, arn, refused):
    client.increase_stream_retention_period(StreamName="orders", RetentionPeriodHours=48)
    assert summary_of(client)["RetentionPeriodHours"] == 48
    client.decrease_stream_retention_period(StreamARN=arn, RetentionPeriodHours=25)
    assert summary_of(client)["RetentionPeriodHours"] == 25
    assert refused(client.increase_stream_retention_period, StreamName="orders", RetentionPeriodHours=8761) == (
        "InvalidArgumentException",
        "Maximum allowed retention period is 8760 hours. Requested retention period (8761 hours) is too long.",
    )
    assert refused(client.decrease_stream_retention_period, StreamName="orders", RetentionPeriodHours=23) == (
        "InvalidArgumentException",
        "Minimum allowed retention period is 24 hours. Requested retention period (23 hours) is too short.",
    )
    assert refused(client.increase_stream_retention_period, StreamName="orders", RetentionPeriodHours=24) == (
        "InvalidArgumentException",
        "Requested retention period (24 hours) for stream orders can not be shorter than existing retention period "
        "(25 hours). Use DecreaseRetentionPeriod API.",
    )
    assert refused(client.decrease_stream_retention_period, StreamName="orders", RetentionPeriodHours=30) == (
        "InvalidArgumentException",
        "Requested retention period (30 hours) for stream orders can not be longer than existing retention period "
        "(25 hours). Use IncreaseRetentionPeriod API.",
    )


# --- encryption and monitoring


def test_encryption_is_remembered_and_shown(client, arn, refused):
    client.start_stream_encryption(StreamName="orders", EncryptionType="KMS", KeyId="alias/aws/kinesis")
    assert (summary_of(client)["EncryptionType"], summary_of(client)["KeyId"]) == ("KMS", "alias/aws/kinesis")
    assert refused(client.start_stream_encryption, StreamName="orders", EncryptionType="NONE", KeyId="k") == (
        "InvalidArgumentException",
        "EncryptionType must be KMS.",
    )
    client.stop_stream_encryption(StreamARN=arn, EncryptionType="KMS", KeyId="alias/aws/kinesis")
    assert summary_of(client)["EncryptionType"] == "NONE"
    assert "KeyId" not in summary_of(client)


def test_monitoring_is_remembered_and_shown(client, arn):
    first = client.enable_enhanced_monitoring(StreamName="orders", ShardLevelMetrics=["OutgoingBytes", "IncomingBytes"])
    assert (first["CurrentShardLevelMetrics"], sorted(first["DesiredShardLevelMetrics"])) == (
        [],
        ["IncomingBytes", "OutgoingBytes"],
    )
    assert (first["StreamName"], first["StreamARN"]) == ("orders", arn)
    second = client.disable_enhanced_monitoring(StreamARN=arn, ShardLevelMetrics=["OutgoingBytes"])
    assert second["DesiredShardLevelMetrics"] == ["IncomingBytes"]
    assert summary_of(client)["EnhancedMonitoring"] == [{"ShardLevelMetrics": ["IncomingBytes"]}]
    client.enable_enhanced_monitoring(StreamName="orders", ShardLevelMetrics=["ALL"])
    assert len(summary_of(client)["EnhancedMonitoring"][0]["ShardLevelMetrics"]) == 7
    assert client.disable_enhanced_monitoring(StreamName="orders", ShardLevelMetrics=["ALL"])["DesiredShardLevelMetrics"] == []


# --- mode and capacity


def test_the_mode_can_be_changed(client, arn, account, refused):
    client.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"}, WarmThroughputMiBps=20)
    summary = summary_of(client)
    assert summary["StreamModeDetails"] == {"StreamMode": "ON_DEMAND"}
    assert summary["WarmThroughput"] == {"TargetMiBps": 20, "CurrentMiBps": 20}
    answer = client.update_stream_warm_throughput(StreamARN=arn, WarmThroughputMiBps=30)
    assert answer["WarmThroughput"] == {"TargetMiBps": 30, "CurrentMiBps": 30}
    client.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "PROVISIONED"})
    assert summary_of(client)["StreamModeDetails"] == {"StreamMode": "PROVISIONED"}
    assert refused(client.update_stream_warm_throughput, StreamName="orders", WarmThroughputMiBps=5) == (
        "ValidationException",
        f"Request is invalid. Stream orders under account {account} is in Provisioned mode.",
    )


def test_the_size_of_records_and_their_distribution_can_be_changed(client, arn):
    client.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=2048)
    client.update_stream_record_distribution_strategy(StreamARN=arn, RecordDistributionStrategy="AUTO")
    assert summary_of(client)["MaxRecordSizeInKiB"] == 2048
    assert summary_of(client)["RecordDistributionStrategy"] == "AUTO"


# --- the account


def test_limits_count_open_shards_and_on_demand_streams(client, arn):
    client.create_stream(StreamName="elastic", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    client.split_shard(StreamName="orders", ShardToSplit="shardId-000000000000", NewStartingHashKey="1000")
    limits = client.describe_limits()
    assert (limits["OpenShardCount"], limits["OnDemandStreamCount"], limits["OnDemandStreamCountLimit"]) == (6, 1, 50)


def test_the_billing_commitment_stays_off(client, refused):
    assert client.describe_account_settings()["MinimumThroughputBillingCommitment"] == {"Status": "DISABLED"}
    assert client.update_account_settings(MinimumThroughputBillingCommitment={"Status": "DISABLED"})[
        "MinimumThroughputBillingCommitment"
    ] == {"Status": "DISABLED"}
    code, _ = refused(client.update_account_settings, MinimumThroughputBillingCommitment={"Status": "ENABLED"})
    assert code == "InvalidArgumentException"


def test_channels_are_not_served(client, refused):
    code, text = refused(client.list_channels)
    assert code == "UnknownOperationException"
    assert text == "ListChannels is not served: this server has no channels. Routes deliver a stream elsewhere."


def test_what_was_set_survives_a_restart(headrace_factory):
    from tests.kinesis.conftest import client_at

    server = headrace_factory()
    client = client_at(server.kinesis, "200000000000")
    client.create_stream(StreamName="kept", ShardCount=2, Tags={"a": "b"})
    arn = client.describe_stream_summary(StreamName="kept")["StreamDescriptionSummary"]["StreamARN"]
    client.split_shard(StreamName="kept", ShardToSplit="shardId-000000000000", NewStartingHashKey="1000")
    client.increase_stream_retention_period(StreamName="kept", RetentionPeriodHours=100)
    client.start_stream_encryption(StreamName="kept", EncryptionType="KMS", KeyId="k")
    client.enable_enhanced_monitoring(StreamName="kept", ShardLevelMetrics=["IncomingBytes"])
    client.put_resource_policy(ResourceARN=arn, Policy='{"Version": "2012-10-17", "Statement": []}')
    consumer = client.register_stream_consumer(StreamARN=arn, ConsumerName="one", Tags={"x": "y"})["Consumer"]

    def everything():
        return [
            client.describe_stream(StreamName="kept")["StreamDescription"],
            client.describe_stream_summary(StreamName="kept")["StreamDescriptionSummary"],
            client.list_tags_for_stream(StreamName="kept")["Tags"],
            client.get_resource_policy(ResourceARN=arn)["Policy"],
            client.list_stream_consumers(StreamARN=arn)["Consumers"],
            client.list_tags_for_resource(ResourceARN=consumer["ConsumerARN"])["Tags"],
        ]

    before = everything()
    server.crash()
    server.restart()
    assert everything() == before
