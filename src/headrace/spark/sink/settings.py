"""What the options of a sink mean. They go by the names that Spark's Kafka sink and Kafka's own producer give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.record.compression import Compression
from headrace.spark.connections import Endpoint, read_endpoint
from headrace.spark.options import BadOption, Options

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
FAIL, WRITE = "fail", "write"
ROWS_AND_BYTES, ROWS = "rows-and-bytes", "rows"

DEFAULT_BATCH_BYTES = 512 * 1024  # half of what a topic takes by default (max.message.bytes)
DEFAULT_DELIVERY_TIMEOUT_S = 120.0
DEFAULT_TRANSACTION_TIMEOUT_S = 600.0  # below what brokers allow by default (transaction.max.timeout.ms, 15 minutes)

# What tunes a Java producer that is not here: it has another buffer, and waits for nothing.
WITHOUT_EFFECT = (
    "auto.include.jmx.reporter",
    "buffer.memory",
    "client.dns.lookup",
    "compression.lz4.level",
    "connections.max.idle.ms",
    "enable.idempotence",
    "enable.metrics.push",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "transaction.two.phase.commit.enable",
)
REFUSED = {
    "interceptor.classes": "there is no Java producer here that could load them",
    "key.serializer": "keys are strings or bytes; turn them into that in the query",
    "partitioner.class": "there is no Java producer here that could load it; the column 'partition' says where a row goes",
    "partitioner.ignore.keys": "rows with a key go where its hash says; the column 'partition' overrides it",
    "transactional.id": "the sink makes one for each task",
    "value.serializer": "values are strings or bytes; turn them into that in the query",
}
# Options that Spark hands over to a sink although they are not meant for it.
SPARKS_OWN = ("path", "checkpointLocation", "queryName", "includeHeaders")


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """Travels to the workers with the writer."""

    endpoint: Endpoint
    topic: str | None = None
    delivery: str = EXACTLY_ONCE
    sink_name: str | None = None
    missing_markers: str = FAIL
    replay_check: str = ROWS_AND_BYTES
    allow_adaptive: bool = False
    compression: Compression = Compression.NONE
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    delivery_timeout_s: float = DEFAULT_DELIVERY_TIMEOUT_S
    transaction_timeout_ms: int = int(DEFAULT_TRANSACTION_TIMEOUT_S * 1000)

    @property
    def exactly_once(self) -> bool:
        return self.delivery == EXACTLY_ONCE


def read_settings(given: Mapping[str, str], *, streaming: bool) -> WriteSettings:
    options = Options(given)
    _check_acks(options)
    for name, reason in REFUSED.items():
        if options.given(f"kafka.{name}"):
            raise BadOption(f"option kafka.{name} is not supported: {reason}")
    for name in WITHOUT_EFFECT:
        options.text(f"kafka.{name}")
    compression, level = _read_compression(options)
    sink_name = options.text("sinkName")
    if sink_name is not None and streaming:
        raise BadOption("option sinkName is for batch writes inside foreachBatch; a streaming query is known by its id")
    settings = WriteSettings(
        endpoint=read_endpoint(options),
        topic=options.text("topic") or None,
        delivery=options.choice("delivery", (EXACTLY_ONCE, AT_LEAST_ONCE), EXACTLY_ONCE),
        sink_name=sink_name or None,
        missing_markers=options.choice("missingMarkers", (FAIL, WRITE), FAIL),
        replay_check=options.choice("replayCheck", (ROWS_AND_BYTES, ROWS), ROWS_AND_BYTES),
        allow_adaptive=options.choice("adaptiveExecution", ("refuse", "allow"), "refuse") == "allow",
        compression=compression,
        level=level,
        batch_bytes=options.whole("kafka.batch.size", least=0) or DEFAULT_BATCH_BYTES,
        delivery_timeout_s=options.duration_s("kafka.delivery.timeout.ms", DEFAULT_DELIVERY_TIMEOUT_S),
        transaction_timeout_ms=int(options.duration_s("kafka.transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_S) * 1000),
    )
    options.refuse_others(SPARKS_OWN)
    return settings


def _check_acks(options: Options) -> None:
    acks = options.text("kafka.acks")
    if acks is not None and acks.lower() not in ("all", "-1"):
        raise BadOption(f"option kafka.acks is '{acks}': a row counts as written when all replicas have it; use all")


def _read_compression(options: Options) -> tuple[Compression, int | None]:
    names = {"none": "NONE", **{one.name.lower(): one.name for one in Compression}}
    compression = Compression[names[options.choice("kafka.compression.type", names, "none")]]
    levels = {Compression.GZIP: options.whole("kafka.compression.gzip.level", least=-1)}
    levels[Compression.ZSTD] = options.whole("kafka.compression.zstd.level", least=-131072)
    return compression, levels.get(compression)
