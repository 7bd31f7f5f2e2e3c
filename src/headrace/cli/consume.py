"""`headrace consume`: records of topics to stdout, by partition or as a member of a group."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli import arguments
from headrace.cli.escapes import BadEscape
from headrace.cli.parsing import BadRecord, parse_header
from headrace.cli.positions import LATEST, Position
from headrace.cli.printing import ENCODERS, BadTemplate, Writer, json_writer, template_writer
from headrace.cli.progress import Progress
from headrace.cli.resolving import resolve
from headrace.cli.session import OutputClosed, Session, Stopped, UsageError, uninterrupted, write_out
from headrace.client.kafka import Cluster, Isolation, Reader, Received, TopicPartition
from headrace.client.kafka.groups import committed_offsets
from headrace.client.kafka.member import Member

_CHUNK_BYTES = 64 * 1024
_COMMIT_S = 5.0

Filter = Callable[[Received], bool]


class IsolationName(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


def consume(
    session: Session,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", show_default=False)],
    from_: Annotated[
        str,
        typer.Option(
            "--from", "-o", metavar="POSITION", help="Where to begin: an offset, earliest, latest, -N (the last N), a time."
        ),
    ] = "earliest",
    to: Annotated[
        str | None, typer.Option("--to", metavar="POSITION", help="Where to end, itself not printed.", show_default="never")
    ] = None,
    exit_: Annotated[
        bool, typer.Option("--exit", "-e", help="End where the topic ends now, rather than wait for more.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", "-c", min=1, help="End after this many records.", show_default=False)
    ] = None,
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", min=0, help="Only this partition; repeat for more.")
    ] = [],  # noqa: B006
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="NAME",
            help="Read as a member of a group: go on where it stopped, share the partitions, commit.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="TEMPLATE",
            help=r"With %t %p %o %k %s %h %T… as kcat has them, or one of: text, json, hex, base64.",
            show_default=r"%s\n",
        ),
    ] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("--key-delimiter", "-K", metavar="TEXT", help="Print the key, this, and the value.", show_default=False),
    ] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help="What to print behind a record.", show_default=r"\n")
    ] = "\\n",
    null: Annotated[bool, typer.Option("--null", "-Z", help="Print NULL for a key or value that is null.")] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Only records with this key.", show_default=False)] = None,
    header: Annotated[
        list[str],
        typer.Option("--header", "-H", metavar="NAME[=VALUE]", help="Only records with this header; repeat for more."),
    ] = [],  # noqa: B006
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="REGEX", help="Only records whose value has a match.", show_default=False),
    ] = None,
    isolation: Annotated[IsolationName, typer.Option("--isolation")] = IsolationName.READ_COMMITTED,
) -> None:
    """Print records of topics, then wait for more.

    It ends at Ctrl-C unless --exit, --to or --count says when. Order holds within a partition.
    """
    if group is not None and (partition or to is not None):
        raise UsageError("--group shares the partitions itself: leave out --partition and --to")
    if exit_ and to is not None:
        raise UsageError("--exit is the same as --to latest: give one of them")
    if session.json and (format_ or key_delimiter):
        raise UsageError("--json has its own format: leave out --format and --key-delimiter")
    printer = _Printer(
        write=_writer(session, format_, key_delimiter, delimiter, null),
        wanted=_filters(key, header, grep),
        count=count,
    )
    begin = arguments.position(from_, "--from")
    until = LATEST if exit_ else None if to is None else arguments.position(to, "--to")
    level = Isolation[isolation.name]
    try:
        with session.cluster() as cluster:
            if group is None:
                _by_partition(session, cluster, topics, partition, begin, until, level, printer)
            else:
                _by_group(session, cluster, topics, group, begin, exit_, level, printer)
    except Stopped:
        session.note("1 record" if printer.printed == 1 else f"{printer.printed} records")
        raise


class _Printer:
    """Prints what passes the filters, up to a number, and remembers which offset comes next in each partition."""

    def __init__(self, write: Writer, wanted: list[Filter], count: int | None) -> None:
        self._write = write
        self._wanted = wanted
        self._count = count
        self.printed = 0
        self.next_offsets: dict[TopicPartition, int] = {}

    @property
    def full(self) -> bool:
        return self._count is not None and self.printed >= self._count

    def take(self, records: list[Received], ends: dict[TopicPartition, int]) -> None:
        """Records at or beyond a partition's end are left alone."""
        chunk = bytearray()
        printed = self.printed
        reached: dict[TopicPartition, int] = {}
        for record in records:
            if self._count is not None and printed >= self._count:
                break
            partition = TopicPartition(record.topic, record.partition)
            if partition in ends and record.offset >= ends[partition]:
                continue
            if all(passes(record) for passes in self._wanted):
                chunk += self._write(record)
                printed += 1
            reached[partition] = record.offset + 1
            if len(chunk) >= _CHUNK_BYTES:
                self._flush(chunk, printed, reached)
                chunk.clear()
        self._flush(chunk, printed, reached)

    def _flush(self, chunk: bytearray, printed: int, reached: dict[TopicPartition, int]) -> None:
        with uninterrupted():  # what was printed is counted and committed, what was not is neither
            if chunk:
                write_out(bytes(chunk))
            self.printed = printed
            self.next_offsets.update(reached)


def _by_partition(
    session: Session,
    cluster: Cluster,
    topics: list[str],
    only: list[int],
    begin: Position,
    until: Position | None,
    isolation: Isolation,
    printer: _Printer,
) -> None:
    infos = cluster.topics(topics)
    partitions = [
        TopicPartition(topic.name, index)
        for topic in infos.values()
        for index in ([topic.partition(one).index for one in only] or [p.index for p in topic.partitions])
    ]
    starts = resolve(cluster, begin, partitions, isolation)
    ends = {} if until is None else resolve(cluster, until, partitions, isolation)
    reader = Reader(cluster, {p: at for p, at in starts.items() if p not in ends or at < ends[p]}, isolation)
    total = sum(max(0, ends[p] - starts[p]) for p in ends) or None
    progress = Progress("Reading", total, shown=total is not None and not session.quiet and not sys.stdout.isatty())
    try:
        while reader.positions and not printer.full:
            printer.take(reader.poll(), ends)
            _note_gaps(session, reader)
            for partition, position in list(reader.positions.items()):
                if partition in ends and position >= ends[partition]:
                    del reader.positions[partition]
            progress.update(printer.printed, sum(printer.next_offsets[p] - starts[p] for p in printer.next_offsets))
    finally:
        progress.stop()
        reader.close()


def _by_group(
    session: Session,
    cluster: Cluster,
    topics: list[str],
    group: str,
    begin: Position,
    exit_: bool,
    isolation: Isolation,
    printer: _Printer,
) -> None:
    cluster.topics(topics)
    member = Member(cluster, group, topics)
    reader = Reader(cluster, {}, isolation)
    committed: dict[TopicPartition, int] = {}

    def commit() -> None:
        ours = {p: offset for p, offset in printer.next_offsets.items() if p in reader.positions}
        new = {p: offset for p, offset in ours.items() if committed.get(p) != offset}
        if new and member.commit(new):
            committed.update(new)

    try:
        ours = False
        last_commit = time.monotonic()
        while not printer.full:
            if not ours:
                commit()
                reader.positions = {}
                assigned = member.join()
                committed = _committed(cluster, group, assigned)
                fresh = resolve(cluster, begin, [p for p in assigned if p not in committed], isolation)
                reader.positions = {**committed, **fresh}
                printer.next_offsets = dict(reader.positions)
            if not reader.positions:
                if exit_:
                    break
                time.sleep(0.2)  # more members than partitions: wait for a rebalance
            else:
                printer.take(reader.poll(), {})
                _note_gaps(session, reader)
                if not printer.full:  # behind control records and what the filters left out, too
                    printer.next_offsets.update(reader.positions)
                if exit_ and _at_end(reader):
                    break
            if time.monotonic() - last_commit >= _COMMIT_S:
                commit()
                last_commit = time.monotonic()
            ours = member.poll_group()
        commit()
    except (Stopped, OutputClosed):
        commit()
        raise
    finally:
        member.leave()
        reader.close()


def _committed(cluster: Cluster, group: str, assigned: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the group stopped. Partitions where it never was are left out: those begin where the command says."""
    if not assigned:
        return {}
    return {partition: one.offset for partition, one in committed_offsets(cluster, group, assigned).items()}


def _at_end(reader: Reader) -> bool:
    return all(p in reader.ends and position >= reader.ends[p] for p, position in reader.positions.items())


def _note_gaps(session: Session, reader: Reader) -> None:
    for gap in reader.gaps:
        session.note(f"{gap.partition}: offsets {gap.expected} to {gap.found - 1} were deleted before they were read")
    reader.gaps.clear()


def _writer(session: Session, format_: str | None, key_delimiter: str | None, delimiter: str, null: bool) -> Writer:
    if session.json or format_ == "json":
        return json_writer
    if format_ is not None and format_ not in ENCODERS and key_delimiter is not None:
        raise UsageError("--key-delimiter is part of the default format: put %k into your --format instead")
    try:
        if format_ is not None and format_ not in ENCODERS:
            return template_writer(format_, missing=b"NULL" if null else b"")
        encode = ENCODERS[format_ or "text"]
        template = "%s" if key_delimiter is None else "%k" + key_delimiter.replace("%", "%%") + "%s"
        return template_writer(template + delimiter.replace("%", "%%"), missing=b"NULL" if null else b"", encode=encode)
    except (BadTemplate, BadEscape) as error:
        raise UsageError(f"--format: {error}") from None


def _filters(key: str | None, headers: list[str], grep: str | None) -> list[Filter]:
    filters: list[Filter] = []
    if key is not None:
        wanted_key = os.fsencode(key)
        filters.append(lambda record: record.key == wanted_key)
    for text in headers:
        try:
            name, value = parse_header(text)
        except BadRecord as error:
            raise UsageError(f"--header: {error}") from None
        filters.append(_header_filter(name, value))
    if grep is not None:
        try:
            pattern = re.compile(os.fsencode(grep))
        except re.error as error:
            raise UsageError(f"--grep: {grep!r} is not a regular expression: {error}") from None
        filters.append(lambda record: record.value is not None and pattern.search(record.value) is not None)
    return filters


def _header_filter(name: str, value: bytes | None) -> Filter:
    if value is None:
        return lambda record: any(found == name for found, _ in record.headers)
    return lambda record: (name, value) in record.headers
