"""What holds for a whole account in a region: DescribeLimits, DescribeAccountSettings, UpdateAccountSettings.

Nothing is billed here, so the commitment to a minimum of throughput can't be made: it is DISABLED, and stays so.
"""

from __future__ import annotations

from typing import Any

from headrace.kinesis.errors import invalid_argument
from headrace.kinesis.service import Call


def describe_limits(call: Call) -> dict[str, Any]:
    limits = call.service.streams.limits(call.account, call.region)
    return {
        "ShardLimit": limits.shards,
        "OpenShardCount": limits.open_shards,
        "OnDemandStreamCount": limits.streams_on_demand,
        "OnDemandStreamCountLimit": limits.on_demand_streams,
    }


def describe_account_settings(call: Call) -> dict[str, Any]:
    return {"MinimumThroughputBillingCommitment": {"Status": "DISABLED"}}


def update_account_settings(call: Call) -> dict[str, Any]:
    if call.given["MinimumThroughputBillingCommitment"]["Status"] != "DISABLED":
        raise invalid_argument("Nothing is billed here: MinimumThroughputBillingCommitment can only be DISABLED.")
    return describe_account_settings(call)
