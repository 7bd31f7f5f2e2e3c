"""Places for connections: bounded for all together and for each host, and no host keeps another from its first."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.outbound.slots import Slots


def test_hosts_that_hold_everything_leave_each_other_host_a_first_place():
    async def run() -> None:
        slots = Slots(total=4, per_host=8)
        for _ in range(5):
            await slots.take("greedy")
        waiting = asyncio.ensure_future(slots.take("greedy"))
        await asyncio.sleep(0)
        assert not waiting.done()
        for number in range(10):
            await asyncio.wait_for(slots.take(number), 1)
        second = asyncio.ensure_future(slots.take(0))
        await asyncio.sleep(0)
        slots.give_back("greedy")  # the next place is for the host that has the fewest
        await asyncio.wait_for(second, 1)
        assert not waiting.done()
        slots.give_back("greedy")
        await asyncio.wait_for(waiting, 1)

    asyncio.run(run())


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["take", "give", "cancel"])), max_size=60))
def test_places_are_never_more_than_may_be_and_never_lost(steps):
    async def run() -> None:
        total, per_host = 3, 3
        slots = Slots(total, per_host)
        tasks: dict[int, list[asyncio.Task[None]]] = {host: [] for host in range(4)}
        for host, what in steps:
            mine = tasks[host]
            if what == "take":
                mine.append(asyncio.ensure_future(slots.take(host)))
            elif what == "give" and mine and mine[0].done():
                mine.pop(0)
                slots.give_back(host)
            elif what == "cancel" and mine and not mine[-1].done():
                mine.pop().cancel()
            for _ in range(3):
                await asyncio.sleep(0)
            held = {one: sum(task.done() for task in tasks[one]) for one in tasks}
            assert all(count <= per_host for count in held.values())
            assert sum(max(0, count - 1) for count in held.values()) <= total
            assert slots.taken == sum(held.values())
            for one in tasks:  # whoever waits does so for a reason
                if any(not task.done() for task in tasks[one]):
                    assert held[one] == per_host or (held[one] and sum(max(0, n - 1) for n in held.values()) == total)
        for one in tasks:
            for task in tasks[one]:
                task.cancel()

    asyncio.run(run())
