"""Long random lives of a log, each with its own mixture of what happens (swarm testing): one has mostly commits and failed
syncs, another trims and clean restarts, and few have everything. That reaches states that an even mixture, and lives as
short as Hypothesis likes them, do not.

The rules and the model are those of `test_log_machine`. A seed repeats a life; what fails prints it as calls of the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.log.test_log_machine import CONFIGS, NAMES, LogMachine, small_limits

__all__ = ["small_limits"]  # the fixture

LENGTHS = (30, 100, 300)
WEIGHTS = (0.2, 1, 1, 3, 8)
RARE = {
    "create": 0.7,
    "delete": 0.4,
    "disk_is_full": 0.4,
    "power_fails": 0.3,
    "power_will_fail": 0.4,
    "process_is_killed": 0.3,
    "read_everything": 0.2,
    "restart": 0.3,
    "settle": 0.5,
    "sync_will_fail": 0.3,
}
NEEDS_HELD_THREADS = {"checkpoint_while_a_batch_waits", "run_threads"}


def _rules(random: Random) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every rule of the machine, and how to make up its arguments."""

    def where() -> int:
        return random.randrange(10)

    def producer_id() -> int:
        return random.randint(1, 3)

    def maybe() -> bool:
        return random.random() < 0.5

    def topic(**more: Any) -> dict[str, Any]:
        return {"name": random.choice(NAMES), "wait": maybe(), **more}

    def values() -> dict[bytes, bytes | None]:
        keys = [key for key in (b"x", b"y", b"z") if maybe()]
        return {key: None if maybe() else random.randbytes(random.randrange(60)) for key in keys}

    def sizes() -> list[int]:
        return random.choices((0, 10, 90, 400, 1500), k=random.randint(1, 3))

    def steps() -> list[str]:
        return random.choices(("commit.work", "commit.tell", "keeper.work", "keeper.tell"), k=random.randint(1, 6))

    return {
        "append": lambda: {"where": where(), "sizes": sizes(), "ask": maybe(), "waits": maybe()},
        "append_idempotent": lambda: {
            "where": where(),
            "producer_id": producer_id(),
            "count": random.randint(1, 3),
            "waits": maybe(),
        },
        "retry": lambda: {"where": where(), "producer_id": producer_id(), "back": random.randrange(5)},
        "put": lambda: {"keys": values()},
        "commit_together": lambda: {
            "where": random.sample(range(10), random.randint(1, 3)),
            "wait": maybe(),
            "bad": random.random() < 0.2,
        },
        "trim": lambda: {"where": where(), "part": random.choice((0.0, 1.0, random.random())), "wait": maybe()},
        "retention": lambda: {"wait": maybe()},
        "roll": lambda: {"where": where()},
        "checkpoint": dict,
        "checkpoint_while_a_batch_waits": lambda: {"where": where(), "producer_id": producer_id(), "tell": maybe()},
        "pass_time": lambda: {"seconds": random.choice((0.0, 0.002, 0.05, 1.0, 11.0, 40.0))},
        "run_threads": lambda: {"steps": steps()},
        "settle": dict,
        "create": lambda: topic(partitions=random.randint(1, 2), config=random.choice(CONFIGS)),
        "delete": topic,
        "grow": topic,
        "configure": lambda: topic(config=random.choice(CONFIGS)),
        "power_will_fail": lambda: {"steps": random.randrange(41)},
        "power_fails": dict,
        "process_is_killed": dict,
        "restart": dict,
        "sync_will_fail": dict,
        "disk_is_full": lambda: {"room": random.choice((0, 100, 600, 3000))},
        "free_disk": dict,
        "read_everything": dict,
    }


def _live(machine: LogMachine, seed: int, story: list[str]) -> None:
    random = Random(seed)

    def happens(rule: str, **how: Any) -> None:
        story.append(f"state.{rule}({', '.join(f'{name}={value!r}' for name, value in how.items())})")
        getattr(machine, rule)(**how)
        machine.offsets_make_sense()

    held = random.random() < 0.75
    rules = _rules(random)
    mixture = [name for name in rules if (held or name not in NEEDS_HELD_THREADS) and random.random() < 0.75]
    weights = [random.choice(WEIGHTS) * RARE.get(name, 1) for name in mixture]
    happens(
        "start",
        seed=random.randrange(1 << 32),
        held=held,
        direct=random.random() < 0.5,
        journal_blocks=random.choice((2, 4, 16)),
    )
    for _ in range(random.choice(LENGTHS)):
        [name] = random.choices(mixture, weights)
        happens(name, **rules[name]())
    happens("settle")
    happens("restart")


def test_every_rule_of_the_machine_takes_part() -> None:
    known = {name for name in dir(LogMachine) if hasattr(getattr(LogMachine, name), "hypothesis_stateful_rule")}
    assert set(_rules(Random(0))) == known


@pytest.mark.timeout(7200)  # for the long campaign
@pytest.mark.parametrize("part", range(4))
def test_whatever_life_it_has_nothing_promised_is_lost(
    rig_class: Any, crash_class: Any, soak: bool, small_limits: None, part: int
) -> None:
    LogMachine.rig_class, LogMachine.crash_class = rig_class, crash_class
    lives = 2500 if soak else 6
    for seed in range(part * lives, (part + 1) * lives):
        machine, story = LogMachine(), list[str]()
        try:
            _live(machine, seed, story)
        except BaseException as error:
            error.add_note(f"seed {seed}\n" + "\n".join(story))
            raise
        finally:
            machine.teardown()
