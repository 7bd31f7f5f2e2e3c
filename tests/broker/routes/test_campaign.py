"""Routes through random crashes, failed syncs, a full disk, pauses, restarts and replays: nothing is lost, and order is kept.

What is delivered twice, is what was delivered last before a crash or a failure; without those nothing is.
"""

from __future__ import annotations

import os
from collections import defaultdict
from random import Random

import pytest
from tests.broker.routes.conftest import Site

from headrace.broker.routes.positions import Place
from headrace.log.errors import LogError
from headrace.record import Event

FILTER = "!text.endsWith('7')"
PARTITIONS = 3
ROUNDS = 30
SEEDS = range(200 if os.environ.get("HEADRACE_SOAK") == "1" else 4)


class Campaign:
    def __init__(self, seed: int, *, held: bool) -> None:
        self.random = Random(seed)
        self.site = Site(held=held)
        self.number = 0
        self.replayed = False
        self.harmed = False  # something happened after which records may come again
        self.site.rig.create("t", PARTITIONS)
        self.site.exchange("x", "topic")
        self.site.queue("q", "x", "good.#")
        self.site.queue("also", "x", "good.1")
        self.site.rig.create("copy", PARTITIONS)
        self.site.route()
        self.site.to_topic("copier", to="copy", partition="same", filter=FILTER, transform={"headers": "{'was': topic}"})
        self.site.settle()

    def append(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            events = []
            partition = self.random.randrange(PARTITIONS)
            for _ in range(self.random.choice([1, 1, 5, 300])):
                kind = "bad" if self.random.random() < 0.02 else "good"
                key = f"{kind}.{self.random.randrange(3)}"
                events.append(Event(key.encode(), b"%d.%d" % (partition, self.number)))
                self.number += 1
            try:
                self.site.append("t", *events, partition=partition)
            except LogError:
                return

    def turns(self) -> None:
        for _ in range(self.random.randint(1, 40)):
            if self.site.rig.held and self.random.random() < 0.3:
                self.site.rig.call(lambda: self.site.rig.commit_worker.run() | self.site.rig.keeper.run())
            self.site.rig.turn()
        self.site.rig.advance(self.random.choice([0.0, 0.001, 0.05, 0.2]))

    def crash(self) -> None:
        self.harmed = True
        self.site.rig.disk.capacity_bytes = None
        self.site.crash()

    def fail_a_sync(self) -> None:
        self.harmed = True
        self.site.rig.disk.fail_next_syncs = 1
        self.append()
        self.turns()
        self.site.rig.disk.fail_next_syncs = 0
        self.crash()

    def fill_the_disk(self) -> None:
        self.harmed = True
        self.site.rig.disk.capacity_bytes = self.site.rig.disk.used_bytes() + self.random.choice([0, 2_000, 20_000])
        self.append()
        self.turns()
        self.site.rig.disk.capacity_bytes = None

    def pause(self) -> None:
        name = self.random.choice(["r", "copier"])
        self.site.rig.run(self.site.broker.routes.pause(name))
        self.append()
        self.site.rig.run(self.site.broker.routes.resume(name))

    def replay(self) -> None:
        """A period is delivered once more, if none is: records come again, and none is left out."""
        if self.site.broker.routes.get("copier").replay is None:
            self.replayed = True
            start = self.random.randrange(50)
            end = Place(offset=start + self.random.randrange(200))
            self.site.rig.run(self.site.broker.routes.replay_period("copier", Place(offset=start), end))

    def check(self) -> None:
        site = self.site
        site.rig.disk.capacity_bytes = None
        site.caught_up()
        site.caught_up("copier")
        site.wait_for(lambda: site.broker.routes.get("copier").replay is None)
        bodies = defaultdict(list)
        for message in site.messages("q"):
            bodies[message.body.split(b".")[0]].append(message.body)
        dead = (
            {record.value for record in site.records("r.dead-letters")} if "r.dead-letters" in site.rig.log.topics() else set()
        )
        for partition in range(PARTITIONS):
            records = site.records("t", partition)
            good = [record.value for record in records if record.key and record.key.startswith(b"good")]
            found = bodies[b"%d" % partition]
            assert list(dict.fromkeys(found)) == good
            if not self.harmed:
                assert found == good
            assert {record.value for record in records if record.key and record.key.startswith(b"bad")} <= dead
            self.check_copy(partition, [record.value for record in records if not (record.value or b"").endswith(b"7")])
        also = [message.body for message in site.messages("also")]
        wanted = {r.value for p in range(PARTITIONS) for r in site.records("t", p) if r.key == b"good.1"}
        assert set(also) == wanted
        site.rig.end()

    def check_copy(self, partition: int, wanted: list[bytes | None]) -> None:
        copies = self.site.records("copy", partition)
        assert list(dict.fromkeys(copy.value for copy in copies)) == wanted
        assert all(copy.headers == (("was", b"t"),) for copy in copies)
        if not self.harmed and not self.replayed:
            assert len(copies) == len(wanted)


@pytest.mark.parametrize("held", [False, True], ids=["inline", "held"])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_order_is_kept_whatever_happens(seed: int, held: bool) -> None:
    campaign = Campaign(seed, held=held)
    harmless = [campaign.append, campaign.append, campaign.turns, campaign.turns, campaign.pause, campaign.site.restart]
    if seed % 2:
        harmless.append(campaign.replay)
    harmful = [campaign.crash, campaign.fail_a_sync, campaign.fill_the_disk] if seed % 4 else []
    for _ in range(ROUNDS):
        campaign.random.choice([*harmless, *harmful])()
    campaign.check()
