"""The console goes behind the server where both want the same processor.

A lower priority alone does not do it: Linux lets whoever runs go on until the end of its slice, up to the next tick, even when
something more urgent wakes up meanwhile: the server, or the kernel's thread that syncs for it and can't move to another
processor. Only somebody whose slice is shorter than that of the one who runs gets its turn at once. So the console asks for the
longest slice there is (Linux 6.12 and later; others don't look at it), and everything with an ordinary one interrupts it.

And for the lowest priority: with one halfway (10), p99 of the server beside a busy console was half as long again. Where others
want all of the machine, pages open as fast as before in the median, and the slowest in 1.6 s in place of 0.6.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

NICE = 19  # the lowest
SLICE_S = 0.1  # the longest that Linux takes
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_ATTRIBUTES = struct.Struct("=IIQiIQQQII")  # size, policy, flags, nice, priority, runtime, deadline, period, clamps


def give_way() -> None:
    """This thread, and those that it starts from now on."""
    nice = os.nice(NICE)
    number = _SCHED_SETATTR.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, int(SLICE_S * 1e9), 0, 0, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, wanted, 0)  # where that is refused it is merely less polite
