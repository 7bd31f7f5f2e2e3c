"""How `produce` cuts its input into records' bytes, from a pipe, a file or a terminal.

The input is read as it comes, so a record goes out as soon as its delimiter has arrived and nothing more is waiting: `IDLE`
marks those moments. Memory is bounded by the longest record, and that by `MAX_RECORD_BYTES`.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_RECORD_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """One record's bytes and where they stood."""

    data: bytes
    line: int
    source: str
    end: int  # how many bytes of the source have been used, delimiter included


class Idle:
    """No more input is waiting at the moment."""


IDLE: Final = Idle()


class TooLong(ValueError):
    pass


@contextmanager
def opened(path: Path, note: Callable[[str], None], hint: str) -> Iterator[tuple[int, str]]:
    """The input and its name; `-` is stdin, where somebody who types is told the hint."""
    if str(path) == "-":
        if sys.stdin.isatty():
            note(hint)
        yield sys.stdin.fileno(), "stdin"
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd, str(path)
    finally:
        os.close(fd)


def pieces(fd: int, source: str, delimiter: bytes) -> Iterator[Piece | Idle]:
    """The input cut at `delimiter`; without one it is a single piece. What follows the last delimiter counts unless it is
    empty, and a carriage return before a newline is dropped, as a terminal or an editor on Windows leaves it."""
    held = bytearray()
    searched = 0
    line = 0
    used = 0
    regular = stat.S_ISREG(os.fstat(fd).st_mode)
    while True:
        if not regular and not _ready(fd):
            yield IDLE
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            break
        held += chunk
        if delimiter:
            start = 0
            while (at := held.find(delimiter, max(start, searched))) >= 0:
                line += 1
                end = at + len(delimiter)
                yield Piece(_trimmed(bytes(held[start:at]), delimiter), line, source, used + end)
                start = searched = end
            del held[:start]
            used += start
            searched = max(0, len(held) - len(delimiter) + 1)
        if len(held) > MAX_RECORD_BYTES:
            limit = MAX_RECORD_BYTES // (1024 * 1024)
            raise TooLong(f"{source}, record {line + 1}: longer than {limit} MiB; is the delimiter right?")
    if held:
        yield Piece(_trimmed(bytes(held), delimiter), line + 1, source, used + len(held))


def _trimmed(data: bytes, delimiter: bytes) -> bytes:
    return data.removesuffix(b"\r") if delimiter == b"\n" else data


def _ready(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])
