"""The API of Kinesis: putting and getting against moto's server and kinesalite, in this run, and as a share of what the same
data reaches through Kafka; and how late a record is at each of five enhanced consumers.

moto and kinesalite keep everything in memory. Headrace is measured with a stream in memory and with one whose puts are answered
when they are on disk.
"""

from __future__ import annotations

import base64
import http.client
import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from statistics import quantiles
from typing import Any

from bench import frames, kinesis_load
from bench.kinesis_load import RECORD_BYTES, RECORDS, load
from bench.kinesis_peers import HOST, Endpoint, heads, start_kinesalite, start_moto
from bench.model import Case, Measured, Mode, Row
from bench.peers import PeerError, Server, free_port
from bench.rig import LoadError, Rig
from bench.talking import Talking

SHARDS = 4
BATCH_SECONDS = 2.0  # of batches: a stream in memory may grow by half a GB in each
PAGE_RECORDS = 10_000  # the most that GetRecords gives
CONSUMERS = 5
PER_S = 200
ARRIVAL_DEADLINE_S = 60.0
FETCH_BYTES = 10 << 20
DURABILITIES = ("memory", "fsync")


def measure_api(rig: Rig, measured: Measured, name: str, endpoint: Endpoint, stream: str) -> tuple[int, int]:
    """What `httpload` reaches with prepared requests. Returns how many records must be in the stream now, and how many may be:
    each load leaves one request for each connection without its answer."""
    batches, singles = kinesis_load.put_records(stream), kinesis_load.put_record(stream)
    least = most = 0

    def put(requests: Sequence[bytes], connections: int, seconds: float) -> dict[str, Any]:
        nonlocal least, most
        each = RECORDS if requests is batches else 1
        said = load(rig.folder, endpoint, requests, connections, seconds)
        least += said["answers"] * each
        most += (said["answers"] + connections) * each
        return said

    put(batches, 1, rig.effort.warm_seconds / 8)
    for connections in (1, 4):
        said = put(batches, connections, min(rig.effort.seconds, BATCH_SECONDS))
        measured[f"{name}_batch_{connections}"] = said["rate"] * RECORDS
        measured[f"{name}_batch_{connections}_cpu"] = said["server_cpu_us"] / RECORDS
    for connections in (1, 16):
        put(singles, connections, rig.effort.warm_seconds / 8)
        said = put(singles, connections, rig.effort.seconds)
        measured[f"{name}_single_{connections}"] = said["rate"]
        measured[f"{name}_single_{connections}_cpu"] = said["server_cpu_us"]
    return least, most


def measure_pages(rig: Rig, measured: Measured, name: str, endpoint: Endpoint, stream: str) -> None:
    """Of a shard with more than a page in it; the same page again and again."""
    kinesis_load.fill(endpoint, stream, PAGE_RECORDS + 2 * RECORDS)
    iterator, count = kinesis_load.first_page(endpoint, stream)
    requests = kinesis_load.get_records([iterator])
    load(rig.folder, endpoint, requests, 1, rig.effort.warm_seconds / 8)
    said = load(rig.folder, endpoint, requests, 1, rig.effort.seconds)
    measured[f"{name}_page"] = said["rate"] * count
    measured[f"{name}_page_cpu"] = said["server_cpu_us"] / count
    measured[f"{name}_boto3_page"] = kinesis_load.boto3_get_records(endpoint, stream, rig.effort.seconds)


def measure_boto3(rig: Rig, measured: Measured, name: str, endpoint: Endpoint, stream: str) -> None:
    measured[f"{name}_boto3_batch"] = kinesis_load.boto3_put_records(endpoint, stream, rig.effort.seconds)
    measured[f"{name}_boto3_single"] = kinesis_load.boto3_put_record(endpoint, stream, rig.effort.seconds)


def measure_peer(rig: Rig, measured: Measured, server: Server) -> None:
    endpoint = Endpoint(server.port, server.pid)
    endpoint.create_stream("puts", SHARDS)
    endpoint.create_stream("pages", 1)
    measure_pages(rig, measured, server.name, endpoint, "pages")
    measure_api(rig, measured, server.name, endpoint, "puts")
    measure_boto3(rig, measured, server.name, endpoint, "puts")


# --- Headrace ---


def measure_headrace(rig: Rig, measured: Measured) -> None:
    port = free_port()
    with rig.serving(arguments=["--kinesis", f"{HOST}:{port}"]) as server:
        endpoint = Endpoint(port, server.pid)
        rig.create_topic("pages", 1)
        measure_pages(rig, measured, "headrace", endpoint, "pages")
        for durability in DURABILITIES:
            rig.create_topic(durability, SHARDS, {"durability": durability})
            least, most = measure_api(rig, measured, durability, endpoint, durability)
            if not least <= (there := rig.end_offsets(durability)) <= most:
                raise LoadError(f"{durability} should have {least} to {most} records, but has {there}")
            if durability == "fsync":
                measure_boto3(rig, measured, durability, endpoint, durability)
            endpoint.call("DeleteStream", StreamName=durability)
            measure_kafka(rig, measured, endpoint, durability)
        measure_fetch(rig, measured)
        for way in ("h2", "boto3"):
            measure_fan_out(rig, measured, endpoint, way)


def measure_kafka(rig: Rig, measured: Measured, endpoint: Endpoint, durability: str) -> None:
    """The same data by Kafka's protocol: batches of 500 records over four partitions."""
    topic = f"kafka-{durability}"
    rig.create_topic(topic, SHARDS, {"durability": durability})
    each = frames.batch(RECORDS // SHARDS, RECORD_BYTES)
    request = frames.produce(topic, each, partitions=range(SHARDS), acks=-1)
    rig.produce(topic, [request], seconds=rig.effort.warm_seconds / 8)
    for connections in (1, 4):
        produced = rig.produce(topic, [request], connections=connections, seconds=min(rig.effort.seconds, BATCH_SECONDS))
        measured[f"kafka_{durability}_batch_{connections}"] = produced.rate * RECORDS
        share = measured[f"{durability}_batch_{connections}"] / measured[f"kafka_{durability}_batch_{connections}"]
        measured[f"{durability}_batch_{connections}_share"] = share
    endpoint.call("DeleteStream", StreamName=topic)


def measure_fetch(rig: Rig, measured: Measured) -> None:
    """By Kafka's protocol what GetRecords gives, 10 MB at a time."""
    end = rig.end_offsets("pages")
    fetched = rig.fetch([frames.fetch("pages", max_bytes=FETCH_BYTES)], step=0, end=end)
    measured["kafka_page"] = fetched.record_mb_per_s * 1e6 / RECORD_BYTES
    measured["page_share"] = measured["headrace_page"] / measured["kafka_page"]


class Consumers(Talking):
    """Their process."""

    def __init__(self, endpoint: Endpoint, stream: str, way: str) -> None:
        super().__init__("bench.kinesis_consumers", endpoint.url, stream, str(CONSUMERS), way)
        if not self.ready["ready"]:
            self.close()
            raise LoadError("the consumers did not subscribe")


def measure_fan_out(rig: Rig, measured: Measured, endpoint: Endpoint, way: str) -> None:
    stream = f"fan-out-{way}"
    endpoint.create_stream(stream, 1)
    with closing(Consumers(endpoint, stream, way)) as consumers:
        feed(endpoint, stream, rig.effort.warm_seconds / 4)
        consumers.ask("begin")
        count = feed(endpoint, stream, 2 * rig.effort.seconds)
        end = time.monotonic() + ARRIVAL_DEADLINE_S
        while (there := consumers.ask("count")["count"]) < count:
            if time.monotonic() > end:
                raise LoadError(f"{there} of {count} records have arrived")
            time.sleep(0.05)
        spread = [quantiles(delays, n=100) for delays in consumers.ask("report")["delays_ms"]]
    measured[f"fan_out_{way}_p50"] = max(delays[49] for delays in spread)
    measured[f"fan_out_{way}_p99"] = max(delays[98] for delays in spread)


def feed(endpoint: Endpoint, stream: str, seconds: float) -> int:
    """Puts `PER_S` records a second, one by one. Returns how many."""
    connection = http.client.HTTPConnection(HOST, endpoint.port, timeout=30)
    sent = 0
    with closing(connection):
        begun = time.perf_counter()
        while (at := begun + sent / PER_S) < begun + seconds:
            time.sleep(max(0.0, at - time.perf_counter()))
            data = base64.b64encode(b"%d %b" % (time.time_ns(), b"x" * 200)).decode()
            given = {"StreamName": stream, "PartitionKey": f"account-{sent % 1000:04}", "Data": data}
            connection.request("POST", "/", json.dumps(given).encode(), dict(heads("PutRecord")))
            answer = connection.getresponse()
            if answer.status != 200:
                raise LoadError(f"PutRecord: {answer.read()[:300]!r}")
            answer.read()
            sent += 1
    return sent


def measure(rig: Rig) -> Measured:
    measured: Measured = {}
    with start_moto(rig.folder) as moto:
        measure_peer(rig, measured, moto)
    try:
        with start_kinesalite(rig.folder) as kinesalite:
            measure_peer(rig, measured, kinesalite)
    except PeerError as error:
        print(f"without kinesalite: {error}", file=sys.stderr)
    measure_headrace(rig, measured)
    for peer in ("moto", "kinesalite"):
        if f"{peer}_page" not in measured:
            continue
        measured[f"page_{peer}"] = measured["headrace_page"] / measured[f"{peer}_page"]
        measured[f"boto3_page_{peer}"] = measured["headrace_boto3_page"] / measured[f"{peer}_boto3_page"]
        for shape in ("batch", "single"):
            measured[f"boto3_{shape}_{peer}"] = measured[f"fsync_boto3_{shape}"] / measured[f"{peer}_boto3_{shape}"]
        for shape in ("batch_1", "batch_4", "single_1", "single_16"):
            for durability in DURABILITIES:
                measured[f"{durability}_{shape}_{peer}"] = measured[f"{durability}_{shape}"] / measured[f"{peer}_{shape}"]
    return measured


SHAPES = (
    ("batch_1", "PutRecords of 500 × 1 KB, 1 connection", "records/s", 10.0),
    ("batch_4", "PutRecords of 500 × 1 KB, 4 connections", "records/s", 10.0),
    ("single_1", "PutRecord of 1 KB, 1 connection", "records/s", 3.0),
    ("single_16", "PutRecord of 1 KB, 16 connections", "records/s", 3.0),
)


def _rows() -> tuple[Row, ...]:
    rows = []
    for key, words, unit, aim in SHAPES:
        rows += [Row(f"{peer}_{key}", f"{words}: {peer}", unit) for peer in ("moto", "kinesalite")]
        for durability in DURABILITIES:
            rows.append(Row(f"{durability}_{key}", f"{words}: {durability}", unit))
            rows.append(Row(f"{durability}_{key}_moto", f"{words}: {durability} / moto", "x", aim_value=aim))
            rows.append(Row(f"{durability}_{key}_kinesalite", f"{words}: {durability} / kinesalite", "x"))
            rows.append(Row(f"{durability}_{key}_cpu", f"{words}: {durability}, CPU a record", "µs", better="less"))
            if key.startswith("batch"):
                rows.append(Row(f"kafka_{durability}_{key}", f"{words}: {durability}, the same by Kafka's Produce", unit))
                rows.append(Row(f"{durability}_{key}_share", f"{words}: {durability}, share of that", "x"))
    return tuple(rows)


CASES = (
    Case(
        name="kinesis",
        title="Kinesis",
        about="Requests prepared byte for byte and sent by `httpload`, each connection with one under way, on a stream of 4 "
        "shards, against moto's server and kinesalite, which keep everything in memory. A put is answered when it is in "
        "memory, or on disk. GetRecords asks for the first page of a shard, of 10,000 records of 1 KB as far as 10 MB hold "
        "them. By Kafka's protocol: the same records in one Produce request for the same 4 partitions, with acks=all, and "
        "Fetch of 10 MB. boto3 is as it comes: one thread, one client. Fan-out: 200 records a second are put on one shard "
        "with 5 enhanced consumers, and the delay is that from before the put to the consumer; the one worst off counts.",
        ours=Mode.HEADRACE,
        measure=measure,
        serve=False,
        rows=(
            *_rows(),
            Row("moto_page", "GetRecords, full pages: moto", "records/s"),
            Row("kinesalite_page", "GetRecords, full pages: kinesalite", "records/s"),
            Row("headrace_page", "GetRecords, full pages", "records/s"),
            Row("page_moto", "GetRecords, full pages / moto", "x", aim_value=10.0),
            Row("page_kinesalite", "GetRecords, full pages / kinesalite", "x"),
            Row("headrace_page_cpu", "GetRecords, full pages: CPU a record", "µs", better="less"),
            Row("kafka_page", "GetRecords, full pages: the same by Kafka's Fetch", "records/s"),
            Row("page_share", "GetRecords, full pages: share of that", "x"),
            Row("moto_boto3_batch", "boto3 put_records of 500 × 1 KB: moto", "records/s"),
            Row("fsync_boto3_batch", "boto3 put_records of 500 × 1 KB: fsync", "records/s"),
            Row("boto3_batch_moto", "boto3 put_records of 500 × 1 KB: fsync / moto", "x"),
            Row("moto_boto3_single", "boto3 put_record: moto", "records/s"),
            Row("fsync_boto3_single", "boto3 put_record: fsync", "records/s"),
            Row("boto3_single_moto", "boto3 put_record: fsync / moto", "x"),
            Row("moto_boto3_page", "boto3 get_records: moto", "records/s"),
            Row("headrace_boto3_page", "boto3 get_records", "records/s"),
            Row("boto3_page_moto", "boto3 get_records / moto", "x"),
            Row("fan_out_h2_p50", "5 enhanced consumers, HTTP/2: delay p50", "ms", better="less", aim_value=70.0),
            Row("fan_out_h2_p99", "5 enhanced consumers, HTTP/2: delay p99", "ms", better="less"),
            Row("fan_out_boto3_p50", "5 enhanced consumers, boto3: delay p50", "ms", better="less", aim_value=70.0),
            Row("fan_out_boto3_p99", "5 enhanced consumers, boto3: delay p99", "ms", better="less"),
        ),
    ),
)
