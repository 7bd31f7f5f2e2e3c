import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli import reading
from headrace.cli.reading import Idle, Piece, TooLong, pieces


def in_file(folder: Path, data: bytes, delimiter: bytes = b"\n") -> list[Piece]:
    path = folder / "input"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        return [piece for piece in pieces(fd, "input", delimiter) if isinstance(piece, Piece)]
    finally:
        os.close(fd)


def test_lines_with_their_numbers_and_how_far_they_reach(tmp_path: Path) -> None:
    assert in_file(tmp_path, b"a\nbb\n") == [Piece(b"a", 1, "input", 2), Piece(b"bb", 2, "input", 5)]


def test_the_last_line_may_lack_its_newline_and_empty_lines_count(tmp_path: Path) -> None:
    assert [piece.data for piece in in_file(tmp_path, b"\na\n\nb")] == [b"", b"a", b"", b"b"]


def test_no_input_is_no_record(tmp_path: Path) -> None:
    assert in_file(tmp_path, b"") == []


def test_windows_line_ends_are_dropped_from_lines_only(tmp_path: Path) -> None:
    assert [piece.data for piece in in_file(tmp_path, b"a\r\nb\r")] == [b"a", b"b"]
    assert [piece.data for piece in in_file(tmp_path, b"a\r;b", b";")] == [b"a\r", b"b"]


def test_without_a_delimiter_all_of_it_is_one_record(tmp_path: Path) -> None:
    assert [piece.data for piece in in_file(tmp_path, b"a\nb\n", b"")] == [b"a\nb\n"]


def test_a_record_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_RECORD_BYTES", 1024 * 1024)
    with pytest.raises(TooLong, match="record 1: longer than 1 MiB; is the delimiter right"):
        in_file(tmp_path, bytes(2 * 1024 * 1024))


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        try:
            os.close(fd)
        except OSError:
            pass


def test_a_pipe_that_has_nothing_more_at_the_moment_is_idle(pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.write(write, b"a\nb")
    found = pieces(read, "stdin", b"\n")
    assert next(found) == Piece(b"a", 1, "stdin", 2)
    assert isinstance(next(found), Idle)
    os.write(write, b"c\n")
    assert next(found) == Piece(b"bc", 2, "stdin", 5)
    os.close(write)
    assert [piece for piece in found if isinstance(piece, Piece)] == []


@given(
    st.lists(st.binary(max_size=8), max_size=20),
    st.binary(min_size=1, max_size=3).filter(lambda delimiter: delimiter != b"\n"),
    st.integers(1, 7),
)
def test_a_delimiter_is_found_however_the_input_is_cut(texts: list[bytes], delimiter: bytes, step: int) -> None:
    data = delimiter.join(texts)
    read, write = os.pipe()

    def feed() -> None:
        for start in range(0, len(data), step):
            os.write(write, data[start : start + step])
        os.close(write)

    feeder = threading.Thread(target=feed)
    feeder.start()
    found = [piece.data for piece in pieces(read, "stdin", delimiter) if isinstance(piece, Piece)]
    feeder.join()
    os.close(read)
    expected = data.split(delimiter)
    assert found == (expected[:-1] if expected[-1] == b"" else expected)
