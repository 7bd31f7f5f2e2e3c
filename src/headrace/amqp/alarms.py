"""When publishers have to wait: RabbitMQ's alarms, and its words for them.

Disk: the log takes nothing more, because what is left is kept in reserve. Memory: this process has more than
`MEMORY_SHARE` of what the machine, or the control group it runs in, has (`vm_memory_high_watermark`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.log.errors import DiskFull

if TYPE_CHECKING:
    from headrace.log.port import Log

LOW_ON_DISK = "low on disk"
MEMORY_SHARE = 0.6
_CONTROL_GROUP = Path("/sys/fs/cgroup/memory.max")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Alarms:
    def __init__(self, log: Log) -> None:
        self._log = log
        self.memory_limit_bytes = int(_memory_bytes() * MEMORY_SHARE)

    def reason(self) -> str:
        """Why publishers have to wait; empty when they need not."""
        disk = isinstance(self._log.refusal, DiskFull)
        memory = self.memory_limit_bytes > 0 and _used_bytes() > self.memory_limit_bytes
        if disk and memory:
            return "low on memory & disk"
        return "low on memory" if memory else LOW_ON_DISK if disk else ""


def _memory_bytes() -> int:
    """0 if it can't be known."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    except (OSError, ValueError):
        return 0
    try:
        return min(whole, int(_CONTROL_GROUP.read_text()))
    except (OSError, ValueError):  # there is none, or it says "max"
        return whole


def _used_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0
