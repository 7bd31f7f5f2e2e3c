"""A stream is split, merged and scaled while it is written and read: nothing is lost, repeated or out of order, no put fails,
and a parent is drained before its children are read."""

from __future__ import annotations

import random
import time

from tests.kinesis.campaign.campaign import Campaign

SECONDS = 4.0
SEED = 20250216


def test_every_record_is_read_once_and_in_order_while_the_stream_is_resharded(headrace_factory):
    server = headrace_factory(kinesis_subscription_ms=1500)
    campaign = Campaign(server.kinesis, random.Random(SEED), reshard_pace_s=0.1)
    with campaign.under_way():
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            campaign.check()
            time.sleep(0.1)
        campaign.judge(60, server.kafka)
        done = campaign.reshards()
    assert done["SplitShard"] > 0
    assert done["MergeShards"] > 0
    assert done["UpdateShardCount"] > 0
    assert [put for put in campaign.puts() if put.shard is None] == []  # no answer was lost
    assert "Traceback" not in server.log_text()
