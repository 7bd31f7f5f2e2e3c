"""A stream is split, merged and scaled while it is written and read, and the server is killed again and again in the midst of
it: every record whose put was answered is read once by every reader, and the records of a key in the order in which they were
put. What got no answer is there once or not at all, and every reader agrees on that."""

from __future__ import annotations

import time

import pytest
from tests.kinesis.campaign.campaign import Campaign

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

SETTLE_EVERY = 10  # kills
SETTLE_S = 120.0


@pytest.mark.parametrize("durability", ["fsync", "flush"])
def test_resharding_loses_repeats_and_disorders_nothing_when_the_server_is_killed(
    headrace_factory, kills, chance, durability, request
):
    if durability == "flush" and not request.config.getoption("--soak"):
        pytest.skip("the short slice has the stricter one")
    server = headrace_factory(durability=durability, kinesis_subscription_ms=1500)
    campaign = Campaign(server.kinesis, chance)
    with campaign.under_way():
        for number in range(kills):
            # not to wait for anything: so that the kill meets any moment of a put and a read, and often one of a reshard
            time.sleep(chance.uniform(0.05, 1.2))
            if chance.random() < 0.6:
                campaign.await_reshard(1.0)
                time.sleep(chance.uniform(0, 0.03))
            server.crash()
            server.restart()
            campaign.check()
            if number % SETTLE_EVERY == SETTLE_EVERY - 1:
                campaign.settle(SETTLE_S)
                campaign.go()
        campaign.judge(SETTLE_S, server.kafka)
        done = campaign.reshards()
    assert sum(done.get(what, 0) for what in ("SplitShard", "MergeShards", "UpdateShardCount")) > kills // 2
    lost = [put for put in campaign.puts() if put.shard is None]
    assert len(lost) < len(campaign.puts()) / 2
    assert done.get("lost", 0) > kills // 10  # reshards that were under way when the server died
    assert "Traceback" not in server.log_text()
