"""The journal: frames that are whole or nothing, a ring that is used again, and what a start makes of the bytes it finds."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.embedded.journal import BATCH, TRIM, Entry, Journal, read_frames
from headrace.log.embedded.layout import JOURNAL
from headrace.log.errors import RecoveryFailed
from headrace.testing.disk import SimulatedDisk

KEY = b"folder-1"
BLOCK = 4096


def _journal(disk: Any, next_sequence: int = 1, **shape: int) -> Journal:
    shape = {"file_bytes": 8 * BLOCK, "files": 3} | shape
    return Journal(disk, key=KEY, next_sequence=next_sequence, **shape)


def _entry(number: int, size: int = 10) -> Entry:
    return Entry(BATCH, UUID(int=number), number, number * 10, number * 100, bytes([number % 256]) * size)


def test_frames_come_back_in_order_with_every_field() -> None:
    disk = SimulatedDisk()
    journal = _journal(disk)
    first = [_entry(1), Entry(TRIM, UUID(int=9), 2**31 - 1, 0, 2**63 - 1, b"")]
    assert journal.write(first)
    assert journal.write([_entry(2, BLOCK + 1)])
    assert read_frames(disk, KEY, 1) == ([first, [_entry(2, BLOCK + 1)]], 3)
    assert read_frames(disk, KEY, 2) == ([[_entry(2, BLOCK + 1)]], 3)
    assert read_frames(disk, KEY, 3) == ([], 3)


def test_a_frame_is_durable_when_write_returns() -> None:
    for seed in range(20):
        disk = SimulatedDisk()
        journal = _journal(disk)
        for number in range(1, 6):
            assert journal.write([_entry(number)])
        disk.crash(Random(seed))
        assert read_frames(disk, KEY, 1)[0] == [[_entry(number)] for number in range(1, 6)]


def test_each_frame_has_blocks_of_its_own() -> None:
    disk = SimulatedDisk()
    journal = _journal(disk)
    journal.write([_entry(1)])
    journal.write([_entry(2)])
    content = disk.open("journal/0").read(0, 3 * BLOCK)
    assert content[:4] == content[BLOCK : BLOCK + 4] == b"HRJF"


@pytest.mark.parametrize("byte", [0, 5, 9, 17, 25, 33, 40, 60, 75])
def test_a_torn_last_frame_is_nothing(byte: int) -> None:
    disk = SimulatedDisk()
    journal = _journal(disk)
    journal.write([_entry(1)])
    journal.write([_entry(2)])
    at = BLOCK + byte
    old = disk.open("journal/0").read(at, 1)
    disk.damage("journal/0", at, bytes([old[0] ^ 0x55]))
    frames, next_sequence = read_frames(disk, KEY, 1)
    assert frames == [[_entry(1)]]
    assert next_sequence == 2


def test_a_torn_frame_before_a_whole_one_is_damage_and_said_so() -> None:
    disk = SimulatedDisk()
    journal = _journal(disk)
    for number in (1, 2, 3):
        journal.write([_entry(number)])
    disk.damage("journal/0", BLOCK + 50, b"\xff\xff")
    with pytest.raises(RecoveryFailed, match="lacks frame 2 but has frame 3"):
        read_frames(disk, KEY, 1)
    assert read_frames(disk, KEY, 3)[0] == [[_entry(3)]]


def test_frames_of_another_folder_or_in_a_record_are_not_taken() -> None:
    disk = SimulatedDisk()
    other = Journal(disk, key=b"folder-2", next_sequence=2, file_bytes=8 * BLOCK, files=3)
    other.write([_entry(7)])
    imitation = disk.open("journal/0").read(0, BLOCK)
    journal = _journal(disk)
    padding = BLOCK - 32 - 48
    journal.write([Entry(BATCH, UUID(int=1), 0, 0, 0, bytes(padding) + imitation)])
    frames, _ = read_frames(disk, KEY, 1)
    assert len(frames) == 1
    assert frames[0][0].content == bytes(padding) + imitation


def test_a_full_ring_has_no_room_until_the_floor_rises() -> None:
    disk = SimulatedDisk()
    journal = _journal(disk, file_bytes=2 * BLOCK, files=2)
    written = 0
    while journal.write([_entry(written + 1)]):
        written += 1
    assert written == 4
    journal.raise_floor(3)
    assert journal.write([_entry(5)])
    assert journal.write([_entry(6)])
    assert not journal.write([_entry(7)])
    assert read_frames(disk, KEY, 3)[0] == [[_entry(number)] for number in (3, 4, 5, 6)]


def test_a_file_that_was_made_ready_is_used_as_soon_as_the_one_in_use_would_have_to_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.log.embedded.journal._STEP_BYTES", BLOCK)
    monkeypatch.setattr("headrace.log.embedded.journal._PREPARED_BYTES", 3 * BLOCK)
    disk = SimulatedDisk()
    journal = _journal(disk, file_bytes=4 * BLOCK, files=3)
    assert journal.write([_entry(1)])
    assert journal.prepare()
    assert journal.write([_entry(2)])  # the other one is not ready yet
    assert (journal.growths, journal.filled_files) == (2, 0)
    assert journal.prepare()
    assert journal.write([_entry(3)])
    assert (journal.growths, journal.filled_files) == (2, 1)
    while journal.prepare():
        pass
    assert [disk.size(f"{JOURNAL}/{number}") for number in range(3)] == [4 * BLOCK] * 3
    written = 3
    while journal.write([_entry(written + 1)]):
        written += 1
    assert (written, journal.growths) == (2 + 4 + 4, 2)
    journal.raise_floor(3)
    assert journal.write([_entry(11)])
    assert read_frames(disk, KEY, 3)[0] == [[_entry(number)] for number in range(3, 12)]


def test_a_disk_that_is_full_while_a_file_is_made_ready_loses_nothing() -> None:
    disk = SimulatedDisk()
    journal = _journal(disk, file_bytes=4 * BLOCK, files=2)
    assert journal.write([_entry(1)])
    disk.capacity_bytes = 5 * BLOCK
    with pytest.raises(OSError, match="full"):
        journal.prepare()
    assert journal.write([_entry(2)])
    disk.capacity_bytes = None
    assert journal.prepare()
    assert not journal.prepare()
    assert read_frames(disk, KEY, 1)[0] == [[_entry(1)], [_entry(2)]]


def test_the_floor_never_falls() -> None:
    journal = _journal(SimulatedDisk())
    journal.raise_floor(5)
    journal.raise_floor(3)
    assert journal.floor == 5


def test_a_frame_larger_than_a_file_is_refused_or_its_file_grows() -> None:
    disk = SimulatedDisk()
    journal = _journal(disk, file_bytes=2 * BLOCK)
    large = _entry(1, 5 * BLOCK)
    assert not journal.write([large])
    assert journal.write([_entry(9)])
    assert journal.write([large], at_any_size=True)
    assert journal.write([_entry(2)])
    assert read_frames(disk, KEY, 1)[0] == [[_entry(9)], [large], [_entry(2)]]


def test_no_space_is_no_room_and_leaves_the_journal_usable() -> None:
    disk = SimulatedDisk(capacity_bytes=BLOCK)
    journal = _journal(disk)
    assert not journal.write([_entry(1)])
    disk.capacity_bytes = None
    assert journal.write([_entry(1)])
    assert read_frames(disk, KEY, 1)[0] == [[_entry(1)]]


def test_a_failed_sync_is_raised() -> None:
    disk = SimulatedDisk()
    journal = _journal(disk)
    journal.write([_entry(1)])
    disk.fail_next_syncs = 1
    with pytest.raises(OSError, match="sync"):
        journal.write([_entry(2)])


@settings(max_examples=60, deadline=None)
@given(
    lives=st.lists(st.lists(st.sampled_from((10, 4000, 5000, 9000)), max_size=12), min_size=1, max_size=4),
    seed=st.integers(0, 1 << 32),
    lag=st.integers(0, 4),
)
def test_every_frame_from_the_floor_on_survives_any_number_of_lives(lives: list[list[int]], seed: int, lag: int) -> None:
    """Each life uses the ring again, and loses power while it writes one more frame."""
    random = Random(seed)
    disk = SimulatedDisk()
    floor, number = 1, 0
    kept: list[Entry] = []
    next_sequence = 1
    for sizes in lives:
        journal = _journal(disk, next_sequence, file_bytes=4 * BLOCK)
        first = floor = next_sequence
        kept = []
        for size in sizes:
            number += 1
            if journal.write([_entry(number, size)]):
                kept.append(_entry(number, size))
            journal.raise_floor(max(first, journal.next_sequence - lag))
        steps = [random.randrange(4)]

        def fail(steps: list[int] = steps) -> None:
            steps[0] -= 1
            if steps[0] < 0:
                raise KeyboardInterrupt

        disk.on_step = fail
        torn = _entry(250, 3000)
        try:
            journal.write([torn])
        except KeyboardInterrupt:
            pass
        disk.crash(random)
        floor = max(first, journal.floor)
        frames, next_sequence = read_frames(disk, KEY, floor)
        wanted = [[entry] for entry in kept[floor - first :]]
        assert frames in (wanted, [*wanted, [torn]])
        assert next_sequence == floor + len(frames)
