"""Channels, which deliver a stream to Amazon S3, are not served."""

from __future__ import annotations

from headrace.kinesis.errors import UNKNOWN_OPERATION, KinesisError
from headrace.kinesis.service import Call


def refuse(call: Call) -> None:
    raise KinesisError(
        UNKNOWN_OPERATION,
        f"{call.name} is not served: this server has no channels. Routes deliver a stream elsewhere.",
    )
