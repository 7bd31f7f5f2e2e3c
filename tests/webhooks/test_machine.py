"""Whatever the endpoint does and whenever the server crashes: nothing is lost, rows are exact, and keys keep their order.

The machine publishes, lets the endpoint answer well, badly or not at all, moves time, crashes, restarts and pauses. In the end
the endpoint is well, and everything that was published must have been taken by it.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.log.conftest import SOAK
from tests.webhooks.conftest import Reply, Sent, WebhookSite

from headrace.broker.routes.route import State
from headrace.record import Event
from headrace.webhooks.outbound import TimedOut

BEHAVIOURS = ("well", "broken", "hangs", "picky")


class Deliveries(RuleBasedStateMachine):
    @initialize(order=st.sampled_from(["none", "key", "partition"]), concurrency=st.integers(1, 4), held=st.booleans())
    def begin(self, order: str, concurrency: int, held: bool) -> None:
        self.order = order
        self.behaviour = "well"
        self.published: list[list[bytes]] = [[], []]
        self.taken: dict[tuple[int, int], int] = {}  # how often the endpoint said yes
        self.first_taken: list[tuple[int, int]] = []
        self.crashes = 0
        self.site = WebhookSite(held=held)
        self.site.rig.create("t", 2)
        self.site.endpoint.reply = self._reply
        self.site.webhook(
            order=order, concurrency=concurrency, first_pause_s=1, longest_pause_s=60, max_attempts=100, disable_after_s=0
        )

    def _reply(self, sent: Sent) -> Reply:
        place = int(sent.headers["headrace-partition"]), sent.offset
        if self.behaviour == "hangs":
            return None
        if self.behaviour == "broken" or (self.behaviour == "picky" and sent.offset % 3 == 0):
            return 500 if sent.offset % 2 else TimedOut("no answer within 20 s")
        self._take(place)
        return 200

    def _take(self, place: tuple[int, int]) -> None:
        if place not in self.taken:
            self.first_taken.append(place)
        self.taken[place] = self.taken.get(place, 0) + 1

    def _answer_hanging(self, *, well: bool) -> None:
        hanging, self.site.endpoint.hanging = self.site.endpoint.hanging, []
        for sent, future in hanging:
            if not future.done():
                if well:
                    self._take((int(sent.headers["headrace-partition"]), sent.offset))
                self.site.rig.call(lambda future=future: future.set_result(200 if well else 503))  # type: ignore[misc]
        self.site.rest()

    @rule(partition=st.integers(0, 1), keys=st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=5))
    def publish(self, partition: int, keys: list[bytes]) -> None:
        self.site.append("t", *(Event(key, b"v") for key in keys), partition=partition)
        self.site.rig.settle()
        self.published[partition] += keys

    @rule(behaviour=st.sampled_from(BEHAVIOURS))
    def behave(self, behaviour: str) -> None:
        self.behaviour = behaviour

    @rule(well=st.booleans())
    def answer(self, well: bool) -> None:
        self._answer_hanging(well=well)

    @rule(seconds=st.sampled_from([0.01, 0.2, 2.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.site.pass_time(seconds)

    @rule(works=st.booleans())
    def disk(self, works: bool) -> None:
        """While it does not work nothing becomes durable; a crash takes all of that back."""
        self.site.disk_works = works

    @rule()
    def crash(self) -> None:
        self.crashes += 1
        self.site.endpoint.hanging.clear()
        self.site.crash()

    @rule()
    def restart(self) -> None:
        self.site.restart()

    @rule()
    def pause_and_resume(self) -> None:
        self.site.rig.run(self.site.broker.routes.pause("w"))
        self.site.rig.run(self.site.broker.routes.resume("w"))

    @invariant()
    def the_position_passes_only_what_is_taken_or_remembered(self) -> None:
        if not hasattr(self, "site"):
            return
        run = self.site.broker.routes.get("w").run
        for partition in (0, 1):
            position = self.site.committed(partition=partition) or 0
            for offset in range(position):
                known = (partition, offset) in self.taken or (run is not None and (partition, offset) in run.rows.events)
                assert known, f"{partition}:{offset} is neither taken nor remembered, and the position is {position}"

    def teardown(self) -> None:
        if not hasattr(self, "site"):
            return
        self.behaviour = "well"
        self.site.disk_works = True
        self._answer_hanging(well=False)
        for _ in range(100):
            self.site.pass_time(30)
            if self._is_done():
                break
        places = [(partition, offset) for partition in (0, 1) for offset in range(len(self.published[partition]))]
        assert sorted(self.taken) == places
        route = self.site.broker.routes.get("w")
        assert (route.state, route.error) == (State.RUNNING, None)
        assert self.site.pending() == {}
        for partition in (0, 1):
            assert (self.site.committed(partition=partition) or 0) == len(self.published[partition])
        self._check_order()
        run = self.site.run_of()
        assert (run.reading.outstanding, run.held_bytes, run.in_flight) == (0, 0, 0)
        assert (run.engine.held_bytes, run.engine.in_flight) == (0, 0)
        self.site.end()

    def _is_done(self) -> bool:
        positions = [self.site.committed(partition=partition) or 0 for partition in (0, 1)]
        return positions == [len(keys) for keys in self.published] and not self.site.pending()

    def _check_order(self) -> None:
        if self.order == "none":
            return
        seen: dict[tuple[int, bytes], int] = {}
        for partition, offset in self.first_taken:
            key = self.published[partition][offset] if self.order == "key" else b""
            assert seen.get((partition, key), -1) < offset, f"{partition}:{offset} was overtaken"
            seen[partition, key] = offset


def test_nothing_is_lost_whatever_happens() -> None:
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    chosen = settings(
        max_examples=1000 if SOAK else 25, stateful_step_count=30, deadline=None, suppress_health_check=quiet, print_blob=True
    )
    run_state_machine_as_test(Deliveries, settings=chosen)
