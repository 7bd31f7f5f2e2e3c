"""The stores themselves: a real folder, what an address may be, and what a server says to settings that can't be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.settings import Settings
from headrace.log.embedded.archive.pace import NO_LIMIT, Pace
from headrace.log.embedded.archive.rows import ArchivedSegment, State
from headrace.log.embedded.archive.side import Side
from headrace.log.embedded.archive.store import FolderObjects, MissingObject, StoreError, open_store
from headrace.log.embedded.index import SparseIndex
from headrace.log.errors import InvalidConfig, RecoveryFailed, StorageError
from headrace.server import Refused, _archive


@pytest.fixture
def folder(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path / "archive")


def test_an_object_is_written_in_pieces_and_read_in_ranges(folder: FolderObjects, tmp_path: Path) -> None:
    folder.put("t/0/a.log", (bytes([number]) * 3_000_000 for number in range(10)))
    assert folder.size("t/0/a.log") == 30_000_000
    assert bytes(folder.read("t/0/a.log", 2_999_999, 3_000_001)) == b"\0\1"
    assert bytes(folder.read("t/0/a.log", 29_999_999, 30_000_010)) == b"\11"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.log"]


def test_an_object_whose_pieces_fail_is_not_there(folder: FolderObjects, tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield bytes(9 * 1024 * 1024)
        raise KeyError("the segment is gone")

    with pytest.raises(KeyError):
        folder.put("t/0/a.log", pieces())
    with pytest.raises(MissingObject):
        folder.size("t/0/a.log")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_deleting_takes_what_a_killed_upload_left_and_the_folders_that_are_empty(folder: FolderObjects, tmp_path: Path) -> None:
    folder.put("t/0/b.log", (b"x",))
    (tmp_path / "archive/t/0/a.log#1").write_bytes(b"half")
    folder.delete("t/0/a.log")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["b.log"]
    folder.delete("t/0/b.log")
    folder.delete("t/0/b.log")
    assert not (tmp_path / "archive/t").exists()


def test_a_folder_that_can_not_be_written_is_an_error_of_the_store(folder: FolderObjects, tmp_path: Path) -> None:
    (tmp_path / "archive/t").write_bytes(b"a file where a folder should be")
    with pytest.raises(StoreError):
        folder.put("t/0/a.log", (b"x",))


@pytest.mark.parametrize(
    ("url", "options", "told"),
    [
        ("ftp://somewhere", {}, "file:///path or s3://bucket/prefix"),
        ("archive", {}, "file:///path or s3://bucket/prefix"),
        ("file://relative/path", {}, "write file:///path"),
        ("file:///tmp/x", {"region": "x"}, "no headrace.archive.options"),
        ("s3:///prefix", {}, "names no bucket"),
        ("s3://bucket", {"secret_access_key": "x"}, "environment"),
        ("s3://bucket", {"AWS_SECRET_ACCESS_KEY": "x"}, "environment"),
        ("s3://bucket", {"no_such_option": "x"}, "can't be used"),
    ],
)
def test_what_can_not_be_an_archive_is_refused_with_what_to_do(url: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidConfig, match=told):
        open_store(url, options, 1.0)


def test_the_archive_needs_a_place() -> None:
    assert _archive(Settings.from_mapping({})) is None
    with pytest.raises(Refused, match="--archive URL"):
        _archive(Settings.from_mapping({"remote.log.storage.system.enable": "true"}))


def test_rows_and_side_objects_come_back_as_they_were() -> None:
    from dataclasses import replace
    from uuid import UUID

    row = ArchivedSegment.beginning("t" * 249, UUID(int=7), 3, 1 << 40, (1 << 40) + 9, 5000, bytes(range(8)))
    row = replace(row, state=State.COPIED, crc=0xFFFF_FFFF, side_bytes=77, first_timestamp=5, max_timestamp=9)
    assert ArchivedSegment.of(row.row_key, row.row()) == row
    for wrong in (b"", b"\x02" + row.row()[1:], row.row()[:1] + b"\x09" + row.row()[2:]):
        with pytest.raises(RecoveryFailed):
            ArchivedSegment.of(row.row_key, wrong)
    index = SparseIndex()
    for number in range(100):
        index.add(number * 7, number * 4096, 1000 + number)
    side = Side(index, ((1, 2, 3, 4), (5, 6, 7, 8)))
    found = Side.of(side.content(), "x")
    assert [found.index.entry(number) for number in range(100)] == [index.entry(number) for number in range(100)]
    assert found.aborted == side.aborted
    content = bytearray(side.content())
    for position in range(0, len(content), 97):
        damaged = bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(StorageError):
            Side.of(damaged, "x")


def test_copies_keep_to_their_pace() -> None:
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    pace = Pace(1000, now=lambda: now[0], sleep=sleep)
    for _ in range(10):
        pace.wait(500, lambda: False)
    assert now[0] == pytest.approx(104.5)
    pace.wait(10**9, lambda: False)
    before = now[0]
    pace.wait(1, lambda: True)
    assert now[0] == before, "a server that ends does not wait"
    pace.bytes_per_s = NO_LIMIT
    pace.wait(10**9, lambda: False)
    assert now[0] == before


def test_a_server_without_an_archive_does_not_load_obstore() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import sys, headrace.server; print('obstore' in sys.modules)"], capture_output=True, text=True
    )
    assert told.stdout == "False\n"
