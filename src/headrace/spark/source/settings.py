"""What the options say about a read, checked and in one value. The reader carries it to every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.spark.connections import Endpoint, read_endpoint
from headrace.spark.consumer_settings import read_consumer_settings
from headrace.spark.options import BadOption, Options
from headrace.spark.pieces import ReadSettings
from headrace.spark.source.positions import EARLIEST, LATEST, Position, check_for_batch, ending_position, starting_position
from headrace.spark.source.subscription import Subscription, read_subscription

_MAX_TRIGGER_DELAY_S = 15 * 60.0
_ENDINGS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_WITHOUT_EFFECT = ("groupIdPrefix", "kafkaConsumer.pollTimeoutMs")  # there is no consumer group, and no poll


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a micro-batch takes and how it is cut into tasks. None is no limit."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_s: float = _MAX_TRIGGER_DELAY_S
    min_partitions: int | None = None
    max_records: int | None = None


@dataclass(frozen=True, slots=True)
class Retrying:
    """How often, and how far apart, the driver asks again when a partition seems to end before what was already read."""

    attempts: int = 3
    pause_s: float = 1.0


@dataclass(frozen=True, slots=True)
class SourceSettings:
    endpoint: Endpoint
    subscription: Subscription
    start: Position
    end: Position
    limits: Limits
    retrying: Retrying
    metadata_age_s: float  # how long the list of partitions may be used again; 0 is not at all
    reading: ReadSettings


def read_settings(given: Mapping[str, str], *, streaming: bool | None) -> SourceSettings:
    """`streaming` is None where it is not known yet: what holds for both kinds of query is checked."""
    options = Options(given)
    endpoint = read_endpoint(options)
    subscription = read_subscription(options)
    limits = _limits(options)
    start = starting_position(options, EARLIEST if streaming is False else LATEST)
    end = ending_position(options)
    if streaming and (wrong := [name for name in _ENDINGS if options.given(name)]):
        raise BadOption(f"option {wrong[0]} is for batch queries; a streaming query has no end")
    if streaming is False:
        check_for_batch(start, end)
    consumer = read_consumer_settings(options)
    reading = ReadSettings(
        read_committed=consumer.read_committed,
        include_headers=options.boolean("includeHeaders", False),
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
    )
    retrying = Retrying(
        attempts=options.whole("fetchOffset.numRetries") or 3,
        pause_s=options.duration_s("fetchOffset.retryIntervalMs", 1.0),
    )
    age_ms = options.whole("partition.metadata.cache.ttl.ms", least=-1)
    options.refuse_others(_WITHOUT_EFFECT)
    return SourceSettings(endpoint, subscription, start, end, limits, retrying, max(age_ms or 0, 0) / 1000, reading)


def _limits(options: Options) -> Limits:
    limits = Limits(
        max_offsets=options.whole("maxOffsetsPerTrigger"),
        min_offsets=options.whole("minOffsetsPerTrigger"),
        max_delay_s=options.duration_s("maxTriggerDelay", _MAX_TRIGGER_DELAY_S),
        min_partitions=options.whole("minPartitions"),
        max_records=options.whole("maxRecordsPerPartition"),
    )
    if limits.min_offsets and limits.max_offsets and limits.min_offsets > limits.max_offsets:
        raise BadOption(
            f"option minOffsetsPerTrigger is {limits.min_offsets}, more than maxOffsetsPerTrigger with {limits.max_offsets}"
        )
    return limits
