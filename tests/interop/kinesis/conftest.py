"""Fixtures for tests with AWS's SDKs.

The tests run on the session's Headrace, or on whatever speaks the Kinesis API at `HEADRACE_INTEROP_KINESIS=http://host:port`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config


@pytest.fixture(scope="session")
def kinesis_url(request: pytest.FixtureRequest) -> str:
    """The address under test."""
    if outside := os.environ.get("HEADRACE_INTEROP_KINESIS"):
        return outside
    return request.getfixturevalue("headrace_shared_server").kinesis


@pytest.fixture(scope="session")
def make_boto(kinesis_url: str) -> Callable[..., Any]:
    """A boto3 client: `make_boto(region_name="eu-west-1", aws_access_key_id="000011112222")`."""

    def make(**given: Any) -> Any:
        settings = {
            "endpoint_url": kinesis_url,
            "region_name": "us-east-1",
            "aws_access_key_id": "any",
            "aws_secret_access_key": "thing",
            "config": Config(retries={"max_attempts": 0}),
        }
        return boto3.client("kinesis", **(settings | given))

    return make


@pytest.fixture(scope="session")
def boto(make_boto: Callable[..., Any]) -> Any:
    return make_boto()


@pytest.fixture
def make_stream(boto: Any, unique: Callable[[str], str]) -> Iterator[Callable[..., str]]:
    """Creates streams with names of their own, and deletes them after the test: `make_stream(shards=2)`."""
    made: list[str] = []

    def make(shards: int = 1, **given: Any) -> str:
        name = unique("stream")
        boto.create_stream(StreamName=name, ShardCount=shards, **given)
        made.append(name)
        boto.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
        return name

    yield make
    for name in made:
        try:
            boto.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
        except boto.exceptions.ResourceNotFoundException:
            pass  # the test did
