"""Facts about the machine, without which no figure means anything."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench import rabbitmq

SYNCS = 200


@dataclass(frozen=True, slots=True)
class Machine:
    processor: str
    cores: int
    memory_gb: float
    system: str
    filesystem: str
    fdatasync_ms: float  # of 4 KB, overwritten in place
    python: str
    java: str
    compiled: bool  # Headrace's hot paths
    rabbitmq: str  # the version, or "none"

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def look(folder: Path) -> Machine:
    """`folder` is where the servers will keep their data."""
    from headrace.record import COMPILED

    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        system=f"{platform.system()} {platform.release()}",
        filesystem=filesystem(folder),
        fdatasync_ms=round(fdatasync_ms(folder), 3),
        python=platform.python_version(),
        java=_java(),
        compiled=COMPILED,
        rabbitmq=rabbitmq.version(),
    )


class Watch:
    """How much of the machine others took meanwhile: processes that are not ours, or a neighbour on the same host. Network
    interrupts are left out, because on loopback they are ours."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy, self._mine = _busy_seconds(), _own_seconds()

    def others(self) -> float:
        """The share of all cores. Children count as ours once they have ended."""
        took = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        foreign = (_busy_seconds() - self._busy) - (_own_seconds() - self._mine)
        return min(1.0, max(0.0, foreign / max(took, 1e-9)))


def _busy_seconds() -> float:
    user, nice, system, _idle, _iowait, _irq, _softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def fdatasync_ms(folder: Path) -> float:
    """The median time of a 4 KB write and fdatasync in a file that has its size already."""
    path = folder / "fdatasync"
    page, took = os.urandom(4096), []
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(fd, bytes(4096 * SYNCS), 0)
        os.fsync(fd)
        for index in range(SYNCS):
            start = time.perf_counter()
            os.pwrite(fd, page, 4096 * index)
            os.fdatasync(fd)
            took.append(time.perf_counter() - start)
    finally:
        os.close(fd)
        path.unlink()
    return median(took) * 1e3


def filesystem(folder: Path) -> str:
    """The type of the file system that holds `folder`, by the longest mount point above it."""
    resolved, best, kind = str(folder.resolve()), "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, found, *_ = line.split()
        inside = mount == "/" or resolved == mount or resolved.startswith(mount + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, found
    return kind


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _java() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30).stderr
    except OSError:
        return "none"
    return said.split('"')[1] if '"' in said else "unknown"
