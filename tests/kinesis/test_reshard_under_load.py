"""A stream is split, merged and scaled while it is written and read: nothing is lost, repeated or out of order, no put fails,
and a parent is drained before its children are read."""

from __future__ import annotations

import random

from tests.kinesis.campaign.campaign import Campaign

from headrace.testing import wait_until

ENOUGH = {"SplitShard": 5, "MergeShards": 5, "UpdateShardCount": 5}
SEED = 20250216


def has_resharded(campaign: Campaign) -> bool:
    campaign.check()
    done = campaign.reshards()
    return all(done.get(kind, 0) >= times for kind, times in ENOUGH.items())


def test_every_record_is_read_once_and_in_order_while_the_stream_is_resharded(headrace_factory):
    server = headrace_factory(kinesis_subscription_ms=1500)
    campaign = Campaign(server.kinesis, random.Random(SEED), reshard_pace_s=0.1)
    with campaign.under_way():
        wait_until(lambda: has_resharded(campaign), timeout_s=60, what="reshards of every kind")
        campaign.judge(60, server.kafka)
    assert [put for put in campaign.puts() if put.shard is None] == []  # no answer was lost
    assert "Traceback" not in server.log_text()
