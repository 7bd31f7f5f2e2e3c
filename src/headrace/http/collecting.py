"""What /metrics tells, gathered in short turns between which the event loop serves others.

Names begin with `headrace_`; what ends in `_total` counts from the start of the server. Records a second are
`rate(headrace_partition_end_offset[1m])`: nothing has to be counted for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from headrace import __version__
from headrace.broker.lag import group_lags
from headrace.broker.topics import HIDDEN_PREFIX
from headrace.http.queue_metrics import collect_queues
from headrace.http.route_metrics import collect_routes
from headrace.http.span_metrics import collect_spans
from headrace.http.upkeep_metrics import collect_upkeep
from headrace.http.webhook_metrics import collect_webhooks
from headrace.short_turns import ShortTurns
from headrace.times import Times

if TYPE_CHECKING:
    from headrace.broker import Broker

_PARTITION = ["topic", "partition"]


async def collect(broker: Broker, turns: ShortTurns) -> list[Metric]:
    return [
        *_server(broker),
        *await _front_ends(broker, turns),
        *_quotas(broker),
        *await _partitions(broker, turns),
        *await _groups(broker, turns),
        *await collect_queues(broker, turns),
        *collect_routes(broker),
        *collect_webhooks(broker),
        *collect_upkeep(broker.log),
        *collect_spans(broker.spans),
    ]


def _server(broker: Broker) -> list[Metric]:
    storage = broker.log.storage()
    refused = GaugeMetricFamily("headrace_writes_refused", "1 while the log takes no writes.", labels=["reason"])
    refused.add_metric(
        ["" if broker.log.refusal is None else type(broker.log.refusal).__name__], broker.log.refusal is not None
    )
    sync = HistogramMetricFamily("headrace_sync_seconds", "How long group commits took to become durable.")
    _add_times(sync, [], broker.log.sync_times)
    delay = HistogramMetricFamily("headrace_event_loop_delay_seconds", "How late the event loop came to what was due.")
    _add_times(delay, [], broker.loop_delay)
    backlogged = GaugeMetricFamily("headrace_sync_backlogged", "1 while producers wait because too much waits for the disk.")
    backlogged.add_metric([], broker.log.backlogged)
    return [
        InfoMetricFamily("headrace_build", "The version that runs.", value={"version": __version__}),
        GaugeMetricFamily("headrace_disk_bytes", "The size of the disk with the data folder.", value=storage.total_bytes),
        GaugeMetricFamily("headrace_disk_usable_bytes", "How much of it is free.", value=storage.usable_bytes),
        refused,
        sync,
        backlogged,
        delay,
    ]


def _add_times(family: HistogramMetricFamily, labels: list[str], times: Times) -> None:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*(str(bound) for bound in times.bounds_s), "+Inf"), tuple(times.counts), strict=True):
        total += count
        buckets.append((bound, total))
    family.add_metric(labels, buckets, times.total_s)


async def _front_ends(broker: Broker, turns: ShortTurns) -> list[Metric]:
    protocol, topic = ["protocol"], ["protocol", "topic"]
    connections = GaugeMetricFamily("headrace_connections", "Open connections.", labels=protocol)
    accepted = CounterMetricFamily("headrace_connections_total", "Connections since the start.", labels=protocol)
    refused = CounterMetricFamily("headrace_connections_refused_total", "Closed for a limit or for nonsense.", labels=protocol)
    came = CounterMetricFamily("headrace_topic_bytes_in_total", "Bytes of record batches that were appended.", labels=topic)
    went = CounterMetricFamily("headrace_topic_bytes_out_total", "Bytes of record batches that were read.", labels=topic)
    records_in = CounterMetricFamily("headrace_records_in_total", "Records that were appended.", labels=protocol)
    records_out = CounterMetricFamily("headrace_records_out_total", "Records that were read.", labels=protocol)
    subscriptions = GaugeMetricFamily("headrace_subscriptions", "Open subscriptions that records are sent to.", labels=protocol)
    asked = HistogramMetricFamily(
        "headrace_request_seconds", "From the arrival of a request to its answer.", labels=["protocol", "api"]
    )
    all_in = CounterMetricFamily("headrace_bytes_in_total", "Bytes that came, of all topics and queues.", labels=protocol)
    all_out = CounterMetricFamily("headrace_bytes_out_total", "Bytes that went out.", labels=protocol)
    topics = broker.log.topics()
    for name, traffic in tuple(broker.traffic.items()):
        for api, times in tuple(traffic.requests.items()):
            _add_times(asked, [name, api], times)
            if turns.over:
                await turns.rest()
        traffic.forget_unknown(topics)
        if traffic.look is not None:
            traffic.look()
        connections.add_metric([name], traffic.connections)
        accepted.add_metric([name], traffic.connections_total)
        refused.add_metric([name], traffic.connections_refused)
        all_in.add_metric([name], traffic.total_in)
        all_out.add_metric([name], traffic.total_out)
        records_in.add_metric([name], traffic.records_in)
        if traffic.records_out is not None:
            records_out.add_metric([name], traffic.records_out)
        if traffic.subscriptions is not None:
            subscriptions.add_metric([name], traffic.subscriptions)
        for family, counted in ((came, traffic.bytes_in), (went, traffic.bytes_out)):
            for which, count in tuple(counted.items()):
                family.add_metric([name, which], count)
                if turns.over:
                    await turns.rest()
    return [connections, accepted, refused, all_in, all_out, records_in, records_out, subscriptions, came, went, asked]


def _quotas(broker: Broker) -> list[Metric]:
    times = CounterMetricFamily("headrace_quota_throttled_total", "How often a client had to pause.", labels=["quota"])
    seconds = CounterMetricFamily("headrace_quota_throttled_seconds_total", "How long, all together.", labels=["quota"])
    for kind, throttled in broker.quotas.throttled.items():
        times.add_metric([kind], throttled.times)
        seconds.add_metric([kind], throttled.total_ms / 1000)
    pushes = CounterMetricFamily("headrace_client_telemetry_pushes_total", "Metrics pushed by clients.", labels=["result"])
    for result, count in broker.telemetry.pushes.items():
        pushes.add_metric([result], count)
    return [times, seconds, pushes]


async def _partitions(broker: Broker, turns: ShortTurns) -> list[Metric]:
    topics = GaugeMetricFamily("headrace_topics", "Topics that clients can see.")
    start = GaugeMetricFamily("headrace_partition_start_offset", "The oldest offset that can be read.", labels=_PARTITION)
    watermark = GaugeMetricFamily("headrace_partition_high_watermark", "Readers see all below it.", labels=_PARTITION)
    end = GaugeMetricFamily("headrace_partition_end_offset", "The offset of the next record.", labels=_PARTITION)
    size = GaugeMetricFamily("headrace_partition_size_bytes", "Bytes on this disk.", labels=_PARTITION)
    dirty = GaugeMetricFamily("headrace_partition_dirty_bytes", "Bytes that were not compacted yet.", labels=_PARTITION)
    archived = GaugeMetricFamily("headrace_partition_archived_bytes", "Bytes in the archive.", labels=_PARTITION)
    offsets = (start, watermark, end)
    names = [name for name in broker.log.topics() if not name.startswith(HIDDEN_PREFIX)]
    topics.add_metric([], len(names))
    for name in names:
        topic = broker.log.topics().get(name)
        for partition in topic.partitions if topic is not None else ():
            labels = [name, str(partition.index)]
            values = (partition.start_offset, partition.high_watermark, partition.end_offset)
            for family, value in zip(offsets, values, strict=True):
                family.add_metric(labels, value)
            size.add_metric(labels, partition.size_bytes)
            for family, sparse in ((dirty, partition.dirty_bytes), (archived, partition.archived_bytes)):
                if sparse:  # few topics are compacted or archived, and a series of zeros costs as much as any
                    family.add_metric(labels, sparse)
            if turns.over:
                await turns.rest()
    return [topics, start, watermark, end, size, dirty, archived]


async def _groups(broker: Broker, turns: ShortTurns) -> list[Metric]:
    which = ["group", *_PARTITION]
    members = GaugeMetricFamily("headrace_group_members", "Members of a group.", labels=["group", "type", "state"])
    position = GaugeMetricFamily("headrace_group_committed_offset", "Where a group stands.", labels=which)
    lag = GaugeMetricFamily("headrace_group_lag", "Records that a group has not read yet.", labels=which)
    async for group in group_lags(broker):
        members.add_metric([group.group_id, group.kind, group.state], group.members)
        for found in group.partitions:
            labels = [group.group_id, found.topic, str(found.partition)]
            position.add_metric(labels, found.committed)
            lag.add_metric(labels, found.lag)
            if turns.over:
                await turns.rest()
    return [members, position, lag]
