"""The console asks the kernel for the longest slice, so that the server and the kernel's own threads interrupt it, and keeps
away from the processors that work for the server's disk."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.console.giving_way import NICE, SLICE_S, interrupted_by_disk

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


def a_machine(root: Path, folder: Path, interrupts: dict[int, str]) -> tuple[Path, Path]:
    """sysfs and proc of one whose disk with this folder has these interrupts, each with the processors that take it."""
    number = folder.stat().st_dev
    device = root / "sys" / "devices" / "pci0" / "virtio1"
    block = device / "block" / "vda" / "vda1"
    block.mkdir(parents=True)
    (root / "sys" / "dev" / "block").mkdir(parents=True)
    (root / "sys" / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}").symlink_to(block)
    (device.parent / "msi_irqs").mkdir()
    for interrupt, processors in interrupts.items():
        (device.parent / "msi_irqs" / str(interrupt)).touch()
        place = root / "proc" / "irq" / str(interrupt)
        place.mkdir(parents=True)
        (place / "effective_affinity_list").write_text(processors + "\n")
    return root / "sys", root / "proc"


def test_the_processors_that_take_the_interrupts_of_a_disk_are_known(tmp_path: Path) -> None:
    sysfs, proc = a_machine(tmp_path, tmp_path, {35: "1", 36: "2-3,5"})
    assert interrupted_by_disk(tmp_path, sysfs, proc) == {1, 2, 3, 5}


def test_a_disk_that_stands_on_others_has_their_interrupts(tmp_path: Path) -> None:
    sysfs, proc = a_machine(tmp_path, tmp_path, {36: "1"})
    whole = sysfs / "devices" / "virtual" / "block" / "dm-0"
    (whole / "slaves").mkdir(parents=True)
    (whole / "slaves" / "vda1").symlink_to(sysfs / "devices" / "pci0" / "virtio1" / "block" / "vda" / "vda1")
    (entry,) = (sysfs / "dev" / "block").iterdir()
    entry.unlink()
    entry.symlink_to(whole)
    assert interrupted_by_disk(tmp_path, sysfs, proc) == {1}


def test_where_it_can_not_be_told_no_processor_is_kept_away_from(tmp_path: Path) -> None:
    assert interrupted_by_disk(tmp_path, tmp_path / "sys", tmp_path / "proc") == set()
    assert interrupted_by_disk(tmp_path / "gone") == set()


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_a_console_keeps_away_from_the_processors_of_the_disk_where_there_are_others(tmp_path: Path) -> None:
    code = f"import os, pathlib; from headrace.console.giving_way import give_way; give_way(pathlib.Path({str(tmp_path)!r})); "
    said = subprocess.run(
        [sys.executable, "-c", code + "print(*os.sched_getaffinity(0))"], capture_output=True, text=True, check=True
    )
    all_of_them = os.sched_getaffinity(0)
    assert set(map(int, said.stdout.split())) == (all_of_them - interrupted_by_disk(tmp_path) or all_of_them)
