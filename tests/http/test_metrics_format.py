"""What /metrics of a server with everything in use looks like to a strict reader: the rules of Prometheus's text format and
those that promtool checks, and that the documentation and the Grafana dashboard speak of the metrics that there are."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pika
import pytest
from botocore.config import Config
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.testing import wait_until

DOCS = Path(__file__).parents[2] / "docs"
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count"), "gauge": ("",), "counter": ("",)}
NAME = re.compile(r"[a-z][a-z0-9_]*")
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(?:,|$)')


@dataclass
class Family:
    name: str
    kind: str = ""
    help: str = ""
    samples: list[tuple[str, dict[str, str], float]] = field(default_factory=list)


def labels_of(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = LABEL.match(text, position)
        assert match, text
        assert match[1] not in found, text
        found[match[1]] = match[2]
        position = match.end()
    return found


def families_in(text: str) -> dict[str, Family]:
    """Every line belongs to the family that was announced last; each is announced once, by HELP and TYPE."""
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    now: Family | None = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, told = line.removeprefix("# HELP ").partition(" ")
            assert name not in families, f"{name} is announced twice"
            now = families[name] = Family(name, help=told)
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert now is not None
            assert (now.name, now.kind) == (name, ""), line
            now.kind = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert now is not None
            assert match[1] in [now.name + suffix for suffix in SUFFIXES[now.kind]], line
            now.samples.append((match[1], labels_of(match[2] or ""), float(match[3])))
    return families


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def post(url: str, body: bytes, kind: str = "application/json", method: str = "POST") -> None:
    request = urllib.request.Request(url, body, {"content-type": kind}, method=method)
    urllib.request.urlopen(request, timeout=30).close()


@pytest.fixture(scope="module")
def text(headrace_shared_server: Any) -> Iterator[str]:
    server = headrace_shared_server
    producer = Producer({"bootstrap.servers": server.kafka})
    producer.produce("format-orders", b"1", partition=0)
    assert producer.flush(15) == 0
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": 'format "quoted"\\group', "enable.auto.commit": False})
    consumer.assign([TopicPartition("format-orders", 0, 0)])
    wait_until(lambda: consumer.poll(0.1) is not None, what="a record")
    consumer.commit(offsets=[TopicPartition("format-orders", 0, 1)], asynchronous=False)

    link = pika.BlockingConnection(pika.URLParameters(server.amqp))
    channel = link.channel()
    channel.confirm_delivery()
    channel.queue_declare('format "quoted" queue\\', exclusive=True)
    channel.basic_publish("", 'format "quoted" queue\\', b"hello")

    kinesis = boto3.client(
        "kinesis",
        endpoint_url=server.kinesis,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}),
    )
    kinesis.create_stream(StreamName="format-stream", ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName="format-stream", WaiterConfig={"Delay": 1})
    kinesis.put_records(StreamName="format-stream", Records=[{"Data": b"x", "PartitionKey": "p"}] * 3)
    shard = {"StreamName": "format-stream", "ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    read = kinesis.get_records(ShardIterator=kinesis.get_shard_iterator(**shard)["ShardIterator"])
    assert len(read["Records"]) == 3
    arn = kinesis.describe_stream_summary(StreamName="format-stream")["StreamDescriptionSummary"]["StreamARN"]
    fan = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="fan")["Consumer"]["ConsumerARN"]
    wait_until(
        lambda: kinesis.describe_stream_consumer(ConsumerARN=fan)["ConsumerDescription"]["ConsumerStatus"] == "ACTIVE",
        what="the consumer",
    )
    pushed = kinesis.subscribe_to_shard(
        ConsumerARN=fan, ShardId="shardId-000000000000", StartingPosition={"Type": "TRIM_HORIZON"}
    )["EventStream"]
    assert next(iter(pushed))["SubscribeToShardEvent"]["Records"]

    post(f"{server.http}/v1/topics/format-orders/events", b'{"value": "v"}')
    get(f"{server.http}/v1/topics/format-orders")
    get(f"{server.http}/v1/overview")
    route = {"topic": "format-orders", "destination": {"type": "webhook", "url": "http://127.0.0.1:9/"}}
    post(f"{server.http}/v1/routes/format-route", json.dumps(route).encode(), method="PUT")
    for path in ("/v1/nothing/at/all", "/other"):
        with pytest.raises(urllib.error.HTTPError):
            get(server.http + path)
    stream = urllib.request.urlopen(f"{server.http}/v1/topics/format-orders/stream?from=earliest", timeout=30)
    assert stream.readline()
    try:
        yield get(f"{server.http}/metrics")
    finally:
        stream.close()
        pushed.close()
        kinesis.close()
        link.close()
        consumer.close()
        request = urllib.request.Request(f"{server.http}/v1/routes/format-route", method="DELETE")
        urllib.request.urlopen(request, timeout=30).close()


@pytest.fixture(scope="module")
def families(text: str) -> dict[str, Family]:
    return families_in(text)


def test_every_family_has_a_help_a_type_and_a_name_as_promtool_wants_it(families: dict[str, Family]) -> None:
    assert len(families) > 60
    for name, family in families.items():
        assert NAME.fullmatch(name), name
        assert name.startswith(("headrace_", "process_")), name
        assert family.kind in SUFFIXES, name
        assert family.help, name
        assert name.endswith("_total") == (family.kind == "counter"), f"{name} is a {family.kind}"
        assert not name.endswith(("_count", "_sum", "_bucket")), name
        unit = re.search(r"_(milliseconds|ms|micros|minutes|kilobytes|kib|mb|megabytes|percent)(_total)?$", name)
        assert unit is None, f"{name} is not in a base unit"
        for _, labels, _ in family.samples:
            assert not {"job", "instance", "__name__"} & labels.keys(), name
            assert all(NAME.fullmatch(label) for label in labels), name
            assert "quantile" not in labels, name
            assert ("le" in labels) <= (family.kind == "histogram"), name


def test_no_series_is_told_twice_and_all_of_a_family_have_the_same_labels(families: dict[str, Family]) -> None:
    for name, family in families.items():
        series = [(which, *sorted(labels.items())) for which, labels, _ in family.samples]
        assert len(series) == len(set(series)), name
        assert len({frozenset(labels.keys() - {"le"}) for _, labels, _ in family.samples}) <= 1, name


def test_counters_count_and_histograms_are_complete(families: dict[str, Family]) -> None:
    for name, family in families.items():
        if family.kind == "counter":
            assert all(value >= 0 for _, _, value in family.samples), name
        if family.kind != "histogram":
            continue
        rows: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        rest: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for which, labels, value in family.samples:
            bound = labels.pop("le", None)
            key = tuple(sorted(labels.items()))
            if bound is None:
                rest[which, key] = value
            else:
                rows.setdefault(key, []).append((float(bound), value))
        for key, buckets in rows.items():
            assert buckets == sorted(buckets), (name, key)  # bounds and counts both grow
            assert [count for _, count in buckets] == sorted(count for _, count in buckets)
            assert buckets[-1][0] == float("inf")
            assert rest[f"{name}_count", key] == buckets[-1][1]
            assert rest[f"{name}_sum", key] >= 0
        assert len(rest) == 2 * len(rows), name


def value(families: dict[str, Family], name: str, **labels: str) -> float | None:
    family = next(family for known, family in families.items() if name.startswith(known))
    found = [number for which, given, number in family.samples if which == name and labels.items() <= given.items()]
    assert len(found) <= 1, (name, labels)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("protocol", "api"),
    [
        ("kafka", "Produce"),
        ("amqp", "basic.publish"),
        ("amqp", "queue.declare"),
        ("kinesis", "PutRecords"),
        ("kinesis", "GetRecords"),
        ("kinesis", "CreateStream"),
        ("kinesis", "SubscribeToShard"),
        ("http", "POST /v1/topics/{topic}/events"),
        ("http", "GET /v1/topics/{topic}"),
        ("http", "PUT /v1/routes/{name}"),
        ("http", "GET /v1/overview"),
        ("http", "unmatched"),
    ],
)
def test_requests_of_every_protocol_are_timed_by_what_they_ask(families: dict[str, Family], protocol: str, api: str) -> None:
    assert (value(families, "headrace_request_seconds_count", protocol=protocol, api=api) or 0) >= 1, [
        labels["api"] for name, labels, _ in families["headrace_request_seconds"].samples if name.endswith("_count")
    ]


def test_no_name_that_a_client_chose_is_among_the_kinds_of_requests(families: dict[str, Family]) -> None:
    apis = {labels["api"] for _, labels, _ in families["headrace_request_seconds"].samples}
    assert not [api for api in apis if "format" in api or "nothing" in api]


def test_records_and_subscriptions_are_counted_by_protocol(families: dict[str, Family]) -> None:
    for protocol in ("kafka", "amqp", "http"):
        assert (value(families, "headrace_records_in_total", protocol=protocol) or 0) >= 1, protocol
    for protocol in ("kafka", "amqp", "http", "kinesis"):
        assert (value(families, "headrace_bytes_in_total", protocol=protocol) or 0) >= 1, protocol
    assert (value(families, "headrace_records_in_total", protocol="kinesis") or 0) >= 3
    assert (value(families, "headrace_records_out_total", protocol="kinesis") or 0) >= 6
    assert (value(families, "headrace_subscriptions", protocol="kinesis") or 0) >= 1
    assert (value(families, "headrace_subscriptions", protocol="http") or 0) >= 1
    assert (value(families, "headrace_connections", protocol="kinesis") or 0) >= 1


def test_the_journal_and_the_process_are_told(families: dict[str, Family]) -> None:
    for name in ("headrace_journal_files", "headrace_journal_bytes", "headrace_journal_max_bytes", "process_open_fds"):
        assert (value(families, name) or 0) > 0, name
    assert value(families, "headrace_archive_failures_total") == 0


def test_names_with_quotes_and_backslashes_are_escaped(text: str) -> None:
    assert 'group="format \\"quoted\\"\\\\group"' in text
    assert 'queue="format \\"quoted\\" queue\\\\"' in text


def documented() -> set[str]:
    rows = [line.split("|")[1] for line in (DOCS / "metrics.md").read_text().splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`((?:headrace|process)_[a-z_]+)`", row)}


def test_every_metric_is_documented_and_every_documented_metric_is_there(families: dict[str, Family]) -> None:
    assert documented() == families.keys()


def test_the_dashboard_names_metrics_that_are_there(families: dict[str, Family]) -> None:
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text())
    known = {name + suffix for name, family in families.items() for suffix in SUFFIXES[family.kind]}
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    used: set[str] = set()
    for panel in panels:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        for target in panel["targets"]:
            named = set(re.findall(r"\b(?:headrace|process)_[a-z_]+", target["expr"]))
            assert named, panel["title"]
            assert named <= known, (panel["title"], named - known)
            assert target["expr"].count("(") == target["expr"].count(")")
            used |= named
    assert [variable["name"] for variable in dashboard["templating"]["list"]] == ["datasource", "instance"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for subject in ("request_seconds", "group_lag", "queue_messages", "sync_seconds", "journal", "compaction", "archive"):
        assert any(subject in name for name in used), subject
