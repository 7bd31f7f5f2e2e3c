"""GET /v1/topics/{topic}/partitions/{partition}/events/{offset}/views: one record as each protocol shows it, side by side.

Made by the mappings that the protocols themselves use (`record.amqp.mapping`, `broker.streams.mapping`, `events`,
`record.request`, `zeromq.wire.frames`), so what is seen here is what a client gets. Text is text, and what is not UTF-8 is
`{"base64": …}`. Kinesis may not show a record at all (null): a topic whose name is too long for a stream, or a partition that
is no shard. Webhooks and ZeroMQ are shown as a route sends them that says nothing else; a feed by UDP multicast carries the
record as Kafka has it, its offset is the sequence number.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Raw, Struct

from headrace.broker.streams.mapping import arrival_ms, partition_key
from headrace.http.management.messages import message_row
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.events import encode, shown
from headrace.http.v1.operations import Ask, Operation, Reply
from headrace.http.v1.record import place_of, record_at
from headrace.record.amqp.mapping import event_to_message
from headrace.record.request import place_fields, value_as_body
from headrace.record.tracing import trace_fields
from headrace.zeromq.wire.frames import encode_meta

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.log.port import Topic
    from headrace.record import Record

Text = str | dict[str, str] | None


class KafkaView(Struct):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Text
    value: Text
    headers: list[tuple[Text, Text]]


class KinesisView(Struct):
    """A record of GetRecords, and where it is."""

    StreamName: str
    StreamARN: str
    ShardId: str
    SequenceNumber: str
    PartitionKey: str | None
    ApproximateArrivalTimestamp: float
    Data: Annotated[str, Meta(description="Base64.")]
    EncryptionType: str


class WebhookView(Struct):
    """A request of a route with `content` = `value`. Each route adds its name, the attempt, an id, the time and a signature."""

    method: str
    headers: dict[str, str]
    body: Text


class ZeromqView(Struct):
    """A message of a route with `content` = `event`: the topic, the value, and everything else."""

    frames: list[Text]


class RecordViews(Struct):
    kafka: KafkaView
    amqp: Annotated[dict[str, Any], Meta(description="As the management API shows a message; x-stream-offset is its offset.")]
    kinesis: KinesisView | None
    http: Annotated[Raw, Meta(description="The event, as it is read under /v1.")]
    webhook: WebhookView
    zeromq: ZeromqView | None


async def _views(ask: Ask) -> Reply:
    name = ask["topic"]
    check_topic_access(ask.user, "read", name)
    topic, partition, offset = place_of(ask.broker, name, ask["partition"], ask["offset"])
    record = await record_at(partition, offset)
    views = RecordViews(
        _kafka(topic, partition.index, record),
        _amqp(record),
        _kinesis(ask.broker, topic, partition.index, record),
        Raw(encode(shown(record, partition.index))),
        _webhook(topic, partition.index, record),
        _zeromq(topic, partition.index, record),
    )
    return Reply(200, views)


def _kafka(topic: Topic, partition: int, record: Record) -> KafkaView:
    headers = [(_text(name.encode("utf-8", "surrogateescape")), _text(content)) for name, content in record.headers]
    return KafkaView(
        topic.name, partition, record.offset, record.timestamp_ms, _text(record.key), _text(record.value), headers
    )  # fmt: skip


def _amqp(record: Record) -> dict[str, Any]:
    row = message_row(event_to_message(record))
    properties = row["properties"] or {}
    headers = {**properties.get("headers", {}), "x-stream-offset": record.offset}
    return {**row, "properties": {**properties, "headers": headers}}


def _kinesis(broker: Broker, topic: Topic, partition: int, record: Record) -> KinesisView | None:
    stream = broker.streams.of_topic(topic)
    if stream is None or partition >= len(stream.shards):
        return None
    shard = stream.shards[partition]
    keyless = record.key is None and stream.distribution == "AUTO"
    return KinesisView(
        stream.name,
        stream.arn,
        shard.id,
        shard.sequence_number(record.offset),
        None if keyless else partition_key(record.key),
        arrival_ms(record.timestamp_ms) / 1000,
        b64encode(record.value or b"").decode(),
        str(stream.encryption_type),
    )


def _webhook(topic: Topic, partition: int, record: Record) -> WebhookView:
    described, body = value_as_body(record)
    fields = (*described, *place_fields(topic.name, partition, record.offset), *trace_fields(record.headers))
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in fields}
    return WebhookView("POST", headers, None if record.value is None else _text(body))


def _zeromq(topic: Topic, partition: int, record: Record) -> ZeromqView | None:
    if record.timestamp_ms < 0:  # before 1970, which this form does not have
        return None
    meta = encode_meta(record, partition, record.offset)
    return ZeromqView([topic.name, _text(record.value or b""), {"base64": b64encode(meta).decode()}])


def _text(content: bytes | None) -> Text:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}


PATHS = ("/v1/topics/{topic}/partitions/{partition}/events/{offset}/views",)
OPERATIONS = (
    Operation(
        "GET",
        PATHS[0],
        "Shows a record as each protocol does",
        _views,
        answer=RecordViews,
        problems=(404,),
    ),
)
