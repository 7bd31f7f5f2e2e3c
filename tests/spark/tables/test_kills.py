"""A writer that is killed at any moment and begins again where its checkpoint says: every batch is in the table once."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.tables.conftest import STORES

from headrace.spark.tables import rows
from headrace.testing import wait_until

# As Spark does it: the batch, then the note that it is done. Numbers of batches make their rows.
WRITER = """
import sys
import pyarrow as pa
from headrace.spark.tables.store import open_store
from headrace.spark.tables.target import BatchMark, target

into, commits, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
store, schema = open_store(into), pa.schema([("k", pa.int64()), ("batch", pa.int64())])
for number in range(first, 1_000_000):
    for table, key in (("log", []), ("newest", ["k"])):
        piece = pa.RecordBatch.from_pylist([{"k": (number + n) % 7, "batch": number} for n in range(3)], schema=schema)
        store.apply(target(table, key, ["batch"] if key else []), schema, [piece], BatchMark("q", number))
    with open(commits, "a") as file:
        file.write(f"{number}\\n")
"""


def run_and_kill(into: str, commits: Path, chance: random.Random) -> None:
    """Goes on after what is noted as done; killed some milliseconds after a few batches more."""
    done = len(commits.read_text().splitlines())
    goal = done + 1 + chance.randrange(4)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, into, str(commits), str(done)], stderr=subprocess.PIPE)
    try:
        wait_until(lambda: len(commits.read_text().splitlines()) >= goal or writer.poll() is not None, timeout_s=60)
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(chance.uniform(0, 0.02))
    finally:
        writer.kill()
        words = writer.communicate()[1]
    assert not words, words.decode()


@pytest.mark.parametrize("kind", STORES)
def test_batches_of_a_writer_that_is_killed_are_in_the_table_once(
    kind: str, tmp_path: Path, store_url: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    into, commits = store_url(kind), tmp_path / "commits"
    commits.touch()
    chance = random.Random(5)
    for _ in range(40 if request.config.getoption("--soak") else 2):
        run_and_kill(into, commits, chance)
    done = len(commits.read_text().splitlines())
    log = Counter((row["k"], row["batch"]) for row in rows(into, "log"))
    last = max(batch for _, batch in log)
    assert last - done in (-1, 0)  # the one under way may be there or not, whole
    assert log == Counter(((number + n) % 7, number) for number in range(last + 1) for n in range(3))
    newest = {row["k"]: row["batch"] for row in rows(into, "newest")}
    through = max(newest.values())
    assert newest == {(number + n) % 7: number for number in range(through + 1) for n in range(3)}
