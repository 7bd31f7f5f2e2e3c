"""What CloudWatch says about a stream: counters by minute, in each protocol of that service."""

from __future__ import annotations

import datetime
import json
from types import SimpleNamespace
from urllib.parse import urlencode

import boto3
import cbor2
import pytest

from headrace.kinesis.cloudwatch import statistics
from headrace.kinesis.codec.encoding import Moment
from headrace.kinesis.errors import KinesisError
from headrace.kinesis.usage import KEPT_MINUTES, MAX_STREAMS, MINUTE_MS, Usage

BEGAN_MS = 1_794_835_980_000  # the beginning of a minute
STREAM = SimpleNamespace(account="1" * 12, region="eu-west-1", name="orders")


class Clock:
    def __init__(self) -> None:
        self.ms = BEGAN_MS

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def usage(clock):
    return Usage(clock)


def points(usage, metric="IncomingBytes", **more):
    given = {
        "Namespace": "AWS/Kinesis",
        "MetricName": metric,
        "Dimensions": [{"Name": "StreamName", "Value": "orders"}],
        "StartTime": (BEGAN_MS - 3_600_000) // 1000,
        "EndTime": (BEGAN_MS + 86_400_000) // 1000,
        "Period": 60,
        "Statistics": ["Sum", "Average", "Minimum", "Maximum", "SampleCount"],
        **more,
    }
    return statistics(usage, STREAM.account, STREAM.region, given)[1]


def test_requests_are_summed_up_minute_by_minute(usage, clock):
    usage.came(STREAM, 2, 100)
    usage.came(STREAM, 3, 50)
    clock.ms += 61_000
    usage.came(STREAM, 1, 7)
    usage.went(STREAM, 5, 157)
    shown = {"Average": 75.0, "Minimum": 50.0, "Maximum": 100.0, "SampleCount": 2.0, "Unit": "Bytes"}
    alone = {"Average": 7.0, "Minimum": 7.0, "Maximum": 7.0, "SampleCount": 1.0, "Unit": "Bytes"}
    assert points(usage) == [
        {"Timestamp": Moment(BEGAN_MS), "Sum": 150.0, **shown},
        {"Timestamp": Moment(BEGAN_MS + MINUTE_MS), "Sum": 7.0, **alone},
    ]
    assert [point["Sum"] for point in points(usage, "IncomingRecords")] == [5.0, 1.0]
    assert [point["Sum"] for point in points(usage, "OutgoingRecords")] == [5.0]
    assert [point["Sum"] for point in points(usage, "IncomingBytes", Period=3600)] == [157.0]
    assert [point["Sum"] for point in points(usage, StartTime=BEGAN_MS // 1000 + 60)] == [7.0]
    assert points(usage, EndTime=BEGAN_MS // 1000) == []


def test_what_nobody_counts_has_no_points(usage):
    usage.came(STREAM, 1, 1)
    assert points(usage, "IteratorAgeMilliseconds") == []
    assert points(usage, Namespace="AWS/SQS") == []
    assert points(usage, Dimensions=[]) == []
    assert points(usage, Dimensions=[{"Name": "StreamName", "Value": "other"}]) == []
    assert statistics(
        usage,
        "2" * 12,
        STREAM.region,
        {
            "Namespace": "AWS/Kinesis",
            "MetricName": "IncomingBytes",
            "Dimensions": [{"Name": "StreamName", "Value": "orders"}],
            "StartTime": 0,
            "EndTime": 1e11,
            "Period": 60,
            "Statistics": ["Sum"],
        },
    ) == ("IncomingBytes", [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"Period": 61},
        {"Period": 0},
        {"Period": "x"},
        {"Statistics": []},
        {"Statistics": ["p99"]},
        {"StartTime": "yesterday"},
        {"StartTime": 1e300},
        {"EndTime": 0},
        {"EndTime": None},
        {"MetricName": None},
    ],
)
def test_what_makes_no_sense_is_refused(wrong, usage):
    with pytest.raises(KinesisError) as caught:
        points(usage, **wrong)
    assert caught.value.code in ("InvalidParameterValue", "MissingParameter")


def test_only_the_last_minutes_and_streams_are_kept(usage, clock):
    for _ in range(KEPT_MINUTES + 10):
        usage.came(STREAM, 1, 1)
        clock.ms += MINUTE_MS
    assert len(usage.minutes(STREAM.account, STREAM.region, STREAM.name)) == KEPT_MINUTES
    for number in range(MAX_STREAMS):
        usage.came(SimpleNamespace(account="1", region="r", name=str(number)), 1, 1)
    assert usage.minutes(STREAM.account, STREAM.region, STREAM.name) == []
    assert len(usage.minutes("1", "r", "0")) == 1


# --- over the wire


@pytest.fixture
def put(client):
    client.create_stream(StreamName="measured", ShardCount=1)
    client.put_records(
        StreamName="measured",
        Records=[{"Data": b"rec1", "PartitionKey": "pk1"}, {"Data": b"rec2data", "PartitionKey": "pk2"}],
    )
    shard = client.list_shards(StreamName="measured")["Shards"][0]["ShardId"]
    place = client.get_shard_iterator(StreamName="measured", ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    assert len(client.get_records(ShardIterator=place["ShardIterator"])["Records"]) == 2


@pytest.mark.parametrize(
    ("metric", "total"), [("IncomingBytes", 18), ("IncomingRecords", 2), ("OutgoingBytes", 18), ("OutgoingRecords", 2)]
)
def test_boto3_reads_what_went_in_and_out(metric, total, put, endpoint, account):
    cloudwatch = boto3.client(
        "cloudwatch",
        endpoint_url=endpoint,
        region_name="eu-west-1",
        aws_access_key_id=account,
        aws_secret_access_key="any",
    )
    now = datetime.datetime.now(datetime.UTC)
    answer = cloudwatch.get_metric_statistics(
        Namespace="AWS/Kinesis",
        MetricName=metric,
        Dimensions=[{"Name": "StreamName", "Value": "measured"}],
        StartTime=now - datetime.timedelta(minutes=5),
        EndTime=now + datetime.timedelta(minutes=5),
        Period=3600,
        Statistics=["Sum"],
    )
    assert answer["Label"] == metric
    assert [point["Sum"] for point in answer["Datapoints"]] == [total]
    cloudwatch.put_metric_data(Namespace="mine", MetricData=[{"MetricName": "a", "Value": 1.0}])


def test_all_three_protocols_are_spoken(put, ask, account, signed_by):
    signed = {"authorization": signed_by(account)}
    given = {
        "Namespace": "AWS/Kinesis",
        "MetricName": "IncomingRecords",
        "Dimensions": [{"Name": "StreamName", "Value": "measured"}],
        "StartTime": 1_600_000_000,
        "EndTime": 9_000_000_000,
        "Period": 864_000_000,
        "Statistics": ["Sum"],
    }
    target = "GraniteServiceVersion20100801.GetMetricStatistics"
    by_json = ask(target, json.dumps(given), content_type="application/x-amz-json-1.0", **signed)
    assert [point["Sum"] for point in by_json.json["Datapoints"]] == [2.0]
    path = "/service/GraniteServiceVersion20100801/operation/GetMetricStatistics"
    by_cbor = ask(
        None,
        cbor2.dumps({**given, "StartTime": cbor2.CBORTag(1, 1_600_000_000), "EndTime": cbor2.CBORTag(1, 9_000_000_000)}),
        path=path,
        content_type="application/cbor",
        smithy_protocol="rpc-v2-cbor",
        **signed,
    )
    assert by_cbor.headers["smithy-protocol"] == "rpc-v2-cbor"
    assert [point["Sum"] for point in cbor2.loads(by_cbor.body)["Datapoints"]] == [2.0]
    form = {
        "Action": "GetMetricStatistics",
        "Namespace": "AWS/Kinesis",
        "MetricName": "IncomingRecords",
        "Dimensions.member.1.Name": "StreamName",
        "Dimensions.member.1.Value": "measured",
        "StartTime": "2021-01-01T00:00:00Z",
        "EndTime": "2099-01-01T00:00:00Z",
        "Period": "864000000",
        "Statistics.member.1": "Sum",
    }
    by_form = ask(None, urlencode(form), content_type="application/x-www-form-urlencoded", **signed)
    assert b"<Sum>2.0</Sum><Unit>Count</Unit></member>" in by_form.body
    wrong = ask(None, urlencode({**form, "Period": "1"}), content_type="application/x-www-form-urlencoded", **signed)
    assert (wrong.status, wrong.headers["x-amzn-query-error"]) == (400, "InvalidParameterValue;Sender")
