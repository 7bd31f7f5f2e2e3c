"""The console asks the kernel for the longest slice, so that the server and the kernel's own threads interrupt it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from headrace.console.giving_way import NICE, SLICE_S

SAYS = """
import os
from headrace.console.giving_way import give_way
before = os.nice(0)
give_way()
print(os.nice(0) - before)
for line in open("/proc/self/sched"):
    if line.startswith("se.slice"):
        print(line.split()[-1])
"""


def linux_release() -> tuple[int, int]:
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()))


@pytest.mark.skipif(sys.platform != "linux", reason="slices are Linux's")
def test_a_console_gives_way() -> None:
    said = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True).stdout.split()
    assert said[0] == str(min(NICE, 19 - os.nice(0)))
    if len(said) > 1 and linux_release() >= (6, 12) and platform.machine() in ("x86_64", "aarch64"):
        assert int(said[1]) == int(SLICE_S * 1e9)
