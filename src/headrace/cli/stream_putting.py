"""`headrace stream put`: records from arguments, from lines of stdin or of files.

Records go out by PutRecords, up to 500 or 4 MiB at once, and as soon as no more input is waiting. What the server refuses of a
batch because a shard has had its share is sent again with growing pauses until the timeout has passed; everything else ends the
run, which says how many records were taken.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import arguments
from headrace.cli.progress import Progress
from headrace.cli.reading import Idle, Piece, TooLong, opened, pieces
from headrace.cli.session import CommandError, Stopped, UsageError
from headrace.cli.streaming import Name, StreamSession, count_of, stream_named
from headrace.client.kinesis.api import Entry, Kinesis
from headrace.client.kinesis.errors import KinesisError, NotFound
from headrace.client.kinesis.values import Put

BATCH_RECORDS = 500
_BATCH_BYTES = 4 * 1024 * 1024
_THROTTLED = "ProvisionedThroughputExceededException"
_PASSING = (_THROTTLED, "InternalFailure", "KMSThrottlingException")
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_SHOWN_SHARDS = 4
_KNOWN = {"data", "data_base64", "partition_key", "explicit_hash_key"}
_IGNORED = {"stream", "shard", "sequence_number", "arrived", "encryption"}


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"


def put(
    session: StreamSession,
    stream: Name,
    data: Annotated[list[str] | None, typer.Argument(metavar="[DATA]...", show_default=False)] = None,
    file: Annotated[
        list[Path], typer.Option("--file", "-F", metavar="PATH", help="Read a file; - is stdin; repeat for more.")
    ] = [],  # noqa: B006
    whole: Annotated[bool, typer.Option("--whole", help="Each file is one record.")] = False,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help="What ends a record.", show_default=r"\n")
    ] = "\\n",
    key: Annotated[
        str | None,
        typer.Option("--key", "-k", help="The partition key of every record.", show_default="a new one for each"),
    ] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("--key-delimiter", "-K", metavar="TEXT", help="What stands between key and data.", show_default=False),
    ] = None,
    explicit_hash_key: Annotated[
        str | None,
        typer.Option("--explicit-hash-key", metavar="N", help="Chooses the shard in place of the key.", show_default=False),
    ] = None,
    form: Annotated[Form, typer.Option("--format", "-f", help="text, hex, base64, or json: an object a line.")] = Form.TEXT,
) -> None:
    """Put records: each DATA is one, or each line of stdin or of files."""
    if data and file:
        raise UsageError("give records as arguments or as files, not both")
    if key is not None and key_delimiter is not None:
        raise UsageError("give --key or --key-delimiter, not both")
    if key is not None and not _is_text(key):
        raise UsageError("--key: is not UTF-8, and a partition key is text")
    if explicit_hash_key is not None and not (explicit_hash_key.isascii() and explicit_hash_key.isdigit()):
        raise UsageError(f"--explicit-hash-key: {explicit_hash_key!r} is not a decimal number below 2^128")
    template = Template(
        form,
        key,
        None if key_delimiter is None else arguments.delimiter(key_delimiter, "--key-delimiter"),
        explicit_hash_key,
    )
    if template.key_delimiter == b"":
        raise UsageError("--key-delimiter: is empty; leave it out for records without a key")
    cut_at = b"" if whole else arguments.delimiter(delimiter, "--delimiter")
    with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
        run = _Run(session, kinesis, stream, template, Progress("Putting", shown=not session.quiet and not data))
        with run.accounted():
            if data:
                run.take(Piece(os.fsencode(one), number, "arguments", 0) for number, one in enumerate(data, 1))
            for path in file or ([] if data else [Path("-")]):
                with opened(path, session.note, "Type one record a line; Ctrl-D ends.") as (fd, name):
                    run.take(pieces(fd, name, cut_at))
            run.flush()
    run.report()


class BadRecord(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Template:
    """What the command line says about every record."""

    form: Form
    key: str | None
    key_delimiter: bytes | None
    explicit_hash_key: str | None

    def entry(self, line: bytes) -> Entry:
        if self.form is Form.JSON:
            return self._of_json(line)
        key = self.key
        if self.key_delimiter is not None:
            before, found, line = line.partition(self.key_delimiter)
            if not found:
                raise BadRecord(f"no key delimiter {self.key_delimiter.decode(errors='replace')!r} in it")
            key = _text(before)
        return Entry(self._decoded(line), key if key is not None else _new_key(), self.explicit_hash_key)

    def _decoded(self, data: bytes) -> bytes:
        try:
            if self.form is Form.HEX:
                return bytes.fromhex(data.decode("ascii"))
            if self.form is Form.BASE64:
                return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise BadRecord("not hexadecimal" if self.form is Form.HEX else "not base64") from None
        return data

    def _of_json(self, line: bytes) -> Entry:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            raise BadRecord("not JSON") from None
        if not isinstance(found, dict):
            raise BadRecord("a JSON object is needed")
        unknown = found.keys() - _KNOWN - _IGNORED
        if unknown:
            raise BadRecord(f"unknown field {sorted(unknown)[0]!r}: the fields are {', '.join(sorted(_KNOWN))}")
        key, hash_key = found.get("partition_key", self.key), found.get("explicit_hash_key", self.explicit_hash_key)
        key = _new_key() if key is None else str(key)
        if not _is_text(key):
            raise BadRecord("'partition_key' has half of a surrogate pair, which is not text")
        return Entry(_data(found), key, None if hash_key is None else str(hash_key))


def _data(line: dict[str, Any]) -> bytes:
    if "data_base64" in line:
        try:
            return base64.b64decode(str(line["data_base64"]), validate=True)
        except (binascii.Error, ValueError):
            raise BadRecord("'data_base64' is not base64") from None
    data = line.get("data", "")
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadRecord("'data' has half of a surrogate pair, which is not text") from None


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise BadRecord("the key is not UTF-8, and a partition key is text") from None


def _is_text(key: str) -> bool:
    """What a shell passes on, or JSON, may have halves of surrogate pairs in it."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _new_key() -> str:
    """Records without a key are spread over all shards."""
    return uuid.uuid4().hex


@dataclass(slots=True)
class _Taken:
    """What one shard took."""

    records: int = 0
    first: str = ""
    last: str = ""


@dataclass(slots=True)
class _Run:
    """One run of the command: what was read, what was taken, and how to say so whatever happens."""

    session: StreamSession
    kinesis: Kinesis
    stream: str
    template: Template
    progress: Progress
    waiting: list[Entry] = field(default_factory=list)
    waiting_bytes: int = 0
    taken: dict[str, _Taken] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return sum(one.records for one in self.taken.values())

    def take(self, source: Iterator[Piece | Idle]) -> None:
        """A bad record ends the run, but what stood before it is put first."""
        while True:
            try:
                piece = next(source, None)
            except TooLong as error:
                self.flush()
                raise CommandError(str(error)) from None
            if piece is None:
                return
            if isinstance(piece, Idle):
                self.flush()
                continue
            try:
                entry = self.template.entry(piece.data)
            except BadRecord as error:
                self.flush()
                raise CommandError(f"{piece.source}, line {piece.line}: {error}") from None
            size = len(entry.data) + len(entry.partition_key.encode())
            if len(self.waiting) >= BATCH_RECORDS or (self.waiting and self.waiting_bytes + size > _BATCH_BYTES):
                self.flush()
            self.waiting.append(entry)
            self.waiting_bytes += size

    def flush(self) -> None:
        deadline = time.monotonic() + self.session.timeout_s
        pause_s = _FIRST_PAUSE_S
        while self.waiting:
            results = self.kinesis.put_records(self.stream, self.waiting)
            for result in results:
                if result.error is None:
                    self._note(result)
            refused = [(entry, result) for entry, result in zip(self.waiting, results, strict=True) if result.error]
            self.waiting = [entry for entry, _ in refused]
            self.progress.update(self.records)
            if refused:
                worst = next((result for _, result in refused if result.error not in _PASSING), refused[0][1])
                if worst.error not in _PASSING or time.monotonic() + pause_s > deadline:
                    raise CommandError(f"stream '{self.stream}': {worst.message or 'refused'} ({worst.error})")
                time.sleep(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
        self.waiting_bytes = 0

    def _note(self, result: Put) -> None:
        one = self.taken.setdefault(result.shard_id or "", _Taken())
        one.records += 1
        one.first = one.first or result.sequence_number or ""
        one.last = result.sequence_number or ""

    @contextmanager
    def accounted(self) -> Iterator[None]:
        """Whatever ends the run early, says how much was taken."""
        try:
            yield
        except Stopped:
            self.progress.stop()
            self.session.note(f"Interrupted: {self._account()}.")
            raise
        except NotFound:
            raise
        except KinesisError as error:
            error.args = (f"{error}; {self._account()}",)
            raise
        except CommandError as error:
            raise CommandError(f"{error}; {self._account()}") from None
        finally:
            self.progress.stop()

    def _account(self) -> str:
        rest = f", {count_of(len(self.waiting), 'record')} not" if self.waiting else ""
        return f"{count_of(self.records, 'record')} {'was' if self.records == 1 else 'were'} put{rest}"

    def report(self) -> None:
        rows = [
            {
                "shard": shard,
                "records": one.records,
                "first_sequence_number": one.first,
                "last_sequence_number": one.last,
            }
            for shard, one in sorted(self.taken.items())
        ]
        if self.session.json:
            self.session.emit({"stream": self.stream, "records": self.records, "shards": rows})
            return
        if len(rows) > _SHOWN_SHARDS:
            where = f" in {len(rows)} shards"
        else:
            where = "".join(f", {shard} to {one.last}" for shard, one in sorted(self.taken.items()))
        self.session.note(f"{count_of(self.records, 'record')} to {self.stream}{where}")
