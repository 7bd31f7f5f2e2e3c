"""Load on the API of Kinesis: requests prepared byte for byte for `httpload`, and boto3 as it comes."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import native
from bench.kinesis_peers import Endpoint, heads
from bench.rig import LoadError, run

RECORDS = 500  # the most that PutRecords takes
RECORD_BYTES = 1000
VARIANTS = 8  # different requests that are sent in turn


def put_records(stream: str) -> list[bytes]:
    noise = random.Random(1)
    return [_request("PutRecords", _batch(stream, noise, variant)) for variant in range(VARIANTS)]


def put_record(stream: str) -> list[bytes]:
    noise = random.Random(2)
    return [
        _request("PutRecord", {"StreamName": stream, **_record(noise, f"account-{variant:04}")}) for variant in range(VARIANTS)
    ]


def get_records(iterators: Sequence[str]) -> list[bytes]:
    return [_request("GetRecords", {"ShardIterator": iterator}) for iterator in iterators]


def fill(endpoint: Endpoint, stream: str, count: int) -> None:
    noise = random.Random(3)
    for variant in range(-(-count // RECORDS)):
        said = endpoint.call("PutRecords", **_batch(stream, noise, variant))
        if said["FailedRecordCount"]:
            raise LoadError(f"{said['FailedRecordCount']} records were not stored")


def first_page(endpoint: Endpoint, stream: str) -> tuple[str, int]:
    """An iterator at the beginning of the first shard, and how many records a page of it has."""
    shard = endpoint.call("ListShards", StreamName=stream)["Shards"][0]["ShardId"]
    where = {"StreamName": stream, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = endpoint.call("GetShardIterator", **where)["ShardIterator"]
    return iterator, len(endpoint.call("GetRecords", ShardIterator=iterator)["Records"])


def load(folder: Path, endpoint: Endpoint, requests: Sequence[bytes], connections: int, seconds: float) -> dict[str, Any]:
    files = []
    for number, request in enumerate(requests):
        files.append(folder / f"kinesis-request-{number}")
        files[-1].write_bytes(request)
    said = run([native.httpload(), "127.0.0.1", endpoint.port, connections, seconds, endpoint.pid, *files])
    if said["refused"]:
        raise LoadError(f"{said['refused']} requests were refused")
    return said


# --- boto3 ---


def boto3_client(endpoint: Endpoint) -> Any:
    import boto3  # type: ignore[import-untyped]

    return boto3.client(
        "kinesis",
        endpoint_url=endpoint.url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def boto3_put_records(endpoint: Endpoint, stream: str, seconds: float) -> float:
    """Records a second."""
    client, noise = boto3_client(endpoint), random.Random(4)
    records = [{"Data": noise.randbytes(RECORD_BYTES), "PartitionKey": f"account-{number:04}"} for number in range(RECORDS)]

    def put() -> int:
        if client.put_records(StreamName=stream, Records=records)["FailedRecordCount"]:
            raise LoadError("records were not stored")
        return RECORDS

    return _paced(put, seconds)


def boto3_put_record(endpoint: Endpoint, stream: str, seconds: float) -> float:
    client, data = boto3_client(endpoint), random.Random(5).randbytes(RECORD_BYTES)

    def put() -> int:
        client.put_record(StreamName=stream, Data=data, PartitionKey="account-0007")
        return 1

    return _paced(put, seconds)


def boto3_get_records(endpoint: Endpoint, stream: str, seconds: float) -> float:
    client = boto3_client(endpoint)
    iterator, _ = first_page(endpoint, stream)
    return _paced(lambda: len(client.get_records(ShardIterator=iterator)["Records"]), seconds)


def _paced(call: Callable[[], int], seconds: float) -> float:
    call()
    begun, count = time.perf_counter(), 0
    while (took := time.perf_counter() - begun) < seconds:
        count += call()
    return count / took


# --- requests ---


def _record(noise: random.Random, key: str) -> dict[str, str]:
    return {"Data": base64.b64encode(noise.randbytes(RECORD_BYTES)).decode(), "PartitionKey": key}


def _batch(stream: str, noise: random.Random, variant: int) -> dict[str, Any]:
    records = [_record(noise, f"account-{variant % VARIANTS}{number:03}") for number in range(RECORDS)]
    return {"StreamName": stream, "Records": records}


def _request(operation: str, given: dict[str, Any]) -> bytes:
    body = json.dumps(given).encode()
    lines = [*heads(operation), ("Content-Length", str(len(body)))]
    return b"POST / HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines).encode() + b"\r\n" + body
