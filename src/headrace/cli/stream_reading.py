"""`headrace stream get` and `tail`: records of a stream to stdout.

`get` begins at the oldest record and ends where the stream ends; `tail` begins with what is put from now on and waits for more.
Both read all shards, parents to their end before their children, or those that are named. Data is written as it is, never
decoded; as JSON a record is one object a line, which `stream put -f json` reads back.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.cli import arguments
from headrace.cli.printing import ENCODERS
from headrace.cli.progress import Progress
from headrace.cli.session import CommandError, Stopped, UsageError, uninterrupted, write_out
from headrace.cli.streaming import Name, StreamSession, count_of, shard_id, stream_named
from headrace.client.kinesis.api import Kinesis
from headrace.client.kinesis.reader import StreamReader
from headrace.client.kinesis.start import Start
from headrace.client.kinesis.values import Record

_OLDEST = ("trim-horizon", "earliest", "oldest", "start", "beginning")
_NEWEST = ("latest", "newest", "end")
_CHUNK_BYTES = 64 * 1024


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"


From = Annotated[
    str,
    typer.Option("--from", "-o", metavar="POSITION", help="Where to begin: trim-horizon, latest, a time, a sequence number."),
]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="NUMBER", help="Begin behind this sequence number.", show_default=False),
]
ShardOption = Annotated[
    list[str], typer.Option("--shard", "-S", metavar="SHARD", help="Only this shard, by number or id; repeat for more.")
]
Count = Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after this many records.", show_default=False)]
FormOption = Annotated[Form, typer.Option("--format", "-f", help="text, hex, base64, or json: an object a line.")]
KeyDelimiter = Annotated[
    str | None,
    typer.Option("--key-delimiter", "-K", metavar="TEXT", help="Print the key, this, and the data.", show_default=False),
]
Delimiter = Annotated[
    str, typer.Option("--delimiter", "-D", metavar="TEXT", help="What to print behind a record.", show_default=r"\n")
]
Key = Annotated[str | None, typer.Option("--key", "-k", help="Only records with this partition key.", show_default=False)]
Grep = Annotated[
    str | None, typer.Option("--grep", metavar="REGEX", help="Only records whose data has a match.", show_default=False)
]


def get(
    session: StreamSession,
    stream: Name,
    from_: From = "trim-horizon",
    after: After = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more at the end.")] = False,
    shard: ShardOption = [],  # noqa: B006
    count: Count = None,
    form: FormOption = Form.TEXT,
    key_delimiter: KeyDelimiter = None,
    delimiter: Delimiter = "\\n",
    key: Key = None,
    grep: Grep = None,
) -> None:
    """Print the records of a stream, from the oldest to where it ends now."""
    printer = _Printer(_writer(session, form, key_delimiter, delimiter), _wanted(key, grep), count)
    _read(session, stream, _start(from_, after), shard, printer, follow=follow)


def tail(
    session: StreamSession,
    stream: Name,
    from_: From = "latest",
    after: After = None,
    shard: ShardOption = [],  # noqa: B006
    count: Count = None,
    form: FormOption = Form.TEXT,
    key_delimiter: KeyDelimiter = None,
    delimiter: Delimiter = "\\n",
    key: Key = None,
    grep: Grep = None,
) -> None:
    """Print what is put from now on, until Ctrl-C: the same as 'get --from latest --follow'."""
    printer = _Printer(_writer(session, form, key_delimiter, delimiter), _wanted(key, grep), count)
    _read(session, stream, _start(from_, after), shard, printer, follow=True)


def _read(session: StreamSession, stream: str, start: Start, shards: list[str], printer: _Printer, *, follow: bool) -> None:
    only = [shard_id(text) for text in shards] or None
    progress = Progress("Reading", shown=not follow and not session.quiet and not sys.stdout.isatty())
    try:
        with session.kinesis() as kinesis, stream_named(session, kinesis, stream):
            if start.sequence_number is not None or only is not None:
                only = _only(kinesis, stream, only, start)
            reader = StreamReader(kinesis, stream, start, only=only)
            for records in reader.forever() if follow else reader.until_end():
                printer.take(records)
                progress.update(printer.printed)
                if printer.full:
                    return
            if follow:
                session.note(f"{stream}: {'the shard is' if only and len(only) == 1 else 'the shards are'} closed")
    except Stopped:
        progress.stop()
        session.note(count_of(printer.printed, "record"))
        raise
    finally:
        progress.stop()


def _only(kinesis: Kinesis, stream: str, wanted: list[str] | None, start: Start) -> list[str]:
    """The shards that were named, if there are such; a sequence number is of one shard."""
    known = [shard.shard_id for shard in kinesis.shards(stream)]
    if wanted is None:
        wanted = known
    for one in wanted:
        if one not in known:
            raise CommandError(f"stream '{stream}' has no shard '{one}'; see 'headrace stream shards {stream}'")
    if start.sequence_number is not None and len(wanted) != 1:
        raise UsageError("a sequence number is of one shard: name it with --shard")
    return wanted


def _start(text: str, after: str | None) -> Start:
    if after is not None:
        if not _is_number(after):
            raise UsageError(f"--after: {after!r} is not a sequence number")
        return Start.after(after)
    if text.lower().replace("_", "-") in _OLDEST:
        return Start.trim_horizon()
    if text.lower() in _NEWEST:
        return Start.latest()
    if _is_number(text):
        return Start.at(text)
    return Start.at_time(arguments.moment(text, "--from"))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


class _Printer:
    """Prints what passes the filters, up to a number."""

    def __init__(self, write: Callable[[Record], bytes], wanted: list[Callable[[Record], bool]], count: int | None) -> None:
        self._write = write
        self._wanted = wanted
        self._count = count
        self.printed = 0

    @property
    def full(self) -> bool:
        return self._count is not None and self.printed >= self._count

    def take(self, records: list[Record]) -> None:
        chunk = bytearray()
        printed = self.printed
        for record in records:
            if self._count is not None and printed >= self._count:
                break
            if all(passes(record) for passes in self._wanted):
                chunk += self._write(record)
                printed += 1
            if len(chunk) >= _CHUNK_BYTES:
                self._flush(chunk, printed)
                chunk.clear()
        self._flush(chunk, printed)

    def _flush(self, chunk: bytearray, printed: int) -> None:
        with uninterrupted():  # what was printed is counted
            if chunk:
                write_out(bytes(chunk))
            self.printed = printed


def _writer(session: StreamSession, form: Form, key_delimiter: str | None, delimiter: str) -> Callable[[Record], bytes]:
    if session.json or form is Form.JSON:
        if key_delimiter is not None:
            raise UsageError("JSON has the key in it: leave out --key-delimiter")
        return lambda record: json.dumps(record_object(record), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    encode = ENCODERS[form.value]
    behind = arguments.delimiter(delimiter, "--delimiter")
    if key_delimiter is None:
        return lambda record: encode(record.data) + behind
    between = arguments.delimiter(key_delimiter, "--key-delimiter")
    return lambda record: record.partition_key.encode() + between + encode(record.data) + behind


def record_object(record: Record) -> dict[str, Any]:
    """The documented object; data that is not UTF-8 comes as `data_base64`."""
    try:
        data = {"data": record.data.decode()}
    except UnicodeDecodeError:
        data = {"data_base64": base64.b64encode(record.data).decode()}
    return {
        "shard": record.shard_id,
        "sequence_number": record.sequence_number,
        "partition_key": record.partition_key,
        "arrived": record.arrived_ms,
        **data,
    }


def _wanted(key: str | None, grep: str | None) -> list[Callable[[Record], bool]]:
    found: list[Callable[[Record], bool]] = []
    if key is not None:
        found.append(lambda record: record.partition_key == key)
    if grep is not None:
        try:
            pattern = re.compile(grep.encode("utf-8", "surrogateescape"))
        except re.error as error:
            raise UsageError(f"--grep: {grep!r} is not a regular expression: {error}") from None
        found.append(lambda record: pattern.search(record.data) is not None)
    return found
