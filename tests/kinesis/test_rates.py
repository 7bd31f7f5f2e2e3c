"""Rates of calls: AWS's, when limits are enforced, and none otherwise."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.kinesis.conftest import client_at

from headrace.broker.settings import Settings
from headrace.kinesis.errors import KinesisError
from headrace.kinesis.operations import OPERATIONS
from headrace.kinesis.rates import MAX_COUNTED, RATES, Rates

ACCOUNT, REGION = "1" * 12, "eu-west-1"


class Clock(SimpleNamespace):
    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock(now_s=100.0)


@pytest.fixture
def rates(clock):
    return Rates(Settings.from_mapping({"kinesis.enforce.limits": "true"}), clock)


def test_one_call_too_many_in_a_second_is_refused(rates, clock):
    for _ in range(10):
        rates.count("DescribeStream", ACCOUNT, REGION, {"StreamName": "a"})
    with pytest.raises(KinesisError) as caught:
        rates.count("DescribeStream", ACCOUNT, REGION, {"StreamName": "b"})
    assert (caught.value.code, caught.value.message) == (
        "LimitExceededException",
        f"Rate exceeded for account {ACCOUNT}. DescribeStream may be called 10 times a second.",
    )
    rates.count("DescribeStream", "2" * 12, REGION, {"StreamName": "a"})
    rates.count("DescribeStream", ACCOUNT, "us-east-1", {"StreamName": "a"})
    clock.now_s += 1
    rates.count("DescribeStream", ACCOUNT, REGION, {"StreamName": "a"})


def test_a_stream_may_change_its_shards_ten_times_a_day(rates, clock):
    arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/a"
    for number in range(10):
        rates.count("UpdateShardCount", ACCOUNT, REGION, {"StreamName": "a"} if number % 2 else {"StreamARN": arn})
        clock.now_s += 60
    with pytest.raises(KinesisError) as caught:
        rates.count("UpdateShardCount", ACCOUNT, REGION, {"StreamName": "a"})
    assert caught.value.message == (
        f"Rate exceeded for stream a under account {ACCOUNT}. UpdateShardCount may be called 10 times in 24 hours."
    )
    rates.count("UpdateShardCount", ACCOUNT, REGION, {"StreamName": "b"})
    clock.now_s += 86_400
    rates.count("UpdateShardCount", ACCOUNT, REGION, {"StreamName": "a"})


def test_what_is_remembered_is_bounded(rates, clock):
    for number in range(MAX_COUNTED + 10):
        rates.count("ListShards", ACCOUNT, REGION, {"StreamName": str(number)})
    assert len(rates._counted) <= MAX_COUNTED


def test_every_rate_is_of_an_operation():
    assert set(RATES) <= set(OPERATIONS)


def test_a_server_enforces_them_only_when_it_is_told_to(client, headrace_factory, refused):
    for _ in range(30):
        client.describe_limits()
    strict = client_at(headrace_factory(**{"kinesis.enforce.limits": True}).kinesis, "200000000000")
    code = ""
    for _ in range(30):
        try:
            strict.describe_limits()
        except strict.exceptions.LimitExceededException:
            code = "LimitExceededException"
    assert code == "LimitExceededException"
