"""Tables as compacted topics: a record for each change, of which the server keeps the last for each key.

The key of a record is the key column (text and bytes as they are, other types as JSON) or, where there are several, a JSON
object of them; the value is the row as JSON, or null for a delete. A micro-batch is one transaction, with the number of the
batch as an offset that a group commits in it (`sink.markers`): under read_committed a batch is seen whole or not at all, and a
replayed one is not written again. Once brokers have forgotten such an offset (offsets.retention.minutes without a batch), a
replayed batch is written again, which changes nothing in the table.

A topic can't be asked for a key, so order_by only decides between rows of one batch. The batch waits in a spool on the driver's
disk and is encoded piece by piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.errors import ClientError, Refused, UnknownName
from headrace.client.kafka.offsets import Isolation, list_offsets, start_offsets
from headrace.client.kafka.partitions import TopicPartition
from headrace.client.kafka.reader import Reader
from headrace.client.kafka.sending import Links, Sender
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.client.kafka.transactions import Transaction
from headrace.kafka.codec.errors import ErrorCode
from headrace.spark.connections import read_endpoint
from headrace.spark.options import Options
from headrace.spark.tables.json_text import form_of
from headrace.spark.tables.spool import spooled
from headrace.spark.tables.target import BatchMark, TableError, Target

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_ROWS = 10_000
_LATEST = -1


class TopicStore:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        options = {"kafka.bootstrap.servers": parts.netloc, **dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))}
        if not parts.netloc or parts.path.strip("/"):
            raise TableError(f"{url!r} is not headrace://HOST:PORT, with kafka.* settings behind a ? where there are any")
        self._endpoint = read_endpoint(Options(options))

    def applied(self, target: Target, mark: BatchMark) -> bool:
        with self._connected() as cluster:
            return _is_applied(cluster, _name(target, mark), mark)

    def apply(self, target: Target, schema: pa.Schema, pieces: Iterable[pa.RecordBatch], mark: BatchMark | None) -> bool:
        if not target.key:
            raise TableError(f"topic {target.table!r}: a compacted topic needs key columns")
        if target.replace:
            raise TableError(
                f"topic {target.table!r}: a topic can't be replaced as a whole, which complete mode asks for; use update mode"
            )
        with spooled(target, schema, pieces) as batch, self._connected() as cluster:
            _ensure_topic(cluster, target.table)
            return self._write(cluster, target, batch, mark)

    def rows(self, table: str, order_by: Sequence[str] | None, limit: int | None) -> list[dict[str, Any]]:
        with self._connected() as cluster:
            latest = _read_all(cluster, table)
        found = [json.loads(value) for _, value in sorted(latest.items())]
        if order_by:
            if unknown := [name for name in order_by if found and not any(name in row for row in found)]:
                raise TableError(f"table {table!r} has no column {unknown[0]!r}")
            found.sort(key=lambda row: [(row.get(name) is not None, row.get(name)) for name in order_by])
        return found[:limit]

    def _write(self, cluster: Cluster, target: Target, batch: pa.Table, mark: BatchMark | None) -> bool:
        from headrace.spark.sink.markers import Marker, marker_offsets
        from headrace.spark.sink.producing import Encoder, chunks, produce
        from headrace.spark.sink.settings import WriteSettings

        name = _name(target, mark)
        links: Links = {}
        transaction = Transaction.begin(cluster, name)  # fences whoever is still at the same batch
        if mark is not None and _is_applied(cluster, name, mark):
            return False
        sender = Sender(cluster, transaction.producer, links=links, transactional_id=name, joining=transaction.add)
        encoder = Encoder(cluster, WriteSettings(self._endpoint, topic=target.table))
        try:
            tally = produce(chunks(records(target, batch)), encoder, sender)
            if mark is not None:
                marker = Marker(mark.number, tally.rows, tally.size_bytes)
                transaction.commit_offsets(name, marker_offsets(marker, [target.table]))
        except BaseException as error:
            sender.abandon()
            try:
                transaction.abort()
            except ClientError:
                pass  # it ends by itself, and the next attempt ends it too
            if isinstance(error, Refused):
                raise transaction.name_fence(error) from error
            raise
        finally:
            for link in links.values():
                link.close()
        transaction.commit()
        return True

    @contextmanager
    def _connected(self) -> Iterator[Cluster]:
        """Of the caller's own: the batches of several queries come on several threads of the driver."""
        given = self._endpoint
        made = Cluster(given.servers, timeout_s=given.timeout_s, security=given.security, client_id=given.client_id)
        with closing(made) as cluster:
            yield cluster


def _name(target: Target, mark: BatchMark | None) -> str:
    """Of the transactional id, and of the group whose offset is the mark."""
    return f"headrace-table-{target.table}-{mark.query if mark else uuid4().hex}"


def _is_applied(cluster: Cluster, name: str, mark: BatchMark) -> bool:
    from headrace.spark.sink.markers import read_marker

    marker = read_marker(cluster, name)
    return marker is not None and marker.batch >= mark.number


def _ensure_topic(cluster: Cluster, name: str) -> None:
    """An existing topic is taken as it is."""
    try:
        cluster.topic(name)
    except UnknownName:
        try:
            create_topic(cluster, name, configs={"cleanup.policy": "compact"})
        except Refused as refused:
            if refused.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        wait_until_led(cluster, name)


def records(target: Target, batch: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows as keys and values."""
    import pyarrow as pa

    forms = {name: form_of(batch.schema.field(name).type) for name in batch.column_names}
    stored = target.stored(batch.column_names)
    for piece in batch.to_batches(max_chunksize=PIECE_ROWS):
        rows = piece.to_pylist()
        keys = [
            _key([forms[name](row[name]) for name in target.key], [row[name] for name in target.key], target) for row in rows
        ]
        values = [
            None if target.delete and row[target.delete] else _json({name: forms[name](row[name]) for name in stored}).encode()
            for row in rows
        ]
        yield pa.RecordBatch.from_arrays([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], ["key", "value"])


def _key(formed: list[Any], given: list[Any], target: Target) -> bytes:
    if len(formed) > 1:
        return _json(dict(zip(target.key, formed, strict=True))).encode()
    if isinstance(given[0], bytes):
        return given[0]
    return formed[0].encode() if isinstance(formed[0], str) else _json(formed[0]).encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _read_all(cluster: Cluster, topic: str) -> dict[bytes, bytes]:
    """The last value of each key, up to what was committed when this was called."""
    try:
        partitions = [TopicPartition(topic, one.index) for one in cluster.topic(topic).partitions]
    except UnknownName as error:
        raise TableError(str(error)) from None
    ends = {
        partition: found.offset
        for partition, found in list_offsets(cluster, dict.fromkeys(partitions, _LATEST), Isolation.READ_COMMITTED).items()
    }
    starts = start_offsets(cluster, partitions)
    reader = Reader(cluster, {partition: starts[partition] for partition in partitions if starts[partition] < ends[partition]})
    latest: dict[bytes, bytes] = {}
    with closing(reader):
        while reader.positions:
            for record in reader.poll():
                if record.key is not None and record.value is not None:
                    latest[record.key] = record.value
                else:
                    latest.pop(record.key or b"", None)
            for partition in [one for one, position in reader.positions.items() if position >= ends[one]]:
                del reader.positions[partition]
    return latest
