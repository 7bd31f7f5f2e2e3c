"""What a stream may carry: mode, warm throughput, size of records, and who chooses the shard."""

from __future__ import annotations

from typing import Any

from headrace.broker.streams.definition import Mode
from headrace.kinesis.errors import invalid_argument, validation
from headrace.kinesis.service import Call
from headrace.kinesis.shapes import warm_throughput_shape


async def update_stream_mode(call: Call) -> None:
    mode = call.given["StreamModeDetails"]["StreamMode"]
    warm = call.given.get("WarmThroughputMiBps")
    if warm is not None and mode != "ON_DEMAND":
        raise invalid_argument("WarmThroughputMiBps can only be provided for a stream in ON_DEMAND mode.")
    await call.service.streams.set_mode(call.stream(), Mode(mode), warm)


async def update_warm_throughput(call: Call) -> dict[str, Any]:
    stream = call.stream()
    if stream.mode != "ON_DEMAND":
        raise validation(f"Request is invalid. Stream {stream.name} under account {stream.account} is in Provisioned mode.")
    await call.service.streams.set_warm_throughput(stream, call.given["WarmThroughputMiBps"])
    return {"StreamARN": stream.arn, "StreamName": stream.name, "WarmThroughput": warm_throughput_shape(stream)}


async def update_max_record_size(call: Call) -> None:
    await call.service.streams.set_max_record_kib(call.stream(), call.given["MaxRecordSizeInKiB"])


async def update_record_distribution_strategy(call: Call) -> None:
    await call.service.streams.set_distribution(call.stream(), call.given["RecordDistributionStrategy"])
