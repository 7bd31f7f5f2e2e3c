"""The checkpoint file: replaced as a whole, refused when it is not what was written."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.embedded.checkpoint import Checkpoint, Row, read_checkpoint, replace_file, write_checkpoint
from headrace.log.errors import RecoveryFailed
from headrace.testing.disk import SimulatedDisk

OFFSETS = st.integers(0, 2**63 - 1)
ROWS = st.dictionaries(st.tuples(st.uuids(), st.integers(0, 2**31 - 1)), st.builds(Row, *[OFFSETS] * 6), max_size=20)


@settings(max_examples=50, deadline=None)
@given(ROWS, st.booleans(), OFFSETS)
def test_what_is_written_is_read(rows: dict[tuple[UUID, int], Row], clean: bool, floor: int) -> None:
    disk = SimulatedDisk()
    checkpoint = Checkpoint(b"12345678", floor, clean, rows)
    write_checkpoint(disk, checkpoint)
    disk.crash(Random(0))
    assert read_checkpoint(disk) == checkpoint


def test_a_new_folder_has_none() -> None:
    assert read_checkpoint(SimulatedDisk()) is None


def test_any_changed_byte_is_found() -> None:
    disk = SimulatedDisk()
    write_checkpoint(disk, Checkpoint(b"12345678", 7, True, {(UUID(int=1), 0): Row(1, 2, 3, 4, 5, 6)}))
    size = disk.size("checkpoint")
    for position in range(size):
        old = disk.open("checkpoint").read(position, 1)
        disk.damage("checkpoint", position, bytes([old[0] ^ 1]))
        with pytest.raises(RecoveryFailed):
            read_checkpoint(disk)
        disk.damage("checkpoint", position, old)
    assert read_checkpoint(disk) is not None


@pytest.mark.parametrize("content", [b"", b"HRCP", b"HRCP\0\0\0\0", b"HRCP\0\0\0\0\0"])
def test_a_short_file_is_damage_not_a_crash(content: bytes) -> None:
    disk = SimulatedDisk()
    disk.open("checkpoint", create=True).write(0, (content,))
    with pytest.raises(RecoveryFailed, match="damaged"):
        read_checkpoint(disk)


def test_a_later_format_is_named() -> None:
    disk = SimulatedDisk()
    write_checkpoint(disk, Checkpoint(b"12345678", 7, True, {}))
    content = bytearray(disk.open("checkpoint").read(0, 100))
    content[9] = 9
    from headrace.record import crc32c

    content[4:8] = crc32c(bytes(content[8:])).to_bytes(4, "big")
    disk.damage("checkpoint", 0, bytes(content))
    with pytest.raises(RecoveryFailed, match="format 9"):
        read_checkpoint(disk)


@pytest.mark.parametrize("step", range(8))
@pytest.mark.parametrize("seed", range(10))
def test_a_replaced_file_is_the_old_or_the_new_one(step: int, seed: int) -> None:
    disk = SimulatedDisk()
    replace_file(disk, "a/file", b"old" * 500)
    left = [step]

    def fail() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    disk.on_step = fail
    done = False
    try:
        replace_file(disk, "a/file", b"new" * 700)
        done = True
    except KeyboardInterrupt:
        pass
    disk.crash(Random(seed))
    content = disk.open("a/file").read(0, 10_000)
    assert content in ((b"new" * 700,) if done else (b"old" * 500, b"new" * 700))
