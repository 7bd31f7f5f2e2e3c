"""GET /v1/topics/{topic}/partitions/{partition}/events/{offset}: one event, as JSON or as its bytes.

With `Accept: application/octet-stream` the answer is the value, byte for byte, and the rest is in headers:
`Headrace-Partition`, `Headrace-Offset`, `Headrace-Timestamp`, and `Headrace-Key` (percent-encoded). An event without a value is
204. Otherwise it is the JSON of `events`, by `format`.

What stands at an offset does not change, so there is an ETag; but it may go (retention, compaction), so it has to be asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from starlette.datastructures import QueryParams

from headrace.broker.routes.reading import read_page
from headrace.broker.traffic import Traffic
from headrace.http.authentication import scope_user
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.events import Form, encode, shown
from headrace.log.errors import OffsetOutOfRange
from headrace.record.tracing import trace_fields

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from headrace.broker import Broker
    from headrace.log.port import Partition, Topic
    from headrace.record import Record

_RAW = "application/octet-stream"
Headers = list[tuple[bytes, bytes]]


class OneRecord:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._went = broker.traffic.setdefault("http", Traffic()).bytes_out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["topic"]
        user = scope_user(self._broker, scope)
        check_topic_access(user, "read", name)
        query = dict(QueryParams(scope["query_string"]))
        headers = dict(scope["headers"])
        raw = _RAW in headers.get(b"accept", b"").decode("latin-1").lower()
        try:
            form = Form(query.pop("format", "auto"))
        except ValueError:
            raise Problem(400, "invalid_parameter", f"format is one of: {', '.join(Form)}") from None
        if query:
            raise Problem(400, "unknown_parameter", f"there is no parameter {next(iter(query))[:100]!r}; there is: format")
        topic, partition, offset = place_of(
            self._broker, name, scope["path_params"]["partition"], scope["path_params"]["offset"]
        )
        record = await record_at(partition, offset)
        tag = f'"{topic.topic_id.hex}-{partition.index}-{offset}-{"raw" if raw else form}"'.encode()
        answer: Headers = [(b"etag", tag), (b"cache-control", b"no-cache"), (b"vary", b"Accept")]
        if tag in headers.get(b"if-none-match", b""):
            await _send(send, 304, answer, b"")
            return
        answer += trace_fields(record.headers)
        if raw:
            answer += _as_headers(record, partition.index)
            status, body = (204, b"") if record.value is None else (200, record.value)
        else:
            answer.append((b"content-type", b"application/json"))
            status, body = 200, encode(shown(record, partition.index, form))
        if scope["method"] == "HEAD":
            body = b""
        self._went[name] += len(body)
        await _send(send, status, answer, body)


def place_of(broker: Broker, name: str, partition: str, offset: str) -> tuple[Topic, Partition, int]:
    """What the parts of a path name. Raises Problem."""
    topic = broker.topics.get(name)
    if topic is None:
        raise Problem(404, "unknown_topic", f"there is no topic '{name[:250]}'")
    if not (partition.isascii() and partition.isdecimal() and len(partition) <= 9):
        raise Problem(400, "unknown_partition", "partition must be the number of one")
    if not (offset.isascii() and offset.isdecimal() and len(offset) <= 19):
        raise Problem(400, "invalid_offset", "offset must be a number")
    if int(partition) >= len(topic.partitions):
        raise Problem(404, "unknown_partition", f"the topic has no partition {partition}; there are {len(topic.partitions)}")
    return topic, topic.partitions[int(partition)], int(offset)


async def record_at(partition: Partition, offset: int) -> Record:
    """Raises Problem and LogError."""
    start, end = partition.start_offset, partition.last_stable_offset
    if start <= offset < end:
        try:
            for portion in await read_page(partition, offset, enough=1):
                for record in portion.records:
                    if record.offset == offset:
                        return record
                if portion.next_offset > offset:
                    break
        except OffsetOutOfRange:
            pass
    text = f"partition {partition.index} has no event at offset {offset}; there are some from {start} to {end - 1}"
    raise Problem(404, "unknown_offset", text, more={"start": start, "end": end})


def _as_headers(record: Record, partition: int) -> Headers:
    found = [
        (b"content-type", _RAW.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"headrace-partition", b"%d" % partition),
        (b"headrace-offset", b"%d" % record.offset),
        (b"headrace-timestamp", b"%d" % record.timestamp_ms),
    ]
    if record.key is not None:
        found.append((b"headrace-key", quote_from_bytes(record.key).encode()))
    return found


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
