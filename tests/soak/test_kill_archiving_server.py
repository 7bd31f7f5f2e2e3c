"""A server that archives is killed with SIGKILL again and again, while an idempotent producer writes: in the end every record
is there once and in order from the first offset, most of them in the archive, and a deleted topic leaves nothing there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.soak.test_kill_server import PARTITIONS, PROGRESS_TIMEOUT_S, QUIET, TOPIC, Load, reads_exactly

from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

SETTINGS = {
    "remote.log.manager.task.interval.ms": 20,
    "log.retention.check.interval.ms": 100,
    "log.retention.ms": -1,
}
ENOUGH_RECORDS = 12_000  # so that every partition has closed segments, whatever chance decided
CONFIG = {"internal.segment.bytes": "60000", "remote.storage.enable": "true", "local.retention.bytes": "100000"}


def test_every_acknowledged_record_survives_a_server_killed_while_it_archives(
    headrace_factory: Any, kills: int, chance: Random, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    server: HeadraceServer = headrace_factory(settings=SETTINGS, arguments=["--archive", f"file://{archive}"])
    admin = AdminClient({"bootstrap.servers": server.kafka, **QUIET})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=CONFIG)])[TOPIC].result(20)
    load = Load(server.kafka, chance.randrange(2**32))
    load.start()
    for kill in range(kills):
        goal = load.count + chance.randrange(1, 6000)
        wait_until(
            lambda goal=goal: load.count >= goal or load.errors,
            timeout_s=PROGRESS_TIMEOUT_S,
            what=f"progress before kill {kill}",
        )
        assert not load.errors
        time.sleep(chance.uniform(0, 0.1))  # not to wait for anything: so that the kill meets any moment of a copy
        server.crash()
        server.restart()
    wait_until(
        lambda: load.count >= ENOUGH_RECORDS or load.errors, timeout_s=PROGRESS_TIMEOUT_S, what="enough to fill some segments"
    )
    load.finish()
    wait_until(lambda: _names(archive), timeout_s=PROGRESS_TIMEOUT_S, what="something in the archive")
    reads_exactly(server.kafka, load.sent)
    server.restart()
    reads_exactly(server.kafka, load.sent)
    admin.delete_topics([TOPIC])[TOPIC].result(20)
    wait_until(lambda: not _names(archive), timeout_s=PROGRESS_TIMEOUT_S, what="an empty archive")


def _names(archive: Path) -> list[str]:
    return [name for _, _, names in os.walk(archive) for name in names]  # takes no offence at folders that go meanwhile
