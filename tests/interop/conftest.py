"""Fixtures for tests with other projects' clients.

The tests run on a Headrace of their own, or, with `HEADRACE_INTEROP_BOOTSTRAP=host:port`, on whatever Kafka listens there:
that is how they are known to be right. (A real Kafka should be set up with `group.initial.rebalance.delay.ms=0`,
`group.min.session.timeout.ms=100` and `num.partitions=4`, as ours is.)
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import HeadraceServer, wait_until

AUTO_CREATED_PARTITIONS = 4


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address under test."""
    if outside := os.environ.get("HEADRACE_INTEROP_BOOTSTRAP"):
        return outside
    return request.getfixturevalue("headrace_shared_server").kafka


@pytest.fixture(scope="session")
def quick_groups() -> Iterator[str]:
    """The address of a server whose consumer groups (KIP-848) have heartbeats every 300 ms, not every 5 s."""
    if outside := os.environ.get("HEADRACE_INTEROP_BOOTSTRAP"):
        yield outside
        return
    quick = {
        "num.partitions": AUTO_CREATED_PARTITIONS,
        "group.consumer.heartbeat.interval.ms": 300,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.session.timeout.ms": 3000,
        "group.consumer.min.session.timeout.ms": 1000,
        "group.consumer.assignment.interval.ms": 0,
        "log.retention.check.interval.ms": 86_400_000,
    }
    with HeadraceServer(settings=quick) as server:
        yield server.kafka


@pytest.fixture(scope="session")
def unique() -> Callable[[str], str]:
    """Names that no other test and no earlier run has used: `unique("orders")` is `orders-1f3c…`."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def make_topic(admin: AdminClient, unique: Callable[[str], str]) -> Iterator[Callable[..., str]]:
    """Creates topics with names of their own, and deletes them after the test: `make_topic(partitions=3, **config)`."""
    made: list[str] = []

    def make(partitions: int = 1, config: Mapping[str, str] | None = None, stem: str = "interop") -> str:
        name = unique(stem)
        admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result(15)
        made.append(name)
        # Kafka's controller answers before its broker knows the topic, and a client that asks in between may not ask again.
        wait_until(lambda: known(name) == partitions, what=f"topic {name}")
        return name

    def known(name: str) -> int:
        topic = admin.list_topics(name, timeout=15).topics[name]
        return 0 if topic.error else sum(partition.leader >= 0 for partition in topic.partitions.values())

    yield make
    for future in admin.delete_topics(made).values() if made else ():
        future.exception(15)  # a test may have deleted it already


class Sample(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


@pytest.fixture(scope="session")
def samples() -> list[Sample]:
    """Records that find out what a codec forgets: null and empty in every place, headers that repeat, times out of order,
    bytes that don't compress, one that is large."""
    noise = random.Random(20240607)
    now = 1_700_000_000_000
    plain: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"key", b"value", []),
        (None, b"no key", []),
        (b"no value", None, []),
        (None, None, []),
        (b"", b"", []),
        (b"headers", b"x", [("a", b"1"), ("b", b"2"), ("a", b"3")]),
        (b"odd headers", b"x", [("", b"empty name"), ("null", None), ("empty", b""), ("ünïcode ✓", b"\x00\xff")]),
        (b"compressible", b"abc" * 20_000, []),
        (b"noise", noise.randbytes(50_000), [("n", noise.randbytes(300))]),
        ("κλειδί".encode(), "värde 🚰".encode(), []),
        (bytes(range(256)), bytes(range(256)) * 4, []),
        (b"large", noise.randbytes(700_000), []),
    ]
    plain += [(str(n).encode(), noise.randbytes(n % 50), [("n", str(n).encode())] if n % 3 == 0 else []) for n in range(80)]
    return [Sample(*record, now + number * 7 - (number % 4) * 1000) for number, record in enumerate(plain)]


class Member:
    """A consumer-group member in a process of its own (member.py)."""

    def __init__(self, folder: Path, **given: object) -> None:
        self._output = folder / f"member-{uuid.uuid4().hex[:8]}.jsonl"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("member.py")), json.dumps(given)],
                stdin=subprocess.DEVNULL,
                stdout=output,
            )

    def _events(self) -> list[dict[str, list[int]]]:
        whole_lines = self._output.read_text().split("\n")[:-1]
        return [json.loads(line) for line in whole_lines]

    def assigned(self) -> list[int]:
        return next((event["assigned"] for event in reversed(self._events()) if "assigned" in event), [])

    def read(self) -> list[tuple[int, int]]:
        return [(event["read"][0], event["read"][1]) for event in self._events() if "read" in event]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def make_member(bootstrap: str, tmp_path: Path) -> Iterator[Callable[..., Member]]:
    """Starts members: `make_member(client="confluent", group=…, topic=…, session_timeout_ms=…)`; kills what is left."""
    members: list[Member] = []

    def make(**given: object) -> Member:
        members.append(Member(tmp_path, bootstrap=bootstrap, **given))
        return members[-1]

    yield make
    for member in members:
        member.kill()
