"""The folder of one pipeline, `<data>/pipelines/<name>/`:

    checkpoint/   offsets and state of its queries
    tables.db     its tables, unless they go elsewhere
    spark.log     what Spark, Java and the Python workers wrote in this run; spark.log.1 in the one before
    run.json      the record of the last run: who, when, with what, and how far it came
    lock          held by whoever runs it

The record is written whole and moved into place, so that it can be read at any time, after a crash as well. Whether the run it
tells of is alive is told by the lock alone, which the system lets go of when a process ends, however that came.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from headrace.spark.runner.errors import AlreadyRunning
from headrace.spark.runner.finding import check_name

STARTING, RUNNING, FINISHED, STOPPED, FAILED, KILLED = "starting", "running", "finished", "stopped", "failed", "killed"
UNAVAILABLE = "unavailable"  # what it needs is not there
_TRIES, _PAUSE_S = 20, 0.02


@dataclass(slots=True)
class RunRecord:
    pipeline: str
    target: str
    state: str
    pid: int
    host: str
    started: str
    server: str
    tables: str
    checkpoint: str
    log: str
    master: str | None = None
    remote: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    queries: list[dict[str, Any]] = field(default_factory=list)  # the last that was published of each
    ended: str | None = None
    error: str | None = None


class Home:
    def __init__(self, data: Path, name: str) -> None:
        self.name = check_name(name)
        self.folder = (data / "pipelines" / name).absolute()
        self.log = self.folder / "spark.log"
        self._record = self.folder / "run.json"
        self._lock = self.folder / "lock"

    @property
    def checkpoint(self) -> str:
        """Its last part is the short name: the gallery calls queries after it."""
        return str(self.folder / "checkpoint" / self.name.rpartition(".")[2])

    @property
    def tables(self) -> str:
        return f"sqlite:{self.folder / 'tables.db'}"

    # Running

    @contextmanager
    def held(self) -> Iterator[None]:
        """For as long as a run, or a reset, lasts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a") as file:
            if not _taken(file):
                record = self.record()
                who = f" as process {record.pid} on {record.host} since {record.started}" if record else ""
                end = f"'headrace pipeline stop {self.name}' ends it, --name runs it once more under another name"
                raise AlreadyRunning(f"{self.name} is running{who}; {end}")
            yield

    @property
    def running(self) -> bool:
        try:
            with self._lock.open("r") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def begin_log(self) -> Path:
        """A new log for a new run; the one before is kept."""
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        return self.log

    # The record

    def write(self, record: RunRecord) -> None:
        fresh = self._record.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(asdict(record), ensure_ascii=False, indent=1))
        fresh.replace(self._record)

    def record(self) -> RunRecord | None:
        """What the last run wrote; `killed` where it never came to write its end."""
        try:
            found = RunRecord(**json.loads(self._record.read_text()))
        except FileNotFoundError:
            return None
        if found.ended is None and not self.running:
            found.state = KILLED
        return found

    def delete(self) -> None:
        """Everything but the lock, which is held by who does this."""
        for path in self.folder.iterdir():
            if path == self._lock:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _taken(file: IO[str]) -> bool:
    """Those who only look hold the lock for a moment, too."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False


def homes(data: Path) -> list[Home]:
    """Every pipeline that was ever run with this data folder."""
    return [Home(data, path.parent.name) for path in sorted((data / "pipelines").glob("*/run.json"))]
