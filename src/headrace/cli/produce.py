"""`headrace produce`: records from arguments, files or stdin into a topic."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import arguments
from headrace.cli.parsing import BadRecord, Encoding, RecordParser, parse_header
from headrace.cli.progress import Progress
from headrace.cli.reading import Idle, Piece, TooLong, opened, pieces
from headrace.cli.session import CommandError, Session, Stopped, UsageError
from headrace.client.kafka import ClientError, Cluster, Producer, Refused
from headrace.client.kafka.producer import ALL
from headrace.client.kafka.topics import create_topic
from headrace.kafka.codec.errors import ErrorCode
from headrace.record.compression import Compression
from headrace.record.event import Event

_SHOWN_PARTITIONS = 4
_PROGRESS_EVERY = 100


class CompressionName(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


def produce(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="VALUE", help="Records; without any they come from files or stdin.", show_default=False),
    ] = None,
    file: Annotated[
        list[Path], typer.Option("--file", "-F", metavar="PATH", help="Read records from a file, - for stdin; repeat for more.")
    ] = [],  # noqa: B006
    format_: Annotated[
        Encoding, typer.Option("--format", "-f", help="How keys and values are written in the input.")
    ] = Encoding.TEXT,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.", show_default=False)] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("--key-delimiter", "-K", metavar="TEXT", help="What stands between key and value.", show_default=False),
    ] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help="What ends a record.", show_default=r"\n")
    ] = "\\n",
    whole: Annotated[bool, typer.Option("--whole", help="Each file is one record.")] = False,
    header: Annotated[
        list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record; repeat for more.")
    ] = [],  # noqa: B006
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="Instead of the one the key picks.", show_default=False),
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", "-T", metavar="TIME", help="Of every record.", show_default="now")
    ] = None,
    null: Annotated[bool, typer.Option("--null", "-Z", help="An empty key or value is null (a tombstone).")] = False,
    compression: Annotated[CompressionName, typer.Option("--compression", "-z")] = CompressionName.NONE,
    acks: Annotated[Acks, typer.Option("--acks", help="Whose acknowledgement to wait for.")] = Acks.ALL,
    idempotence: Annotated[bool, typer.Option(help="A retry never writes a record twice (with --acks all).")] = True,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False,
) -> None:
    """Write records to a topic.

    Records are lines of stdin unless VALUEs or files are given.
    """
    if values and file:
        raise UsageError("give records as arguments or as files, not both")
    if key is not None and key_delimiter is not None:
        raise UsageError("give --key or --key-delimiter, not both")
    if format_ is Encoding.JSON and key_delimiter is not None:
        raise UsageError("--key-delimiter has no meaning with --format json: the key is a field")
    parser = RecordParser(
        encoding=format_,
        key_delimiter=None if key_delimiter is None else _key_delimiter(key_delimiter),
        key=None if key is None else os.fsencode(key),
        headers=tuple(_header(text) for text in header),
        empty_is_null=null,
    )
    cut_at = b"" if whole else arguments.delimiter(delimiter, "--delimiter")
    when = None if timestamp is None else arguments.moment(timestamp, "--timestamp")
    with session.cluster() as cluster:
        _find_or_create(cluster, topic, create)
        if partition is not None:
            cluster.topic(topic).partition(partition)
        producer = Producer(
            cluster,
            acks=ALL if acks is Acks.ALL else int(acks),
            compression=Compression[compression.name],
            idempotent=idempotence and acks is Acks.ALL,
        )
        progress = Progress("Writing", _input_bytes(file), shown=not session.quiet and not values)
        run = _Run(session, topic, partition, when, parser, producer, progress)
        with run.accounted():
            if values:
                run.take(_given(values))
            for path in file or ([] if values else [Path("-")]):
                with opened(path, session.note, "Type one record a line; Ctrl-D ends.") as (fd, name):
                    run.take(pieces(fd, name, cut_at))
            producer.flush()
    run.report()


class _Run:
    """One run of the command: what was read, what was acknowledged, and how to say so whatever happens."""

    def __init__(
        self,
        session: Session,
        topic: str,
        partition: int | None,
        timestamp_ms: int | None,
        parser: RecordParser,
        producer: Producer,
        progress: Progress,
    ) -> None:
        self._session = session
        self._topic = topic
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self._parser = parser
        self._producer = producer
        self._progress = progress
        self._bytes_before = 0

    def take(self, source: Iterator[Piece | Idle]) -> None:
        """Sends on what comes. A bad record ends the run, but what stood before it is written first, so that one can mend it
        and go on from that line."""
        end = 0
        while True:
            try:
                piece = next(source, None)
            except TooLong as error:
                self._producer.flush()
                raise CommandError(str(error)) from None
            if piece is None:
                break
            if isinstance(piece, Idle):
                self._producer.flush()
                continue
            try:
                event = self._parser.parse(piece.data)
            except BadRecord as error:
                self._producer.flush()
                raise CommandError(f"{piece.source}, line {piece.line}: {error}") from None
            if self._timestamp_ms is not None and event.timestamp_ms is None:
                event = Event(event.key, event.value, event.headers, self._timestamp_ms)
            self._producer.send(self._topic, event, self._partition)
            end = piece.end
            if piece.line % _PROGRESS_EVERY == 0:
                self._progress.update(self.acknowledged, self._bytes_before + end)
        self._bytes_before += end

    @property
    def acknowledged(self) -> int:
        return sum(one.records for one in self._producer.delivered.values())

    @contextmanager
    def accounted(self) -> Iterator[None]:
        """Whatever ends the run early, says how much was acknowledged."""
        try:
            yield
        except Stopped:
            self._progress.stop()
            self._session.note(f"Interrupted: {self._account()}.")
            raise
        except Refused as error:
            error.args = (f"{error}; {self._account()}",)
            raise
        except (ClientError, CommandError) as error:
            raise type(error)(f"{error}; {self._account()}") from None
        finally:
            self._progress.stop()

    def _account(self) -> str:
        waiting = self._producer.waiting
        rest = f", {_records(waiting)} not" if waiting else ""
        verb = "was" if self.acknowledged == 1 else "were"
        return f"{_records(self.acknowledged)} {verb} acknowledged{rest}"

    def report(self) -> None:
        rows: list[dict[str, Any]] = [
            {
                "partition": partition.partition,
                "records": one.records,
                "first_offset": one.first_offset if one.first_offset >= 0 else None,
                "last_offset": one.last_offset if one.last_offset >= 0 else None,
            }
            for partition, one in sorted(self._producer.delivered.items())
        ]
        if self._session.json:
            self._session.emit({"topic": self._topic, "records": self.acknowledged, "partitions": rows})
            return
        if len(rows) > _SHOWN_PARTITIONS or any(row["first_offset"] is None for row in rows):
            where = f" in {len(rows)} partitions"
        else:
            where = "".join(f", partition {row['partition']} to offset {row['last_offset']}" for row in rows)
        self._session.note(f"{_records(self.acknowledged)} to {self._topic}{where}")


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _find_or_create(cluster: Cluster, topic: str, create: bool) -> None:
    if create:
        try:
            create_topic(cluster, topic)
        except Refused as refused:
            if refused.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
    try:
        cluster.topic(topic)
    except ClientError as error:
        if create or not str(error).startswith("there is no topic"):
            raise
        raise CommandError(f"{error}, or --create makes it") from None


def _given(values: list[str]) -> Iterator[Piece | Idle]:
    for number, value in enumerate(values, 1):
        yield Piece(os.fsencode(value), number, "arguments", 0)


def _input_bytes(files: list[Path]) -> int | None:
    """The size of all the input, if all of it is in regular files."""
    if not files or not all(path.is_file() for path in files):
        return None
    return sum(path.stat().st_size for path in files)


def _key_delimiter(text: str) -> bytes:
    found = arguments.delimiter(text, "--key-delimiter")
    if not found:
        raise UsageError("--key-delimiter: is empty; leave it out for records without a key")
    return found


def _header(text: str) -> tuple[str, bytes | None]:
    try:
        return parse_header(text)
    except BadRecord as error:
        raise UsageError(f"--header: {error}") from None
