"""The console goes behind the server where both want the same processor.

A lower priority alone does not do it: Linux lets whoever runs go on until the end of its slice, up to the next tick, even when
something more urgent wakes up meanwhile: the server, or the kernel's thread that syncs for it and can't move to another
processor. Only somebody whose slice is shorter than that of the one who runs gets its turn at once. So the console asks for the
longest slice there is (Linux 6.12 and later; others don't look at it), and everything with an ordinary one interrupts it.

And for the lowest priority: with one halfway (10), p99 of the server beside a busy console was half as long again. Where others
want all of the machine, pages open as fast as before in the median, and the slowest in 1.6 s in place of 0.6.

And it keeps away from the processors that take the interrupts of the server's disk, where there are others: the kernel's thread
that syncs is bound to those, and with whatever priority and slice, somebody who computed there for 2 % of the time made p99 of
synced writes 1.3 to 3.4 times as long; elsewhere it was 0.95 to 1.35. A disk with a queue for each processor, as
NVMe has them, takes its interrupts where the server runs, and then there is nothing to keep away from.

Last, its timers may be late by `SLACK_S`: the sixty that are due in a second while many pages are open come together, and wake
a processor up a third as often.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

NICE = 19  # the lowest
SLICE_S = 0.1  # the longest that Linux takes
SLACK_S = 0.05
_PR_SET_TIMERSLACK = 29
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_ATTRIBUTES = struct.Struct("=IIQiIQQQII")  # size, policy, flags, nice, priority, runtime, deadline, period, clamps


def give_way(to_disk_of: Path | None = None) -> None:
    """This thread, and those that it starts from now on; also to the disk on which this folder is."""
    nice = os.nice(NICE)
    if sys.platform != "linux":
        return
    kernel = ctypes.CDLL(None)  # where it refuses any of this, the console is merely less polite
    number = _SCHED_SETATTR.get(platform.machine())
    if number is not None:
        wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, int(SLICE_S * 1e9), 0, 0, 0, 0)
        kernel.syscall(number, 0, wanted, 0)
    kernel.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(int(SLACK_S * 1e9)), 0, 0, 0)
    others = os.sched_getaffinity(0) - interrupted_by_disk(to_disk_of) if to_disk_of is not None else set()
    if others:
        with suppress(OSError):
            os.sched_setaffinity(0, others)


def interrupted_by_disk(folder: Path, sysfs: Path = Path("/sys"), proc: Path = Path("/proc")) -> set[int]:
    """The processors that take the interrupts of the disk on which a folder is; none where that can't be told."""
    found: set[int] = set()
    with suppress(OSError, ValueError):
        number = folder.stat().st_dev
        block = (sysfs / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
        for disk in _below(block):
            device = next((each for each in disk.parents if (each / "msi_irqs").is_dir()), None)
            for interrupt in (device / "msi_irqs").iterdir() if device is not None else ():
                found |= _processors((proc / "irq" / interrupt.name / "effective_affinity_list").read_text())
    return found


def _below(block: Path) -> Iterator[Path]:
    """The devices on which one stands that is made of others (LVM, encryption, RAID), or itself."""
    beneath = sorted((block / "slaves").iterdir()) if (block / "slaves").is_dir() else []
    for each in beneath:
        yield from _below(each.resolve(strict=True))
    if not beneath:
        yield block


def _processors(text: str) -> set[int]:
    """Of a list such as 0-2,5."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
