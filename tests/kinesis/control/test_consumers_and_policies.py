"""Consumers, resource policies, and accounts and regions kept apart, with boto3."""

from __future__ import annotations

import json

import pytest
from tests.kinesis.conftest import client_at


@pytest.fixture
def arn(client):
    client.create_stream(StreamName="orders", ShardCount=1)
    return client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"]


# --- consumers


def test_a_consumer_is_active_when_it_is_registered(client, arn):
    made = client.register_stream_consumer(StreamARN=arn, ConsumerName="one", Tags={"a": "b"})["Consumer"]
    assert (made["ConsumerName"], made["ConsumerStatus"]) == ("one", "ACTIVE")
    assert made["ConsumerARN"].startswith(f"{arn}/consumer/one")
    by_arn = client.describe_stream_consumer(ConsumerARN=made["ConsumerARN"])["ConsumerDescription"]
    by_name = client.describe_stream_consumer(StreamARN=arn, ConsumerName="one")["ConsumerDescription"]
    assert by_arn == by_name == {**made, "StreamARN": arn}
    assert client.list_tags_for_resource(ResourceARN=made["ConsumerARN"])["Tags"] == [{"Key": "a", "Value": "b"}]
    assert client.describe_stream_summary(StreamARN=arn)["StreamDescriptionSummary"]["ConsumerCount"] == 1


def test_a_second_consumer_of_the_name_is_refused(client, arn, account, refused):
    client.register_stream_consumer(StreamARN=arn, ConsumerName="one")
    assert refused(client.register_stream_consumer, StreamARN=arn, ConsumerName="one") == (
        "ResourceInUseException",
        f"Consumer one under account {account} already exists.",
    )


def test_a_stream_has_no_more_than_twenty_consumers(client, arn, refused):
    for number in range(20):
        client.register_stream_consumer(StreamARN=arn, ConsumerName=f"c{number}")
    code, _ = refused(client.register_stream_consumer, StreamARN=arn, ConsumerName="one-more")
    assert code == "LimitExceededException"


def test_consumers_are_listed_in_pages(client, arn, refused):
    names = [f"c{number}" for number in range(5)]
    for name in names:
        client.register_stream_consumer(StreamARN=arn, ConsumerName=name)
    pages = client.get_paginator("list_stream_consumers").paginate(StreamARN=arn, PaginationConfig={"PageSize": 2})
    found = [[consumer["ConsumerName"] for consumer in page["Consumers"]] for page in pages]
    assert found == [["c0", "c1"], ["c2", "c3"], ["c4"]]
    client.create_stream(StreamName="other", ShardCount=1)
    token = client.list_stream_consumers(StreamARN=arn, MaxResults=1)["NextToken"]
    other = arn.replace("orders", "other")
    assert refused(client.list_stream_consumers, StreamARN=other, NextToken=token) == (
        "InvalidArgumentException",
        "NextToken is invalid.",
    )


def test_a_deregistered_consumer_is_gone(client, arn, account, refused):
    by_name = client.register_stream_consumer(StreamARN=arn, ConsumerName="one")["Consumer"]["ConsumerARN"]
    by_arn = client.register_stream_consumer(StreamARN=arn, ConsumerName="two")["Consumer"]["ConsumerARN"]
    client.deregister_stream_consumer(StreamARN=arn, ConsumerName="one")
    client.deregister_stream_consumer(ConsumerARN=by_arn)
    for consumer in (by_name, by_arn):
        assert refused(client.describe_stream_consumer, ConsumerARN=consumer) == (
            "ResourceNotFoundException",
            f"Consumer {consumer}, account {account} not found.",
        )
    assert refused(client.deregister_stream_consumer, StreamARN=arn, ConsumerName="one") == (
        "ResourceNotFoundException",
        f"Consumer one, account {account} not found.",
    )
    assert client.list_stream_consumers(StreamARN=arn)["Consumers"] == []


def test_a_consumer_must_be_named_in_one_way_or_the_other(client, arn, refused):
    consumer = client.register_stream_consumer(StreamARN=arn, ConsumerName="one")["Consumer"]["ConsumerARN"]
    assert refused(client.describe_stream_consumer, StreamARN=arn) == (
        "InvalidArgumentException",
        "Either ConsumerARN or both StreamARN and ConsumerName must be provided.",
    )
    assert refused(client.describe_stream_consumer, ConsumerARN=consumer, ConsumerName="two") == (
        "InvalidArgumentException",
        f"ConsumerName two and ConsumerARN {consumer} do not name the same consumer.",
    )


# --- policies


def test_a_policy_is_kept_as_it_was_put(client, arn, refused):
    assert client.get_resource_policy(ResourceARN=arn)["Policy"] == "{}"
    policy = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Deny"}]})
    client.put_resource_policy(ResourceARN=arn, Policy=policy)
    assert client.get_resource_policy(ResourceARN=arn)["Policy"] == policy
    client.delete_resource_policy(ResourceARN=arn)
    assert client.get_resource_policy(ResourceARN=arn)["Policy"] == "{}"
    assert refused(client.delete_resource_policy, ResourceARN=arn) == (
        "ResourceNotFoundException",
        f"No resource policy found for resource ARN {arn}.",
    )


@pytest.mark.parametrize("policy", ["", "nonsense", "[]", '"text"', "[" * 5000, "{" + " " * 21_000 + "}"])
def test_what_is_no_policy_is_refused(policy, client, arn, refused):
    code, _ = refused(client.put_resource_policy, ResourceARN=arn, Policy=policy)
    assert code == "InvalidArgumentException"
    assert client.get_resource_policy(ResourceARN=arn)["Policy"] == "{}"


def statement(**parts):
    whole = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "kinesis:*", "Resource": "*", **parts}
    return json.dumps({"Statement": [{name: value for name, value in whole.items() if value is not None}]})


OTHER = "300000000003"


@pytest.mark.parametrize(
    "policy",
    [
        statement(),
        statement(Principal={"AWS": f"arn:aws:iam::{OTHER}:root"}, Action=["kinesis:List*", "kinesis:Describe*"]),
        statement(
            Principal={"AWS": [OTHER]}, Action="Kinesis:DescribeStreamSummary", Resource=["arn:aws:kinesis:*:*:stream/*"]
        ),
        statement(Principal="*"),
    ],
)
def test_a_policy_lets_another_account_in(policy, client, arn, endpoint):
    client.put_resource_policy(ResourceARN=arn, Policy=policy)
    other = client_at(endpoint, OTHER)
    assert other.describe_stream_summary(StreamARN=arn)["StreamDescriptionSummary"]["StreamARN"] == arn


@pytest.mark.parametrize(
    "policy",
    [
        None,
        statement(Principal={"AWS": "300000000004"}),
        statement(Action="kinesis:PutRecord"),
        statement(Resource="arn:aws:kinesis:eu-west-1:1:stream/other"),
        statement(Condition={"StringEquals": {"a": "b"}}),
        statement(Principal=None, NotPrincipal={"AWS": "300000000004"}),
        json.dumps(
            {"Statement": [json.loads(statement())["Statement"][0], json.loads(statement(Effect="Deny"))["Statement"][0]]}
        ),
        json.dumps({"Statement": "nonsense"}),
    ],
)
def test_without_a_policy_that_allows_it_another_account_is_refused(policy, client, arn, endpoint, refused):
    if policy is not None:
        client.put_resource_policy(ResourceARN=arn, Policy=policy)
    other = client_at(endpoint, OTHER)
    assert refused(other.describe_stream_summary, StreamARN=arn) == (
        "AccessDeniedException",
        f"User: arn:aws:iam::{OTHER}:root is not authorized to perform: kinesis:DescribeStreamSummary on resource: {arn} "
        f"because no resource-based policy allows the kinesis:DescribeStreamSummary action",
    )


def test_a_consumer_of_another_account_is_out_of_reach(client, arn, endpoint, refused):
    consumer = client.register_stream_consumer(StreamARN=arn, ConsumerName="one")["Consumer"]["ConsumerARN"]
    other = client_at(endpoint, OTHER)
    assert refused(other.describe_stream_consumer, ConsumerARN=consumer)[0] == "AccessDeniedException"
    assert refused(other.deregister_stream_consumer, ConsumerARN=consumer)[0] == "AccessDeniedException"
    assert refused(other.tag_resource, ResourceARN=consumer, Tags={"a": "b"})[0] == "AccessDeniedException"
    assert client.describe_stream_consumer(ConsumerARN=consumer)["ConsumerDescription"]["ConsumerStatus"] == "ACTIVE"


# --- accounts and regions


def test_the_same_name_in_another_region_or_account_is_another_stream(endpoint, account, refused):
    places = [(account, "eu-west-1"), (account, "us-east-1"), ("300000000005", "eu-west-1")]
    clients = {place: client_at(endpoint, *place) for place in places}
    for number, place in enumerate(places, 1):
        clients[place].create_stream(StreamName="same-name", ShardCount=number)
    for number, place in enumerate(places, 1):
        assert clients[place].list_streams()["StreamNames"] == ["same-name"]
        summary = clients[place].describe_stream_summary(StreamName="same-name")["StreamDescriptionSummary"]
        assert summary["OpenShardCount"] == number
        assert summary["StreamARN"] == f"arn:aws:kinesis:{place[1]}:{place[0]}:stream/same-name"
    elsewhere = f"arn:aws:kinesis:us-east-1:{account}:stream/same-name"
    assert refused(clients[places[0]].describe_stream_summary, StreamARN=elsewhere)[0] == "ResourceNotFoundException"
    clients[places[0]].delete_stream(StreamName="same-name")
    assert clients[places[0]].list_streams()["StreamNames"] == []
    for place in places[1:]:
        assert clients[place].list_streams()["StreamNames"] == ["same-name"]
        clients[place].delete_stream(StreamName="same-name")


def test_who_names_no_account_is_in_the_default_one(endpoint, ask):
    client = client_at(endpoint, "AKIDEXAMPLE", "us-east-1")
    client.create_stream(StreamName="default-place", ShardCount=1)
    summary = ask("DescribeStreamSummary", {"StreamName": "default-place"}).json["StreamDescriptionSummary"]
    assert summary["StreamARN"] == "arn:aws:kinesis:us-east-1:123456789012:stream/default-place"
    client.delete_stream(StreamName="default-place")
