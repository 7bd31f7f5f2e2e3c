"""Resource policies of streams and consumers; `policy` says what they allow."""

from __future__ import annotations

from typing import Any

from headrace.kinesis.errors import RESOURCE_NOT_FOUND, KinesisError
from headrace.kinesis.lookup import find_resource
from headrace.kinesis.policy import check_policy
from headrace.kinesis.service import Call


async def put_resource_policy(call: Call) -> None:
    check_policy(call.given["Policy"])
    await call.service.streams.set_policy(find_resource(call, call.given), call.given["Policy"])


def get_resource_policy(call: Call) -> dict[str, Any]:
    return {"Policy": find_resource(call, call.given).policy or "{}"}


async def delete_resource_policy(call: Call) -> None:
    resource = find_resource(call, call.given)
    if resource.policy is None:
        raise KinesisError(RESOURCE_NOT_FOUND, f"No resource policy found for resource ARN {resource.arn}.")
    await call.service.streams.set_policy(resource, None)
